"""Figures of the paper and its tables on unfamiliar inputs: settings, record, picture."""

from importlib import import_module

from anchored._errors import unknown_name
from anchored.experiments._runner import PRESETS as PRESETS
from anchored.experiments._runner import Context as Context
from anchored.experiments._runner import Experiment as Experiment
from anchored.experiments._runner import load as load
from anchored.experiments._runner import run as run
from anchored.experiments._runner import tell as tell

# name of the experiment: its module, which has an EXPERIMENT
MODULES = {  # figures
    "fig-action": "action",
    "fig-rms-2d": "rms_2d",
    "fig-rms-cases": "rms_cases",
    "fig-methods": "methods",
    "nuts-check": "nuts_check",
    "fig-likelihoods": "likelihoods",
    "fig-losses": "losses",
    "fig-kl": "kl",
    "fig-convergence": "convergence",
    "fig-correlated": "correlated",
    "appendix-b": "appendix_b",
}
TABLES = {  # on unfamiliar inputs
    "table-fashion": "ood.fashion",
    "table-imdb": "ood.imdb",
    "table-cifar": "ood.cifar",
}


def get(name: str) -> Experiment:
    """The experiment of that name."""
    known = MODULES | TABLES
    if name not in known:
        raise unknown_name("NAME", name, known)
    return import_module(f"anchored.experiments.{known[name]}").EXPERIMENT
