"""``anchored tune``: search the settings of a table the paper's way."""

import dataclasses
import json
import math
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from anchored.cli import _inputs
from anchored.cli._common import INTERRUPTED, fail, make_folder, table_errors
from anchored.cli._inputs import Group, Hidden, Keep, Members, RandomState, Target, Time
from anchored.errors import EnsembleError, MissingDataError, unknown_name

_N_SHOWN = 5  # best trials printed


def tune(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A file as for `anchored fit` (with --target), a UCI table of the paper, or "
            "diabetes.",
        ),
    ],
    target: Target = None,
    split: Annotated[
        int | None,
        typer.Option(min=0, max=19, help="Standard split of a UCI table; by default 0."),
    ] = None,
    n_trials: Annotated[int, typer.Option(min=1, help="Schedules to try.")] = 30,
    sampler: Annotated[str, typer.Option(help="tpe, or random as in the paper.")] = "tpe",
    n_members: Members = 5,
    hidden: Hidden = None,
    max_seconds: Annotated[
        float, typer.Option(min=0, help="Try no other schedule after this many seconds.")
    ] = math.inf,
    group: Group = None,
    order: Time = None,
    keep: Keep = None,
    random_state: RandomState = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of UCI tables; by default $ANCHORED_DATA.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Settings file to write; by default settings/TABLE.json.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the search as JSON.")] = False,
) -> None:
    """Tune prior, noise and training on the rows that `fit` trains on; write the settings."""
    from anchored.paper.tables.uci_settings import PAPER_SETTINGS

    out = out or Path("settings") / f"{_inputs.stem(data)}.json"
    make_folder(out.parent)
    if out.is_dir():
        fail(f"cannot write {out}: it is a folder.")
    if data in (*PAPER_SETTINGS, "diabetes") and target is None and not Path(data).exists():
        _refuse("a file with --target", group=group, time=order, keep=keep)
        split = split or 0
        x, y = _standard_part(data, split, data_dir)
    else:
        _refuse("a UCI table", split=split, data_dir=data_dir)
        chosen = {"group": group, "order": order, "keep": _inputs.names_of(keep)}
        x, y = _training_rows(data, target, chosen | {"seed": random_state})
    options = {
        "hidden": _inputs.widths(hidden) or (50,),
        "n_members": n_members,
        "sampler": sampler,
        "n_trials": n_trials,
        "max_seconds": max_seconds,
        "random_state": random_state,
    }
    started = time.perf_counter()
    result = _search(data, x, y, options, shown=not as_json)
    seconds = time.perf_counter() - started
    try:
        result.settings.save(out)
    except OSError as error:
        fail(f"cannot write {out}: {error.strerror}.")
    paper = PAPER_SETTINGS.get(data) if target is None else None
    if as_json:
        record = {"data": data, "target": target, "split": split, "sampler": sampler}
        record |= {"members": n_members, "seed": random_state, "rows": len(y), "seconds": seconds}
        record |= {**_as_record(result), "paper": paper and dataclasses.asdict(paper)}
        typer.echo(json.dumps(record | {"out": str(out)}))
    else:
        _print_result(data, result, paper)
        typer.echo(f"Tuned on {len(y):,} training rows in {seconds:.0f} s. Settings: {out}")
        if target is not None:
            typer.echo(f"Fit: anchored fit {data} --target {target} --settings {out}")
    if result.ended == "interrupt":
        n_done = len(result.trials)
        typer.echo(f"anchored: stopped. {out} has the best of {n_done} finished trials.", err=True)
        raise typer.Exit(INTERRUPTED)


def _refuse(need: str, **given) -> None:
    for name, value in given.items():
        if value is not None:
            fail(f"--{name.replace('_', '-')} needs {need}.")


def _training_rows(name: str, target: str | None, chosen: dict[str, Any]):
    """Features and targets of the rows that `anchored fit` would train on."""
    from anchored.paper.tables.uci_settings import PAPER_SETTINGS
    from anchored.tables.encoder import Encoder
    from anchored.tables.levels import Signals
    from anchored.tables.plan import make_plan

    if target is None and not Path(name).exists() and name not in _inputs.BUNDLED:
        known = (*PAPER_SETTINGS, "diabetes")
        fail(
            str(unknown_name("TABLE", name, known)).replace(
                "`TABLE` must be", "TABLE must be a file or"
            )
        )
    content, target = _inputs.read_input(name, target)
    with table_errors(name):
        plan = make_plan(content, target, **chosen)
        if plan.task == "classification":
            fail(f"settings are for regression; {target!r} has classes.")
        return Encoder.fit_transform(plan.inputs, Signals.of_numbers(plan.y))[1], plan.y


def _standard_part(data: str, split: int, data_dir: Path | None):
    from anchored.datasets import load_table, load_uci_split, standard_split

    if data == "diabetes":
        x, y = load_table(data)
        train, _ = standard_split(len(y), split)
        return x[train], y[train]
    try:
        rows = load_uci_split(data, split, data_dir)
    except (MissingDataError, ValueError) as error:
        fail(str(error).replace("`split`", "--split"))
    return rows.x_train, rows.y_train


def _search(data: str, x, y, options: dict[str, Any], shown: bool):
    from anchored import tuning
    from anchored.estimators.progress import cell_bar

    scores = []
    with cell_bar(f"tune {data}") if shown else nullcontext() as update:

        def on_trial(trial) -> None:
            scores.append(trial.score)
            if update is not None:
                words = f"trial {len(scores)}, best NLL {min(scores):.3f}"
                update(words, len(scores), options["n_trials"])

        try:
            return tuning.tune(x, y, **options, on_trial=on_trial)
        except KeyboardInterrupt:
            typer.echo("anchored: stopped before the first trial; nothing was written.", err=True)
            raise typer.Exit(130) from None
        except (ModuleNotFoundError, EnsembleError, ValueError) as error:
            fail(str(error))


def _as_record(result) -> dict:
    """JSON has no infinity: the score of a diverged trial is null."""
    trials = [
        dataclasses.asdict(trial.settings)
        | {"score": trial.score if math.isfinite(trial.score) else None, "seconds": trial.seconds}
        for trial in result.trials
    ]
    found = {"settings": dataclasses.asdict(result.settings), "score": result.score}
    return found | {"gp_score": result.gp_score, "ended": result.ended, "trials": trials}


def _print_result(data: str, result, paper) -> None:
    from rich.console import Console
    from rich.table import Table

    columns = [result.settings] if paper is None else [result.settings, paper]
    table = Table("setting", "found", *(["paper"] if paper else []), title=f"{data}: settings")
    for field in dataclasses.fields(result.settings):
        table.add_row(field.name, *(_cell(getattr(s, field.name)) for s in columns))
    trials = sorted(result.trials, key=lambda trial: trial.score)[:_N_SHOWN]
    title = f"Best of {len(result.trials)} trials"
    best = Table("NLL", "batch", "rate", "epochs", "decay", "seconds", title=title)
    for trial in trials:
        s = trial.settings
        cells = (s.batch_size, s.learning_rate, s.epochs, s.decay_rate)
        best.add_row(f"{trial.score:.3f}", *map(_cell, cells), f"{trial.seconds:.1f}")
    console = Console()
    console.print(table, best)
    console.print(
        f"Validation NLL {result.score:.3f}; the exact GP of the same prior and noise has "
        f"{result.gp_score:.3f}.",
        highlight=False,
    )


def _cell(value) -> str:
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
