"""``anchored report``: the HTML page about a saved model."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from anchored.cli._common import fail, model_errors, table_errors, write


def report(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File of `anchored fit`.")],
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE]",
            help="Rows with their targets, which the model has not seen; else the test rows in it.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="HTML file.")] = Path("report.html"),
    coverage: Annotated[
        float | None, typer.Option(help="Share of targets that intervals should hold.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Write one HTML file that says how far a saved model can be trusted."""
    if coverage is not None and not 0 < coverage < 1:
        fail(f"--coverage must lie between 0 and 1; got {coverage:g}.")
    import anchored
    from anchored import tabular

    with model_errors(model):
        fitted: Any = anchored.load(model)
    about = fitted.provenance_ or {}
    if table is None:
        if fitted.held_out_ is None:
            fail(f"{model} holds no test rows: give a table with targets as well.")
        x, y = fitted.held_out_
        name = about.get("table", str(model))
    else:
        with table_errors(table):
            x, y = _rows(fitted, about, table)
        name = table
    coverage = float(coverage or about.get("coverage", 0.9))
    names = None if fitted.encoder_ is None else fitted.encoder_.feature_names
    page = anchored.report(
        fitted,
        x,
        y,
        coverage=coverage,
        feature_names=names,
        title=f"{about.get('target', 'target')} in {name}",
        about={"Model": str(model), "Rows": f"{len(y):,} of {name}"},
    )
    write(out, page.encode())
    if as_json:
        scores = tabular.scores(fitted, x, y, coverage)
        record = {"schema": 1, "model": str(model), "rows": len(y), "coverage": coverage}
        typer.echo(json.dumps(record | {"scores": scores, "report": str(out)}))
    else:
        typer.echo(f"Report: {out}")


def _rows(model, about: dict, table: str) -> tuple:
    from anchored import tabular
    from anchored.tables import read_table

    if model.encoder_ is None or "target" not in about:
        fail("this model was not fitted by `anchored fit`, so it cannot read tables.")
    content = read_table(table)
    return tabular.rows_with_targets(model.encoder_, content, about["target"], about["task"])
