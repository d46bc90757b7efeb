"""The picture of a table: examples of the inputs, confident shares, histograms of confidence."""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from anchored.paper.plotting import SERIES
from anchored.paper.runner import Record
from anchored.paper.tables.ood._findings import Groups, group_share, mean, paper_share
from anchored.paper.tables.ood._table import SURE, image
from anchored.paper.tables.ood.published import METHODS, SHARE

_DRAWN = ("5x unconstrained", "5x regularised", "5x anchored")  # in the histograms


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
