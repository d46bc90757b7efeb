"""Rivals and gold standards, each ``(key, problem) -> Predictive``.

`METHODS` names them all with default settings. NUTS, HMC and SGHMC need BlackJAX:
``pip install 'anchored[baselines]'``.
"""

from functools import partial

from anchored.baselines.dropout import MCDropout as MCDropout
from anchored.baselines.ensembles import EnsembleOf as EnsembleOf
from anchored.baselines.ensembles import SingleNetwork as SingleNetwork
from anchored.baselines.exact import FiniteWidthPosterior as FiniteWidthPosterior
from anchored.baselines.exact import InfiniteWidthGP as InfiniteWidthGP
from anchored.baselines.laplace import Laplace as Laplace
from anchored.baselines.mcmc import HMC as HMC
from anchored.baselines.mcmc import NUTS as NUTS
from anchored.baselines.mcmc import SGHMC as SGHMC
from anchored.baselines.mcmc import Chains as Chains
from anchored.baselines.mcmc import ConvergenceDoubt as ConvergenceDoubt
from anchored.baselines.problem import Inference as Inference
from anchored.baselines.problem import Problem as Problem
from anchored.baselines.variational import MeanFieldVI as MeanFieldVI

METHODS = {
    "gp": InfiniteWidthGP,
    "finite-width": FiniteWidthPosterior,
    "nuts": NUTS,
    "hmc": HMC,
    "sghmc": SGHMC,
    "vi": MeanFieldVI,
    "dropout": MCDropout,
    "laplace": Laplace,
    "last-layer": partial(Laplace, "last"),
    "anchored": partial(EnsembleOf, "anchored"),
    "rms": partial(EnsembleOf, "rms"),
    "random-features": partial(EnsembleOf, "random-features"),
    "deep": partial(EnsembleOf, "deep"),
    "regularised": partial(EnsembleOf, "regularised"),
    "unconstrained": partial(EnsembleOf, "unconstrained"),
    "single": SingleNetwork,
}
