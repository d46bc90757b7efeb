"""What `fit` and `tune` share: the table they are given, and options as Python spells them.

An option is the Python parameter with dashes: ``--n-members`` is ``n_members``.
"""

from pathlib import Path
from typing import Annotated

import typer

from anchored.cli._common import fail, table_errors
from anchored.errors import shown

BUNDLED = ("breast_cancer", "diabetes", "iris", "wine")
_OLD = {"members": "n-members", "seed": "random-state", "trials": "n-trials"}
# Options by the names that they had in version 0.1.0, too; the help does not show those.
OLD_NAMES = {"token_normalize_func": lambda name: _OLD.get(name, name)}

Target = Annotated[str | None, typer.Option(help="Column to predict.")]
Members = Annotated[int, typer.Option("--n-members", min=2, help="Networks in the ensemble.")]
Hidden = Annotated[
    list[str] | None, typer.Option(help="Widths of the hidden layers, like 50 or 100,50.")
]
Group = Annotated[
    str | None,
    typer.Option(help="Column of groups whose rows stay together, such as patients or sites."),
]
Time = Annotated[
    str | None,
    typer.Option("--time", help="Column of times: the latest rows become the test rows."),
]
Keep = Annotated[
    str | None, typer.Option(help="Columns to use although they would be left out, such as a,b.")
]
RandomState = Annotated[
    int, typer.Option("--random-state", min=0, help="Seed for everything random.")
]


def read_input(name: str, target: str | None):
    """The table of a file or a bundled one, and its target column."""
    from anchored.tables.reading import read_table
    from anchored.tables.table import listed

    if name in BUNDLED and not Path(name).exists():
        return _bundled(name), target or "target"
    with table_errors(name):
        content = read_table(name)
    if target is None:
        names = listed(map(shown, content.columns))
        fail(f"--target must name the column to predict, one of: {names}.")
    return content, target


def _bundled(name: str):
    import numpy as np
    from sklearn import datasets

    from anchored.tables.table import Table

    loaded = getattr(datasets, f"load_{name}")()
    names = [str(name) for name in loaded.feature_names]
    columns = dict(zip(names, np.asarray(loaded.data, float).T, strict=True))
    labels = loaded.target
    if hasattr(loaded, "target_names"):
        labels = np.array([str(loaded.target_names[i]) for i in labels], object)
    columns["target"] = labels if labels.dtype == object else labels.astype(float)
    return Table(columns, len(labels))


def stem(table: str) -> str:
    """A name for what comes of a table."""
    return "table" if table == "-" else Path(table).name.split(".")[0] or "table"


def widths(hidden: list[str] | None) -> tuple[int, ...] | None:
    """Hidden layers from ``--hidden 50,50``, or the option twice."""
    if not hidden:
        return None
    parts = [part.strip() for text in hidden for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        fail(f"--hidden must be widths like 50 or 100,50; got {','.join(hidden)!r}.")
    return tuple(int(part) for part in parts)


def names_of(keep: str | None) -> tuple[str, ...]:
    """Columns from ``--keep a,b``."""
    return tuple(name.strip() for name in keep.split(",")) if keep else ()
