"""What others have published on the UCI tables, in the target's units, as printed.

Pearce et al. 2020, tables 1, 4, 5, 6 and the table of hyperparameters; the rest from the papers
in `SOURCES`. The paper's song is the whole table of 515,345 rows; its ReLU GP saw 10,000 rows of
protein and 20,000 of song. Where tables 1 and 6 repeat table 5, the number is kept once.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from anchored.paper.tables.uci_scores import Score
from anchored.paper.tables.uci_settings import PAPER_SETTINGS, as_printed
from anchored.tuning import Settings

SOURCES = (
    "Pearce et al. 2020, tables 1, 4, 5 and 6 and the table of hyperparameters",
    "Lakshminarayanan et al. 2017",
    "yaringal/DropoutUncertaintyExps, readme",
    "google/uncertainty-baselines, baselines/uci",
    "Wasserstein gradient boosting, table 1",
)


Table = Mapping[str, Mapping[str, Score]]  # method, data set


def _table(columns: str, text: str) -> Table:
    """Columns parted by commas, one data set a line, ``--`` where nothing was published."""
    names = [name.strip() for name in columns.split(",")]
    rows = {row.split()[0]: row.split()[1:] for row in text.strip().splitlines()}
    return MappingProxyType(
        {
            name: MappingProxyType(
                {row: _score(cells[i]) for row, cells in rows.items() if cells[i] != "--"}
            )
            for i, name in enumerate(names)
        }
    )


def _score(cell: str) -> Score:
    mean, _, error = cell.partition("±")
    return Score(float(mean), float(error) if error and error != "NA" else None)


_VARIANTS = "relu-gp, erf-gp, anchored-5x50, anchored-10x50, anchored-5x50-50, single-50"

_RMSE = _table(
    _VARIANTS,
    """
    boston   2.86±0.16  2.94±0.18  3.09±0.17  3.09±0.17  3.00±0.18  3.40±0.20
    concrete 4.88±0.13  5.21±0.12  4.87±0.11  4.73±0.11  4.75±0.12  5.17±0.13
    energy   0.60±0.02  0.78±0.03  0.35±0.01  0.34±0.01  0.40±0.01  0.40±0.01
    kin8nm   0.07±0.00  0.08±0.00  0.07±0.00  0.07±0.00  0.06±0.00  0.07±0.00
    naval    0.00±0.00  0.00±0.00  0.00±0.00  0.00±0.00  0.00±0.00  0.00±0.00
    power    3.97±0.04  3.94±0.04  4.07±0.04  4.07±0.04  4.03±0.04  4.23±0.04
    protein  4.34±0.02  4.23±0.02  4.36±0.02  4.34±0.02  4.23±0.02  4.56±0.02
    wine     0.61±0.01  0.60±0.01  0.63±0.01  0.62±0.01  0.62±0.01  0.64±0.01
    yacht    0.60±0.08  1.48±0.15  0.57±0.05  0.54±0.05  0.85±0.08  0.81±0.07
    song     9.01±NA    8.90±NA    8.82±NA    8.82±NA    8.66±NA    8.77±NA
    """,
)

_NLL = _table(
    _VARIANTS,
    """
    boston   2.45±0.05   2.46±0.05  2.52±0.05  2.50±0.05  2.50±0.07  2.70±0.05
    concrete 2.96±0.02   3.06±0.02  2.97±0.02  2.94±0.02  2.94±0.02  3.08±0.03
    energy   0.86±0.02   1.06±0.03  0.96±0.13  0.52±0.06  0.61±0.07  0.57±0.03
    kin8nm   -1.22±0.01  -1.17±0.00 -1.09±0.01 -1.16±0.01 -1.25±0.01 -1.17±0.01
    naval    -10.05±0.02 -9.66±0.04 -7.17±0.03 -7.29±0.02 -7.08±0.13 -6.58±0.04
    power    2.80±0.01   2.79±0.01  2.83±0.01  2.83±0.01  2.82±0.01  2.86±0.01
    protein  2.88±0.00   2.86±0.00  2.89±0.01  2.88±0.01  2.86±0.01  2.94±0.00
    wine     0.92±0.01   0.91±0.01  0.95±0.01  0.94±0.01  0.94±0.01  0.97±0.01
    yacht    0.49±0.07   1.50±0.13  0.37±0.08  0.18±0.03  0.04±0.08  1.50±0.02
    song     3.62±NA     3.61±NA    3.60±NA    3.60±NA    3.57±NA    3.59±NA
    """,
)

_DEEP = _table(
    "deep-ensemble",
    """
    boston   2.41±0.25
    concrete 3.06±0.18
    energy   1.38±0.22
    kin8nm   -1.20±0.02
    naval    -5.63±0.05
    power    2.79±0.04
    protein  2.83±0.02
    wine     0.94±0.12
    yacht    1.18±0.21
    song     3.35±NA
    """,
)

# Table 6 prints log likelihoods, not negative; its column of anchored ensembles is table 5's.
_LOG_LIKELIHOOD = _table(
    "Drop conv., Drop tune, VMG, HS-BNN, PBP-MV, SGHMC tune, SGHMC adap.",
    """
    boston   -2.40±0.04 -2.40±0.04 -2.46±0.09 -2.54±0.15 -2.54±0.08 -2.49±0.15 -2.54±0.04
    concrete -2.97±0.02 -2.93±0.02 -3.01±0.03 -3.09±0.06 -3.04±0.03 -4.17±0.72 -3.38±0.24
    energy   -1.72±0.01 -1.21±0.01 -1.06±0.03 -2.66±0.13 -1.01±0.01 --         --
    kin8nm   0.97±0.00  1.14±0.01  1.10±0.01  1.12±0.03  1.28±0.01  --         --
    naval    3.91±0.01  4.45±0.00  2.46±0.00  5.52±0.10  4.85±0.06  --         --
    power    -2.79±0.01 -2.80±0.01 -2.82±0.01 -2.81±0.03 -2.78±0.01 --         --
    protein  -2.87±0.00 -2.87±0.00 -2.84±0.00 -2.89±0.00 -2.77±0.01 --         --
    wine     -0.92±0.01 -0.93±0.01 -0.95±0.01 -0.95±0.05 -0.97±0.01 -1.29±0.28 -1.04±0.17
    yacht    -1.38±0.01 -1.25±0.01 -1.30±0.02 -2.33±0.01 -1.64±0.02 -1.75±0.19 -1.10±0.08
    """,
)

_ELSEWHERE = _table(
    "NGBoost, Evidential, WGBoost",
    """
    boston   2.43  2.35  2.47
    concrete 3.04  3.01  2.83
    energy   0.60  1.39  0.53
    kin8nm   -0.49 -1.24 -0.44
    naval    -5.34 -5.73 -5.47
    power    2.79  2.81  2.60
    protein  2.81  2.63  2.70
    wine     0.91  0.89  0.95
    yacht    0.20  1.03  0.16
    """,
)


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
    rmse=_RMSE,
    nll=MappingProxyType({**_NLL, **_DEEP}),
    inference=MappingProxyType(
        {
            method: MappingProxyType({row: Score(-s.mean, s.error) for row, s in scores.items()})
            for method, scores in _LOG_LIKELIHOOD.items()
        }
    ),
    elsewhere=_ELSEWHERE,
    hyperparameters=MappingProxyType(
        {name: MappingProxyType(_rounded(name, row)) for name, row in PAPER_SETTINGS.items()}
    ),
    sources=SOURCES,
)
