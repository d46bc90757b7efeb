"""The one-screen summary of the results, every number read from a record."""

import json
import re
from statistics import mean

from anchored_site.places import ROOT


def filled(page: str) -> str:
    """The page with its summary."""
    return page.replace("{{ summary }}", "\n".join([*_table(), "", *_speed()]))


def _text(name: str) -> str:
    return " ".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").split())


def _found(pattern: str, text: str) -> tuple[str, ...]:
    """Groups of a pattern that must be there: a page that changed its words is noticed."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"the summary of results looks for {pattern!r}, which is gone")
    return match.groups()


def _table() -> list[str]:
    real, uci = _text("real_tables"), _text("benchmarks")
    rows = [
        ("90 % interval score below CatBoost's", *_real(real, "catboost"), "real_tables"),
        ("90 % interval score below conformal CatBoost's", *_conformal(real), "real_tables"),
        ("log loss below CatBoost's (classes)", *_classes(real), "real_tables"),
        ("NLL below the paper's tuned ensemble", *_uci(uci, "the paper's anchored 5x 50")),
        ("NLL below Deep Ensembles as published", *_uci(uci, "Deep Ensembles as published")),
        ("NLL below the best published number we know", *_uci(uci, "the best seen")),
    ]
    lines = ["| result with default settings | tables | of all | page |", "|---|---|---|---|"]
    lines += [f"| {w} | **{n}** | of {of} | [](./{page}.md) |" for w, n, of, page in rows]
    low, high = _uci_coverage()
    lines += [
        "",
        f"- 90 % intervals cover {low:.0%} to {high:.0%} of the test targets, depending on the "
        "UCI table.",
    ]
    (truths,) = _found(r"estimator, defaults (\d+ ± \d+ / \d+ ± \d+)", _coverage())
    lines.append(
        f"- 90 % bands cover {truths} % of the true function inside / outside the data "
        "([](./coverage.md))."
    )
    return lines


def _real(text: str, rival: str) -> tuple[str, ...]:
    pattern = rf"anchored is better than {rival} in [^.]*?90 % interval score on (\d+) of (\d+)"
    return _found(pattern, text)


def _conformal(text: str) -> tuple[str, ...]:
    return _real(text, "catboost-conformal")


def _classes(text: str) -> tuple[str, ...]:
    return _found(r"anchored is better than catboost in log loss on (\d+) of (\d+)", text)


def _uci(text: str, rival: str) -> tuple[str, ...]:
    pattern = rf"NLL is lower than {re.escape(rival)} on (\d+) of (\d+) data sets"
    return (*_found(pattern, text), "benchmarks")


def _uci_coverage() -> tuple[float, float]:
    record = json.loads((ROOT / "docs/benchmarks/defaults/table-uci.json").read_text())
    shares: dict[str, list[float]] = {}
    for label, split in record["numbers"].items():
        data, method, _ = label.split("/")
        if method == "anchored-defaults":
            shares.setdefault(data, []).append(split["coverage_90"])
    means = [mean(values) for values in shares.values()]
    return min(means), max(means)


def _coverage() -> str:
    record = json.loads((ROOT / "docs/coverage/cpu/table-coverage.json").read_text())
    return record["findings"][0]


def _speed() -> list[str]:
    lines = json.loads((ROOT / "benchmarks/results/speed.json").read_text())["lines"]
    value = {line["name"].strip(): line["value"] for line in lines}
    faster = value["faster than the PyTorch loop"]
    rows = value["CSV of 1,000,000 x 10 rows, 10 members"]
    return [
        f"- One training step of all members is {faster:.0f} times as fast as in a plain PyTorch "
        "loop, on two cores.",
        f"- A saved model predicts {round(rows, -3):,.0f} rows a second with NumPy alone.",
    ]
