"""``anchored reproduce``: rebuild figures and tables of the paper, and the page about them."""

import math
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from anchored.cli._common import REFUSED, fail, make_folder, stop_for_now, write
from anchored.errors import MissingDataError


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="What to rebuild: a name from --list, or all for every figure."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="smoke (takes seconds), paper (the paper's settings) or another preset from "
            "--list. Default: paper, or cpu for what is not in the paper."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for everything random.")] = 0,
    out: Annotated[
        Path, typer.Option(help="Folder for the results; each preset gets its own folder inside.")
    ] = (Path("results/reproduce")),
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of data files; by default $ANCHORED_DATA. Missing files are downloaded."
        ),
    ] = None,
    redraw: Annotated[
        bool,
        typer.Option(
            "--redraw", help="Draw the pictures again from the records, without running anything."
        ),
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="Write a page of all figures in --out, without running anything."),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List what can be rebuilt and what each needs.")
    ] = False,
    datasets: Annotated[
        str | None,
        typer.Option(
            help="For a table: data sets, e.g. boston,yacht, or problems; by default all."
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="For a table: methods, e.g. anchored-5x50,relu-gp; by default all of ours."
        ),
    ] = None,
    splits: Annotated[
        int | None,
        typer.Option(
            min=1, max=20, help="For a table: number of splits (or truths) to use, from the first."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="For a table: cells computed at once; by default one for each core."
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="For a table: compute again the cells that exist already."),
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(help="For table-uci: file (or folder of files) of `anchored tune` to use."),
    ] = None,
) -> None:
    """Rebuild a figure or table of the paper: a record of its numbers, and a picture."""
    if listed:
        _print_catalogue()
        return
    if page is not None:
        _write_page(name, page, out / (preset or "paper"))
        return
    options = {
        "datasets": None if datasets is None else _names(datasets),
        "methods": None if methods is None else _names(methods),
        "splits": splits,
        "jobs": jobs,
        "again": again or None,
        "settings": settings,
    }
    given = {option: value for option, value in options.items() if value is not None}
    if settings is not None and preset in (None, "paper"):
        preset = "tuned"
    preset = preset or _default_preset(name)
    _make(_chosen(name, preset, given), preset, out, redraw, seed, data_dir, given)


def _default_preset(name: str | None) -> str:
    from anchored.paper.catalogue import CATALOGUE

    return CATALOGUE[name].default_preset if name in CATALOGUE else "paper"


def _names(text: str) -> list[str]:
    """The names in a list like ``boston,yacht``."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _chosen(name: str | None, preset: str, given: dict[str, Any]) -> list:
    """The experiments to run, if they take the options and have the preset."""
    from anchored import paper

    if name is None:
        fail("which figure? Give a name from `anchored reproduce --list`, or all.")
    try:
        chosen = [paper.get(n) for n in (paper.FIGURES if name == "all" else [name])]
    except ValueError as error:
        fail(str(error).replace("`NAME`", "NAME"))
    for experiment in chosen:
        wrong = [f"--{option}" for option in given if option not in experiment.options]
        if wrong:
            fail(f"{experiment.name} takes no {' and no '.join(wrong)}.")
        if preset not in experiment.presets:
            known = ", ".join(p for p in paper.PRESETS if p in experiment.presets)
            fail(f"--preset must be one of {known}; got {preset!r}.")
    return chosen


def _make(
    chosen: list,
    preset: str,
    out: Path,
    redraw: bool,
    seed: int,
    data_dir: Path | None,
    given: dict[str, Any],
) -> None:
    from anchored import paper

    folder, failed = out / preset, []
    for experiment in chosen:
        try:
            if redraw:
                record = paper.tell(experiment, _recorded(folder, experiment.name), folder)
            else:
                record = _run(experiment, preset, folder, seed, data_dir, **given)
        except typer.Exit as stopped:
            if stopped.exit_code != REFUSED or len(chosen) == 1:
                raise
            failed.append(experiment.name)  # the others may do better
            continue
        _print_record(record, folder, _draw_record(experiment, record, folder))
    if failed:
        fail(f"these failed: {', '.join(failed)}.")


def _run(
    experiment,
    preset: str,
    folder: Path,
    seed: int,
    data_dir: Path | None,
    jobs: int | None = None,
    **options,
) -> dict:
    from anchored import paper
    from anchored.core.members import n_cores
    from anchored.estimators.progress import cell_bar

    context = paper.Context(seed, data_dir, **options)
    try:
        with cell_bar(experiment.name) as on_cell:
            return paper.run(experiment, preset, context, folder, on_cell, jobs or n_cores())
    except KeyboardInterrupt:
        stop_for_now(folder, "parts")
    except (MissingDataError, ModuleNotFoundError) as error:
        fail(f"{experiment.name} needs {' and '.join(experiment.about.needs)}: {error}")
    except OSError as error:
        fail(f"cannot write to {folder}: {error.strerror}.")
    except ValueError as error:
        fail(str(error))


def _recorded(folder: Path, name: str) -> dict:
    from anchored import paper

    try:
        return paper.load(folder, name)
    except FileNotFoundError:
        fail(f"there is no record of {name} in {folder}: run it once without --redraw.")
    except (OSError, ValueError) as error:
        fail(f"the record of {name} in {folder} cannot be read: {error}")


def _write_page(name: str | None, page: Path, folder: Path) -> None:
    """A Markdown page of the figures recorded in ``folder``, in the paper's order."""
    from anchored import paper
    from anchored.paper.pages import reproduction_page

    if name is not None:
        fail(f"--page shows all figures in --out: leave out {name}.")
    found = [name for name in paper.FIGURES if (folder / f"{name}.json").is_file()]
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

    if experiment.draw is None:
        return []
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
        shown = Table(title=table["title"], title_justify="left")
        for title in table["header"]:
            shown.add_column(title, overflow="fold")  # a narrow terminal cuts nothing
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


def _print_catalogue() -> None:
    """Names are never cut, whatever the width; the other columns fold."""
    from rich.console import Console
    from rich.table import Table

    from anchored.paper.catalogue import CATALOGUE, PRESETS

    table = Table()
    table.add_column("name", no_wrap=True, min_width=max(map(len, CATALOGUE)))
    for title in ("in the paper", "what it shows", "presets", "needs"):
        table.add_column(title, overflow="fold")
    for name, about in CATALOGUE.items():
        times = [f"{p} {_time(about.seconds[p])}" for p in PRESETS if p in about.seconds]
        table.add_row(name, about.figure, about.title, "\n".join(times), ", ".join(about.needs))
    console = Console()
    console.print(table)
    for preset, meaning in PRESETS.items():
        console.print(f"{preset}: {meaning}", highlight=False)


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "(not timed)"
    return f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 60:,.0f} min"
