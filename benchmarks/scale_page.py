"""What `docs/scale.md` says of measurements: ``python -m benchmarks.scale_page``.

The records are those of `large_fits`, `memory`, `faults` and `scale`.
"""

import json
import textwrap
from pathlib import Path

from benchmarks import faults, large_fits, memory, scale
from benchmarks.faults import Tally
from benchmarks.sections import with_section, write_section

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
STEPS, MEMBERS, WORKERS, ROWS = 10_000, 1_000, 100, 10**9  # of the plan on paper


def _filled(*paragraphs: str) -> str:
    return "\n\n".join(textwrap.fill(words, 100) for words in paragraphs)


def measured(fits: dict, bytes_: dict, killed: dict, workers: dict) -> str:
    """The section of what was measured."""
    parts = [
        "## Measured",
        _rows_words(fits["fits"]),
        _table(fits["fits"]),
        *([_memory_words(fits, bytes_)] if bytes_ else []),
        *(_kill_words(kind, Tally(**killed[kind])) for kind in ("fit", "ray") if kind in killed),
        _worker_words(workers),
    ]
    return "\n\n".join(parts) + "\n"


def _rows_words(fits: list[dict]) -> str:
    errors = sorted(fit["rmse"] for fit in fits)
    return _filled(
        "`python -m benchmarks.large_fits` makes Parquet files of 20 columns (numbers, two "
        "categories, a date) and fits them on one core, while other programs run, with "
        f"{fits[0]['members']} members and at most "
        f"{fits[0]['most_seconds_of_a_training']:.0f} seconds for each training. RSS is all "
        "memory of the process, including the pages of mapped files; anonymous memory is the part "
        "that the system cannot drop. Rows trained on are counted over all steps, for each "
        "member. The noise of the targets has deviation 0.30; the errors (RMSE) were "
        f"{errors[0]:.3f} to {errors[-1]:.3f}."
    )


def _table(fits: list[dict]) -> str:
    lines = [
        "| rows | how | rows read and encoded a second | rows trained on a second | peak RSS | "
        "peak anonymous |",
        "|---|---|---|---|---|---|",
    ]
    for fit in sorted(fits, key=lambda fit: (-fit["rows"], not fit["streamed"])):
        how = "from the files" if fit["streamed"] else "in memory"
        lines.append(
            f"| {fit['rows']:,} | {how} | {fit['read_rows_a_second']:,.0f} | "
            f"{fit['trained_rows_a_second']:,.0f} | {fit['peak_rss'] / 1e9:.2f} GB | "
            f"{large_fits.peak(fit) / 1e9:.2f} GB |"
        )
    return "\n".join(lines)


def _memory_words(fits: dict, bytes_: dict) -> str:
    ramped, plain, row = memory.constants(bytes_, fits)
    return _filled(
        f"What `plan` says about memory comes from `python -m benchmarks.memory`: {ramped} bytes "
        f"for each number in a column that has ramps, {plain} in one that has none, and at most "
        f"{row} bytes a row for rows that stay in a file."
    )


def _kill_words(kind: str, tally: Tally) -> str:
    what = {
        "fit": "`python -m benchmarks.faults fit` kills `anchored fit` by SIGKILL at random "
        f"moments and restarts it until it finishes. After {tally.n_kills} kills, ",
        "ray": "`python -m benchmarks.faults ray` does the same to a fit on a cluster of three "
        "nodes on one machine. After "
        + ", ".join(f"{n} kills of a {name}" for name, n in tally.kills.items())
        + ", ",
    }[kind]
    ended = (
        f"{tally.same} of {tally.rounds} models were equal, byte for byte, to an undisturbed one"
    )
    left = "nothing was left behind" if not tally.leftovers else f"{tally.leftovers} left files"
    lost = ""
    if tally.lost:
        lost = (
            f" In {len(tally.lost)} of the killed runs a checkpoint had been written; the newest "
            f"one was at most {max(tally.lost):.1f} seconds old by the clock when the process was "
            "killed."
        )
    if tally.lost_work:
        lost += (
            f" So a kill lost at most {max(tally.lost_work):.1f} seconds of processor time. "
            f"(A checkpoint is due every {tally.interval:g} seconds by the clock, and other "
            "programs used the processor too.)"
        )
    return _filled(f"{what}{ended}, and {left}.{lost}")


def _worker_words(found: dict) -> str:
    same = "The members were the same." if found["same_members"] else "The members differed."
    return _filled(
        f"`python -m benchmarks.scale` trains {found['members']} members in "
        f"{found['here_seconds']:.1f} s on one core of this process, in "
        f"{found['one_worker_seconds']:.1f} s on one worker of Ray with one core, and in "
        f"{found['two_workers_seconds']:.1f} s on two workers, which is "
        f"{found['share_of_ideal']:.0%} of twice the speed of one. Ray's overhead was "
        f"{found['overhead_seconds']:.1f} s, and Ray itself took "
        f"{found['ray_starts_in_seconds']:.1f} s to start. {same}"
    )


def on_paper(fits: dict) -> str:
    """The section of what nobody measured, by the measured costs."""
    most = max((fit for fit in fits["fits"] if fit["streamed"]), key=lambda fit: fit["rows"])
    row_bytes, members, batch = (
        memory.bytes_of_a_row(fits),
        most["members"],
        most["batch_size"],
    )
    pace, reading = most["trained_rows_a_second"] * members, most["read_rows_a_second"]
    training = STEPS * batch * MEMBERS / (pace * WORKERS)
    chunks = MEMBERS / members / WORKERS
    pages = STEPS * batch * 4_096 * chunks
    hours, held = ROWS / reading / 3_600, ROWS * row_bytes
    code = f"""```python
steps, batch, members, workers, rows = {STEPS:_}, {batch:_}, {MEMBERS:_}, {WORKERS}, {ROWS:_}
pace = {pace:_.0f}  # rows that a core trains on in a second, times members: measured
reading = {reading:_.0f}  # rows that a core reads and encodes in a second: measured
training = steps * batch * members / (pace * workers)
pages = steps * batch * 4_096 * members / {members} / workers  # every row is on a page of its own
print(f"training {{training:,.0f}} s, reads {{pages / 1e9:,.0f}} GB a worker")
encoding, held = rows / reading / 3_600, rows * {row_bytes} / 1e9
print(f"encoding {{encoding:.1f}} h, targets and order {{held:,.0f}} GB")
```"""
    bottleneck = "Encoding is the bottleneck" if hours * 3_600 > training else "Training is longest"
    words = (
        f"- **Training** takes {training:.0f} seconds: each step sees {batch:,} rows whatever "
        f"the number of rows, so {STEPS:,} steps see {100 * STEPS * batch / ROWS:.0f} % of them.",
        f"- **Reads** are {pages / 1e9:,.0f} GB for each worker (one page for each row, in the "
        f"order of the file): {pages / 5e8 / 60:.0f} minutes at 500 MB/s.",
        f"- **{bottleneck}.** Encoding runs in one process on the driver. At {reading:,.0f} rows a "
        f"second it takes {hours:.1f} hours, and the driver holds at most {held / 1e9:,.0f} GB "
        "of targets and row order in memory. To go faster, each worker would have to encode its "
        "own files, which is not built yet.",
    )
    bullets = "\n".join(textwrap.fill(w, 100, subsequent_indent="  ") for w in words)
    return (
        "## On paper: 1,000 members, 10^9 rows, 100 workers\n\n"
        "This was not measured; it is computed from the measurements above.\n\n"
        + code
        + "\n\n"
        + bullets
        + "\n"
    )


def sections() -> tuple[str, str]:
    """Both sections; what was not measured yet is left out."""
    fits, bytes_, killed, workers = (
        json.loads(module.RECORD.read_text()) if module.RECORD.exists() else {}
        for module in (large_fits, memory, faults, scale)
    )
    return measured(fits, bytes_, killed, workers), on_paper(fits)


def page(text: str) -> str:
    for made in sections():
        text = with_section(text, made)
    return text


def main() -> None:
    for made in sections():
        write_section(PAGE, made)


if __name__ == "__main__":
    main()
