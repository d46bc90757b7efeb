"""Active learning: which rows to label next, and when to stop: python examples/label_loop.py"""

import numpy as np

from anchored import AnchoredRegressor
from anchored.decisions import acquire, what_would_more_rows_buy


def labels_of(x: np.ndarray) -> np.ndarray:
    """The true labels; in practice, somebody measures them."""
    return np.sin(3 * x[:, 0]) + x[:, 1] ** 2


def main(rounds: int = 3, n_pool: int = 300) -> tuple[AnchoredRegressor, np.ndarray]:
    rng = np.random.default_rng(0)
    pool, test = (rng.uniform(-1, 1, size=(n, 2)) for n in (n_pool, 200))
    labelled = rng.permutation(n_pool)[:20]
    model = AnchoredRegressor(n_members=10, random_state=0, epochs=200)
    for number in range(rounds + 1):
        model.fit(pool[labelled], labels_of(pool[labelled]))
        error = np.sqrt(np.mean(np.square(model.predict(test) - labels_of(test))))
        print(f"{len(labelled)} labels: error {error:.3f}")
        if number == rounds:
            break
        rest = np.setdiff1d(np.arange(n_pool), labelled)
        labelled = np.append(labelled, rest[acquire(model, pool[rest], 10)])
    x = pool[labelled]
    print(what_would_more_rows_buy(model, x, labels_of(x), 100))
    return model, labelled


if __name__ == "__main__":
    main()
