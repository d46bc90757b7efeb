"""Writes the measured sections of docs/updates.md: ``python -m benchmarks.updates_page``."""

from textwrap import fill
from typing import Any

import numpy as np

from anchored.paper.prose import table
from benchmarks.sections import write_section
from benchmarks.updates import (
    CHOICE_EACH,
    CHOICE_FIRST,
    GROWTHS,
    N_BATCHES,
    N_FIRST,
    N_TEST,
    N_UPDATES,
    RECORD,
    REFITS,
    read_record,
)

PAGE = RECORD.parents[1] / "updates.md"
GROWTH = "## How often all rows are fitted again\n"
TWENTY = "## Twenty updates: measured\n"
SHOWN = (1, N_FIRST, *REFITS)
STREAM = "## A stream of batches: measured\n"
SCORES = ("rmse", "nll", "coverage", "early_rmse")


def growth_section() -> str:
    """Two ways to set when all rows are fitted again, on tables of which no result is told."""
    rows, last = [], CHOICE_FIRST + N_UPDATES * CHOICE_EACH
    for name, found in read_record()["growth"].items():
        tried = [found["tried"][str(factor)] for factor in GROWTHS]
        shown = found["first"], tried[0], found.get("old"), *tried[1:], found["fresh"]
        rows.append([name, *("" if s is None else _both(s) for s in shown)])
    text = f"""Made from a record by `python -m benchmarks.updates growth`. A first fit of
{CHOICE_FIRST} rows is followed by {N_UPDATES} updates of {CHOICE_EACH} rows. NLL, and RMSE in
brackets, are for 1,000 other rows of the tables' training parts (one seed). A heading such as
`updates, 2 times` means that all rows are fitted again once there are 2 times as many rows as at
the last full fit. A fresh fit has all {last} rows from the start. Members trained anew keep the
encoding, the prior and the noise of training that were chosen from {CHOICE_FIRST} rows, but they
take all the steps of a fit."""
    more = """On employee_salaries, updates are far from a fresh fit, and members trained anew are
equally far. More steps would not help there, because the encoding, the prior and the noise were
chosen from few rows. Only a fit of all rows chooses them again, so we chose the factor 1.5 instead
of 2. That table decided it; the others differ in both directions. Fresh fits have another seed and
are not always better."""
    updated = [f"updates, {factor:g} times" for factor in GROWTHS]
    header = ("table", "first fit", updated[0], "trained anew", *updated[1:], "fresh")
    parts = [GROWTH, fill(text, 100), "", table(header, rows), "", fill(more, 100), ""]
    return "\n".join(parts)


def _both(scores: dict[str, float]) -> str:
    return f"{scores['nll']:.3f} ({scores['rmse']:.4g})"


def twenty_section() -> str:
    """Twenty updates beside fresh fits, on a table that no setting was chosen on."""
    rows, told, sizes = [], [], (0, 0, 0)
    for name, seeds in read_record()["twenty"].items():
        for seed, found in sorted(seeds.items()):
            sizes, fresh = found["rows"], _mean(found["fresh"], ("rmse", "nll", "coverage"))
            known = {f"{sizes[0]} rows": found["first"], "updated": found["updated"]}
            for what, s in (known | {f"fresh, {sizes[2]} rows": fresh}).items():
                more = 100 * (s["nll"] - fresh["nll"]) / abs(fresh["nll"])
                beside = "" if s is fresh else f"{more:+.1f} %"
                scores = f"{s['rmse']:.2f}", f"{s['nll']:.3f}", f"{100 * s['coverage']:.1f}"
                rows.append([name, seed, what, *scores, beside])
            told.append(f"- {name}, seed {seed}: {_costs(found)}")
    text = f"""Made from a record by `python -m benchmarks.updates twenty`. A first fit of
{sizes[0]} rows is followed by {N_UPDATES} updates of {sizes[1]} rows each, and compared with the
mean of two fresh fits of all {sizes[2]} rows. Scores are for 200 rows that no fit has seen; each
seed has other rows. These scores did not influence the settings of updates, with one exception.
Three values of the smallest number of steps were once tried on this table, and 5 % was the middle
one."""
    header = ("table", "seed", "fit", "RMSE", "NLL", "coverage, %", "NLL beside fresh fits")
    parts = [TWENTY, fill(text, 100), "", table(header, rows), "", *told, ""]
    return "\n".join(parts)


def _costs(found: dict) -> str:
    """Processor time of updates, as shares of a fresh fit whose programs were compiled."""
    whole = found["fresh"][-1]["seconds"]
    plain = [u["seconds"] for u in found["updates"] if not u["retuned"]]
    every = [u["seconds"] for u in found["updates"]]
    again = len(every) - len(plain)
    return (
        f"an update took a median of {np.median(plain) / whole:.1%} of the processor time of a "
        f"fresh fit ({np.median(plain):.1f} of {whole:.0f} seconds). {again} of {len(every)} "
        f"fitted all rows again; with them the mean is {np.mean(every) / whole:.0%}."
    )


def _mean(found: list[dict], names: tuple[str, ...]) -> dict[str, float]:
    return {name: float(np.mean([f[name] for f in found])) for name in names}


def stream_section() -> str:
    """Batches of tables that the settings were not chosen on, beside fresh fits if there are."""
    record, rows, told = read_record(), [], []
    for name, found in record["stream"].items():
        batches, n_each = found["batches"], found["rows_a_batch"]
        fits = record["refits"].get(name, {"batches": []})["batches"]
        fresh = {n: [b for b in fits if b["batch"] == n] for n in {b["batch"] for b in fits}}
        pairs = [(b, fresh[b["batch"]]) for b in batches if b["batch"] in fresh]
        for ours in batches:
            if ours["batch"] in SHOWN or ours is batches[-1]:
                cells = _cells(ours, fresh.get(ours["batch"]))
                rows.append([name, str(ours["batch"]), str(ours["batch"] * n_each), *cells])
        told.append(f"- {name}: {_verdict(batches, pairs)}")
    text = f"""Made from a record by `python -m benchmarks.updates stream`; `refits` adds fresh fits
of all rows so far. Where the record has such fits, their mean scores follow a slash. The settings
of updates were not chosen on these tables. A stream has {N_BATCHES} batches; the lists below say
how many were run. The first batch is a fit. RMSE, NLL and the coverage of 90 % intervals are for
{N_TEST:,} rows that are not in the stream. The last column is the RMSE on the rows of the first
{N_FIRST} batches; from batch {N_FIRST} on, the model has been trained on all of these rows."""
    fair = f"""The last column is an error on training rows. After {N_FIRST} batches, a model fits
these rows much more closely than rows it has not seen. With more rows, any model fits each single
row less closely. So this error may rise although nothing is forgotten, and two other measures show
forgetting. One is the ratio of this error to that of fresh fits of the same rows: it must not rise
from batch to batch. The other is the error on rows that are like the first batches but were never
seen. Rows come in random order, so the rows that are not in the stream are such rows."""
    header = ("table", "batch", "rows", "RMSE", "NLL", "coverage, %", "RMSE, first batches")
    parts = [STREAM, fill(text, 100), "", fill(fair, 100), "", table(header, rows), "", *told, ""]
    return "\n".join(parts)


def _cells(ours: dict, fresh: list[dict] | None) -> list[str]:
    """Scores of the updated model, and the means of fresh fits behind a stroke."""
    both = [ours] if fresh is None else [ours, _mean(fresh, SCORES)]
    forms = zip(SCORES, (1, 1, 100, 1), (".4g", ".3f", ".1f", ".4g"), strict=True)
    return [" / ".join(f"{factor * b[name]:{form}}" for b in both) for name, factor, form in forms]


def _verdict(batches: list[dict], pairs: list[tuple[dict, list[dict]]]) -> str:
    """All of it counted from the record."""
    whole = ", ".join(str(b["batch"]) for b in batches if b["retuned"])
    updates = [b["seconds"] for b in batches[1:] if not b["retuned"]]
    later = batches[N_FIRST - 1 :]
    coverage, early, unseen = ([b[k] for b in later] for k in ("coverage", "early_rmse", "rmse"))
    text = f"""{len(batches)} of {N_BATCHES} batches. All rows were fitted again at batches {whole};
the other {len(updates)} updates took a median of {np.median(updates):.1f} seconds of processor
time. From batch {N_FIRST} on, intervals covered {min(coverage):.1%} to {max(coverage):.1%} of the
targets. The RMSE on the first batches was {early[0]:.3g} at batch {N_FIRST}, {max(early):.3g} at
most and {early[-1]:.3g} at the end. On rows that were never seen, these three values were
{unseen[0]:.3g}, {max(unseen):.3g} and {unseen[-1]:.3g}."""
    if pairs:
        text += _beside(pairs)
    elif len(batches) < N_BATCHES:
        text += " Without fresh fits to compare with, this does not show that nothing is forgotten."
    return " ".join(text.split())


def _beside(pairs: list[tuple[dict, list[dict]]]) -> str:
    means: list[tuple[dict, Any]] = [(ours, _mean(fresh, SCORES)) for ours, fresh in pairs]
    nll = [100 * (ours["nll"] - f["nll"]) / abs(f["nll"]) for ours, f in means]
    ratios = [ours["early_rmse"] / f["early_rmse"] for ours, f in means]
    seconds = np.median([f["seconds"] for _, fresh in pairs for f in fresh])
    apart = [max(f["early_rmse"] for f in fresh) / min(f["early_rmse"] for f in fresh)
             for _, fresh in pairs]  # fmt: skip
    alone = [f["early_rmse"] for _, f in means]
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    several = len(pairs) > 1
    named = ", ".join(str(ours["batch"]) for ours, _ in pairs)
    text = f""" Compared with fresh fits (median {seconds:.0f} seconds each) the NLL is
{", ".join(f"{gap:+.1f}" for gap in nll)} % at {"batches" if several else "batch"} {named}, and the
RMSE on the first batches is {listed} times theirs. This RMSE differs by a factor of up to
{max(apart):.2f} between fresh fits of the same rows with different seeds."""
    if several:
        text += f""" The mean RMSE of the fresh fits goes from {alone[0]:.3g} at batch
{pairs[0][0]["batch"]} to {alone[-1]:.3g} at batch {pairs[-1][0]["batch"]}."""
    return text


SECTIONS = (growth_section, twenty_section, stream_section)

if __name__ == "__main__":
    for made in SECTIONS:
        write_section(PAGE, made())
