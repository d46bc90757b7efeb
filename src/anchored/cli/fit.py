"""``anchored fit``: from a table to a model with error bars, a report and scores."""

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from anchored.cli import _inputs
from anchored.cli._common import (
    INTERRUPTED,
    check_coverage,
    fail,
    make_folder,
    table_errors,
    writing_together,
)
from anchored.cli._inputs import Group, Hidden, Keep, Members, RandomState, Target, Time
from anchored.errors import shown

# Test rows that go into the model's file, so that `anchored report MODEL` has something to show.
_KEPT_ROWS = 2_000
_CHECKPOINT = ".checkpoint"  # folder beside the files, until they are written
FILES = {"model": "model.safetensors", "report": "report.html", "metrics": "metrics.json"}


def fit(
    table: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE",
            help="CSV (also gzipped) or Parquet file, several Parquet files or a folder of them, "
            f"- for standard input, or a bundled table: {', '.join(_inputs.BUNDLED)}.",
        ),
    ],
    target: Target = None,
    task: Annotated[
        str | None,
        typer.Option(help="regression or classification; by default the target decides."),
    ] = None,
    n_members: Members = 10,
    hidden: Hidden = None,
    method: Annotated[
        str,
        typer.Option(help="rms, anchored, random-features, regularised, unconstrained or deep."),
    ] = "rms",
    target_scale: Annotated[
        str, typer.Option(help="Scale of a regression target: auto, linear or log.")
    ] = "auto",
    settings: Annotated[
        Path | None, typer.Option(help="Settings file that `anchored tune` wrote.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(min=1, help="Limit on the training time, in seconds.")
    ] = None,
    coverage: Annotated[
        float, typer.Option(help="Share of targets that intervals should contain.")
    ] = 0.9,
    group: Group = None,
    order: Time = None,
    keep: Keep = None,
    random_state: RandomState = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for model, report and scores; by default named after TABLE."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(help="Continue from the checkpoint of a run that was stopped."),
    ] = True,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Folder or URL (file, s3, gs, ...) for checkpoints; by default in the folder of "
            "the model. With --executor it must be one that all workers share."
        ),
    ] = None,
    executor: Annotated[
        str | None, typer.Option(help="Where the members are trained: ray, or ray://host:port.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(help="Print the memory, time and steps that the fit would need, and stop."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Fit a table: predictions with error bars, checked on rows set aside, and a report."""
    check_coverage(coverage)
    parameters = {
        "n_members": n_members,
        "method": method,
        "max_seconds": max_seconds,
        "executor": executor,
        "random_state": random_state,
        "verbose": int(not as_json),
        **({"hidden": _inputs.widths(hidden)} if hidden else {}),
        **({"settings": _read_settings(settings)} if settings else {}),
        **({"target_scale": target_scale} if target_scale != "auto" else {}),
    }
    out = out or Path(f"{_inputs.stem(table[0])}-model")
    how = {"task": task, "group": group, "order": order, "seed": random_state}
    with _planned(table, target, **how, keep=_inputs.names_of(keep)) as plan:
        _check_method(method, settings, plan)
        _check_scale(target_scale, plan)
        if dry_run:
            folder = {"checkpoint": checkpoint or out / _CHECKPOINT}
            _say_dry_run(table[0], plan, parameters | folder, as_json)
        else:
            make_folder(out, clean=True)
            place = _place(checkpoint or out / _CHECKPOINT, resume)
            _carry_out(table[0], plan, parameters, out, place, coverage, as_json)


@contextmanager
def _planned(tables: list[str], target: str | None, **how) -> Iterator[Any]:
    """What to do with a table, or with files larger than memory."""
    from anchored.cli import _streams
    from anchored.tables.plan import make_plan

    name = tables[0]
    with table_errors(name):
        stream = _streams.large_stream(tables)
    if stream is None:
        content, target = _inputs.read_input(name, target)
        with table_errors(name):
            plan = make_plan(content, target, **how)
        yield plan
        return
    given = [f"--{option}" for option in ("group", "order") if how.pop(option) is not None]
    if given:
        fail(f"{given[0].replace('order', 'time')} needs one table that fits in memory.")
    if target is None:
        fail("--target must name the column to predict.")
    with ExitStack() as stack:
        with table_errors(name):
            plan = stack.enter_context(_streams.stream_plan(stream, target, **how))
        yield plan


def _carry_out(table: str, plan, parameters: dict, out: Path, place, coverage, as_json) -> None:
    """Train, test and write."""
    from anchored.cli import _fitting

    started = time.perf_counter()
    max_seconds = parameters["max_seconds"]
    if not as_json:
        widths = parameters.get("hidden")
        seconds = _fitting.expected_seconds(plan, parameters["n_members"], widths)
        _say_plan(table, plan, seconds, max_seconds)
    try:
        with table_errors(table):
            fitted = _fitting.fit_plan(plan, parameters | {"checkpoint": place}, coverage)
    except KeyboardInterrupt:
        kept = f" The same command continues from {place.folder}." if place.exists() else ""
        typer.echo(f"anchored: stopped; no model was written.{kept}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    files = {kind: str(out / name) for kind, name in FILES.items()}
    record = _record(table, plan, fitted, coverage, parameters["random_state"], files)
    with table_errors(table):
        _write(out, plan, fitted, record)
    place.clear_all()
    if as_json:
        typer.echo(json.dumps(record))
    else:
        _say_result(record, time.perf_counter() - started)


def _say_dry_run(table: str, plan, parameters: dict[str, Any], as_json: bool) -> None:
    from anchored.cli import _fitting

    with table_errors(table):
        found = _fitting.estimator_of(plan, parameters).plan(
            plan.inputs, plan.y, groups=plan.groups
        )
    typer.echo(json.dumps(dataclasses.asdict(found)) if as_json else str(found))


def _place(where: str | Path, resume: bool):
    """Where trainings are kept until the files are written."""
    from anchored.core.checkpoints import Checkpoint
    from anchored.core.storage import folder_of

    def say(line: str) -> None:
        typer.echo(f"anchored: {line}", err=True)

    try:
        place = Checkpoint(folder_of(where), say=say)
    except (ValueError, ImportError) as error:
        fail(f"--checkpoint: {error}")
    if not resume:
        place.clear_all()
    elif place.exists():
        typer.echo(f"Continuing from the checkpoint in {place.folder}.", err=True)
    return place


def _read_settings(path: Path):
    from anchored.tuning import Settings

    try:
        return Settings.load(path)
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror or error}.")
    except ValueError as error:
        fail(str(error))


def _check_method(method: str, settings: Path | None, plan) -> None:
    from anchored.core.loss import METHODS

    if method not in METHODS:
        fail(f"--method must be one of {', '.join(METHODS)}; got {method!r}.")
    if plan.task == "classification" and settings:
        fail(f"--settings is for regression; {plan.target!r} has classes.")


def _check_scale(target_scale: str, plan) -> None:
    from anchored.estimators.regression import TARGET_SCALES

    if target_scale not in TARGET_SCALES:
        fail(f"--target-scale must be one of {', '.join(TARGET_SCALES)}; got {target_scale!r}.")
    if plan.task == "classification" and target_scale != "auto":
        fail(f"--target-scale is for regression; {plan.target!r} has classes.")
    if target_scale == "log" and not plan.y.min() >= 0:
        fail(
            f"--target-scale log needs targets of zero or more; {plan.target!r} has "
            f"{plan.y.min():g}."
        )


def _say_plan(table: str, plan, seconds: float, max_seconds: float | None) -> None:
    kinds: dict[str, int] = {}
    for column in plan.encoder.columns:
        kinds[column.kind] = kinds.get(column.kind, 0) + 1
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    typer.echo(f"{plan.task.capitalize()} of {plan.target!r} in {table} ({plan.reason}).")
    n_features = len(plan.encoder.feature_names)
    typer.echo(f"Inputs: {len(plan.encoder.columns)} columns ({listed}), as {n_features} numbers.")
    for column in plan.encoder.columns:
        if column.written:
            typer.echo(f"Read: {shown(column.name)} as {column.written}.")
    for name, reason in plan.encoder.left_out:
        typer.echo(f"Left out: {shown(name)}, {reason}.")
    dropped = f" {plan.n_dropped} rows without a target are left out." if plan.n_dropped else ""
    typer.echo(f"Rows: {len(plan.y):,} to train, {len(plan.y_test):,} set aside to test.{dropped}")
    for note in plan.notes:
        typer.echo(f"Note: {note}")
    expected = seconds if max_seconds is None else min(seconds, max_seconds + 10)
    typer.echo(f"Training should take about {_rounded(expected)} on an idle machine.")


def _rounded(seconds: float) -> str:
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{round(seconds / 60)} min"


def _record(table: str, plan, fitted, coverage: float, seed: int, files: dict) -> dict[str, Any]:
    from anchored import __version__
    from anchored.metrics import GPComparison

    gap = fitted.gp  # a text is the reason why there is none
    model = fitted.model
    return {
        "schema": 1,
        "version": __version__,
        "table": table,
        "target": plan.target,
        "task": plan.task,
        "rows": {
            "train": len(plan.y),
            "test": len(plan.y_test),
            "without_target": plan.n_dropped,
        },
        "columns": {
            "used": [{"name": c.name, "kind": c.kind} for c in plan.encoder.columns],
            "left_out": [{"name": n, "reason": r} for n, r in plan.encoder.left_out],
        },
        "members": model.ensemble_.n_members,
        "hidden": list(model.ensemble_.network.hidden),
        "method": model.method,
        "coverage": coverage,
        "seed": seed,
        "seconds": fitted.seconds,
        "verdict": fitted.verdict,
        "scores": fitted.scores,
        "gp": dataclasses.asdict(gap) if isinstance(gap, GPComparison) else None,
        "gp_words": gap.words if isinstance(gap, GPComparison) else gap,
        "warnings": list(fitted.warnings),
        "notes": list(plan.notes),
        "files": files,
    }


def _write(out: Path, plan, fitted, record: dict) -> None:
    """The three files, each whole, and none before all are made."""
    import numpy as np

    import anchored

    rng = np.random.default_rng(record["seed"])
    kept = np.sort(rng.permutation(len(plan.y_test))[:_KEPT_ROWS])
    names = ("table", "target", "task", "seed", "coverage", "version", "scores", "gp", "gp_words")
    about = {name: record[name] for name in names} | {
        "notes": [*plan.notes, *fitted.warnings],
        "rows": plan.test_rows[kept].tolist(),
    }
    page = anchored.report(
        fitted.model,
        plan.test_inputs,
        plan.y_test,
        coverage=record["coverage"],
        title=f"{plan.target} in {record['table']}",
        about={
            "Table": record["table"],
            "Target": plan.target,
            "Rows to train and test on": f"{len(plan.y):,} and {len(plan.y_test):,}",
            "Columns left out": ", ".join(n for n, _ in plan.encoder.left_out) or "none",
            "Seconds": f"{fitted.seconds:.1f}",
        },
        notes=[*plan.notes, *fitted.warnings],
        gp=fitted.gp,
        row_names=plan.test_rows.tolist(),
        dist=fitted.dist,
    )
    with writing_together(out) as stage:
        fitted.model.save(
            stage / FILES["model"],
            provenance=about,
            held_out=(plan.test_inputs.take(kept), plan.y_test[kept]),
        )
        (stage / FILES["report"]).write_text(page, encoding="utf-8")
        (stage / FILES["metrics"]).write_text(json.dumps(record, indent=2) + "\n")


def _say_result(record: dict[str, Any], seconds: float) -> None:
    """What came out, in plain words."""
    scores, files = record["scores"], record["files"]
    typer.echo("")
    typer.echo(record["verdict"])
    if record["task"] == "regression":
        share = max(scores["r2"] or 0.0, 0.0)
        explained = f" and explain {100 * share:.0f} % of the variance" if share else ""
        off = f"{scores['rmse']:.4g} in the target's units (root mean square)"
        typer.echo(f"Predictions are off by {off}{explained}.")
        missing = "" if record["gp"] else "Not compared with exact inference. "
        typer.echo(f"{missing}{record['gp_words']}")
    else:
        off = f"{100 * scores['ece']:.1f} percentage points"
        typer.echo(f"Stated probabilities are off by {off} on average.")
    for warning in record["warnings"]:
        typer.echo(f"Warning: {warning}")
    typer.echo(f"Trained {record['members']} networks; {seconds:.0f} s in all.")
    typer.echo(f"Report:  {files['report']}  (open it in a browser)")
    typer.echo(f"Scores:  {files['metrics']}")
    typer.echo(f"Model:   {files['model']}")
    typer.echo(f"Next:    anchored predict {files['model']} NEW_ROWS.csv > predictions.csv")
