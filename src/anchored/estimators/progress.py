"""Progress bars, shown only on request."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anchored.core.training import OnCheck, Progress


@contextmanager
def _bar(title: str, first_words: str) -> Iterator:
    """Yield ``update(words, done, total)`` of a bar with the time left, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    columns = (
        TextColumn(title),
        BarColumn(bar_width=20),  # which shrinks first
        TextColumn("{task.description}"),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        TextColumn("left"),
    )
    with Bar(*columns, console=Console(stderr=True), speed_estimate_period=3600) as bar:
        task = bar.add_task(first_words, total=None)

        def update(words: str, done: float, total: float) -> None:
            bar.update(task, description=words, completed=done, total=total)

        yield update
        bar.update(task, total=bar.tasks[task].completed)  # full, also after an early stop


@contextmanager
def progress_bar(verbose: int, title: str) -> Iterator[OnCheck | None]:
    """Yield a callback for `fit_ensemble` that draws a bar, or None if not ``verbose``."""
    if not verbose:
        yield None
        return
    with _bar(title, "compiling") as update:

        def on_check(progress: Progress) -> None:
            words = f"step {progress.step:,} of {progress.n_steps:,}"
            words += f", objective {progress.objective.mean():.4g}"
            update(words, progress.step, progress.n_steps)

        yield on_check


@contextmanager
def cell_bar(title: str) -> Iterator[Callable[[str, float, float], None]]:
    """Yield a callback for `anchored.paper.runner.run` that draws a bar of the cells."""
    with _bar(title, "starting") as update:
        yield update
