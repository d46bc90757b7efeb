"""``anchored predict``: rows in, predictions with error bars out, block by block."""

import contextlib
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from anchored._files import writing
from anchored.cli._common import (
    check_coverage,
    fail,
    make_folder,
    model_errors,
    table_errors,
)
from anchored.errors import shown


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file that `anchored fit` wrote.")
    ],
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="CSV or Parquet file, folder of Parquet files, or - for standard input.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="CSV or .parquet file; by default standard output.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Share of targets that intervals should contain.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a summary as JSON; needs --out.")
    ] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Add columns that say what drives each prediction."),
    ] = False,
) -> None:
    """Predict the rows of a table: mean, deviations, interval and novelty, or probabilities."""
    check_coverage(coverage)
    if as_json and out is None:
        fail("--json needs --out: predictions and the summary cannot share standard output.")
    with model_errors(model):
        from anchored.model import runtime

        loaded = runtime.load(model)
    if loaded.encoder is None:
        fail(f"{model} was not fitted by `anchored fit`, so it cannot read tables.")
    from anchored.tables.reading import CSVWriter, ParquetWriter

    why = _explainer(model) if explain else None
    if out is None:
        with table_errors(table):
            record = _predict(loaded, table, coverage, CSVWriter(sys.stdout.buffer), why)
    else:
        make_folder(out.parent)
        kind = ParquetWriter if out.suffix == ".parquet" else CSVWriter
        with (
            table_errors(table),
            writing(out) as file,
            contextlib.closing(kind(file)) as writer,
        ):
            record = _predict(loaded, table, coverage, writer, why)
    for note in record["notes"]:
        typer.echo(f"anchored: note: {note}", err=True)
    if as_json:
        typer.echo(json.dumps({"schema": 1, "model": str(model), "out": str(out), **record}))
    elif out is not None:
        typer.echo(f"{record['rows']:,} predictions in {out}", err=True)


def _explainer(path: Path) -> Callable[[Any], dict[str, Any]]:
    """What explains the rows of a table, column by column of the output."""
    import anchored

    with model_errors(path):
        fitted = anchored.load(path)
    if fitted.held_out_ is None:
        fail(
            f"{path} contains no test rows, and --explain needs some to compare with. Fit the "
            "table with `anchored fit`, which keeps test rows in the file."
        )

    def columns(block) -> dict[str, Any]:
        found = fitted.explain(block)
        n, doubt = range(len(found)), found.epistemic
        return {
            "mean_from": [found.told(found.mean, i, found.main_output(i)) for i in n],
            "epistemic_from": [found.told(doubt, i) for i in n],
            "unusual": ["; ".join(found.unusual[i]) for i in n],
        }

    return columns


def _predict(model, table: str, coverage: float | None, writer, why=None) -> dict:
    from anchored.serving.threads import one_thread
    from anchored.tables.reading import files_of, read_blocks
    from anchored.tables.table import listed

    n_rows, n_novel, notes, columns = 0, 0, [], []
    encoder = model.encoder
    files = files_of(table)
    blocks = (read_blocks(file, encoder.names, text=encoder.text_names) for file in files)
    for block in itertools.chain.from_iterable(blocks):
        notes += block.notes
        encoder.check([*block.columns, *block.others])
        if block.others and not n_rows:
            notes.append(f"columns ignored: {listed(map(shown, block.others))}.")
        with one_thread():
            result = model.predict_table(block, coverage)
        if why is not None:
            result = {**result, **why(block)}
        writer.write(result)
        columns = list(result)
        n_rows += block.n_rows
        if "novelty" in result:
            n_novel += int((result["novelty"] > 1).sum())
    if n_novel:
        notes.append(
            f"{n_novel:,} of {n_rows:,} rows have a novelty above 1: such rows were rare in "
            "training."
        )
    return {"rows": n_rows, "novel": n_novel, "columns": columns, "notes": notes}
