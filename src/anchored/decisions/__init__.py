"""Decisions that use error bars: optimise, choose rows to label, abstain.

`AnchoredSampler` needs Optuna and `AnchoredModel` needs BoTorch; both load when first used.
"""

from importlib import import_module

from anchored.decisions.abstain import CostCoverage as CostCoverage
from anchored.decisions.abstain import Decisions as Decisions
from anchored.decisions.abstain import choose_reject as choose_reject
from anchored.decisions.abstain import cost_coverage as cost_coverage
from anchored.decisions.abstain import decide as decide
from anchored.decisions.abstain import realised_costs as realised_costs
from anchored.decisions.acquire import acquire as acquire
from anchored.decisions.learning_curve import MoreRows as MoreRows
from anchored.decisions.learning_curve import what_would_more_rows_buy as what_would_more_rows_buy
from anchored.decisions.optimise import Optimiser as Optimiser
from anchored.decisions.optimise import Told as Told
from anchored.decisions.space import Category as Category
from anchored.decisions.space import Float as Float
from anchored.decisions.space import Integer as Integer
from anchored.decisions.space import Space as Space

_HOMES = {"AnchoredModel": "botorch_model", "AnchoredSampler": "optuna_sampler"}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'anchored.decisions' has no attribute {name!r}")
    return getattr(import_module(f"anchored.decisions.{_HOMES[name]}"), name)
