"""Deep sea: in how many episodes does an agent find the treasure that random actions do not?

A cell is ``"<method>/<size>/<seed>"``: one agent on one sea, until it has solved it or has no
episodes left. ``found`` is the first episode with the treasure; ``solved`` is the first by which
one episode in ten had it (bsuite's rule), and there the run stops. The seed decides what is random
in the agent; the map of the actions is bsuite's. All methods get the same seas.
"""

import dataclasses
import math
from functools import partial

import numpy as np

from anchored.paper.catalogue import CATALOGUE
from anchored.paper.plotting import GREY, SERIES
from anchored.paper.prose import sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table, chosen
from anchored.rl.environments.deep_sea import DeepSea, OneHotMLP
from anchored.rl.q_agent import Played, QAgent
from anchored.rl.q_settings import QSettings

_SHARE = 0.1  # of the episodes that must have the treasure
_FAST, _UNITS = "-fast", "-units"
_LINES = (*SERIES, (GREY, "x"), ("black", "*"))
_SLOW = ("bootstrap", "plain")  # a run that finds nothing takes longest: these come last
_TREASURE = 0.5  # a total above has it
_MANY_SEEDS = 10  # of a size that counts by itself


@dataclasses.dataclass(frozen=True)
class Settings:
    """Networks, rate, batch and targets are those published for bootstrapped DQN."""

    methods: tuple[str, ...] = (
        "anchored",
        "anchored-units",
        "randomised-priors",
        "anchored-fast",
        "randomised-priors-fast",
        "epsilon-greedy",
        "bootstrap",
        "plain",
    )
    sizes: tuple[int, ...] = (10, 20)  # for all methods
    n_seeds: int = 10
    n_episodes: int = 2000
    large: tuple[int, ...] = (30, 40, 50)  # for the two of `TUNED` alone
    large_seeds: tuple[int, ...] = (10, 1, 1)
    large_episodes: int = 10_000
    n_members: int = 20
    hidden: tuple[int, ...] = (50, 50)
    gamma: float = 0.99
    n_updates: int = 10  # an episode
    target_every: int = 4
    learning_rate: float = 0.001
    fast_rate: float = 0.005
    noise_var: float = 0.01
    first_var: float = 0.01  # of the weights of a cell and of the biases, for all methods
    prior_scale: float = 30.0
    unit_rate: float = 0.01  # of steps in units of the prior's scale, with a prior of their own
    unit_first_var: float = 1.0
    unit_prior_scale: float = 10.0
    epsilon: float = 0.05


# Each with what suited it, in as many trials of either: `docs/reinforcement_learning.md`.
TUNED = ("anchored" + _UNITS, "randomised-priors" + _FAST)
ABOUT = CATALOGUE["table-deep-sea"]
PRESETS = ABOUT.presets_of(Settings())
METHODS = {
    "anchored": "anchored",
    "anchored-units": "anchored, steps in units of the prior",
    "randomised-priors": "randomised priors",
    "anchored-fast": "anchored, faster rate",
    "randomised-priors-fast": "randomised priors, faster rate",
    "bootstrap": "bootstrap",
    "plain": "plain ensemble",
    "epsilon-greedy": "epsilon-greedy, one network",
}


def agent_of(s: Settings, method: str) -> QSettings:
    """What differs between the methods; everything else is the same."""
    single, plain = method == "epsilon-greedy", method in ("plain", "epsilon-greedy")
    made = QSettings(
        method="unconstrained" if plain else method.removesuffix(_FAST).removesuffix(_UNITS),
        n_members=1 if single else s.n_members,
        epsilon=s.epsilon if single else 0.0,
        hidden=s.hidden,
        gamma=s.gamma,
        learning_rate=s.fast_rate if method.endswith(_FAST) else s.learning_rate,
        batch_size=128,
        train_every=1,
        n_updates=s.n_updates,
        target_every=s.target_every,
        capacity=10_000,
        noise_var=s.noise_var,
        first_var=s.first_var,
        prior_scale=s.prior_scale,
    )
    if not method.endswith(_UNITS):
        return made
    prior = {"first_var": s.unit_first_var, "prior_scale": s.unit_prior_scale}
    return dataclasses.replace(made, in_prior_units=True, learning_rate=s.unit_rate, **prior)


def plan(s: Settings, context: Context) -> list[Cell]:
    methods = chosen("methods", context.methods, METHODS, s.methods)
    n_seeds = context.splits or s.n_seeds
    few, last = ([m for m in methods if m in some] for some in (TUNED, _SLOW))
    first = [m for m in methods if m not in last]
    runs = [(size, seed, m) for size in s.sizes for seed in range(n_seeds) for m in first]
    many = zip(s.large, s.large_seeds, strict=False)
    runs += [(size, seed, m) for size, n in many for seed in range(n) for m in few]
    runs += [(size, seed, m) for seed in range(n_seeds) for size in s.sizes for m in last]
    cells = []
    for size, seed, method in runs:
        most = s.n_episodes if size in s.sizes else s.large_episodes
        compute = partial(run, agent_of(s, method), size, most, context.seed + seed)
        label = f"{method}/{size}/{seed}"
        settings = {"agent": agent_of(s, method), "episodes": [s.n_episodes, s.large_episodes]}
        cells.append(Cell(label, size**2 * most, compute, settings=settings))
    return cells


def run(settings: QSettings, size: int, n_episodes: int, seed: int) -> dict:
    network = OneHotMLP(size**2, settings.hidden)
    agent = QAgent(settings, network=network, seed=seed)

    def solved(played: Played) -> bool:
        return solved_after(agent.curve.total) is not None

    agent.fit(DeepSea(size, indexed=True), n_episodes, on_round=solved)
    found = np.flatnonzero(agent.curve.total > _TREASURE)
    return {
        "found": int(found[0]) + 1 if len(found) else None,
        "solved": solved_after(agent.curve.total),
        "n_episodes": n_episodes,
    }


def solved_after(total: np.ndarray) -> int | None:
    """The first episode by which one in ten had the treasure."""
    share = np.cumsum(total > _TREASURE) / np.arange(1, len(total) + 1)
    enough = np.flatnonzero(share >= _SHARE)
    return int(enough[0]) + 1 if len(enough) else None


def psi(runs: list[tuple[int, int | None, int]]) -> tuple[float, float]:
    """Most likely psi, and its deviation, of runs (size n, first treasure, episodes K).

    An episode finds the treasure with probability psi^n, so within K episodes it is found with
    probability 1 - (1 - psi^n)^K. A run that found it in episode k has the likelihood (1 -
    psi^n)^(k - 1) psi^n. A run that never found it has the likelihood (1 - psi^n)^K.
    """
    grid = np.linspace(0.3, 1.0, 70_001)[:-1]
    log_likelihood = np.zeros_like(grid)
    for size, found, n_episodes in runs:
        log_p = size * np.log(grid)
        failed = n_episodes if found is None else found - 1
        log_likelihood += failed * np.log1p(-np.exp(log_p)) + (0.0 if found is None else log_p)
    best = int(np.argmax(log_likelihood))
    if not 0 < best < len(grid) - 1:
        return float(grid[best]), math.nan
    step = grid[1] - grid[0]
    bend = np.diff(log_likelihood[best - 1 : best + 2], 2)[0] / step**2
    return float(grid[best]), float(1 / np.sqrt(-bend))


def by_method(record: Record) -> dict[str, dict[int, dict[int, dict]]]:
    """Results by method, size and seed."""
    found: dict[str, dict[int, dict[int, dict]]] = {}
    for label, result in record["numbers"].items():
        method, size, seed = label.split("/")
        found.setdefault(method, {}).setdefault(int(size), {})[int(seed)] = result
    return {method: found[method] for method in METHODS if method in found}


def cells_of(sizes: dict[int, dict[int, dict]]) -> set[tuple[int, int]]:
    """Sizes and seeds that a method was run on."""
    return {(size, seed) for size, of_seed in sizes.items() for seed in of_seed}


def psi_of(sizes: dict[int, dict[int, dict]], cells: set[tuple[int, int]]) -> tuple[float, float]:
    met = [(size, sizes[size][seed]) for size, seed in sorted(cells)]
    return psi([(size, run["found"], run["n_episodes"]) for size, run in met])


def pairs(record: Record) -> list[dict]:
    """psi of anchors and of randomised priors, over the sizes and seeds that both were run on."""
    runs, found = by_method(record), []
    rates = (("", "at the published rate"), (_FAST, "at a rate five times as high"))
    compared = [((f"anchored{r}", f"randomised-priors{r}"), words) for r, words in rates]
    for both, words in (
        (TUNED, "of each method with the settings that suited it in trials"),
        *compared,
    ):
        if set(both) <= set(runs):
            shared = set.intersection(*(cells_of(runs[method]) for method in both))
            found.append({"rate": words, **_compared(runs, both, shared)})
            full = {cell for cell in shared if _n_seeds(shared, cell[0]) >= _MANY_SEEDS}
            if both == TUNED and full and full != shared:
                less = f"{words}, over the sizes with {_MANY_SEEDS} seeds or more"
                found.append({"rate": less, **_compared(runs, both, full)})
    return found


def _compared(runs: dict, both: tuple[str, str], cells: set[tuple[int, int]]) -> dict:
    """psi of two methods over the same sizes and seeds, and which of them is clearly higher."""
    values = [psi_of(runs[method], cells) for method in both]
    (one, error), (other, other_error) = values
    clear = abs(one - other) > 2 * math.hypot(error, other_error)
    better = "" if not clear else "anchors" if one > other else "randomised priors"
    return {"sizes": _listed(sorted({n for n, _ in cells})), "psi": values, "better": better}


def _n_seeds(cells: set[tuple[int, int]], size: int) -> int:
    return sum(n == size for n, _ in cells)


def tables(record: Record) -> list[Table]:
    runs = by_method(record)
    sizes = sorted({size for of_size in runs.values() for size in of_size})
    rows = []
    for method, of_size in runs.items():
        value, error = psi_of(of_size, cells_of(of_size))
        cells = [_shown(of_size.get(size)) for size in sizes]
        either = f"{value:.3f}" + (f" ± {error:.3f}" if math.isfinite(error) else "")
        rows.append((METHODS[method], *cells, either))
    header = ("method", *(f"size {size}" for size in sizes), "psi, over all its sizes")
    title = "Seeds that solved it, and median first episode with the treasure"
    return [Table(title, header, rows)]


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))


def _shown(of_seed: dict[int, dict] | None) -> str:
    if not of_seed:
        return "-"
    runs = list(of_seed.values())
    n_solved = sum(run["solved"] is not None for run in runs)
    found = [math.inf if run["found"] is None else run["found"] for run in runs]
    middle = float(np.median(found))
    word = f"{middle:,.0f}" if math.isfinite(middle) else f"> {runs[0]['n_episodes']:,}"
    return f"{n_solved} of {len(runs)}; {word}"


def findings(record: Record) -> list[str]:
    runs = by_method(record)
    asked = runs.get(TUNED[0], {}).get(20, {}).values()
    largest = {
        method: max(
            (
                size
                for size, of_seed in of_size.items()
                if 2 * sum(run["solved"] is not None for run in of_seed.values()) > len(of_seed)
            ),
            default=None,
        )
        for method, of_size in runs.items()
    }
    return sentences(
        ABOUT.name,
        pairs=pairs(record),
        words=METHODS,
        n_solved=sum(run["solved"] is not None and run["solved"] <= 2000 for run in asked),
        n_asked=len(asked),
        largest=largest,
    )


def draw(figure, record: Record) -> None:
    """Left: the share of seeds that have found the treasure. Right: when each seed found it, by
    size.
    """
    runs = by_method(record)
    left, right = figure.subplots(1, 2)
    # The largest that most methods met.
    met = [size for of_size in runs.values() for size in of_size]
    size = max(n for n in met if 2 * met.count(n) > len(runs))
    for i, (method, of_size) in enumerate(runs.items()):
        colour, marker = _LINES[i]
        some = list(of_size.get(size, {}).values())
        _points(right, of_size, 0.5 * (i - 3), colour, marker, METHODS[method])
        if not some:
            continue
        end = max(run["n_episodes"] for run in some)
        found = sorted(run["found"] for run in some if run["found"] is not None)
        share = np.arange(len(found) + 1) / len(some)
        left.step(
            [0, *found, end],
            [*share, share[-1]],
            where="post",
            color=colour,
        )
    left.set(xlabel="episodes", ylabel="share of seeds", title=f"found the treasure, size {size}")
    right.legend(fontsize=6, frameon=False)
    right.set(xlabel="size", ylabel="episodes", yscale="log", title="first treasure; hollow: none")


def _points(ax, of_size: dict, aside: float, colour: str, marker: str, label: str) -> None:
    """The first treasure of every run; hollow where there was none."""
    runs = [(size, run) for size, of_seed in of_size.items() for run in of_seed.values()]
    for found, fill in ((True, colour), (False, "none")):
        shown = [
            (n + aside, r["found"] or r["n_episodes"])
            for n, r in runs
            if (r["found"] is not None) == found
        ]
        ax.plot(*np.array(shown).reshape(-1, 2).T, marker, color=colour, mfc=fill, ms=4)
    ax.plot([], [], marker, color=colour, ms=4, label=label)


EXPERIMENT = Experiment(
    ABOUT,
    PRESETS,
    plan,
    combine=None,
    findings=findings,
    tables=tables,
    draw=draw,
    size=(8, 3.4),
    options=("methods", "splits", "again"),
)
