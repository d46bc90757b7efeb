"""The ``anchored`` command: parses, calls, prints."""

import io
import json
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

app = typer.Typer(
    help="Error bars for neural networks that you can check.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

LEVELS = (0.5, 0.9, 0.95)
BUNDLED = ("diabetes",)


def _show_version(wanted: bool) -> None:
    if wanted:
        from anchored import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and stop.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Error bars for neural networks that you can check."""


@app.command()
def fit(
    data: Annotated[str, typer.Argument(help=f"Bundled data set: {', '.join(BUNDLED)}.")],
    members: Annotated[int, typer.Option(min=1, help="Networks in the ensemble.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and the fit.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the picture and metrics.json.")] = Path(
        "results"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
) -> None:
    """Fit, score on held-out rows, compare with the exact GP and draw a picture."""
    if data not in BUNDLED:
        _fail(f"DATA must be one of {', '.join(BUNDLED)}; got {data!r}.")
    _make_folder(out)
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    from anchored import AnchoredRegressor, metrics

    X, y = load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    started = time.perf_counter()
    model = AnchoredRegressor(n_members=members, random_state=seed, verbose=not as_json)
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - started
    dist = model.predict_dist(X_test)
    gap = model.compare_to_gp(X_test)
    scores = {
        "data": data,
        "rows": {"train": len(X_train), "test": len(X_test)},
        "members": model.ensemble_.n_members,
        "seed": seed,
        "rmse": metrics.rmse(dist, y_test),
        "nll": metrics.nll(dist, y_test),
        "coverage": {f"{level:g}": metrics.coverage(dist, y_test, level) for level in LEVELS},
        "gp": {
            "mean_error": gap.mean_error,
            "variance_ratio": gap.variance_ratio,
            "kl": gap.kl,
        },
        "seconds": seconds,
    }
    _write(out / "metrics.json", json.dumps(scores, indent=2).encode() + b"\n")
    picture = _draw(out / f"{data}.png", dist, y_test)
    if as_json:
        typer.echo(json.dumps(scores))
    else:
        _print_scores(scores, str(gap), picture)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="What to rebuild: a name of --list, or all.")
    ] = None,
    preset: Annotated[str, typer.Option(help="smoke (seconds) or paper (its settings).")] = "paper",
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder; a folder for each preset is made in it.")] = (
        Path("results/reproduce")
    ),
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of data files; else $ANCHORED_DATA.")
    ] = None,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Draw again from the records, without running.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option(help="Write a page of all records in --out, without running.")
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List what can be rebuilt and what it takes.")
    ] = False,
) -> None:
    """Rebuild a figure of the paper: a record of its numbers and a picture."""
    from anchored import experiments

    if listed:
        _print_experiments()
        return
    if preset not in experiments.PRESETS:
        _fail(f"--preset must be one of {', '.join(experiments.PRESETS)}; got {preset!r}.")
    if page is not None:
        _write_page(page, out / preset)
        return
    if name is None:
        _fail("which figure? Give one of `anchored reproduce --list`, or all.")
    try:
        chosen = [experiments.get(n) for n in (experiments.MODULES if name == "all" else [name])]
    except ValueError as error:
        _fail(str(error).replace("`NAME`", "NAME"))
    folder = out / preset
    _make_folder(folder)
    for experiment in chosen:
        if redraw:
            record = _recorded(folder, experiment.name)
        else:
            record = _run(experiment, preset, experiments.Context(seed, data_dir), folder)
        pictures = _draw_record(experiment, record, folder)
        _print_record(record, folder, pictures)


def _run(experiment, preset: str, context, folder: Path) -> dict:
    from anchored import experiments
    from anchored._progress import cell_bar

    try:
        with cell_bar(experiment.name) as on_cell:
            return experiments.run(experiment, preset, context, folder, on_cell)
    except KeyboardInterrupt:
        typer.echo(
            f"anchored: stopped. Finished parts are kept in {folder}; the same command goes on "
            "from there.",
            err=True,
        )
        raise typer.Exit(130) from None
    except (FileNotFoundError, ModuleNotFoundError) as error:
        _fail(f"{experiment.name} needs {' and '.join(experiment.needs)}: {error}")
    except OSError as error:
        _fail(f"cannot write to {folder}: {error.strerror}.")


def _recorded(folder: Path, name: str) -> dict:
    from anchored import experiments

    try:
        return experiments.load(folder, name)
    except FileNotFoundError:
        _fail(f"there is no record of {name} in {folder}: run it once without --redraw.")
    except (OSError, ValueError) as error:
        _fail(f"the record of {name} in {folder} cannot be read: {error}")


def _write_page(page: Path, folder: Path) -> None:
    """A Markdown page of the records in ``folder``, in the paper's order."""
    import os

    from anchored import experiments
    from anchored.report import reproduction_page

    found = [name for name in experiments.MODULES if (folder / f"{name}.json").is_file()]
    if not found:
        _fail(f"there are no records in {folder}: run some figures first.")
    pictures = Path(os.path.relpath(folder, page.parent)).as_posix()
    text = reproduction_page([_recorded(folder, name) for name in found], pictures)
    _make_folder(page.parent)
    _write(page, text.encode())
    typer.echo(f"{page}: {len(found)} figures")


def _draw_record(experiment, record: dict, folder: Path) -> list[Path]:
    """The picture of a record, as PNG and SVG; none if matplotlib is not installed."""
    from anchored.plotting import picture

    try:
        files = picture(lambda figure: experiment.draw(figure, record), experiment.size)
    except ImportError:
        typer.echo("No picture: install matplotlib, e.g. pip install 'anchored[plot]'.", err=True)
        return []
    paths = [folder / f"{experiment.name}.{kind}" for kind in files]
    for path, content in zip(paths, files.values(), strict=True):
        _write(path, content)
    return paths


def _print_record(record: dict, folder: Path, pictures: list[Path]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for table in record["tables"]:
        shown = Table(*table["header"], title=table["title"], title_justify="left")
        for row in table["rows"]:
            shown.add_row(*row)
        console.print(shown)
    for finding in record["findings"]:
        console.print(f"- {finding}", highlight=False, markup=False)
    files = [folder / f"{record['name']}.json", *pictures]
    console.print(
        f"{record['name']} ({record['preset']}, {record['seconds']:.0f} s): "
        f"{', '.join(map(str, files))}",
        highlight=False,
        soft_wrap=True,
    )


def _print_experiments() -> None:
    from rich.console import Console
    from rich.table import Table

    from anchored import experiments

    table = Table("name", "in the paper", "what it shows", "smoke", "paper", "needs")
    for name in experiments.MODULES:
        e = experiments.get(name)
        times = [f"{e.seconds[preset]:,.0f} s" for preset in experiments.PRESETS]
        table.add_row(name, e.figure, e.title, *times, ", ".join(e.needs))
    Console().print(table)


def _print_scores(scores: dict, gap: str, picture: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    rows = scores["rows"]
    table = Table(title=f"{scores['data']}: {rows['test']} held-out rows", show_header=False)
    table.add_row("RMSE", f"{scores['rmse']:.2f}")
    table.add_row("NLL (Student-t)", f"{scores['nll']:.3f}")
    for level, share in scores["coverage"].items():
        table.add_row(f"{float(level):.0%} intervals cover", f"{share:.1%}")
    console = Console()
    console.print(table)
    console.print(f"Beside the exact infinitely wide network: {gap}", highlight=False)
    console.print(
        f"Tuned and trained {scores['members']} networks on {rows['train']} rows in "
        f"{scores['seconds']:.1f} s.",
        highlight=False,
    )
    if picture is not None:
        console.print(f"Picture: {picture}", highlight=False)


def _draw(path: Path, dist, y) -> Path | None:
    """Predicted against observed, and coverage; None if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        typer.echo("No picture: install matplotlib, e.g. pip install 'anchored[plot]'.", err=True)
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    from anchored import plotting

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
    plotting.predicted_against_observed(axes[0], dist, y)
    plotting.coverage_curve(axes[1], dist, y)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    _write(path, buffer.getvalue())
    pyplot.close(figure)
    return path


def _write(path: Path, content: bytes) -> None:
    from anchored._files import write_whole

    try:
        write_whole(path, content)
    except OSError as error:
        _fail(f"cannot write {path}: {error.strerror}.")


def _make_folder(folder: Path) -> None:
    from anchored._files import make_folder

    try:
        make_folder(folder)
    except OSError as error:
        _fail(f"cannot write to {folder}: {error.strerror}.")


def _fail(message: str) -> NoReturn:
    typer.echo(f"anchored: {message}", err=True)
    raise typer.Exit(2)
