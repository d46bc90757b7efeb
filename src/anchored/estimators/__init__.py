"""scikit-learn estimators: the only border between NumPy and JAX.

One row from `fit` to `predict_dist`: validated here, merged with its equals and standardised
(`data`), trained on by every member (`ensembles.fit_ensemble`), and predicted by pooling the
members (`predictive.Predictive`) in the target's own units.
"""

from anchored.estimators.classification import AnchoredClassifier as AnchoredClassifier
from anchored.estimators.regression import AnchoredRegressor as AnchoredRegressor
