"""Sentences, rows beside the published ones, and a picture, from the record of a table."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from anchored.paper.catalogue import CATALOGUE
from anchored.paper.plotting import SERIES
from anchored.paper.prose import sentences
from anchored.paper.runner import Experiment, Record, Table, standard_error
from anchored.paper.tables.unfamiliar import SIGNS, SURE, Settings, Task, combine, image, plan
from anchored.paper.tables.unfamiliar_published import ACCURACY, ENTROPY, METHODS, SHARE

Groups = Mapping[str, Sequence[str]]  # columns of the paper's main table: kinds of input in each
_RIVALS = ("1x regularised", "5x unconstrained", "5x regularised")
_OURS = "5x anchored"
_DRAWN = ("5x unconstrained", "5x regularised", "5x anchored")  # in the histograms


def experiment(
    table: str,
    presets: Mapping[str, Settings],
    make: Callable[[Settings, Any], Task],
    groups: Groups,
    height: float = 8.0,
) -> Experiment:
    """The experiment ``table-<table>`` on the task that ``make`` makes."""
    return Experiment(
        CATALOGUE[f"table-{table}"],
        presets,
        partial(plan, make),
        combine,
        partial(findings, table, groups),
        partial(tables, table, groups),
        partial(draw, table, groups),
        size=(11.0, height),
    )


def findings(table: str, groups: Groups, record: Record) -> list[str]:
    """The claims of the paper, compared with our numbers."""
    scores, columns = record["numbers"]["methods"], []
    compared = [m for m in METHODS if m.startswith("5x")]
    for name, kinds in groups.items():
        shares = {m: mean(group_share(scores[m], kinds)) for m in compared}
        paper = {m: paper_share(table, m, kinds) for m in compared}
        lowest = {"lowest": min(shares, key=shares.__getitem__)}
        lowest |= {"lowest_in_paper": min(paper, key=paper.__getitem__)}
        columns.append({"name": name, "shares": shares} | lowest)
    areas = {
        m: np.mean([mean(shift["auroc"][SIGNS[1]]) for shift in scores[m]["shifts"].values()])
        for m in METHODS
    }
    off = {m: mean(scores[m]["accuracy"]) - paper for m, paper in ACCURACY[table].items()}
    return sentences("unfamiliar", off=off, columns=columns, sign=SIGNS[1], areas=areas)


def tables(table: str, groups: Groups, record: Record) -> list[Table]:
    scores = record["numbers"]["methods"]
    kinds = list(scores[_OURS]["shifts"])
    made = [_main(table, groups, scores)]
    if any(len(members) > 1 for members in groups.values()):
        title = "Share of confident predictions, each kind"
        made.append(_by_kind(title, scores, kinds, "share", SHARE[table]))
        made.append(_advantage(scores, kinds))
    title = "Entropy of the predicted probabilities, in nats"
    made.append(_by_kind(title, scores, ["train", *kinds], "entropy", ENTROPY.get(table, {})))
    for name, title in (("auroc", "Area under the ROC curve"), ("aupr", "Average precision")):
        for sign in SIGNS:
            made.append(_separation(f"{title}, {sign}", scores, kinds, name, sign))
    return [*made, _calibration(scores)]


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def spread(values: Sequence[float], spec: str = ".3f") -> str:
    """Mean and, of several seeds, one standard error."""
    error = standard_error(values)
    return f"{mean(values):{spec}}" + ("" if error is None else f" ± {error:{spec}}")


def group_share(scores: Mapping, kinds: Sequence[str]) -> list[float]:
    """Share of confident predictions over some kinds of input alike, for each seed."""
    return np.mean([scores["shifts"][kind]["share"] for kind in kinds], axis=0).tolist()


def paper_share(table: str, method: str, kinds: Sequence[str]) -> float:
    return mean([SHARE[table][method][kind] for kind in kinds])


def _main(table: str, groups: Groups, scores: Mapping) -> Table:
    def row(m: str) -> list[str]:
        accuracy = spread(scores[m]["accuracy"], ".1f")
        cells = [spread(scores[m]["train"]["share"])]
        cells += [spread(group_share(scores[m], kinds)) for kinds in groups.values()]
        if m not in SHARE[table]:
            return [m, accuracy, *cells]
        paper = [SHARE[table][m]["train"]]
        paper += [paper_share(table, m, kinds) for kinds in groups.values()]
        shown = [f"{cell} [{p:.3f}]" for cell, p in zip(cells, paper, strict=True)]
        return [m, f"{accuracy} [{ACCURACY[table][m]:.1f}]", *shown]

    title = "Share of predictions with a probability of at least 0.9; ours [the paper's]"
    return Table(title, ["", "accuracy, %", "train", *groups], [row(m) for m in METHODS])


def _by_kind(title: str, scores: Mapping, kinds: Sequence[str], name: str, paper: Mapping) -> Table:
    """One score of every method on every kind of input, beside the paper's if it has it."""

    def cell(m: str, kind: str) -> str:
        found = scores[m]["train"] if kind == "train" else scores[m]["shifts"][kind]
        ours = spread(found[name])
        return f"{ours} [{paper[m][kind]:.3f}]" if m in paper else ours

    title += "; ours [the paper's]" if paper else ""
    return Table(title, ["", *kinds], [[m, *(cell(m, kind) for kind in kinds)] for m in METHODS])


def _advantage(scores: Mapping, kinds: Sequence[str]) -> Table:
    def relative(m: str, kind: str, score: str) -> str:
        ours, other = (mean(scores[n]["shifts"][kind][score]) for n in (_OURS, m))
        return f"{100 * (ours - other) / other:+.1f} %" if other else "-"

    rows = [
        [f"{m}, {score}", *(relative(m, kind, score) for kind in kinds)]
        for score in ("share", "entropy")
        for m in _RIVALS
    ]
    return Table(f"Relative change from another method to {_OURS}", ["", *kinds], rows)


def _separation(title: str, scores: Mapping, kinds: Sequence[str], name: str, sign: str) -> Table:
    def cell(m: str, kind: str) -> str:
        found = scores[m]["shifts"][kind][name]
        return spread(found[sign]) if sign in found else "-"

    return Table(title, ["", *kinds], [[m, *(cell(m, kind) for kind in kinds)] for m in METHODS])


def _calibration(scores: Mapping) -> Table:
    columns: dict[str, tuple[str, Callable[[Mapping], Sequence[float]]]] = {
        "NLL": (".3f", lambda s: s["nll"]),
        "ECE": (".4f", lambda s: s["ece"]),
        "temperature": (".2f", lambda s: s["temperature"]),
        "ECE with it": (".4f", lambda s: s["ece_tempered"]),
        "confident on test": (".3f", lambda s: s["test"]["share"]),
    }
    rows = [[m, *(spread(get(scores[m]), spec) for spec, get in columns.values())] for m in METHODS]
    return Table("Test inputs: log loss and calibration error", ["", *columns], rows)


def draw(table: str, groups: Groups, figure, record: Record) -> None:
    scores, examples = record["numbers"]["methods"], record["numbers"]["examples"]
    top, middle, bottom = figure.subfigures(3, 1, height_ratios=(1.0, 2.2, 2.0))
    if all(isinstance(example, str) for example in examples.values()):
        _texts(top, examples)
    else:
        _strip(top, examples)
    _bars(middle.subplots(), table, groups, scores)
    _histograms(bottom, groups, scores)


def _strip(figure, examples: Mapping) -> None:
    for ax, (name, example) in zip(
        figure.subplots(1, len(examples)), examples.items(), strict=True
    ):
        ax.imshow(image(example), cmap="gray", vmin=0, vmax=255)
        ax.set_title(name, fontsize=9)
        ax.set_axis_off()


def _texts(figure, examples: Mapping[str, str]) -> None:
    ax = figure.subplots()
    ax.set_axis_off()
    for line, (name, words) in enumerate(examples.items()):
        y = 1 - (line + 0.5) / len(examples)
        ax.text(0.0, y, name, fontsize=9, fontweight="bold", va="center")
        ax.text(0.1, y, textwrap.shorten(words, 110), fontsize=9, va="center")


def _bars(ax, table: str, groups: Groups, scores: Mapping) -> None:
    width = 0.8 / len(METHODS)
    for i, (method, (colour, _)) in enumerate(zip(METHODS, SERIES, strict=False)):
        x = np.arange(len(groups)) + (i - (len(METHODS) - 1) / 2) * width
        seeds = [group_share(scores[method], kinds) for kinds in groups.values()]
        ax.bar(x, [mean(s) for s in seeds], 0.92 * width, color=colour, label=method)
        if method in SHARE[table]:
            paper = [paper_share(table, method, kinds) for kinds in groups.values()]
            label = "the paper's" if i == 0 else None
            ax.plot(x, paper, "_", color="0.15", ms=9, mew=1.6, label=label)
    ax.set_xticks(np.arange(len(groups)), list(groups))
    ax.set_ylabel(f"probability ≥ {SURE:g}, share")
    ax.legend(ncols=len(METHODS) + 1, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.18))


def _histograms(figure, groups: Groups, scores: Mapping) -> None:
    shown = ["test", *groups]
    axes: Sequence = figure.subplots(1, len(shown), sharey=True)
    for ax, name in zip(axes, shown, strict=True):
        for method, (colour, _) in zip(METHODS, SERIES, strict=False):
            if method in _DRAWN:
                heights = _histogram(scores[method], groups, name)
                edges = np.linspace(0, 1, len(heights) + 1)
                ax.stairs(heights, edges, color=colour, lw=1.4)
        ax.set_title(name, fontsize=9)
        ax.set_xlim(0.1, 1)
        ax.set_xlabel("highest probability", fontsize=8)
    axes[0].set_ylabel("share of inputs")


def _histogram(scores: Mapping, groups: Groups, name: str) -> np.ndarray:
    if name == "test":
        return np.asarray(scores["test"]["histogram"])
    return np.mean([scores["shifts"][kind]["histogram"] for kind in groups[name]], axis=0)
