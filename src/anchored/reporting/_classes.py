"""The chapter of classes."""

from collections.abc import Sequence

import numpy as np

from anchored import metrics
from anchored.reporting import _figures, _page, _verdict
from anchored.reporting._case import WORST_ROWS, Case, Chapter, columns_section, telling_columns
from anchored.reporting._importance import Importance, importance
from anchored.reporting._markup import Markup
from anchored.reporting._page import Section, key
from anchored.reporting._words import counted, level, number, percent

_MOST_CLASSES = 12  # of a table of counts; of more the commonest mistakes are listed
_HALF_WIDTH = 3  # classes up to which it takes half of the page
_N_BINS = 10


def chapter(case: Case, labels: Sequence[str]) -> Chapter:
    """Everything about a classifier whose classes are called ``labels``."""
    found = _importance(case)
    p = case.dist.probabilities
    top = (
        _page.verdict(
            _verdict.of_confidence(p, case.y),
            _verdict.of_accuracy(p, case.y),
            _abstaining(case),
        ),
        _tiles(case, len(labels)),
    )
    sections = (
        Section("Predictions", "", _mistakes(case, labels)),
        Section(
            "Are the probabilities honest?",
            "",
            (_page.figures(_reliability(case), _accuracy(case), _risk(case), _sources(case)),),
        ),
        *columns_section(found, "log loss", " (nats)", "mutual information"),
        _worst(case, found, labels),
    )
    return Chapter(top, sections)


def _abstaining(case: Case) -> str:
    """What is won by leaving the least certain rows to somebody else."""
    share, risk = metrics.risk_coverage(case.dist, case.y)
    at = min(int(np.ceil(case.coverage * len(share))), len(share)) - 1
    if len(share) < _verdict.FEW_ROWS:
        return ""
    return (
        f"Answering only the surest {level(case.coverage)} of rows, it would be wrong on "
        f"{percent(risk[at])} instead of {percent(risk[-1])}."
    )


def _tiles(case: Case, n_classes: int) -> Markup:
    dist, y = case.dist, case.y
    p = dist.probabilities
    commonest = np.bincount(y).max() / len(y)
    share = dist.mutual_information.sum() / max(dist.entropy.sum(), np.finfo(float).tiny)
    return _page.tiles(
        [
            ("accuracy", percent(metrics.accuracy(dist, y)), f"commonest {percent(commonest)}"),
            ("mean confidence", percent(p.max(axis=1).mean()), "should be the accuracy"),
            ("log loss", number(metrics.nll(dist, y)), f"guessing {number(np.log(n_classes))}"),
            (
                "Brier score",
                number(metrics.brier(dist, y)),
                f"guessing {number(1 - 1 / n_classes)}",
            ),
            (
                "calibration error",
                number(metrics.expected_calibration_error(dist, y), 2),
                "ECE, 0 is perfect",
            ),
            ("epistemic", percent(share), "of the entropy"),
        ]
    )


def _mistakes(case: Case, labels: Sequence[str]) -> tuple[Markup, ...]:
    table, sure = _page.titled("Mistakes", _confusion(case, labels)), _confidences(case)
    if len(labels) <= _HALF_WIDTH:
        return (_page.figures(table, sure),)
    return table, _page.figures(sure)


def _confusion(case: Case, labels: Sequence[str]) -> Markup:
    counts = metrics.confusion(case.dist, case.y)
    wrong = counts - np.diag(np.diag(counts))
    if len(labels) <= _MOST_CLASSES:
        caption = "Rows by observed and predicted class; shades are shares of the observed class."
        return _page.counts_table(labels, counts, caption)
    worst = np.argsort(-wrong.ravel(), kind="stable")[:_MOST_CLASSES]
    pairs = [divmod(int(k), len(labels)) for k in worst if wrong.ravel()[k]]
    columns = [
        ("observed", [labels[i] for i, _ in pairs]),
        ("predicted", [labels[j] for _, j in pairs]),
        ("rows", [f"{wrong[pair]:,}" for pair in pairs]),
        ("of the observed", [percent(wrong[i, j] / counts[i].sum()) for i, j in pairs]),
    ]
    return _page.table(columns, f"The commonest mistakes among {len(labels)} classes.")


def _reliability(case: Case) -> Markup:
    confidence, right, count = metrics.reliability(case.dist, case.y, _N_BINS)
    return _page.figure(
        "Reliability",
        _figures.reliability(confidence, right, count, case.dist.probabilities.shape[1]),
        "",
        "Rows of about equal confidence together, larger dots for more rows. Dots below the "
        "dashed line are over-confident, unless they are within the grey bar.",
        [key("one", "groups of rows"), key("ideal", "honest"), key("muted", "chance")],
    )


def _confidences(case: Case) -> Markup:
    p = case.dist.probabilities
    right = p.argmax(axis=1) == case.y
    sure = p.max(axis=1)[~right]
    is_or_are = "is" if len(sure) == 1 else "are"
    finding = f"{counted(len(sure), 'row')} of {len(right):,} {is_or_are} wrong"
    finding += f", at a mean confidence of {percent(sure.mean())}." if len(sure) else "."
    return _page.figure(
        "How sure it is",
        _figures.confidences(p.max(axis=1), right, p.shape[1]),
        finding,
        "Confidence is the probability of the class that is predicted. Mistakes should be on "
        "the left.",
        [key("one", "right"), key("two", "wrong")],
    )


def _accuracy(case: Case) -> Markup:
    p = case.dist.probabilities
    return _page.figure(
        "Accuracy against confidence",
        _figures.accuracy_above(p.max(axis=1), p.argmax(axis=1) == case.y),
        "",
        "Accuracy among the rows that are at least so sure, with its range of chance. It should "
        "rise to the right.",
    )


def _risk(case: Case) -> Markup:
    share, risk = metrics.risk_coverage(case.dist, case.y)
    return _page.figure(
        "Leaving uncertain rows out",
        _figures.risk_coverage(share, risk),
        f"{percent(risk[-1])} are wrong if all are answered, {percent(np.mean(risk))} on average.",
        "If the least certain rows are left to somebody else, how many of the others are wrong? "
        "The curve should fall towards the left.",
        [key("one", "these rows"), key("ideal", "all answered")],
    )


def _importance(case: Case) -> Importance | None:
    if case.x is None or len(case.y) < 2:
        return None
    return importance(
        case.predict,
        case.x,
        case.columns,
        lambda dist, rows: metrics.nll(dist, case.y[rows]),
        lambda dist: dist.mutual_information,
    )


def _sources(case: Case) -> Markup:
    dist = case.dist
    # A temperature below one may leave less entropy than the members' own disagreement.
    entropy = np.maximum(dist.entropy, dist.mutual_information)
    share = dist.mutual_information.sum() / max(entropy.sum(), np.finfo(float).tiny)
    return _page.figure(
        "Epistemic and aleatoric",
        _figures.variance_shares(entropy, dist.mutual_information, "rows by their entropy"),
        f"{percent(share)} of the entropy is epistemic.",
        "Epistemic is what members disagree on (mutual information), and goes away with more "
        "rows like these; the rest is overlap of the classes, and stays.",
        [key("two", "epistemic"), key("faint", "aleatoric")],
    )


def _worst(case: Case, found: Importance | None, labels: Sequence[str]) -> Section:
    p, y = case.dist.probabilities, case.y
    of_label = p[np.arange(len(y)), y]
    order = np.argsort(of_label, kind="stable")[:WORST_ROWS]
    columns = [
        ("row", [case.rows[i] for i in order]),
        ("observed", [labels[int(y[i])] for i in order]),
        ("predicted", [labels[int(p[i].argmax())] for i in order]),
        ("sure", [percent(p[i].max()) for i in order]),
        ("chance of observed", [percent(of_label[i]) for i in order]),
    ]
    table = _page.table(columns + telling_columns(case, found, order))
    lead = (
        "The rows whose class the model thought least likely: wrong labels, or kinds of rows that "
        "it has seen too few of."
    )
    return Section("Worst rows", lead, (table,))
