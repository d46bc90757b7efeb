"""Tables that nothing was tuned to, through the command line alone: coverage and seconds.

Each table is fitted by ``anchored fit TABLE --target COL`` with no other option that changes the
fit, and its 90 % intervals are checked on rows the command never saw: for made-up tables 4,000
fresh rows, for the bundled one the rows that each of five seeds sets aside.

    python -m benchmarks.own_tables          # runs, writes the record and the page
    python -m benchmarks.own_tables --page   # the page from the record
"""

import csv
import dataclasses
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from anchored._files import write_whole
from anchored.paper import runner
from anchored.paper.catalogue import About
from anchored.paper.prose import table

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER, PAGE = DOCS / "benchmarks" / "defaults", DOCS / "own_tables.md"
N_FRESH = 4_000
N_SEEDS = 5
_TOP = """# Tables without tuning

Made from a record by `python -m benchmarks.own_tables`; do not edit.

Each table was fitted by `anchored fit TABLE --target COL` without other options, and no default
was chosen on it. Its {level} intervals were then checked on rows that the command had not seen:
4,000 new rows of each made-up table, and for the bundled table the test rows of five seeds.
Chance alone moves the share by 0.5 points for 4,000 rows, and by 1.4 points for 445. Seconds are
for the whole command, including start-up and report, on two cores.

"""
Columns = dict[str, list[str]]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is asked of the intervals."""

    nominal: float = 0.9


def _text(values: np.ndarray, digits: int = 4) -> list[str]:
    return [f"{value:.{digits}f}" for value in values]


def _with_gaps(rng, columns: Columns, share: float = 0.2) -> Columns:
    """A fifth of the cells go missing, of the inputs alone."""
    return {
        name: [
            "" if gone else cell
            for cell, gone in zip(cells, rng.uniform(size=len(cells)) < share, strict=True)
        ]
        for name, cells in columns.items()
    }


def rentals(rng, n: int) -> Columns:
    """Categories, a yes/no, dates; the noise grows with the price; a fifth of cells missing."""
    size, town, day = rng.gamma(4, 18, n), rng.integers(12, size=n), rng.integers(0, 1500, n)
    furnished = rng.uniform(size=n) < 0.3
    level = 6 * size + 25 * town + 120 * furnished + 40 * np.sin(2 * np.pi * day / 365.25)
    price = 300 + level + 0.1 * level * rng.normal(size=n)
    inputs = {
        "size": _text(size, 1),
        "town": [f"town {chr(65 + t)}" for t in town],
        "furnished": ["yes" if f else "no" for f in furnished],
        "listed": [str(np.datetime64("2019-03-01") + d) for d in day],
        "floor": [str(f) for f in rng.integers(0, 9, n)],
    }
    return _with_gaps(rng, inputs) | {"rent": _text(price, 2)}


def sensors(rng, n: int) -> Columns:
    """Twenty numbers of which five matter, noise with heavy tails, a fifth of cells missing."""
    x = rng.uniform(size=(n, 20))
    signal = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    y = signal + 10 * x[:, 3] + 5 * x[:, 4] + 1.5 * rng.standard_t(4, n)
    inputs = {f"sensor_{i:02d}": _text(x[:, i]) for i in range(20)}
    return _with_gaps(rng, inputs) | {"yield": _text(y)}


def claims(rng, n: int) -> Columns:
    """A long-tailed target of few columns, two of them categories."""
    age, region, kind = rng.uniform(18, 90, n), rng.integers(5, size=n), rng.integers(3, size=n)
    mean = 6 + 0.01 * age + 0.3 * (kind == 2) + 0.1 * region
    return {
        "age": _text(age, 0),
        "region": [["north", "south", "east", "west", "centre"][r] for r in region],
        "kind": [["car", "home", "travel"][k] for k in kind],
        "amount": _text(np.exp(mean + 0.6 * rng.normal(size=n)), 2),
    }


def visits(rng, n: int) -> Columns:
    """Counts by weekday, month and holiday: a target of small whole numbers."""
    day = rng.integers(0, 2000, n)
    dates = np.datetime64("2015-01-01") + day
    weekday = (day + 3) % 7
    holiday = rng.uniform(size=n) < 0.08
    rate = np.exp(3 + 0.3 * np.cos(2 * np.pi * day / 365.25) + 0.4 * (weekday >= 5) - 0.8 * holiday)
    return {
        "date": [str(d) for d in dates],
        "holiday": ["true" if h else "false" for h in holiday],
        "rain_mm": _text(rng.exponential(2, n), 1),
        "visitors": [str(k) for k in rng.poisson(rate)],
    }


MADE_UP: dict[str, tuple[Callable, int, str]] = {
    "rentals": (rentals, 2_000, "rent"),
    "sensors": (sensors, 10_000, "yield"),
    "claims": (claims, 1_500, "amount"),
    "visits": (visits, 800, "visitors"),
}


def _write(path: Path, columns: Columns) -> None:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    path.write_text(out.getvalue())


def _anchored(*arguments: str) -> str:
    command = [sys.executable, "-c", "from anchored.cli import app; app()", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _made_up(name: str, folder: Path) -> dict:
    make, n_rows, target = MADE_UP[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    train, fresh = folder / f"{name}.csv", folder / f"{name}-fresh.csv"
    columns, new = make(rng, n_rows), make(rng, N_FRESH)
    _write(train, columns)
    _write(fresh, new)
    out = folder / name
    started = time.perf_counter()
    record = json.loads(
        _anchored("fit", str(train), "--target", target, "--out", str(out), "--json")
    )
    seconds = time.perf_counter() - started
    text = _anchored("predict", str(out / "model.safetensors"), str(fresh))
    rows = list(csv.DictReader(io.StringIO(text)))
    y = np.array(new[target], float)
    lower, upper = (np.array([float(r[end]) for r in rows]) for end in ("lower", "upper"))
    return {
        "about": (make.__doc__ or "").strip(),
        "rows": n_rows,
        "columns": len(columns) - 1,
        "fit_seconds": seconds,
        "checked_rows": N_FRESH,
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "own_coverage": record["scores"]["coverage"],
        "r2": record["scores"]["r2"],
    }


def _bundled(name: str, folder: Path) -> dict:
    records, seconds = [], []
    for seed in range(N_SEEDS):
        started = time.perf_counter()
        out = folder / f"{name}-{seed}"
        text = _anchored("fit", name, "--seed", str(seed), "--out", str(out), "--json")
        seconds.append(time.perf_counter() - started)
        records.append(json.loads(text))
    covered = [record["scores"]["coverage"] for record in records]
    first = records[0]
    return {
        "about": f"Bundled with scikit-learn; the test rows of {N_SEEDS} seeds.",
        "rows": first["rows"]["train"] + first["rows"]["test"],
        "columns": len(first["columns"]["used"]),
        "fit_seconds": float(np.mean(seconds)),
        "checked_rows": N_SEEDS * first["rows"]["test"],
        "coverage": float(np.mean(covered)),
        "own_coverage": float(np.mean(covered)),
        "r2": float(np.mean([record["scores"]["r2"] for record in records])),
    }


def plan(s: Settings, context: runner.Context) -> list[runner.Cell]:
    bundled = runner.Cell("diabetes", N_SEEDS, partial(_in_a_folder, _bundled, "diabetes"))
    return [
        bundled,
        *(runner.Cell(name, 1.0, partial(_in_a_folder, _made_up, name)) for name in MADE_UP),
    ]


def _in_a_folder(fit: Callable[[str, Path], dict], name: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        return fit(name, Path(folder))


def tables(record: runner.Record) -> list[runner.Table]:
    rows = [
        (
            name,
            f"{entry['rows']:,}",
            str(entry["columns"]),
            f"{entry['coverage']:.1%}",
            f"{entry['r2']:.2f}",
            f"{entry['fit_seconds']:.0f}",
            entry["about"],
        )
        for name, entry in record["numbers"].items()
    ]
    header = ("table", "rows", "columns", "covered", "R2", "seconds", "what it is")
    return [runner.Table("Tables nobody tuned to", header, rows)]


EXPERIMENT = runner.Experiment(
    About(
        "own-tables",
        "beside the paper",
        "Tables nobody tuned to",
        "Intervals cover what they promise without tuning.",
        {"defaults": 300},
    ),
    {"defaults": Settings()},
    plan,
    combine=lambda s, results: dict(results),
    findings=lambda record: [],
    tables=tables,
)


def page() -> str:
    record = runner.load(FOLDER, "own-tables")
    (shown,) = record["tables"]
    top = _TOP.format(level=f"{record['settings']['nominal']:.0%}")
    return top + table(shown["header"], shown["rows"]) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--page"]:
        context = runner.Context(0, None)
        runner.run(EXPERIMENT, "defaults", context, FOLDER, lambda label, *_: print(label))
    write_whole(PAGE, page().encode())
