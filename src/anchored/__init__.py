"""Error bars for neural networks that you can check against exact Bayesian inference.

Names load when first used, so ``import anchored`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "AnchoredClassifier": "estimators",
    "AnchoredRegressor": "estimators",
    "Bernoulli": "likelihoods",
    "Categorical": "likelihoods",
    "ConvNet": "networks",
    "Data": "data",
    "Ensemble": "ensembles",
    "Gaussian": "likelihoods",
    "HeteroskedasticGaussian": "likelihoods",
    "MLP": "networks",
    "Poisson": "likelihoods",
    "Predictive": "predictive",
    "Prior": "priors",
    "Schedule": "training",
    "TextCNN": "networks",
    "fit_ensemble": "ensembles",
    "load": "persistence",
    "report": "reporting",
}


__all__ = [
    "MLP",
    "AnchoredClassifier",
    "AnchoredRegressor",
    "Bernoulli",
    "Categorical",
    "ConvNet",
    "Data",
    "Ensemble",
    "Gaussian",
    "HeteroskedasticGaussian",
    "Poisson",
    "Predictive",
    "Prior",
    "Schedule",
    "TextCNN",
    "fit_ensemble",
    "load",
    "report",
]

if TYPE_CHECKING:
    from anchored.data import Data as Data
    from anchored.ensembles import Ensemble as Ensemble
    from anchored.ensembles import fit_ensemble as fit_ensemble
    from anchored.estimators import AnchoredClassifier as AnchoredClassifier
    from anchored.estimators import AnchoredRegressor as AnchoredRegressor
    from anchored.likelihoods import Bernoulli as Bernoulli
    from anchored.likelihoods import Categorical as Categorical
    from anchored.likelihoods import Gaussian as Gaussian
    from anchored.likelihoods import HeteroskedasticGaussian as HeteroskedasticGaussian
    from anchored.likelihoods import Poisson as Poisson
    from anchored.networks import MLP as MLP
    from anchored.networks import ConvNet as ConvNet
    from anchored.networks import TextCNN as TextCNN
    from anchored.persistence import load as load
    from anchored.predictive import Predictive as Predictive
    from anchored.priors import Prior as Prior
    from anchored.reporting import report as report
    from anchored.training import Schedule as Schedule


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'anchored' has no attribute {name!r}")
    return getattr(import_module(f"anchored.{_HOMES[name]}"), name)


def __dir__():
    return sorted([*_HOMES, "__version__"])
