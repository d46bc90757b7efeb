"""What others have published on the UCI tables, in the target's units, as printed.

Pearce et al. 2020, tables 1, 4, 5, 6 and the table of hyperparameters; the rest from the papers
in `PUBLISHED.sources`. The paper's song is the whole table of 515,345 rows; its ReLU GP saw 10,000
rows of protein and 20,000 of song. Where tables 1 and 6 repeat table 5, the number is kept once.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from anchored.paper.tables.uci_scores import Score
from anchored.paper.tables.uci_settings import PAPER_SETTINGS, PRINTED, as_printed
from anchored.tuning import Settings

Table = Mapping[str, Mapping[str, Score]]  # method, data set


def _table(methods: list[str], scores: str, sign: int = 1) -> Table:
    """By method; the text has a data set a line."""
    rows = {name: cells for name, *cells in map(str.split, scores.strip().splitlines())}
    return MappingProxyType(
        {
            method: MappingProxyType(
                {row: _score(cells[i], sign) for row, cells in rows.items() if cells[i] != "--"}
            )
            for i, method in enumerate(methods)
        }
    )


def _score(cell: str, sign: int) -> Score:
    mean, _, error = cell.partition("±")
    return Score(sign * float(mean), float(error) if error and error != "NA" else None)


def _rounded(dataset: str, row: Settings) -> dict[str, float]:
    """The table has two decimals of what we compute."""
    printed = as_printed(dataset, row)
    return printed | {name: round(printed[name], 2) for name in ("first_weight_var", "single_std")}


@dataclasses.dataclass(frozen=True)
class Published:
    """Everything published, for the page of benchmarks.

    Attributes
    ----------
    rmse, nll : the paper's variants by the names of our methods (tables 4 and 5); ``nll`` has
        Deep Ensembles (table 1) too.
    inference : NLL of inference methods (table 6, signs turned), by the paper's names.
    elsewhere : NLL of boosting and evidential regression, published without errors.
    hyperparameters : the paper's, as it prints them.
    sources : where they come from.
    """

    rmse: Table
    nll: Table
    inference: Table
    elsewhere: Table
    hyperparameters: Mapping[str, Mapping[str, float]]
    sources: tuple[str, ...]


PUBLISHED = Published(
    rmse=_table(**PRINTED["rmse"]),
    nll=MappingProxyType({**_table(**PRINTED["nll"]), **_table(**PRINTED["deep_ensembles"])}),
    inference=_table(**PRINTED["log_likelihood"], sign=-1),
    elsewhere=_table(**PRINTED["elsewhere"]),
    hyperparameters=MappingProxyType(
        {name: MappingProxyType(_rounded(name, row)) for name, row in PAPER_SETTINGS.items()}
    ),
    sources=tuple(PRINTED["sources"]),
)
