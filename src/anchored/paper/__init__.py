"""Figures and tables of the paper: settings, record, picture."""

from importlib import import_module

from anchored.errors import unknown_name
from anchored.paper.catalogue import CATALOGUE as CATALOGUE
from anchored.paper.catalogue import FIGURES as FIGURES
from anchored.paper.catalogue import PRESETS as PRESETS
from anchored.paper.runner import Context as Context
from anchored.paper.runner import Experiment as Experiment
from anchored.paper.runner import load as load
from anchored.paper.runner import run as run
from anchored.paper.runner import tell as tell


def get(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in CATALOGUE:
        raise unknown_name("NAME", name, CATALOGUE)
    return import_module(f"anchored.paper.{CATALOGUE[name].module}").EXPERIMENT
