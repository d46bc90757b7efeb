"""Writes the measured sections of docs/updates.md: ``python -m benchmarks.updates_page``."""

from textwrap import fill

import numpy as np

from anchored.paper.prose import table
from benchmarks.sections import write_section
from benchmarks.updates import N_BATCHES, N_FIRST, N_TEST, RECORD, REFITS, read_record

PAGE = RECORD.parents[1] / "updates.md"
CHOICE = "## Networks: measured\n"
SHOWN = (1, N_FIRST, *REFITS)
STREAM = "## A stream of batches: measured\n"


def choice_section() -> str:
    """Twenty updates beside fresh fits, on the table that the settings were chosen on."""
    found = read_record()["choice"]["concrete"]
    first, each, last = found["rows"]
    fresh = {k: float(np.mean([f[k] for f in found["fresh"]])) for k in ("rmse", "nll")}
    chosen, seconds = found["tried"][found["chosen"]], found["fresh"][1]["seconds"]

    def more(nll: float) -> float:
        return 100 * (nll / fresh["nll"] - 1)

    rows = [
        [f"first fit, {first} rows", found["first"], f"{more(found['first']['nll']):+.1f} %", ""],
        ["after 20 updates", chosen, f"{more(chosen['nll']):+.1f} %", f"{chosen['seconds']:.1f}"],
        [f"fresh fits, {last} rows", fresh, "", f"{seconds:.1f}"],
    ]
    cells = [[n, f"{s['rmse']:.2f}", f"{s['nll']:.3f}", *rest] for n, s, *rest in rows]
    tried = [more(t["nll"]) for t in found["tried"]]
    text = f"""Made from a record. On the Concrete table, a first fit of {first} rows is followed by
20 updates of {each} rows each. The result is compared with fresh fits of all {last} rows (two
seeds). Scores are for {found["test_rows"]} rows that no fit has seen."""
    after = f"""An update took {chosen["seconds"] / seconds:.0%} of the time of a fresh fit whose
programs were already compiled. Seconds are elapsed time on a machine that was busy with other
work, so only their ratio is meaningful."""
    honest = f"""The rate and the smallest number of steps were chosen among {len(tried)} settings
by scores on the same test rows, so {more(chosen["nll"]):+.1f} % is slightly too good. The settings
gave {min(tried):+.1f} % to {max(tried):+.1f} %; more steps come closer to a fresh fit and take
longer."""
    header = ("model", "RMSE", "NLL", "NLL beside fresh fits", "seconds each")
    parts = [CHOICE, fill(text, 100), "", table(header, cells), ""]
    return "\n".join([*parts, fill(after, 100), "", fill(honest, 100), ""])


def stream_section() -> str:
    """Batches of tables that the settings were not chosen on, beside fresh fits if there are."""
    record, rows, told = read_record(), [], []
    for name, found in record["stream"].items():
        batches, n_each = found["batches"], found["rows_a_batch"]
        fresh = {b["batch"]: b for b in record["refits"].get(name, {"batches": []})["batches"]}
        pairs = [(b, fresh[b["batch"]]) for b in batches if b["batch"] in fresh]
        for ours in batches:
            if ours["batch"] in SHOWN or ours is batches[-1]:
                cells = _cells(ours, fresh.get(ours["batch"]))
                rows.append([name, str(ours["batch"]), str(ours["batch"] * n_each), *cells])
        told.append(f"- {name}: {_verdict(batches, pairs)}")
    text = f"""Made from a record by `python -m benchmarks.updates stream`; `refits` in place of
`stream` adds fresh fits of all rows so far. In a cell with a slash, the first number is for the
updated model and the second for a fresh fit. The settings of updates were not chosen on these
tables. A stream has {N_BATCHES} batches; the lists below say how
many were run. The first batch is a fit. RMSE, NLL and the coverage of 90 % intervals are for
{N_TEST:,} rows that are not in the stream. The last column is the RMSE on the rows of the first
{N_FIRST} batches; from batch {N_FIRST} on, the model has been trained on all of these rows."""
    header = ("table", "batch", "rows", "RMSE", "NLL", "coverage, %", "RMSE, first batches")
    return "\n".join([STREAM, fill(text, 100), "", table(header, rows), "", *told, ""])


def _cells(ours: dict, fresh: dict | None) -> list[str]:
    """Scores of the updated model, and those of a fresh fit behind a stroke."""
    both = [ours] if fresh is None else [ours, fresh]
    return [
        " / ".join(f"{factor * b[name]:{form}}" for b in both)
        for name, factor, form in (
            ("rmse", 1, ".4g"),
            ("nll", 1, ".3f"),
            ("coverage", 100, ".1f"),
            ("early_rmse", 1, ".4g"),
        )
    ]


def _verdict(batches: list[dict], pairs: list[tuple[dict, dict]]) -> str:
    """All of it counted from the record."""
    whole = ", ".join(str(b["batch"]) for b in batches if b["retuned"])
    updates = [b["seconds"] for b in batches[1:] if not b["retuned"]]
    later = batches[N_FIRST - 1 :]
    coverage, early = ([b[k] for b in later] for k in ("coverage", "early_rmse"))
    text = f"""{len(batches)} of {N_BATCHES} batches. All rows were fitted again at batches {whole};
the other {len(updates)} updates took a median of {np.median(updates):.1f} seconds of processor
time. From batch {N_FIRST} on, intervals covered {min(coverage):.1%} to {max(coverage):.1%} of the
targets. The RMSE on the first batches was {early[0]:.3g} at batch {N_FIRST}, {max(early):.3g} at
most and {early[-1]:.3g} at the end."""
    if pairs:
        nll = [100 * (ours["nll"] / fresh["nll"] - 1) for ours, fresh in pairs]
        ratio = [ours["early_rmse"] / fresh["early_rmse"] for ours, fresh in pairs]
        fits = np.median([fresh["seconds"] for _, fresh in pairs])
        text += f""" Compared with fresh fits (median {fits:.0f} seconds each) the NLL is
{min(nll):+.1f} to {max(nll):+.1f} %, and the RMSE on the first batches is {min(ratio):.2f} to
{max(ratio):.2f} times theirs."""
    elif len(batches) < N_BATCHES:
        text += " Without fresh fits to compare with, this does not show that nothing is forgotten."
    return " ".join(text.split())


SECTIONS = (choice_section, stream_section)

if __name__ == "__main__":
    for made in SECTIONS:
        write_section(PAGE, made())
