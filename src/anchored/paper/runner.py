"""Runs an experiment cell by cell and keeps a record from which its picture is drawn.

An experiment is a plan of independent cells, a function that combines their results into
numbers, and functions that read the record alone: findings, tables, picture. Finished cells
are files, so a run that was interrupted goes on where it stopped.
"""

import dataclasses
import hashlib
import json
import math
import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from anchored._files import make_folder, write_whole

SCHEMA = 1
PRESETS = ("smoke", "paper")  # that every experiment has
_PACKAGES = ("anchored", "jax", "numpy", "scipy", "optax", "blackjax", "scikit-learn")
_DIGITS = 6  # significant digits of the numbers in a record


class Cell(NamedTuple):
    """A piece of an experiment that can be computed on its own."""

    label: str  # unique in the plan, e.g. "relu/vi"
    cost: float  # relative to the other cells: for the time left
    compute: Callable[[], dict]


class Table(NamedTuple):
    """Text cells, for the page and the terminal."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Context(NamedTuple):
    """What a plan needs beside its settings."""

    seed: int
    data_dir: str | Path | None


Record = dict[str, Any]
OnCell = Callable[[str, float, float], None]  # label, cost done so far, cost of all


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One artefact of the paper: how to compute it, read it and draw it.

    Attributes
    ----------
    name, figure, title : of the command, in the paper, and in words.
    claim : what the paper says it shows.
    needs : data or extras beyond a plain install, at the ``paper`` preset.
    presets : settings, a frozen dataclass, for each name of `PRESETS` and perhaps others.
    seconds : measured on two cores, for each preset.
    plan : (settings, context) -> cells.
    combine : (settings, results by label) -> numbers.
    findings, tables : (record) -> sentences and tables with our numbers.
    draw : (matplotlib figure, record) -> None.
    size : of the picture, in inches.
    """

    name: str
    figure: str
    title: str
    claim: str
    presets: Mapping[str, Any]
    seconds: Mapping[str, float]
    plan: Callable[[Any, Context], list[Cell]]
    combine: Callable[[Any, Mapping[str, dict]], dict]
    findings: Callable[[Record], list[str]]
    draw: Callable[[Any, Record], None]
    size: tuple[float, float]
    tables: Callable[[Record], list[Table]] = lambda record: []
    needs: tuple[str, ...] = ()


def run(
    experiment: Experiment, preset: str, context: Context, folder: Path, on_cell: OnCell
) -> Record:
    """Compute all cells not yet in ``folder``, combine them, write the record and return it."""
    settings = experiment.presets[preset]
    stamp = _stamp(experiment, settings, context.seed)
    store = folder / f".{experiment.name}-{stamp}"
    for stale in set(folder.glob(f".{experiment.name}-*")) - {store}:
        shutil.rmtree(stale, ignore_errors=True)
    make_folder(store)
    plan = experiment.plan(settings, context)
    total, done, results = sum(cell.cost for cell in plan), 0.0, {}
    for cell in plan:
        on_cell(cell.label, done, total)
        results[cell.label] = _finished(store, cell) or _compute(store, cell)
        done += cell.cost
    on_cell("", total, total)
    record = {
        "schema": SCHEMA,
        "name": experiment.name,
        "preset": preset,
        "seed": context.seed,
        "settings": dataclasses.asdict(settings),
        "versions": versions(),
        "seconds": sum(result["seconds"] for result in results.values()),
        "numbers": experiment.combine(settings, results),
    }
    record = tell(experiment, plain(record), folder)
    shutil.rmtree(store, ignore_errors=True)
    return record


def tell(experiment: Experiment, record: Record, folder: Path) -> Record:
    """Write a record with its findings and tables told anew from its numbers, and return it."""
    told = record | {
        "title": experiment.title,
        "figure": experiment.figure,
        "claim": experiment.claim,
        "findings": experiment.findings(record),
        "tables": plain([table._asdict() for table in experiment.tables(record)]),
    }
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for key, value in told.items()
    ]  # a line for each key: readable, and small beside an indented file
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    write_whole(record_path(folder, experiment.name), text.encode())
    return told


def load(folder: Path, name: str) -> Record:
    """The record written by an earlier run."""
    record = json.loads(record_path(folder, name).read_text(encoding="utf-8"))
    if record.get("schema") != SCHEMA:
        raise ValueError(
            f"it is of schema {record.get('schema')}, this version reads {SCHEMA}; run it again"
        )
    return record


def record_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def plain(value: Any) -> Any:
    """JSON's types only: arrays become lists, floats keep six digits, nan becomes None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def number(value: float | None, spec: str) -> str:
    """A number of a record as text; what was not finite is None there."""
    return "not finite" if value is None else format(value, spec)


def _finished(store: Path, cell: Cell) -> dict | None:
    try:
        return json.loads(_cell_path(store, cell).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, or spoiled: compute it again
        return None


def _compute(store: Path, cell: Cell) -> dict:
    started = time.perf_counter()
    result = plain(cell.compute())
    result["seconds"] = plain(time.perf_counter() - started)
    write_whole(_cell_path(store, cell), json.dumps(result, allow_nan=False).encode())
    return result


def _cell_path(store: Path, cell: Cell) -> Path:
    return store / f"{quote(cell.label, safe='')}.json"


def _stamp(experiment: Experiment, settings: Any, seed: int) -> str:
    """A short code of all that the cells depend on, the library's own source included."""
    what = [experiment.name, seed, dataclasses.asdict(settings), versions()]
    code = hashlib.sha256(json.dumps(what, sort_keys=True).encode())
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        code.update(source.read_bytes())
    return code.hexdigest()[:12]


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
