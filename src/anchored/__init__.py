"""Error bars for neural networks that you can check against exact Bayesian inference.

Names load when first used, so ``import anchored`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

_HOMES = {
    "AnchoredClassifier": "estimators",
    "AnchoredRegressor": "estimators",
    "Bernoulli": "core.likelihoods",
    "Categorical": "core.likelihoods",
    "ConvNet": "core.networks",
    "Data": "core.rows",
    "Ensemble": "core.ensembles",
    "EnsembleState": "core.state",
    "Gaussian": "core.likelihoods",
    "HeteroskedasticGaussian": "core.likelihoods",
    "MLP": "core.networks",
    "Poisson": "core.likelihoods",
    "Predictive": "prediction.predictive",
    "Prior": "core.priors",
    "Schedule": "core.training",
    "TableEncoder": "estimators.encoder",
    "TextCNN": "core.networks",
    "advance": "core.state",
    "fit_ensemble": "core.ensembles",
    "init_ensemble": "core.ensembles",
    "load": "estimators.loading",
    "objective": "core.state",
    "report": "reporting",
}
# Modules that users name, wherever they live: `from anchored import gp`.
_MODULES = {
    "gp": "exact.gp",
    "onnx": "model.onnx",
    "rms": "exact.rms",
    "runtime": "model.runtime",
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
    "EnsembleState",
    "Gaussian",
    "HeteroskedasticGaussian",
    "Poisson",
    "Predictive",
    "Prior",
    "Schedule",
    "TableEncoder",
    "TextCNN",
    "advance",
    "fit_ensemble",
    "init_ensemble",
    "load",
    "objective",
    "report",
]

if TYPE_CHECKING:
    from anchored.core.ensembles import Ensemble as Ensemble
    from anchored.core.ensembles import fit_ensemble as fit_ensemble
    from anchored.core.ensembles import init_ensemble as init_ensemble
    from anchored.core.likelihoods import Bernoulli as Bernoulli
    from anchored.core.likelihoods import Categorical as Categorical
    from anchored.core.likelihoods import Gaussian as Gaussian
    from anchored.core.likelihoods import HeteroskedasticGaussian as HeteroskedasticGaussian
    from anchored.core.likelihoods import Poisson as Poisson
    from anchored.core.networks import MLP as MLP
    from anchored.core.networks import ConvNet as ConvNet
    from anchored.core.networks import TextCNN as TextCNN
    from anchored.core.priors import Prior as Prior
    from anchored.core.rows import Data as Data
    from anchored.core.state import EnsembleState as EnsembleState
    from anchored.core.state import advance as advance
    from anchored.core.state import objective as objective
    from anchored.core.training import Schedule as Schedule
    from anchored.estimators import AnchoredClassifier as AnchoredClassifier
    from anchored.estimators import AnchoredRegressor as AnchoredRegressor
    from anchored.estimators.encoder import TableEncoder as TableEncoder
    from anchored.estimators.loading import load as load
    from anchored.prediction.predictive import Predictive as Predictive
    from anchored.reporting import report as report


def __getattr__(name: str):
    if name in _MODULES:
        return import_module(f"anchored.{_MODULES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module 'anchored' has no attribute {name!r}")
    return getattr(import_module(f"anchored.{_HOMES[name]}"), name)


def __dir__():
    return sorted([*_HOMES, *_MODULES, "__version__"])
