"""Decide by cost, and leave unsure rows to a person: python examples/abstain_loop.py"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from anchored import AnchoredClassifier
from anchored.decisions import Decisions, choose_reject, decide, realised_costs

# [true class, action]: sending a patient home with a tumour costs 20 times a needless treatment.
COSTS = [[0.0, 20.0], [1.0, 0.0]]  # malignant is class 0
ACTIONS = ("treat", "send home")


def main(epochs: int | str = "auto", most_cost: float = 0.1) -> tuple[Decisions, float]:
    x, y = load_breast_cancer(return_X_y=True)
    x, test_x, y, test_y = train_test_split(x, y, test_size=0.3, random_state=0)
    x, held_x, y, held_y = train_test_split(x, y, test_size=0.4, random_state=0)
    model = AnchoredClassifier(epochs=epochs, random_state=0).fit(x, y)
    reject = choose_reject(
        model.predict_dist(held_x), held_y, COSTS, actions=ACTIONS, most_cost=most_cost
    )
    decisions = decide(model.predict_dist(test_x), COSTS, actions=ACTIONS, reject=reject)
    came = float(np.nanmean(realised_costs(decisions, test_y, COSTS)))
    print(f"Reject above an expected cost of {reject:.3f}.")
    print(decisions)
    print(f"Accepted rows cost {came:.3f} on average.")
    return decisions, came


if __name__ == "__main__":
    main()
