"""The sections on how members are trained under the paper's settings, and by its authors."""

from collections.abc import Mapping, Sequence

import numpy as np

from anchored.datasets.registry import TABLES
from anchored.paper.pages.scores import NONE, cell, fine_cell, is_worse, join, percent
from anchored.paper.prose import table
from anchored.paper.runner import Record
from anchored.paper.tables.uci_published import PUBLISHED
from anchored.paper.tables.uci_scores import Score

_METHOD = "anchored-5x50"


def starts_table(record: Record) -> str:
    """The held-out NLL of each start; cells are ``"<data set>/<start>/<division>"``."""
    found: dict[str, dict[str, list[float]]] = {}
    for label, result in record["numbers"].items():
        dataset, start, _ = label.split("/")
        found.setdefault(dataset, {}).setdefault(start, []).append(result["nll"])
    starts = ("prior", "network")
    rows = []
    for d in (d for d in TABLES if d in found):
        means = [float(np.mean(found[d][start])) for start in starts]
        shown = [f"**{mean:.3f}**" if mean == min(means) else f"{mean:.3f}" for mean in means]
        rows.append([d, *shown, str(len(found[d]["prior"]))])
    return table(["NLL, held out", *starts, "divisions"], rows)


def protocol_section(record: Record) -> dict[str, str]:
    """Scores of each training, and those not worse; cells are ``"<data set>/<row>"``."""
    found: dict[int, tuple[str, dict[str, list]]] = {}
    for label, result in record["numbers"].items():
        dataset, row = label.split("/")
        found.setdefault(int(row), (result["training"], {}))[1][dataset] = result["splits"]
    lines = [found[row] for row in sorted(found)]
    datasets = [d for d in TABLES if any(d in scores for _, scores in lines)]
    nll, rmse = PUBLISHED.nll[_METHOD], PUBLISHED.rmse[_METHOD]
    header, rows, fine = ["training"], [["the paper"]], []
    for d in datasets:
        header += [f"{d}: NLL", "RMSE", "covers"]
        rows[0] += [cell(nll[d], d), cell(rmse[d], d), NONE]
    for words, scores in lines:
        rows.append([words, *(text for d in datasets for text in _cells(scores, d))])
        if not any(is_worse(Score.over(scores[d], "nll"), nll[d]) for d in scores):
            fine.append(f'"{words}"')
    return {"scores": table(header, rows), "fine": join(fine) or "none"}


def _cells(scores: Mapping[str, Sequence[Mapping[str, float]]], dataset: str) -> list[str]:
    if dataset not in scores:
        return [NONE] * 3
    nll, rmse, covers = (Score.over(scores[dataset], k) for k in ("nll", "rmse", "coverage_90"))
    return [cell(nll, dataset), fine_cell(rmse, dataset), percent(covers)]
