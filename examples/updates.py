"""Rows arrive in parts. Each updates the model; all rows are fitted again only when necessary.

python -m examples.updates
"""

import numpy as np

from anchored import AnchoredRegressor, metrics


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


def main(n_parts: int = 6, n_each: int = 30, **settings) -> list[dict]:
    X, y = rows(n_parts * n_each, seed=0)
    unseen = rows(300, seed=1)
    model = AnchoredRegressor(random_state=0, **settings)
    found = []
    for part in range(n_parts):
        some = slice(part * n_each, (part + 1) * n_each)
        model.partial_fit(X[some], y[some])
        dist = model.predict_dist(unseen[0])
        found.append(
            {
                "rows": model.update_.n_rows,
                "anew": model.update_.retuned,
                "rmse": metrics.rmse(dist, unseen[1]),
                "coverage": metrics.coverage(dist, unseen[1], 0.9),
            }
        )
        print(
            "{rows:4d} rows: RMSE {rmse:.3f}, 90 % intervals hold {coverage:.0%} {anew}".format(
                **found[-1]
            )
        )
    return found


if __name__ == "__main__":
    main()
