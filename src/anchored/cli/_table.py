"""``anchored reproduce table-uci``: run the UCI benchmark and print its scores."""

import math
from pathlib import Path
from typing import Any

import typer

from anchored.cli._common import fail, make_folder, stop_for_now
from anchored.errors import MissingDataError, unknown_name

NAME = "table-uci"
SMOKE = ("boston", "yacht")  # data sets of the smoke preset
_SCORES = {
    "rmse": "RMSE",
    "nll": "NLL, Gaussian",
    "nll_student_t": "NLL, Student-t",
    "crps": "CRPS",
    "coverage_90": "90 % covers",
    "calibration_error": "calib. error",
    "seconds": "s a split",
}


def run_table(
    preset: str,
    seed: int,
    out: Path,
    data_dir: Path | None,
    datasets: str | None,
    methods: str | None,
    splits: int | None,
    jobs: int | None,
    settings: Path | None,
) -> None:
    """Everything behind the command; lists come as text, parted by commas."""
    from anchored.core.members import n_cores
    from anchored.datasets.registry import TABLES
    from anchored.paper.tables.uci import benchmark
    from anchored.paper.tables.uci.methods import METHODS, OUTSIDERS

    if preset not in benchmark.PRESETS:
        fail(f"--preset must be one of {', '.join(benchmark.PRESETS)} for {NAME}; got {preset!r}.")
    if settings is not None and preset != "paper":
        fail("--settings takes the place of the paper's hyperparameters: use --preset paper.")
    smoke = preset == "smoke"
    # Outsiders need packages of their own: they run when asked for.
    chosen_methods = _chosen(
        "--methods", methods, METHODS[preset], [m for m in METHODS[preset] if m not in OUTSIDERS]
    )
    chosen_data = _chosen("--datasets", datasets, TABLES, SMOKE if smoke else list(TABLES))
    n_splits = splits or (1 if smoke else max(table.n_splits for table in TABLES.values()))
    plan = [
        benchmark.Job(
            benchmark.TUNED if settings else preset,
            name,
            method,
            tuple(range(min(n_splits, TABLES[name].n_splits))),
            _settings_file(settings, name) if settings else benchmark.settings_of(preset, name),
            seed,
        )
        for name in chosen_data
        for method in chosen_methods
    ]
    if "single-50" in chosen_methods and any(job.settings.single_var is None for job in plan):
        fail("--settings: single-50 needs `single_var`; finish `anchored tune`, or leave it out.")
    folder = out / NAME
    make_folder(folder)
    records = _run(plan, folder, data_dir, jobs or n_cores())
    _print_scores(records)
    typer.echo(f"Records: {folder / plan[0].preset}")


def _chosen(option: str, text: str | None, known, otherwise) -> list[str]:
    """Names of a list like ``boston,yacht``, each checked."""
    if text is None:
        return list(otherwise)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            fail(str(unknown_name(option, name, known)).replace("`", ""))
    if not names:
        fail(f"{option} must name at least one of {', '.join(known)}.")
    return list(dict.fromkeys(names))


def _settings_file(path: Path, name: str):
    from anchored.tuning import Settings

    file = path / f"{name}.json" if path.is_dir() else path
    try:
        return Settings.load(file)
    except OSError as error:
        fail(f"--settings: cannot read {file}: {error.strerror}. Make it with `anchored tune`.")
    except ValueError as error:
        fail(f"--settings: {error}")


def _run(plan, folder: Path, data_dir: Path | None, jobs: int) -> list[dict[str, Any]]:
    from anchored.estimators.progress import cell_bar
    from anchored.paper.tables.uci import benchmark

    try:
        with cell_bar(NAME) as on_split:
            return benchmark.run(plan, folder, data_dir, jobs, on_split)
    except KeyboardInterrupt:
        stop_for_now(folder, "splits")
    except (MissingDataError, ModuleNotFoundError, ValueError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot write to {folder}: {error.strerror}.")


def _print_scores(records: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from anchored.paper.pages import Results

    results = Results(records)
    table = Table("data", "method", *_SCORES.values(), "splits")
    for record in records:
        named = record["preset"], record["method"], record["dataset"]
        cells = [_cell(results.score(*named, score)) for score in _SCORES]
        n_failed = sum("failed" in split for split in record["splits"].values())
        n_splits = f"{len(record['splits'])}" + (f", {n_failed} failed" if n_failed else "")
        table.add_row(record["dataset"], record["method"], *cells, n_splits)
    Console().print(table)


def _cell(score) -> str:
    if score is None:
        return "-"
    if score.mean == math.inf:
        return "not finite"
    text = f"{score.mean:.3g}" if abs(score.mean) < 0.01 else f"{score.mean:.3f}"
    return text if score.error is None else f"{text} ± {score.error:.2g}"
