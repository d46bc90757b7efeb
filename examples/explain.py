"""Which columns drive a prediction, and which drive its doubt.

python -m examples.explain
"""

import numpy as np
import pandas as pd

from anchored import AnchoredRegressor
from anchored.estimators.explanation import Explanation


def flats(n: int) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20, 150, n),
            "heating": rng.choice(["gas", "electric"], n),
            "floor": rng.integers(0, 8, n),
        }
    )
    return frame, 2 * frame["area"] + 30 * (frame["heating"] == "gas") + rng.normal(0, 5, n)


def main(**settings) -> Explanation:
    frame, price = flats(150)
    model = AnchoredRegressor(random_state=0, **settings).fit(frame, price)
    new = pd.DataFrame({"area": [60.0, 400.0], "heating": ["gas", "wood"], "floor": [2, 3]})
    found = model.explain(new)
    print(found)
    return found


if __name__ == "__main__":
    main()
