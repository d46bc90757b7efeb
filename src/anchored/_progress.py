"""A progress bar for training, shown only when asked for."""

from collections.abc import Iterator
from contextlib import contextmanager

from anchored.training import OnCheck, Progress


@contextmanager
def progress_bar(verbose: int, title: str) -> Iterator[OnCheck | None]:
    """Yield a callback for `fit_ensemble` that draws a bar, or None if not ``verbose``."""
    if not verbose:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(title), BarColumn(), TextColumn("{task.description}"))
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("compiling", total=None)

        def on_check(progress: Progress) -> None:
            words = f"step {progress.step:,} of {progress.n_steps:,}"
            words += f", objective {progress.objective.mean():.4g}"
            bar.update(task, description=words, total=progress.n_steps, completed=progress.step)

        yield on_check
        bar.update(task, total=bar.tasks[task].completed)  # full, also after an early stop
