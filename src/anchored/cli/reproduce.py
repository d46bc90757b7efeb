"""``anchored reproduce``: rebuild figures and tables of the paper, and the page about them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from anchored.cli import _table
from anchored.cli._common import REFUSED, fail, make_folder, stop_for_now, write
from anchored.errors import MissingDataError


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="What to rebuild: a name of --list, or all (figures).")
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="smoke (seconds), paper (its settings); of table-uci also paper-splits, defaults; "
            "of other tables also cpu (what two cores can do)."
        ),
    ] = "paper",
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder; a folder for each preset is made in it.")] = (
        Path("results/reproduce")
    ),
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of data files; else $ANCHORED_DATA. Others are downloaded."),
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
    datasets: Annotated[
        str | None, typer.Option(help="table-uci: data sets, e.g. boston,yacht; else all.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="table-uci: methods, e.g. anchored-5x50,relu-gp; else all of ours."),
    ] = None,
    splits: Annotated[
        int | None, typer.Option(min=1, max=20, help="table-uci: the first so many splits.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="table-uci: splits at a time; else one for each core.")
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="table-uci: file (or folder of files) of `anchored tune` to use."),
    ] = None,
) -> None:
    """Rebuild a figure of the paper (a record of its numbers and a picture) or its table."""
    from anchored import paper

    if listed:
        _print_experiments()
        return
    if name == _table.NAME:
        if redraw or page is not None:
            fail(f"--redraw and --page are for figures; {name} prints its scores.")
        _table.run_table(preset, seed, out, data_dir, datasets, methods, splits, jobs, settings)
        return
    if any(option is not None for option in (datasets, methods, splits, jobs, settings)):
        fail(f"--datasets, --methods, --splits, --jobs and --settings are for {_table.NAME}.")
    if page is not None:
        _check_preset(preset, paper.PRESETS)
        _write_page(page, out / preset)
        return
    if name is None:
        fail("which figure? Give one of `anchored reproduce --list`, or all.")
    try:
        chosen = [paper.get(n) for n in (paper.MODULES if name == "all" else [name])]
    except ValueError as error:
        fail(str(error).replace("`NAME`", "NAME"))
    for experiment in chosen:
        _check_preset(preset, experiment.presets)
    folder, failed = out / preset, []
    make_folder(folder)
    for experiment in chosen:
        try:
            if redraw:
                record = _recorded(folder, experiment.name)
                record = paper.tell(experiment, record, folder)
            else:
                record = _run(experiment, preset, paper.Context(seed, data_dir), folder)
        except typer.Exit as stopped:
            if stopped.exit_code != REFUSED or len(chosen) == 1:
                raise
            failed.append(experiment.name)  # the others may do better
            continue
        pictures = _draw_record(experiment, record, folder)
        _print_record(record, folder, pictures)
    if failed:
        fail(f"not made: {', '.join(failed)}.")


def _check_preset(preset: str, known) -> None:
    if preset not in known:
        fail(f"--preset must be one of {', '.join(sorted(known, reverse=True))}; got {preset!r}.")


def _run(experiment, preset: str, context, folder: Path) -> dict:
    from anchored import paper
    from anchored.estimators.progress import cell_bar

    try:
        with cell_bar(experiment.name) as on_cell:
            return paper.run(experiment, preset, context, folder, on_cell)
    except KeyboardInterrupt:
        stop_for_now(folder, "parts")
    except (MissingDataError, ModuleNotFoundError) as error:
        fail(f"{experiment.name} needs {' and '.join(experiment.needs)}: {error}")
    except OSError as error:
        fail(f"cannot write to {folder}: {error.strerror}.")


def _recorded(folder: Path, name: str) -> dict:
    from anchored import paper

    try:
        return paper.load(folder, name)
    except FileNotFoundError:
        fail(f"there is no record of {name} in {folder}: run it once without --redraw.")
    except (OSError, ValueError) as error:
        fail(f"the record of {name} in {folder} cannot be read: {error}")


def _write_page(page: Path, folder: Path) -> None:
    """A Markdown page of the records in ``folder``, in the paper's order."""
    from anchored import paper
    from anchored.paper.pages import reproduction_page

    found = [name for name in paper.MODULES if (folder / f"{name}.json").is_file()]
    if not found:
        fail(f"there are no records in {folder}: run some figures first.")
    pictures = Path(os.path.relpath(folder, page.parent)).as_posix()
    text = reproduction_page([_recorded(folder, name) for name in found], pictures)
    make_folder(page.parent)
    write(page, text.encode())
    typer.echo(f"{page}: {len(found)} figures")


def _draw_record(experiment, record: dict, folder: Path) -> list[Path]:
    """The picture of a record, as PNG and SVG; none if matplotlib is not installed."""
    from anchored.paper.plotting import picture

    try:
        files = picture(lambda figure: experiment.draw(figure, record), experiment.size)
    except ImportError:
        typer.echo("No picture: install matplotlib, e.g. pip install 'anchored[plot]'.", err=True)
        return []
    paths = [folder / f"{experiment.name}.{kind}" for kind in files]
    for path, content in zip(paths, files.values(), strict=True):
        write(path, content)
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

    from anchored import paper

    table = Table("name", "in the paper", "what it shows", "smoke", "paper", "needs")
    for name in paper.MODULES | paper.TABLES:
        e = paper.get(name)
        times = [
            f"{e.seconds[preset]:,.0f} s" if preset in e.seconds else "days"
            for preset in paper.PRESETS
        ]
        table.add_row(name, e.figure, e.title, *times, ", ".join(e.needs))
    table.add_row(
        _table.NAME,
        "tables 1, 4, 5, 6",
        "UCI regression: every method on every split",
        "30 s",
        "hours",
        "the UCI tables",
    )
    Console().print(table)
