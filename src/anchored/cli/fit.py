"""``anchored fit``: fit a table, score it on held-out rows, draw a picture."""

import io
import json
import time
from pathlib import Path
from typing import Annotated

import typer

from anchored.cli._common import fail, make_folder, write

LEVELS = (0.5, 0.9, 0.95)
BUNDLED = ("diabetes",)


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
        fail(f"DATA must be one of {', '.join(BUNDLED)}; got {data!r}.")
    make_folder(out)
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
    write(out / "metrics.json", json.dumps(scores, indent=2).encode() + b"\n")
    picture = _draw(out / f"{data}.png", dist, y_test)
    if as_json:
        typer.echo(json.dumps(scores))
    else:
        _print_scores(scores, str(gap), picture)


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
    write(path, buffer.getvalue())
    pyplot.close(figure)
    return path
