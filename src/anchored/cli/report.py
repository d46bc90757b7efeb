"""``anchored report``: the HTML page about a saved model."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from anchored.cli._common import check_coverage, fail, model_errors, table_errors, write


def report(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file that `anchored fit` wrote.")
    ],
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE]",
            help="Rows with targets that the model has not seen; by default its own test rows.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="HTML file.")] = Path("report.html"),
    coverage: Annotated[
        float | None, typer.Option(help="Share of targets that intervals should contain.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Write one HTML file that shows how far you can trust a saved model."""
    check_coverage(coverage)
    import anchored
    from anchored.cli._fitting import scores

    with model_errors(model):
        fitted: Any = anchored.load(model)
    about = fitted.provenance_ or {}
    with table_errors(table or str(model)):
        x, y, rows = _rows(fitted, about, table, model)
        dist = fitted.predict_dist(x)
        level = coverage or about.get("coverage", 0.9)
        page = anchored.report(
            fitted,
            x,
            y,
            coverage=level,
            title=f"{about.get('target', 'target')} in {table or about.get('table', model)}",
            about={"Model": str(model), "Rows": f"{len(y):,} of {table or 'its own test rows'}"},
            notes=about.get("notes", ()),
            gp=_comparison(about),
            row_names=rows,
            dist=dist,
        )
        classes = getattr(fitted, "classes_", None)
        found = scores(dist, y, classes, level)
    write(out, page.encode())
    if as_json:
        record = {"schema": 1, "model": str(model), "rows": len(y), "coverage": level}
        typer.echo(json.dumps(record | {"scores": found, "report": str(out)}))
    else:
        typer.echo(f"Report: {out}")


def _rows(model, about: dict, table: str | None, path: Path) -> tuple:
    """Inputs, targets and the names of rows: of the table, or those kept in the file."""
    from anchored.tables.plan import labelled_rows
    from anchored.tables.reading import read_table

    if table is None:
        if model.held_out_ is None:
            fail(f"{path} contains no test rows: also give a table with targets.")
        return *model.held_out_, about.get("rows")
    if model.encoder_ is None or not {"target", "task"} <= about.keys():
        fail(f"{path} was not fitted by `anchored fit`, so it cannot read tables.")
    target, classes = about["target"], getattr(model, "classes_", None)
    labels = classes is not None and classes.dtype.kind in "UO"
    content = read_table(table, text=(*model.encoder_.text_names, *([target] if labels else [])))
    return labelled_rows(content, target, classes)


def _comparison(about: dict):
    """As it was when the model was fitted, or why there was none."""
    from anchored.metrics import GPComparison

    found = about.get("gp")
    return about.get("gp_words") if found is None else GPComparison(**found)
