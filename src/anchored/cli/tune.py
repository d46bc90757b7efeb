"""``anchored tune``: search the settings of a data set the paper's way."""

import dataclasses
import json
import math
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from anchored.cli._common import fail, make_folder
from anchored.errors import EnsembleError, MissingDataError, unknown_name

_N_SHOWN = 5  # best trials printed


def tune(
    data: Annotated[str, typer.Argument(help="A UCI table of the paper, or diabetes.")],
    split: Annotated[
        int, typer.Option(min=0, max=19, help="Standard split whose training part is used.")
    ] = 0,
    trials: Annotated[int, typer.Option(min=1, help="Schedules to try.")] = 30,
    sampler: Annotated[str, typer.Option(help="tpe, or random as in the paper.")] = "tpe",
    members: Annotated[int, typer.Option(min=2, help="Networks in the ensemble.")] = 5,
    hidden: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Width of a hidden layer, 50 if not given; repeat for more."),
    ] = None,
    max_seconds: Annotated[
        float, typer.Option(min=0, help="Begin no other schedule after so many seconds.")
    ] = math.inf,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of data files; else $ANCHORED_DATA.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File of the settings; else settings/DATA.json.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the search as JSON.")] = False,
) -> None:
    """Tune prior, noise and training on a validation split; write the settings to a file."""
    from anchored.paper.tables.uci_settings import PAPER_SETTINGS

    names = (*PAPER_SETTINGS, "diabetes")
    if data not in names:
        fail(str(unknown_name("DATA", data, names)).replace("`DATA`", "DATA"))
    out = out or Path("settings") / f"{data}.json"
    make_folder(out.parent)
    if out.is_dir():
        fail(f"cannot write {out}: it is a folder.")
    x, y = _training_part(data, split, data_dir)
    options = {
        "hidden": tuple(hidden or (50,)),
        "n_members": members,
        "sampler": sampler,
        "n_trials": trials,
        "max_seconds": max_seconds,
        "seed": seed,
    }
    started = time.perf_counter()
    result = _search(data, x, y, options, shown=not as_json)
    seconds = time.perf_counter() - started
    try:
        result.settings.save(out)
    except OSError as error:
        fail(f"cannot write {out}: {error.strerror}.")
    paper = PAPER_SETTINGS.get(data)
    if as_json:
        record = {"data": data, "split": split, "sampler": sampler, "members": members}
        record |= {"seed": seed, "rows": len(y), "seconds": seconds, **_as_record(result)}
        record |= {"paper": paper and dataclasses.asdict(paper), "out": str(out)}
        typer.echo(json.dumps(record))
    else:
        _print_result(data, result, paper)
        typer.echo(f"Tuned on {len(y):,} rows of split {split} in {seconds:.0f} s. Settings: {out}")
    if result.ended == "interrupt":
        n_done = len(result.trials)
        typer.echo(f"anchored: stopped. {out} has the best of {n_done} finished trials.", err=True)
        raise typer.Exit(130)


def _training_part(data: str, split: int, data_dir: Path | None):
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
            typer.echo("anchored: stopped before the first trial; nothing is written.", err=True)
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
