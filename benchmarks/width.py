"""How far trained ensembles are from the exact Gaussian process of infinite width, as width grows.

Each problem is a function drawn from that Gaussian process, with noise on its rows. Members know
the true prior and noise. ``rms`` trains all layers and tends to the formula of
`docs/infinite_width.md`; ``random-features`` trains the last layer alone.

    python -m benchmarks.width            # runs what the record lacks, writes record and page
    python -m benchmarks.width --page     # the page from the record
"""

import json
import sys
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import jax
import numpy as np

from anchored import MLP, Data, Gaussian, Prior, Schedule, fit_ensemble, gp
from anchored._files import write_whole
from anchored.metrics import GPComparison
from anchored.paper.prose import table
from anchored.prediction.predictive import Predictive
from benchmarks.sections import write_section

ROOT = Path(__file__).resolve().parents[1]
RECORD, PAGE = ROOT / "benchmarks/results/width.json", ROOT / "docs/infinite_width.md"
HEADING = "## How far, measured\n"
SETTINGS: dict[str, Any] = {
    "problems": 8,
    "members": 20,
    "rows": 50,
    "columns": 2,
    "noise_var": 0.1,
    "first_var": 2.0,
    "steps": 10_000,
    "rate": 0.5,  # times the last layer's prior deviation
    "places": 100,
    "outside": 3.0,  # times as far out
}
_TOP = """Made from a record by `python -m benchmarks.width`. From the Gaussian process,
{problems} functions of {columns} inputs were drawn. Each is seen at {rows} rows with noise of
variance {noise_var:g}. The {members} members are given the true prior and noise. There are two sets
of {places} inputs. Those called inside are like the rows. Those called outside are {outside:g}
times as far from the centre. The columns of variances show the epistemic variance of the members
divided by the exact epistemic variance, as a geometric mean over the inputs. The mean error is the
root mean square difference between the mean of the members and the exact mean inside, in units of
the exact epistemic deviation. For {members} exact draws it is {draws:.2f}. Standard errors are over
the functions."""
_END = """With a fully trained layer of 50 nodes, the members have {usual} times the exact
variance, inside and outside. More width does not help: with {width} nodes they have {wide} times
the exact variance, as the formula predicts. At this width the members of `random-features` have
{near} times the exact variance, and their mean error equals that of exact draws."""
WIDTHS = (50, 200, 800)
METHODS = ("rms", "random-features")


class Problem(NamedTuple):
    """Rows of a drawn function, and places to look at."""

    x: np.ndarray
    y: np.ndarray
    places: dict[str, np.ndarray]

    @classmethod
    def draw(cls, seed: int) -> "Problem":
        s, rng = SETTINGS, np.random.default_rng(seed)
        x = rng.normal(size=(s["rows"], s["columns"]))
        inside = rng.normal(size=(s["places"], s["columns"]))
        cov = kernels(x, x)[0] + s["noise_var"] * np.eye(len(x))
        y = np.linalg.cholesky(cov) @ rng.normal(size=len(x))
        return cls(x, y, {"inside": inside, "outside": s["outside"] * inside})


def kernels(x1: np.ndarray, x2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """K and T of the page, for one ReLU layer under the paper's prior."""

    def first(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return SETTINGS["first_var"] * (1 + np.sum(a * b, axis=-1) / SETTINGS["columns"])

    before = first(x1[:, None], x2[None])
    norm = np.sqrt(first(x1, x1)[:, None] * first(x2, x2)[None])
    angle = np.arccos(np.clip(before / norm, -1, 1))
    prior = norm * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    return prior, prior + before * (np.pi - angle) / (2 * np.pi)


def limit(problem: Problem, x: np.ndarray) -> Predictive:
    """What fully trained members tend to: the page's formula, averaged over anchors and noise."""
    (prior, tangent), (cross, tangent_cross) = kernels(problem.x, problem.x), kernels(x, problem.x)
    noise = SETTINGS["noise_var"] * np.eye(len(problem.x))
    gain = np.linalg.solve(tangent + noise, tangent_cross.T).T
    var = [kernels(row[None], row[None])[0].item() for row in x]
    var += np.sum((gain @ (prior + noise) - 2 * cross) * gain, axis=1)
    return _as_predictive(gain @ problem.y, var)


def exact(problem: Problem, x: np.ndarray) -> Predictive:
    """The Gaussian process' own posterior."""
    network = MLP((1,))
    kernel = gp.twin(network, Prior.for_network(network, problem.x, SETTINGS["first_var"]))
    dist = gp.condition(kernel, problem.x, problem.y, SETTINGS["noise_var"]).predict(x)
    return _as_predictive(dist.mean[:, 0], dist.epistemic_var[:, 0])


def _as_predictive(mean: np.ndarray, var: np.ndarray) -> Predictive:
    return Predictive(mean, var, np.full(len(mean), SETTINGS["noise_var"]))


def trained(problem: Problem, method: str, width: int, seed: int) -> dict[str, Predictive]:
    s, network = SETTINGS, MLP((width,))
    schedule = Schedule.of_steps(s["steps"], s["rows"], s["rows"], s["rate"] / np.sqrt(width))
    ensemble = fit_ensemble(
        jax.random.key(seed),
        network,
        Prior.for_network(network, problem.x, s["first_var"]),
        Gaussian(s["noise_var"]),
        Data.make(problem.x, problem.y),
        method=method,
        n_members=s["members"],
        schedule=schedule,
    )
    assert not ensemble.dropped
    moments = {where: ensemble.moments(x) for where, x in problem.places.items()}
    return {
        where: Predictive.from_members(mean[..., 0], var[..., 0])
        for where, (mean, var) in moments.items()
    }


def measured(problem: Problem, found: dict[str, Predictive]) -> dict[str, dict[str, float]]:
    """Beside the exact posterior: the epistemic variances, and the means in its deviations."""
    numbers = {}
    for where, x in problem.places.items():
        truth, dist = exact(problem, x), found[where]
        apart = (dist.mean - truth.mean) / np.sqrt(truth.epistemic_var)
        ratio = GPComparison.between(dist, truth).epistemic_ratio
        assert ratio is not None
        numbers[where] = {"ratio": ratio, "mean_error": float(np.sqrt(np.mean(apart**2)))}
    return numbers


def run() -> None:
    """Cells that the record has are not run again."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if record.get("settings") != SETTINGS:
        record = {"settings": SETTINGS, "cells": {}}
    for seed in range(SETTINGS["problems"]):
        problem = Problem.draw(seed)
        found = {where: limit(problem, x) for where, x in problem.places.items()}
        record["cells"][f"limit/inf/{seed}"] = measured(problem, found)
        for width in WIDTHS:
            for method in METHODS:
                label = f"{method}/{width}/{seed}"
                if label not in record["cells"]:
                    found = trained(problem, method, width, seed)
                    record["cells"][label] = measured(problem, found)
                    write_whole(RECORD, (json.dumps(record, indent=1) + "\n").encode())
                    print(label, record["cells"][label], flush=True)


def summary(record: dict, method: str, width: object, where: str, name: str) -> tuple[float, float]:
    """Mean over problems and its standard error; of ratios the geometric one."""
    wanted = f"{method}/{width}/"
    cells = [cell for label, cell in record["cells"].items() if label.startswith(wanted)]
    values = np.array([cell[where][name] for cell in cells])
    if name == "ratio":
        logs = np.log(values)
        mean = np.exp(logs.mean())
        return float(mean), float(mean * logs.std(ddof=1) / np.sqrt(len(logs)))
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def section(record: dict) -> str:
    """What `docs/infinite_width.md` says of the record."""
    s = record["settings"]

    def cells(method: str, width: object) -> list[str]:
        found = [summary(record, method, width, w, "ratio") for w in ("inside", "outside")]
        error = summary(record, method, width, "inside", "mean_error")
        return [f"{mean:.2f} ± {se:.2f}" for mean, se in (*found, error)]

    rows = [[f"`{m}`", f"{w:,}", *cells(m, w)] for m in METHODS for w in WIDTHS]
    rows.append(["`rms`, by the formula", "infinite", *cells("limit", "inf")])
    header = ("method", "nodes", "variance inside", "variance outside", "mean error")
    usual, wide, near = (
        " and ".join(f"{summary(record, *which, w, 'ratio')[0]:.2f}" for w in ("inside", "outside"))
        for which in (("rms", 50), ("rms", WIDTHS[-1]), ("random-features", WIDTHS[-1]))
    )
    top = _TOP.format(**s, draws=s["members"] ** -0.5)
    end = _END.format(usual=usual, wide=wide, near=near, width=WIDTHS[-1])
    return "\n".join([HEADING, fill(top, 105), "", table(header, rows), "", fill(end, 105), ""])


if __name__ == "__main__":
    if sys.argv[1:] != ["--page"]:
        run()
    write_section(PAGE, section(json.loads(RECORD.read_text())))
