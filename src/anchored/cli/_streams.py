"""Tables larger than a third of memory: the plan of a sample, carried out on all rows."""

import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anchored.tables.plan import Plan, make_plan
from anchored.tables.streams import Stream, check_target, encoded


def large_stream(tables: list[str]) -> Stream | None:
    """A stream of Parquet files if they are several or too large to read; None otherwise."""
    several = len(tables) > 1 or Path(tables[0]).is_dir() or "*" in tables[0]
    if not several and not tables[0].lower().endswith((".parquet", ".pq")):
        return None
    if not several and not Path(tables[0]).is_file():
        return None
    stream = Stream.of(tables)
    return stream if several or stream.is_large else None


@contextmanager
def stream_plan(stream: Stream, target: str, task: str | None, keep, seed: int) -> Iterator[Plan]:
    """The plan of all rows; a sample of them decides, and has the rows to test on."""
    check_target(stream, target)
    if not stream.is_large:
        yield make_plan(stream.whole(), target, task=task, keep=keep, seed=seed)
        return
    sample = stream.sample(seed=seed)
    plan = make_plan(sample, target, task=task, keep=keep, seed=seed)
    with tempfile.TemporaryDirectory(prefix="anchored-") as folder:
        path = Path(folder) / "features.float32"
        rows = encoded(stream, target, plan.encoder, plan.task, path, plan.test_rows - 1)
        note = f"The table is larger than memory: {len(sample):,} rows decide how columns are read."
        yield dataclasses.replace(
            plan,
            inputs=rows,
            y=rows.y,
            n_dropped=rows.n_dropped,
            notes=(note, *plan.notes),
        )
