"""Runs the UCI benchmark: data sets x methods x standard splits, resumable, with records.

A record is one small JSON file for each data set and method. A split enters it as soon as it
is done, so an interrupt loses at most the splits under way; a later run goes on from there
unless the settings changed.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anchored import metrics
from anchored._files import make_folder, write_whole
from anchored.core.members import n_cores
from anchored.datasets import load_paper_split, load_uci_split
from anchored.errors import EnsembleError
from anchored.paper.runner import plain, versions
from anchored.paper.tables.uci.methods import METHODS, Method, Task
from anchored.paper.tables.uci.paper import PAPER_SETTINGS
from anchored.prediction.predictive import Predictive
from anchored.tuning import Settings

SCHEMA = 1
OWN_SPLITS = "paper-splits"  # the paper's settings on the paper's own splits
TUNED = "tuned"  # in place of a preset: the paper's methods with settings of one's own
PRESETS = tuple(preset for preset in METHODS if preset != TUNED)
SMOKE_SHARE = 0.02  # of the epochs, in the smoke preset
SCORES = ("rmse", "nll", "nll_student_t", "crps", "coverage_90", "calibration_error", "seconds")
Record = dict[str, Any]
OnSplit = Callable[[str, float, float], None]  # words, splits done so far, splits in all


class Job(NamedTuple):
    """One data set by one method: the splits of one record."""

    preset: str
    dataset: str
    method: str
    splits: tuple[int, ...]
    settings: Settings
    seed: int

    def path(self, folder: Path) -> Path:
        return folder / self.preset / self.dataset / f"{self.method}.json"


def settings_of(preset: str, dataset: str) -> Settings:
    """The paper's row for the data set, cut short in the smoke preset."""
    settings = PAPER_SETTINGS[dataset]
    if preset != "smoke":
        return settings
    return dataclasses.replace(settings, epochs=max(1, int(settings.epochs * SMOKE_SHARE)))


def run(
    jobs: Sequence[Job], folder: Path, data_dir, n_side_by_side: int, on_split: OnSplit
) -> list[Record]:
    """Do what is not yet in ``folder``; the records of all jobs."""
    n_all, n_done, records = sum(len(job.splits) for job in jobs), 0, []
    for job in jobs:
        words = f"{job.dataset} {job.method}"
        on_split(words, n_done, n_all)
        record = start_or_resume(job, folder)
        missing = [split for split in job.splits if str(split) not in record["splits"]]
        n_done += len(job.splits) - len(missing)
        # Closed at once if we are interrupted: it then begins no other split.
        with closing(_scored(job, missing, data_dir, n_side_by_side)) as scored:
            for split, scores in scored:
                record["splits"][str(split)] = plain(scores)
                _write(record, job.path(folder))
                n_done += 1
                on_split(words, n_done, n_all)
        records.append(record)
    return records


def start_or_resume(job: Job, folder: Path) -> Record:
    """The job's record with the splits done so far; empty if there is none or it is outdated."""
    fresh = {
        "schema": SCHEMA,
        "preset": job.preset,
        "dataset": job.dataset,
        "method": job.method,
        "seed": job.seed,
        "settings": None if job.preset == "defaults" else plain(dataclasses.asdict(job.settings)),
        "versions": versions(),
        "cores": n_cores(),
        "splits": {},
    }
    try:
        found = json.loads(job.path(folder).read_text(encoding="utf-8"))
        done = {
            split: scores
            for split, scores in found["splits"].items()
            if split.isdecimal() and set(SCORES) <= scores.keys()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # none, or spoiled
        return fresh
    same = all(
        found.get(key) == fresh[key] for key in fresh if key not in ("versions", "cores", "splits")
    )
    return fresh | {"splits": done} if same else fresh


def _scored(
    job: Job, splits: Sequence[int], data_dir, n_side_by_side: int
) -> Generator[tuple[int, dict], None, None]:
    """Scores of each split, as it is done."""
    method = METHODS[job.preset][job.method]
    if not splits:
        return
    n_workers = max(1, min(n_side_by_side, len(splits) - 1)) if method.side_by_side else 1

    def one(split: int) -> dict:
        return _score(method, job, split, data_dir, n_workers)

    # The first split alone: the others then find its programs compiled.
    yield splits[0], _score(method, job, splits[0], data_dir, 1)
    with ThreadPoolExecutor(n_workers) as pool:
        waiting: dict[Future, int] = {pool.submit(one, split): split for split in splits[1:]}
        error = None
        try:
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    split = waiting.pop(future)
                    if future.exception() is None:
                        yield split, future.result()
                        continue
                    # Begin no other, but keep those under way.
                    error = error or future.exception()
                    waiting = {f: n for f, n in waiting.items() if not f.cancel()}
        finally:
            for future in waiting:
                future.cancel()
    if error is not None:
        raise error


def _score(method: Method, job: Job, split: int, data_dir, n_side_by_side: int) -> dict:
    load = load_paper_split if job.preset == OWN_SPLITS else load_uci_split
    rows = load(job.dataset, split, data_dir)
    task = Task(job.dataset, split, rows.x_train, rows.y_train, rows.x_test, job.seed)
    started, dist, failed = time.perf_counter(), None, {}
    try:
        dist = method.fit(task, job.settings)
    except EnsembleError:
        failed = {"failed": "diverged"}
    except np.linalg.LinAlgError:
        failed = {"failed": "singular"}
    # Its share of the clock: fits that ran side by side count once together.
    seconds = (time.perf_counter() - started) / n_side_by_side
    found = dict.fromkeys(SCORES) if dist is None else scores(dist, rows.y_test)
    return found | {"seconds": seconds} | failed


def scores(dist: Predictive, y: np.ndarray) -> dict[str, float | None]:
    """Every score of one split, by the predictive's own family where there is a choice."""
    gaussian = dataclasses.replace(dist, family="gaussian")
    student = dataclasses.replace(dist, family="student-t")
    has_spread = dist.n_members is not None and dist.n_members > 1
    return {
        "rmse": metrics.rmse(dist, y),
        "nll": metrics.nll(gaussian, y),
        "nll_student_t": metrics.nll(student, y) if has_spread else None,
        "crps": metrics.crps(dist, y),
        "coverage_90": metrics.coverage(dist, y, 0.9),
        "calibration_error": metrics.calibration_error(dist, y),
    }


def _write(record: Record, path: Path) -> None:
    """One line for each split: small, and a change of one split is one line."""
    rest = {key: value for key, value in record.items() if key != "splits"}
    head = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rest.items()]
    numbers = sorted(record["splits"].items(), key=lambda item: int(item[0]))
    lines = [f'"{split}": {json.dumps(scores, allow_nan=False)}' for split, scores in numbers]
    text = "{\n" + ",\n".join(head) + ',\n"splits": {\n' + ",\n".join(lines) + "\n}}\n"
    make_folder(path.parent)
    write_whole(path, text.encode())
