"""One HTML file that shows how far you can trust a fitted model.

`regression`, `classes` and `making` compute what the page shows, `verdicts` puts it into words and
`figures` draws it; the templates contain the rest of the text. `page` fills in the templates, and
`inputs` knows the rows and columns of the inputs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from anchored import __version__
from anchored._files import write_whole
from anchored.errors import bad_value
from anchored.estimators import AnchoredClassifier, AnchoredRegressor
from anchored.metrics import GPComparison
from anchored.prediction.predictive import Predictive, checked_coverage
from anchored.reporting import classes, making, regression, verdicts, why
from anchored.reporting.inputs import Inputs, names_of_rows
from anchored.reporting.making import comparison as comparison
from anchored.reporting.page import rendered
from anchored.reporting.words import plain


def report(
    estimator,
    X,
    y,
    *,
    path=None,
    coverage: float = 0.9,
    feature_names: Sequence[str] | None = None,
    title: str | None = None,
    about: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    gp: GPComparison | str | None = None,
    row_names: Sequence[str] | None = None,
    dist: Predictive | None = None,
) -> str:
    """A self-contained HTML page that shows how far you can trust a fitted estimator.

    Parameters
    ----------
    estimator : fitted `AnchoredRegressor` or `AnchoredClassifier`.
    X, y : rows that it was not trained on, and their targets.
    path : file to write the page to.
    coverage : level of the intervals judged; for classes the share of rows answered.
    feature_names : names of the columns of X, if it has none.
    title : heading of the page.
    about : more lines for "what was fitted", such as the file and the date.
    notes : remarks to show, such as warnings of the fit.
    gp : comparison of a regressor with the infinite-width GP, or a sentence that says why there is
        none; by default it is computed.
    row_names : names of the rows; by default a frame's index, or numbers from 0.
    dist : the result of ``estimator.predict_dist(X)``, if you have it already.

    >>> import anchored
    >>> model = anchored.AnchoredRegressor(n_members=2, epochs=5, noise_var=0.1, random_state=0)
    >>> model = model.fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> page = anchored.report(model, [[0.5], [1.5]], [0.4, 1.6], title="A line")
    >>> page[:15], "A line" in page
    ('<!DOCTYPE html>', True)
    """
    if not isinstance(estimator, (AnchoredRegressor, AnchoredClassifier)):
        raise TypeError(
            "`estimator` must be a fitted AnchoredRegressor or AnchoredClassifier; got "
            f"{type(estimator).__name__}. For a pipeline, pass its last step and the transformed X."
        )
    coverage = checked_coverage(coverage)
    dist = estimator.predict_dist(X) if dist is None else dist
    n_rows = len(dist.mean)
    rows = names_of_rows(X, n_rows) if row_names is None else [plain(n, 60) for n in row_names]
    if len(rows) != n_rows:
        raise bad_value("row_names", f"{len(rows)} of them", f"{n_rows} names, one for each row")
    inputs = Inputs.of(estimator, X, feature_names)
    asked = (estimator, dist, inputs, y, rows, coverage)
    if isinstance(estimator, AnchoredClassifier):
        chapters = [classes.chapter(*asked)]
    else:
        chapters = regression.chapters(*asked)
    page = rendered(
        "page.html",
        title=f"How far to trust {_target(y)}" if title is None else title,
        estimator=type(estimator).__name__,
        n_rows=n_rows,
        coverage=coverage,
        chapters=chapters,
        notes=notes,
        facts=making.facts(estimator, about or {}),
        gp=comparison(estimator, X, dist) if gp is None else gp,
        members=making.members(estimator),
        least_sure=why.least_sure(estimator, dist, inputs, rows),
        version=__version__,
    )
    if path is not None:
        write_whole(Path(path), page.encode())
    return str(page)


def headline(estimator, X, y, coverage: float = 0.9, *, dist: Predictive | None = None) -> str:
    """The first sentence of a report: whether error bars (or probabilities) hold on these rows.

    ``dist`` is the result of ``estimator.predict_dist(X)``, if you already have it.
    """
    dist = estimator.predict_dist(X) if dist is None else dist
    if not isinstance(estimator, AnchoredClassifier):
        return verdicts.of_intervals(dist, dist.observed(y), coverage).headline
    labels = classes.numbers(estimator.classes_, y, len(dist.mean))
    return verdicts.of_confidence(dist.probabilities, labels).headline


def _target(y) -> str:
    name = getattr(y, "name", None)
    return f"predictions of {plain(name, 60)}" if name is not None else "these predictions"
