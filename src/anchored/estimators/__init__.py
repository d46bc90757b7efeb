"""scikit-learn estimators: the only border between NumPy and JAX.

The page docs/walk_through.md follows one row from `fit` to `predict_dist`.
"""

from anchored.estimators.classification import AnchoredClassifier as AnchoredClassifier
from anchored.estimators.regression import AnchoredRegressor as AnchoredRegressor
