"""Figures of the paper and its tables on unfamiliar inputs: settings, record, picture."""

from importlib import import_module

from anchored.errors import unknown_name
from anchored.paper.runner import PRESETS as PRESETS
from anchored.paper.runner import Context as Context
from anchored.paper.runner import Experiment as Experiment
from anchored.paper.runner import load as load
from anchored.paper.runner import run as run
from anchored.paper.runner import tell as tell

# name of the experiment: its module, which has an EXPERIMENT
MODULES = {  # figures
    "fig-action": "figures.action",
    "fig-rms-2d": "figures.rms_2d",
    "fig-rms-cases": "figures.rms_cases",
    "fig-methods": "figures.methods",
    "nuts-check": "figures.nuts_check",
    "fig-likelihoods": "figures.likelihoods",
    "fig-losses": "figures.losses",
    "fig-kl": "figures.kl",
    "fig-convergence": "figures.convergence",
    "fig-correlated": "figures.correlated",
    "appendix-b": "figures.appendix_b",
}
TABLES = {  # on unfamiliar inputs
    "table-fashion": "tables.ood.fashion",
    "table-imdb": "tables.ood.imdb",
    "table-cifar": "tables.ood.cifar",
}


def get(name: str) -> Experiment:
    """The experiment of that name."""
    known = MODULES | TABLES
    if name not in known:
        raise unknown_name("NAME", name, known)
    return import_module(f"anchored.paper.{known[name]}").EXPERIMENT
