"""Runs an experiment cell by cell, and keeps one record from which everything else is made.

An experiment is a plan of independent cells, and functions that read only the record: findings,
tables, picture. The record of every experiment has the same fields (`SCHEMA`), and is the file
``<folder>/<preset>/<name>.json``. Finished cells are kept as they come, so a run that was
interrupted continues where it stopped. There are two kinds:

- A figure has `Experiment.combine`, which makes the record's numbers from the results of all
  cells. The cells of an unfinished run are used again if nothing they depend on has changed, the
  library's source included.
- A table of many data sets, methods and splits has no `combine`. Its numbers are the results by
  label, and later runs add to them, even if another version made the earlier ones. A label is
  ``"<group>/..."``; the record keeps the settings of each group. If the settings of a group have
  changed, its cells are computed again. The record's versions and cores are those of the last run.

To add one: write its entry in ``catalogue.toml``, and a module below ``figures`` or ``tables`` with
a frozen dataclass of settings, those of the paper; ``plan``, which gives the cells; and
``EXPERIMENT``. Cells that leave cores idle name their program, and
``--jobs`` of them are computed at a time. A table lists the options it takes
(``datasets``, ``methods``, ``splits``, ``again``, ``jobs``, ``settings``), finds them in the
`Context`, and checks the names with `chosen`.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import platform
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anchored._files import make_folder, write_whole
from anchored._json import Fields, parsed
from anchored.core.members import n_cores
from anchored.errors import unknown_name
from anchored.paper.catalogue import About

SCHEMA = 2
_PACKAGES = ("anchored", "jax", "numpy", "scipy", "optax", "blackjax", "scikit-learn")
_DIGITS = 6  # significant digits of the numbers in a record


class Cell(NamedTuple):
    """A piece of an experiment that can be computed on its own."""

    label: str  # unique in the plan, e.g. "relu/vi"
    cost: float  # relative to the other cells: for the time left
    compute: Callable[[], dict]
    program: str | None = None  # what the cells next to it share if they leave cores idle
    settings: Any = None  # of its group, where the record keeps the cells


class Table(NamedTuple):
    """Text cells, for the page and the terminal."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Context(NamedTuple):
    """What a plan needs in addition to its settings; None leaves a choice to the preset."""

    seed: int
    data_dir: str | Path | None
    datasets: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    splits: int | None = None
    settings: Path | None = None  # file, or folder of files, of `anchored tune`
    again: bool = False  # compute what the record has already
    folder: Path | None = None  # of the record; a cell may keep there what it has done so far


Record = dict[str, Any]
OnCell = Callable[[str, float, float], None]  # label, cost done so far, cost of all


@dataclasses.dataclass(frozen=True)
class Experiment:
    """How one figure or table of the paper is computed, read and drawn.

    Attributes
    ----------
    about : its entry of the catalogue.
    presets : settings, a frozen dataclass, for each preset that the entry has seconds of.
    plan : (settings, context) -> cells.
    combine : (settings, results by label) -> numbers; None: they are the results themselves.
    findings, tables : (record) -> sentences and tables with our numbers.
    draw : (matplotlib figure, record) -> None; None: there is no picture.
    size : of the picture, in inches.
    options : of the command, that the plan heeds.
    """

    about: About
    presets: Mapping[str, Any]
    plan: Callable[[Any, Context], list[Cell]]
    combine: Callable[[Any, Mapping[str, dict]], dict] | None
    findings: Callable[[Record], list[str]]
    tables: Callable[[Record], list[Table]]
    draw: Callable[[Any, Record], None] | None = None
    size: tuple[float, float] = (8.0, 5.0)
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.about.name


def run(
    experiment: Experiment,
    preset: str,
    context: Context,
    folder: Path,
    on_cell: OnCell,
    jobs: int = 1,
) -> Record:
    """Compute all cells not yet in ``folder``, ``jobs`` at a time, write the record, return it."""
    settings = experiment.presets[preset]
    plan = experiment.plan(settings, context._replace(folder=folder))
    make_folder(folder)
    head = {
        "schema": SCHEMA,
        "name": experiment.name,
        "preset": preset,
        "seed": context.seed,
        "settings": plain(settings),
        "versions": versions(),
        "cores": n_cores(),
    }
    if experiment.combine is None:
        return _grow(experiment, head, plan, folder, on_cell, jobs, context.again)
    draft = folder / f".{experiment.name}-{_stamp(head)}.json"
    for stale in set(folder.glob(f".{experiment.name}-*.json")) - {draft}:
        stale.unlink(missing_ok=True)
    results = _compute(
        plan, _drafted(draft), jobs, on_cell, lambda done: _write(draft, head | {"numbers": done})
    )
    numbers = plain(experiment.combine(settings, results))
    record = tell(experiment, head | {"seconds": _seconds(results), "numbers": numbers}, folder)
    draft.unlink(missing_ok=True)
    return record


def _drafted(draft: Path) -> dict[str, dict]:
    """The results of an unfinished run; none if there was no such run or its file is spoiled."""
    try:
        return Fields(parsed(draft.read_bytes())).plain_object("numbers")
    except (OSError, ValueError):
        return {}


def _grow(
    experiment: Experiment,
    head: Record,
    plan: Sequence[Cell],
    folder: Path,
    on_cell: OnCell,
    jobs: int,
    again: bool,
) -> Record:
    """Add the plan's cells to the record in ``folder``, which is whole after each of them."""
    settings = {_group(cell.label): plain(cell.settings) for cell in plan}
    found: Record = {"settings": {}, "numbers": {}}
    if record_path(folder, experiment.name).exists():
        found = load(folder, experiment.name)
        if found["seed"] != head["seed"]:
            raise ValueError(
                f"the record of {experiment.name} in {folder} has seed {found['seed']}; use "
                f"another --out for seed {head['seed']}."
            )
    known = found["settings"]
    outdated = {group for group in settings if known.get(group, settings[group]) != settings[group]}
    redone = {cell.label for cell in plan} if again else set()
    kept = {
        label: result
        for label, result in found["numbers"].items()
        if _group(label) not in outdated and label not in redone
    }
    head = head | {"settings": dict(sorted((known | settings).items()))}

    def save(results: dict[str, dict]) -> Record:
        numbers = {label: results[label] for label in sorted(results, key=_in_order)}
        return tell(experiment, head | {"seconds": _seconds(numbers), "numbers": numbers}, folder)

    return save(_compute(plan, kept, jobs, on_cell, save))


def _compute(
    plan: Sequence[Cell],
    results: dict[str, dict],
    jobs: int,
    on_cell: OnCell,
    save: Callable[[dict[str, dict]], Any],
) -> dict[str, dict]:
    """Results of all cells, those of the plan that were missing among them."""
    results, total = dict(results), sum(cell.cost for cell in plan)
    missing = [cell for cell in plan if cell.label not in results]

    def show() -> None:
        left = [cell for cell in missing if cell.label not in results]
        on_cell(left[0].label if left else "", total - sum(cell.cost for cell in left), total)

    show()
    # Closed at once if we are interrupted: no other cell is then begun.
    with closing(_computed(missing, jobs)) as computed:
        for cell, result in computed:
            results[cell.label] = result
            save(results)
            show()
    return results


def _computed(cells: Iterable[Cell], jobs: int) -> Generator[tuple[Cell, dict], None, None]:
    """Each cell with its result, as it is done."""
    for _, group in itertools.groupby(cells, key=lambda cell: cell.program or cell.label):
        # The first alone: the others then find its programs compiled.
        first, *others = group
        yield first, _timed(first, 1)
        if others:
            yield from _side_by_side(others, min(jobs, len(others)))


def _side_by_side(
    cells: Sequence[Cell], n_workers: int
) -> Generator[tuple[Cell, dict], None, None]:
    error = None
    with ThreadPoolExecutor(n_workers) as pool:
        waiting: dict[Future, Cell] = {pool.submit(_timed, c, n_workers): c for c in cells}
        try:
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    cell = waiting.pop(future)
                    if future.exception() is None:
                        yield cell, future.result()
                        continue
                    # Begin no other, but keep those under way.
                    error = error or future.exception()
                    waiting = {f: c for f, c in waiting.items() if not f.cancel()}
        finally:
            for future in waiting:
                future.cancel()
    if error is not None:
        raise error


def _timed(cell: Cell, n_side_by_side: int) -> dict:
    """The result and its share of the clock: cells side by side count once together."""
    started = time.perf_counter()
    result = plain(cell.compute())
    seconds = (time.perf_counter() - started) / n_side_by_side
    return result | {"seconds": plain(seconds)}


def tell(experiment: Experiment, record: Record, folder: Path) -> Record:
    """Write a record, with findings and tables made again from its numbers, and return it."""
    told = record | {
        "title": experiment.about.title,
        "figure": experiment.about.figure,
        "claim": experiment.about.claim,
        "findings": experiment.findings(record),
        "tables": plain([table._asdict() for table in experiment.tables(record)]),
    }
    _write(record_path(folder, experiment.name), told)
    return told


def load(folder: Path, name: str) -> Record:
    """The record written by an earlier run."""
    record = parsed(record_path(folder, name).read_bytes())
    fields = Fields(record)
    schema = fields.take("schema")
    if schema != SCHEMA:
        raise ValueError(f"it has schema {schema}, but this version reads {SCHEMA}; run it again")
    for field in ("name", "preset"):
        fields.text(field)
    fields.whole("seed")
    fields.plain_object("settings")
    fields.plain_object("numbers")
    return record


def record_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _write(path: Path, record: Record) -> None:
    """A line for each field and each number: readable, and small beside an indented file."""

    def text(value: Any) -> str:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)

    parts = {field: text(value) for field, value in record.items()}
    entries = [f"{text(label)}: {text(value)}" for label, value in record["numbers"].items()]
    parts["numbers"] = "{\n" + ",\n".join(entries) + "\n}"
    lines = ",\n".join(f"{text(field)}: {value}" for field, value in parts.items())
    write_whole(path, f"{{\n{lines}\n}}\n".encode())


def chosen(
    option: str, names: Sequence[str] | None, known: Iterable[str], otherwise: Iterable[str]
) -> list[str]:
    """The names given with an option of the command, each once and checked, or ``otherwise``."""
    if names is None:
        return list(otherwise)
    if not names:
        raise ValueError(f"--{option} must name at least one of {', '.join(known)}.")
    for name in names:
        if name not in known:
            raise ValueError(str(unknown_name(f"--{option}", name, known)).replace("`", ""))
    return list(dict.fromkeys(names))


def plain(value: Any) -> Any:
    """JSON's types only: arrays become lists, floats keep six digits, nan becomes None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the mean of some values; None for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _group(label: str) -> str:
    return label.partition("/")[0]


def _in_order(label: str) -> list[tuple[int, str]]:
    """Sorts the numbers in labels as numbers."""
    return [(int(part) if part.isdecimal() else -1, part) for part in label.split("/")]


def _seconds(results: Mapping[str, dict]) -> float:
    """Seconds of all cells; a cell that was not timed has null."""
    return plain(sum((result["seconds"] or 0.0 for result in results.values()), 0.0))


def _stamp(head: Record) -> str:
    """A short code of all that the cells depend on, the library's own source included."""
    code = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    return hashlib.sha256(code.digest() + _source_digest()).hexdigest()[:12]


@functools.cache
def _source_digest() -> bytes:
    """Digest of the source when first asked for, which is what this process runs."""
    code = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*")):
        if source.suffix in (".py", ".toml"):
            code.update(source.read_bytes())
    return code.digest()


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
