"""Scores as text, and two of them compared.

Numbers are compared at two decimals, as they are printed, because the published ones have no more.
"""

import math
from collections.abc import Mapping, Sequence

from anchored.datasets.registry import TABLES
from anchored.paper.prose import number
from anchored.paper.tables.uci_scores import Score

NONE = "-"
Pairs = Mapping[str, tuple[Score, Score]]  # ours and theirs, by data set


def label(dataset: str) -> str:
    return "song (subset)" if dataset == "song" else dataset


def cell(score: Score | None, dataset: str, decimals: int = 2) -> str:
    if score is None:
        return NONE
    text = number(score.mean, f"z.{decimals}f")
    if score.error is not None:
        text += f" ± {score.error:.{decimals}f}"
    if score.n_splits is not None and score.n_splits < TABLES[dataset].n_splits:
        text += f" ({score.n_splits})"
    return text


def fine_cell(score: Score | None, dataset: str) -> str:
    """A positive score with at least two digits, however small."""
    small = score is not None and 0 < score.mean < 0.1
    decimals = 1 - math.floor(math.log10(score.mean)) if score and small else 2
    return cell(score, dataset, decimals)


def percent(score: Score | None) -> str:
    return NONE if score is None else number(score.mean, ".1%")


def seconds_cell(score: Score | None) -> str:
    return NONE if score is None else number(score.mean, ".1f" if score.mean < 100 else ".0f")


def row_with_best(dataset: str, scores: Sequence[Score | None]) -> list[str]:
    """Cells with the lowest in bold; all of them if several print alike."""
    best = min((round(s.mean, 2) for s in scores if s and math.isfinite(s.mean)), default=None)
    cells = [cell(score, dataset) for score in scores]
    return [
        f"**{text}**" if score and round(score.mean, 2) == best else text
        for score, text in zip(scores, cells, strict=True)
    ]


def margin(ours: Score, theirs: Score) -> float:
    """Our score minus theirs, at two decimals."""
    return round(round(ours.mean, 2) - round(theirs.mean, 2), 2)


def difference_error(ours: Score, theirs: Score) -> float | None:
    """Standard error of the difference: both in quadrature."""
    if ours.error is None or theirs.error is None:
        return None
    return math.hypot(ours.error, theirs.error)


def is_worse(ours: Score, theirs: Score) -> bool:
    """Worse by more than one standard error of the difference."""
    return margin(ours, theirs) > (difference_error(ours, theirs) or 0.0)


def join(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def count_better(name: str, pairs: Pairs) -> str:
    """On how many data sets the first of each pair is lower, and on which it is not."""
    margins = {label(data): margin(*pair) for data, pair in pairs.items()}
    lower = [data for data, value in margins.items() if value < 0]
    equal = [data for data, value in margins.items() if value == 0]
    higher = [data for data, value in margins.items() if value > 0]
    text = f"- NLL is lower than {name} on {len(lower)} of {len(pairs)} data sets"
    text += f", equal on {join(equal)}" if equal else ""
    return text + (f", higher on {join(higher)}." if higher else ".")


def verdict(name: str, pairs: Pairs) -> str:
    """Where the first of each pair is worse by more than one standard error."""
    failed = [
        f"{data} ({number(margin(*pair), '+z.2f')})"
        for data, pair in pairs.items()
        if is_worse(*pair)
    ]
    text = f"- {name}: at most one standard error worse than the paper on "
    text += f"{len(pairs) - len(failed)} of {len(pairs)} data sets"
    return text + (f"; more on {join(failed)}." if failed else ".")
