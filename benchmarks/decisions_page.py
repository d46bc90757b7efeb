"""Writes the measured sections of docs/decisions.md: ``python -m benchmarks.decisions_page``."""

import json
from pathlib import Path
from textwrap import fill

import numpy as np

from anchored.paper.prose import table
from benchmarks.active_learning import METHODS as WAYS
from benchmarks.active_learning import RECORD as ACTIVE
from benchmarks.active_learning import TABLES
from benchmarks.decision_problems import DEVELOP, REPORTED, SETTLE, WAVES, Problem
from benchmarks.optimise import DEFAULT, FOLDER, METHODS, SETTLED, TRIED, WITH_WAVES
from benchmarks.sections import write_section
from benchmarks.surrogates import BATCH, ROUNDS, SURROGATES
from benchmarks.surrogates import RECORD as BATCHES

PAGE = FOLDER.parent / "decisions.md"
FEW = ("BoTorch", "anchored, networks")  # that take long, and may have fewer seeds
PICTURE = FOLDER / "optimise.png"
CHOSEN = "## How the default was chosen\n"
SEARCHED = "## Measured: one point at a time\n"
BATCHED = "## Measured: batches of ten\n"
LABELLED = "## Measured: labels\n"
ROOM = 128  # for 65 to 128 values


def regrets(record: dict, name: str, problem: Problem, methods) -> dict[str, np.ndarray]:
    """Best value so far less the optimum [seed, evaluation], of seeds that all but FEW have.

    Where the optimum is not known, it is the best value of any search.
    """
    found: dict[str, dict[int, np.ndarray]] = {method: {} for method in methods}
    for label, search in record["searches"].items():
        of, method, seed = label.rsplit("/", 2)
        if of == name and method in found:
            found[method][int(seed)] = np.minimum.accumulate(search["values"])
    found = {method: runs for method, runs in found.items() if runs}
    if not found:
        return {}
    seeds = set.intersection(*(set(runs) for m, runs in found.items() if m not in FEW))
    both = {method: sorted(seeds & set(runs)) for method, runs in found.items()}
    best = {m: np.array([found[m][s] for s in some]) for m, some in both.items() if some}
    if not best:
        return {}
    optimum = problem.optimum
    if optimum is None:
        optimum = min(float(runs.min()) for runs in best.values())
    return {method: runs - optimum for method, runs in best.items()}


def shown(runs: np.ndarray) -> str:
    """Mean at the end and its standard error, of several seeds."""
    ends = runs[:, -1]
    error = f" ± {standard_error(runs):.2g}" if len(ends) > 1 else ""
    return f"{ends.mean():.3g}{error}"


def cell(runs: np.ndarray, n_seeds: int) -> str:
    few = "" if len(runs) == n_seeds else f" ({len(runs)} seed{'s' * (len(runs) > 1)})"
    return shown(runs) + few


def standard_error(runs: np.ndarray) -> float:
    return float(runs[:, -1].std(ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else 0.0


def regret_table(all_runs: dict[str, dict[str, np.ndarray]], methods) -> str:
    rows = []
    for name, runs in all_runs.items():
        first = next(iter(runs.values()))
        cells = [cell(runs[m], len(first)) if m in runs else "" for m in methods]
        rows.append([name, str(first.shape[1]), str(len(first)), *cells])
    return table(("regret", "evaluations", "seeds", *methods), rows)


def collected(path: Path, problems, methods) -> dict[str, dict[str, np.ndarray]]:
    record = json.loads(path.read_text())
    found = {name: regrets(record, name, problems[name], methods) for name in problems}
    return {name: runs for name, runs in found.items() if runs}


def chosen_section() -> str:
    text = """Made from a record by `python -m benchmarks.optimise --develop`. These functions are
not among those reported below. The table has the mean of the lowest value found, minus the
optimum. Before these searches, about twenty kernels (activations, numbers of layers, features of
inputs, widths of the hyperpriors) were compared by the likelihood of held-out values of the same
functions; the record of that comparison was not kept. The twins of this table have no cosines.
Expected improvement beats Thompson sampling where points come one at a time. With so few seeds, one
hidden layer and two cannot be told apart; the default has one."""
    later = """That default failed on Ackley's function in ten dimensions: one value fell far below
the others, the evidence called all of them noise, and the search went to the corners of the space.
(This happened with a seed that is not reported.) So the hyperpriors were chosen in a second step,
with other seeds and three more functions. `before` is the default of the first step. `normalised`
brings values near a normal distribution by Yeo and Johnson's transformation. `little noise` has a
hyperprior that expects less noise. `learned steepness`, the default after this step, also learns
how steep the function is. A script made the record while we chose among 20 settings. Results of the
other settings (ranks and logarithms of values, a kernel of constant variance, two layers, other
spreads) were not kept. `python -m benchmarks.optimise --settle` has the settings shown here and
adds missing runs."""
    last = """That default was slow near a minimum: its functions have kinks, and the search ended
its climbs with steps of 0.0005. In a third step the climbs became finer, and cosines were added to
the twin, with more functions to judge by. We tried more, with one to four of the same seeds.
Cosines alone and Gaussian cosines were worse. Error functions, two twins averaged by their
evidence or used in turns, longer cosines, more noise and wider relevances made no clear
difference. The choice was by the mean rank over all functions and seeds. The difference in rank is
small. Where values form one large bowl, the twin without cosines is better. A script made this
record while we chose; `python -m benchmarks.optimise --waves` has its two settings and adds
missing runs."""
    first = regret_table(collected(FOLDER / "develop.json", DEVELOP, TRIED), TRIED)
    second = regret_table(collected(FOLDER / "settle.json", SETTLE, SETTLED), SETTLED)
    runs = collected(FOLDER / "waves.json", WAVES, WITH_WAVES)
    third = regret_table(runs, WITH_WAVES)
    told = (fill(text, 100), first, fill(later, 100), second, fill(last, 100), third, _ranked(runs))
    return "\n".join([CHOSEN, *(line for part in told for line in (part, ""))])


def _ranked(runs: dict[str, dict[str, np.ndarray]]) -> str:
    """On how many functions and searches the default of the last step is the better one."""
    old, new = WITH_WAVES
    pairs = [(r[old][:, -1], r[new][:, -1]) for r in runs.values() if {old, new} <= set(r)]
    functions = sum(n.mean() < o.mean() for o, n in pairs)
    wins = sum(int((n < o).sum()) for o, n in pairs)
    losses = sum(int((n > o).sum()) for o, n in pairs)
    text = f"""With cosines the mean is lower on {functions} of {len(pairs)} functions. Of the
single searches, {wins} end lower with cosines and {losses} end higher."""
    return fill(text, 100)


def searched_section() -> str:
    path = FOLDER / "optimise.json"
    runs = collected(path, REPORTED, METHODS)
    methods = [m for m in METHODS if any(m in found for found in runs.values())]
    record, seconds = json.loads(path.read_text()), {m: [] for m in methods}
    for label, search in record["searches"].items():
        seconds[label.rsplit("/", 2)[1]] += search["seconds"]
    text = """Made from a record by `python -m benchmarks.optimise`. All searches of a seed begin
with the same ten random points. The regret is the lowest value found minus the optimum. The optimum
of the two tables is not known, so the lowest value of any search is used instead. Values are means
over seeds; standard errors are given if there are several seeds."""
    speed = ", ".join(f"{m} {np.median(seconds[m]):.2g}" for m in methods if m != "random")
    late = [
        seconds
        for label, search in record["searches"].items()
        if label.rsplit("/", 2)[1] == DEFAULT
        for seconds in search["seconds"][ROOM // 2 + 1 - len(search["values"]) :]
        if len(search["values"]) > ROOM // 2
    ]
    timed = json.loads((FOLDER / "speed.json").read_text())
    processor = "; ".join(
        f"{n}: {np.median(found['processor']):.2g} s" for n, found in timed.items()
    )
    told = f"""Median wall-clock seconds for one suggestion, on a core that other programs used
too: {speed}. With {ROOM // 2} to {REPORTED["Ackley-10"].n_evaluations} values (Ackley-10) the
median of `{DEFAULT}` was {np.median(late):.2g} s. With 100 values, the median processor time of ten
suggestions (`python -m benchmarks.optimise --speed`) was, by function: {processor}. That run has
no useful clock times, because a program of higher priority used the core. A compiled program has
room for a number of values that is a power of two; a suggestion that had to compile one took up to
{max(max(found["processor"]) for found in timed.values()):.2g} s of processor time."""
    picture = "![Regret against evaluations](decisions/optimise.png)"
    parts = [SEARCHED, fill(text, 100), "", regret_table(runs, methods), "", picture, ""]
    return "\n".join([*parts, fill(verdict(runs), 100), "", fill(told, 100), ""])


def verdict(runs: dict[str, dict[str, np.ndarray]]) -> str:
    """How the default compares, counted from the numbers of the table."""

    def better(other: str) -> tuple[int, int]:
        pairs = [(r[DEFAULT], r[other]) for r in runs.values() if {DEFAULT, other} <= set(r)]
        # Those that have fewer seeds have the first ones.
        return sum(o[: len(t), -1].mean() <= t[:, -1].mean() for o, t in pairs), len(pairs)

    text = [
        f"that of {other} on {better(other)[0]} of {better(other)[1]}"
        for other in ("random", "TPE", "GP-EI", "BoTorch")
        if better(other)[1]
    ]
    several = [r for r in runs.values() if "GP-EI" in r and len(r[DEFAULT]) > 1]
    near = sum(
        found[DEFAULT][:, -1].mean()
        <= found["GP-EI"][:, -1].mean()
        + np.hypot(standard_error(found[DEFAULT]), standard_error(found["GP-EI"]))
        for found in several
    )
    end = (
        "Among problems with several seeds, it is within one standard error of GP-EI, or better, "
        f"on {near} of {len(several)}."
    )
    lone = sum(len(r[DEFAULT]) == 1 for r in runs.values())
    if lone:
        end += (
            f" {lone} of {len(runs)} problems have one seed and no error bar, so they do not rank "
            "the methods."
        )
    return f"The mean regret of `{DEFAULT}` is at or below {', '.join(text)} problems. {end}"


def batched_section() -> str:
    problems = {name: REPORTED[name] for name in ROUNDS}
    runs = collected(BATCHES, problems, SURROGATES)
    text = f"""Made from a record by `python -m benchmarks.surrogates`, after the protocol of Li et
al. (2024), "A study of Bayesian neural network surrogates for Bayesian optimization". Ten random
points are followed by batches of {BATCH}; each point of a batch is the best one of one member or
one drawn function. We rebuilt their deep ensemble: its members are pulled to zero, and each sees a
random 80 % of the rows. All networks have the relevances, the noise and the scale of the prior
with the highest evidence, and values are made normal. So the networks differ only in what makes
their members different."""
    lines = []
    for name, found in runs.items():
        order = sorted(found, key=lambda m: found[m][:, -1].mean())
        first, last = order[0], order[-1]
        ratio = found[last][:, -1].mean() / max(found[first][:, -1].mean(), 1e-12)
        times = f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2f}"
        lines.append(
            f"- {name}: `{first}` has the lowest regret, `{last}` has {times} times as much. "
            + _beside_ensemble(found)
        )
    if all(len(r) == 1 for found in runs.values() for r in found.values()):
        lines += ["", "The record has one seed, so small differences mean nothing."]
    return "\n".join([BATCHED, fill(text, 100), "", regret_table(runs, SURROGATES), "", *lines, ""])


def _beside_ensemble(found: dict[str, np.ndarray]) -> str:
    """In how many seeds the rebuilt ensemble ends higher than each surrogate."""
    theirs, *others = SURROGATES
    n_seeds = len(found[theirs])
    wins = ", ".join(
        f"`{m}` in {int((found[m][:, -1] < found[theirs][:, -1]).sum())} of {n_seeds} seeds"
        for m in others
        if m in found
    )
    return f"`{theirs}` ends higher than {wins}."


def labels_needed(sizes: np.ndarray, curve: np.ndarray, target: float) -> int | None:
    """The least number of labels from which on the mean curve is at or below a target."""
    reached = np.flatnonzero(curve <= target)
    return int(sizes[reached[0]]) if len(reached) else None


def labelled_section() -> str:
    record = json.loads(ACTIVE.read_text())
    s, rows, lines, beside = record["settings"], [], [], {}
    for name in TABLES:
        runs = {way: {} for way in WAYS}
        for label, run in record["runs"].items():
            of, way, seed = label.split("/")
            if of == name:
                runs[way][int(seed)] = run
        seeds = sorted(set.intersection(*(set(r) for r in runs.values())))
        if not seeds:
            continue
        sizes = np.array(next(iter(runs["random"].values()))["sizes"])
        errors = {w: np.array([runs[w][seed]["errors"] for seed in seeds]) for w in WAYS}
        target = float(errors["random"][:, -1].mean())
        needed = {w: labels_needed(sizes, errors[w].mean(axis=0), target) for w in WAYS}
        beside[name] = {w: _beside(errors["members"], errors[w]) for w in WAYS if w != "members"}
        spread = [shown(errors[w]) for w in WAYS]
        rows.append([name, str(len(seeds)), *spread, *(str(needed[w] or "more") for w in WAYS)])
        ours = needed["members"]
        if ours is None:
            lines.append(
                f"- {name}: within {s['most']} labels, the members do not reach the error of "
                f"{s['most']} random ones."
            )
        else:
            other = needed["diverse"]
            theirs = (
                "do not reach their error"
                if other is None
                else f"need {1 - other / s['most']:.0%} fewer"
            )
            lines.append(
                f"- {name}: {1 - ours / s['most']:.0%} fewer labels than {s['most']} random ones; "
                f"rows chosen by `diverse`, without the members, {theirs}."
            )
    header = ("table", "seeds", *(f"error, {w}" for w in WAYS), *(f"labels, {w}" for w in WAYS))
    text = f"""Made from a record by `python -m benchmarks.active_learning`. In each table,
{s["pool"]:,} rows are the pool and {s["test"]:,} other rows are the test. A search starts with
{s["first"]} random labels and adds {s["batch"]} at a time, up to {s["most"]}, half of the pool.
Errors at the end are root mean squared errors of the logarithm of the target (car_price, ikea) or
log losses (hmeq), with standard errors over seeds. The columns of labels have the smallest number
of labels whose mean error is no higher than that of {s["most"]} random labels. `members` is
variance reduction for numbers and joint information for classes."""
    parts = [LABELLED, fill(text, 100), "", table(header, rows), "", *lines, ""]
    return "\n".join([*parts, fill(_worth_of_error_bars(beside), 100), ""])


def _beside(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Relative difference of errors [seed, size] averaged over sizes, and its standard error."""
    change = 100 * (ours.mean(axis=1) / theirs.mean(axis=1) - 1)
    error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.inf
    return float(change.mean()), float(error)


def _worth_of_error_bars(beside: dict[str, dict[str, tuple[float, float]]]) -> str:
    """Whether choosing by the members beats what does not look at them, table by table."""
    sentences = []
    for way in ("random", "diverse"):
        found = {name: ways[way] for name, ways in beside.items()}
        cells = ", ".join(f"{d:+.1f} ± {e:.1f} % on {name}" for name, (d, e) in found.items())
        lower = sum(d < -2 * e for d, e in found.values())
        higher = sum(d > 2 * e for d, e in found.values())
        sentences.append(
            f"Averaged over the whole curve, the error of `members` differs from that of `{way}` "
            f"by {cells}. It is lower by more than two standard errors on {lower} of {len(found)} "
            f"tables, and higher by as much on {higher}."
        )
    return " ".join(sentences)


def draw() -> None:
    """Mean regret against evaluations, with bands of one standard error."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    all_runs = collected(FOLDER / "optimise.json", REPORTED, METHODS)
    figure, axes = plt.subplots(1, len(all_runs), figsize=(3.2 * len(all_runs), 3), squeeze=False)
    for axis, (name, runs) in zip(axes[0], all_runs.items(), strict=True):
        for method, found in runs.items():
            mean, x = found.mean(axis=0), np.arange(1, found.shape[1] + 1)
            (line,) = axis.plot(x, mean, label=method, lw=2 if method == DEFAULT else 1)
            if len(found) > 1:
                error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
                low = np.maximum(mean - error, 1e-3 * mean)
                axis.fill_between(x, low, mean + error, color=line.get_color(), alpha=0.15)
        axis.set(title=name, xlabel="evaluations", yscale="log")
    axes[0, 0].set_ylabel("mean regret")
    axes[0, 0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=80)


SECTIONS = (chosen_section, searched_section, batched_section, labelled_section)

if __name__ == "__main__":
    draw()
    for made in SECTIONS:
        write_section(PAGE, made())
