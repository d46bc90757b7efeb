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
    text = f"""Made from a record. The Concrete table: a first fit of {first} rows, then 20 updates
of {each} rows each, beside fresh fits of all {last} rows (two seeds). Scores are of
{found["test_rows"]} rows that nobody saw."""
    after = f"""An update took {chosen["seconds"] / seconds:.0%} of the time of a fresh fit whose
programs were compiled already. Seconds are of the clock, on a machine that was busy with other
work; their ratio is what counts."""
    honest = f"""The rate and the least number of steps were chosen among {len(tried)} settings, on
these same rows. So {more(chosen["nll"]):+.1f} % is a little flattering: they lie between
{min(tried):+.1f} % and {max(tried):+.1f} %, and more steps come closer and take longer."""
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
    text = f"""Made from a record by `python -m benchmarks.updates stream`, and `refits` for fresh
fits of all rows so far, which stand behind a stroke where the record has them. The settings of
updates were not chosen on these tables. Of {N_BATCHES} batches the record has those named below;
the first is a fit. RMSE, NLL and the coverage of 90 % intervals are of {N_TEST:,} rows that are not
in the stream. The last column is the RMSE on the rows of the first {N_FIRST} batches; a model has
been trained on all of them from batch {N_FIRST} on."""
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
    text = f"""{len(batches)} of {N_BATCHES} batches. All rows were fitted anew at batches {whole};
the other {len(updates)} updates took {np.median(updates):.1f} seconds of the processor in the
median. From batch {N_FIRST} on, intervals covered {min(coverage):.1%} to {max(coverage):.1%}, and
the error on the first batches was {early[0]:.3g} first, {max(early):.3g} at most and
{early[-1]:.3g} last."""
    if pairs:
        nll = [100 * (ours["nll"] / fresh["nll"] - 1) for ours, fresh in pairs]
        ratio = [ours["early_rmse"] / fresh["early_rmse"] for ours, fresh in pairs]
        fits = np.median([fresh["seconds"] for _, fresh in pairs])
        text += f""" Beside fresh fits ({fits:.0f} seconds each in the median) the NLL is
{min(nll):+.1f} to {max(nll):+.1f} %, and the error on the first batches is {min(ratio):.2f} to
{max(ratio):.2f} times theirs."""
    elif len(batches) < N_BATCHES:
        text += " There are no fresh fits beside it: this does not show that nothing is forgotten."
    return " ".join(text.split())


SECTIONS = (choice_section, stream_section)

if __name__ == "__main__":
    for made in SECTIONS:
        write_section(PAGE, made())
