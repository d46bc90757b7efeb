"""`AnchoredRegressor` for ScoringBench, a public leaderboard for probabilistic regression.

ScoringBench wants a distribution as bins: for each row the edges, the mass of each bin, its
middle, and the mean. The edges here are quantiles at equal steps of the normal score, so bins are
fine where targets are likely and reach far into both tails. To take part, put this file beside
ScoringBench's own wrappers and add ``"anchored": AnchoredWrapper`` to the models of its script.

Run: python examples/scoringbench.py
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from anchored import AnchoredRegressor

N_BINS = 200
FURTHEST = 5.0  # normal score of the outer edges: one target of 1.7 million lies beyond them


class Bins(NamedTuple):
    """ScoringBench's fields of a prediction.

    Attributes
    ----------
    probas : [row, bin], the mass of each bin; a row sums to one.
    bin_edges : [row, bin + 1], rising.
    bin_midpoints : [row, bin].
    mean : [row], of the distribution itself.
    """

    probas: np.ndarray
    bin_edges: np.ndarray
    bin_midpoints: np.ndarray
    mean: np.ndarray


class AnchoredWrapper:
    """`AnchoredRegressor` with nothing set, behind ScoringBench's three methods.

    ``X`` is a data frame or an array; ``settings`` go to `AnchoredRegressor`.
    """

    def __init__(self, random_state: int = 0, **settings):
        self.model = AnchoredRegressor(random_state=random_state, **settings)

    def fit(self, X, y) -> "AnchoredWrapper":
        self.model.fit(X, np.asarray(y, float))
        return self

    def predict(self, X) -> np.ndarray:
        """The mean [row]."""
        return self.model.predict(X)

    def predict_distribution(self, X) -> Bins:
        dist = self.model.predict_dist(X)
        levels = ndtr(np.linspace(-FURTHEST, FURTHEST, N_BINS + 1))
        edges = _rising(dist.quantiles(levels).T)
        mass = np.diff(levels) / (levels[-1] - levels[0])
        probas = np.broadcast_to(mass, (len(edges), N_BINS)).copy()
        return Bins(probas, edges, (edges[:, 1:] + edges[:, :-1]) / 2, dist.mean)


def _rising(edges: np.ndarray) -> np.ndarray:
    """Edges that rise from bin to bin: a bin without width has no density."""
    least = 1e-6 * (edges[:, -1:] - edges[:, :1]) / N_BINS
    return np.maximum.accumulate(edges, axis=1) + least * np.arange(edges.shape[1])


if __name__ == "__main__":
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    bins = AnchoredWrapper().fit(X_train, y_train).predict_distribution(X_test)
    place = (bins.bin_edges[:, 1:-1] < y_test.to_numpy()[:, None]).sum(axis=1)
    rows = np.arange(len(place))
    density = bins.probas[rows, place] / np.diff(bins.bin_edges)[rows, place]
    print(f"log score {-np.log(density).mean():.3f} on {len(rows)} rows")
