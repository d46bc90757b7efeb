"""Simulation-based calibration: truths from the prior, and how often error bars contain them.

A cell is one truth, ``"<problem>:<method>/<truth>"``; its result has the scores inside and outside
the data. All methods get the same truths. If a fit failed, a word for the reason takes the place of
scores. The record can be read before all cells are done; the most informative ones come first.
"""

import dataclasses
from collections.abc import Iterable
from functools import partial
from itertools import product

import numpy as np

from anchored.baselines import InfiniteWidthGP
from anchored.errors import EnsembleError
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.runner import Cell, Context, Experiment, chosen
from anchored.paper.tables.coverage_methods import METHODS, MethodSettings, settings_of
from anchored.paper.tables.coverage_problems import Case, Posed, pose
from anchored.paper.tables.coverage_record import draw, findings, tables
from anchored.paper.tables.coverage_results import is_main
from anchored.paper.tables.coverage_scores import scores
from anchored.prediction.predictive import Predictive


@dataclasses.dataclass(frozen=True)
class Truths:
    """How many truths a method gets: of each main problem, and of each other one."""

    main: int
    other: int


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which problems, and how many truths of them for each method.

    `FIRST` methods get the main problems first (`coverage_results.is_main`), then come the later
    methods, then the other problems.
    """

    dimensions: tuple[int, ...] = (3, 1, 8)
    n_rows: tuple[int, ...] = (100, 1_000, 30)
    kinds: tuple[str, ...] = ("medium", "classes", "small", "large")
    width: int = 50
    first_var: float = 10.0
    n_test: int = 100  # inputs inside the data, and as many outside
    gp: Truths = Truths(20, 12)
    estimator: Truths = Truths(20, 3)
    rms: Truths = Truths(20, 4)
    anchored: Truths = Truths(20, 4)
    estimator_anchored: Truths = Truths(6, 0)
    nuts: Truths = Truths(8, 2)
    laplace: Truths = Truths(16, 4)
    unconstrained: Truths = Truths(10, 2)
    deep: Truths = Truths(16, 4)
    dropout: Truths = Truths(16, 4)
    methods: MethodSettings = dataclasses.field(default_factory=MethodSettings)

    def truths(self, method: str) -> Truths:
        return getattr(self, method.replace("-", "_"))


ABOUT = CATALOGUE["table-coverage"]
PRESETS = ABOUT.presets_of(Settings())
FIRST = ("gp", "estimator", "rms", "anchored")  # run before the other methods


def plan(s: Settings, context: Context) -> list[Cell]:
    cases = {case.name: case for case in all_cases(s)}
    problems = [cases[n] for n in chosen("datasets", context.datasets, cases, cases)]
    names = chosen("methods", context.methods, METHODS, METHODS)
    first, later = [n for n in names if n in FIRST], [n for n in names if n not in FIRST]
    main, others = [c for c in problems if is_main(c)], [c for c in problems if not is_main(c)]
    order = [*product(main, first), *product(main, later), *product(others, names)]
    return [cell for case, name in order for cell in _cells(s, context, case, name)]


def all_cases(s: Settings) -> list[Case]:
    return [Case(d, n, kind) for n in s.n_rows for kind in s.kinds for d in s.dimensions]


def _cells(s: Settings, context: Context, case: Case, name: str) -> Iterable[Cell]:
    method, truths = METHODS[name], s.truths(name)
    if not method.takes(case):
        return
    program = f"{case.name}:{name}" if method.side_by_side else None
    used = {"width": s.width, "first_var": s.first_var, "n_test": s.n_test}
    used |= settings_of(s.methods, name, case)
    cost = method.cost * (1 + case.n_rows / 400)
    for truth in range(context.splits or (truths.main if is_main(case) else truths.other)):
        compute = partial(_score, s, case, name, context.seed, truth)
        yield Cell(f"{case.name}:{name}/{truth}", cost, compute, program, used)


def _score(s: Settings, case: Case, name: str, seed: int, truth: int) -> dict:
    posed = pose(case, s.width, s.first_var, s.n_test, seed, truth)
    try:
        answer = METHODS[name].fit(s.methods, posed)
    except EnsembleError:
        return {"failed": "diverged"}
    except np.linalg.LinAlgError:
        return {"failed": "singular"}
    exact = None if case.has_classes else _exact(posed)
    return scores(answer.predictive, posed.latent, posed.y, posed.seed, exact) | answer.more


def _exact(posed: Posed) -> Predictive | None:
    """What the exact GP says; None if its equations are singular."""
    try:
        return InfiniteWidthGP().condition(posed.problem).predict(posed.problem.x).output(0)
    except np.linalg.LinAlgError:
        return None


EXPERIMENT = Experiment(
    ABOUT,
    PRESETS,
    plan,
    combine=None,
    findings=findings,
    tables=tables,
    draw=draw,
    size=(13.0, 4.4),
    options=("datasets", "methods", "splits", "jobs"),
)
