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
    "Censored": "core.families",
    "ConvNet": "core.networks",
    "Data": "core.rows",
    "Ensemble": "core.ensembles",
    "EnsembleState": "core.state",
    "Gaussian": "core.likelihoods",
    "HeteroskedasticGaussian": "core.likelihoods",
    "MLP": "core.networks",
    "Mixture": "core.families",
    "NegativeBinomial": "core.families",
    "Ordinal": "core.families",
    "Poisson": "core.likelihoods",
    "Predictive": "prediction.predictive",
    "Prior": "core.priors",
    "Quantile": "core.families",
    "Schedule": "core.training",
    "StudentT": "core.families",
    "TableEncoder": "estimators.encoder",
    "TextCNN": "core.networks",
    "ZeroInflatedPoisson": "core.families",
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
    "jax": "core.loops.jax",
    "onnx": "model.onnx",
    "optimisers": "core.optimisers",
    "rms": "exact.rms",
    "runtime": "model.runtime",
    "testing": "core.testing",
    "torch": "core.loops.torch",
}


__all__ = [
    "MLP",
    "AnchoredClassifier",
    "AnchoredRegressor",
    "Bernoulli",
    "Categorical",
    "Censored",
    "ConvNet",
    "Data",
    "Ensemble",
    "EnsembleState",
    "Gaussian",
    "HeteroskedasticGaussian",
    "Mixture",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Predictive",
    "Prior",
    "Quantile",
    "Schedule",
    "StudentT",
    "TableEncoder",
    "TextCNN",
    "ZeroInflatedPoisson",
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
    from anchored.core.families import Censored as Censored
    from anchored.core.families import Mixture as Mixture
    from anchored.core.families import NegativeBinomial as NegativeBinomial
    from anchored.core.families import Ordinal as Ordinal
    from anchored.core.families import Quantile as Quantile
    from anchored.core.families import StudentT as StudentT
    from anchored.core.families import ZeroInflatedPoisson as ZeroInflatedPoisson
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
