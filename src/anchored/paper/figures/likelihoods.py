"""Figure 5: conditional likelihoods of single parameters, in regression and classification."""

import dataclasses
from functools import partial

import jax
import numpy as np

from anchored.core.ensembles import fit_ensemble
from anchored.core.likelihoods import Categorical, Gaussian
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data, Standardiser
from anchored.core.training import Schedule
from anchored.core.tree import take_members
from anchored.datasets import load_images, load_table
from anchored.paper.catalogue import CATALOGUE
from anchored.paper.figures.conditional import Trained
from anchored.paper.plotting import BLUE, ORANGE
from anchored.paper.prose import sentences
from anchored.paper.runner import Cell, Context, Experiment, Record, Table

LEAVES = {"0/weight": "W₁", "0/bias": "b₁", "1/weight": "W₂", "1/bias": "b₂", "2/weight": "W₃"}
WORDS = {"boston": "Boston", "diabetes": "diabetes", "mnist": "MNIST", "digits": "digits"}
METHODS = {"anchored": "member of an anchored ensemble", "regularised": "regularised network"}
FLAT = 0.1  # nats: a likelihood that moves by less over the whole range is flat
CLOSE = 0.05  # total variation up to which a curve counts as close to normal
WHOLE = 3.0  # nats: a curve higher than this below its maximum at an end is cut off


@dataclasses.dataclass(frozen=True)
class Task:
    """One data set and how the network is trained on it."""

    data: str  # a key of WORDS
    n_rows: int | None  # the first rows only; None: all
    first_var: float
    epochs: int
    learning_rate: float
    noise_var: float | None = None  # of standardised targets; None: classes


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper names the data, two hidden layers and four parameters; the rest is ours."""

    regression: Task = Task("boston", None, 10.0, 1000, 0.005, noise_var=0.06)
    classification: Task = Task("mnist", 5_000, 10.0, 40, 0.005)
    methods: tuple[str, ...] = tuple(METHODS)  # the first is drawn
    hidden: tuple[int, int] = (50, 50)
    batch_size: int = 64
    n_drawn: int = 4  # parameters of each leaf in the picture
    n_measured: int = 20  # and in the numbers, the drawn ones among them
    n_points: int = 64
    drop: float = 6.0  # nats below its maximum at which a curve ends,
    cap: float = 10.0  # or else prior deviations from the trained value


ABOUT = CATALOGUE["fig-likelihoods"]
PRESETS = ABOUT.presets_of(Settings())


def rows(task: Task, data_dir) -> tuple[np.ndarray, np.ndarray]:
    """Standardised tables; images with values from 0 to 1, so that blank pixels stay zero."""
    if task.data == "mnist":
        x, y, *_ = load_images("mnist", data_dir)
    else:
        x, y = load_table(task.data, data_dir)
    x, y = x[: task.n_rows].reshape(len(x[: task.n_rows]), -1), y[: task.n_rows]
    if task.noise_var is None:
        return x / x.max(), y
    standard = [Standardiser.fit(a, np.ones(len(a))).forward(a) for a in (x, y[:, None])]
    return standard[0], standard[1][:, 0]


def fit(s: Settings, task: Task, method: str, context: Context) -> Trained:
    """One network trained on all rows, its penalty centred on an anchor or on the prior mean."""
    x, y = rows(task, context.data_dir)
    classes = task.noise_var is None
    network = MLP(s.hidden, n_outputs=int(y.max()) + 1 if classes else 1)
    likelihood = Categorical() if classes else Gaussian(task.noise_var)
    data = Data.make(x, y)
    prior = Prior.for_network(network, data.x[:1], task.first_var)
    ensemble = fit_ensemble(
        jax.random.key(context.seed),
        network,
        prior,
        likelihood,
        data,
        method=method,
        n_members=2 if method == "anchored" else 1,  # one alone would not be anchored
        schedule=Schedule(task.epochs, s.batch_size, task.learning_rate, decay_rate=0.998),
    )
    return Trained(network, prior, likelihood, data, take_members(ensemble.params, 0))


def plan(s: Settings, context: Context) -> list[Cell]:
    return [
        Cell(f"{kind}/{method}", cost, partial(_cell, s, context, kind, method))
        for kind, cost in (("regression", 1.0), ("classification", 4.0))
        for method in s.methods
    ]


def _cell(s: Settings, context: Context, kind: str, method: str) -> dict:
    task: Task = getattr(s, kind)
    trained = fit(s, task, method, context)
    n_drawn = s.n_drawn if method == s.methods[0] else 0
    leaves = {}
    for number, leaf in enumerate(LEAVES):
        rng = np.random.default_rng([context.seed, number])
        positions = rng.choice(trained.size(leaf), s.n_measured, replace=False)
        curves = [trained.curve(leaf, int(i), s.cap, s.drop, s.n_points) for i in positions]
        leaves[leaf] = {
            "position": positions,
            "distance": [each.distance for each in curves],
            "fall": [each.fall for each in curves],
            "end_fall": [each.end_fall for each in curves],
            "curves": [each._asdict() for each in curves[:n_drawn]],
        }
    return {"data": WORDS[task.data], "n_rows": trained.data.n_rows, "leaves": leaves}


def combine(s: Settings, results) -> dict:
    kinds = ("regression", "classification")
    return {kind: {method: results[f"{kind}/{method}"] for method in s.methods} for kind in kinds}


def counts(leaves: list[dict]) -> dict:
    """Counts of curves: flat ones, nearly normal ones among the rest, and those not cut off."""
    fall, end_fall, distance = (
        np.concatenate([leaf[name] for leaf in leaves]) for name in ("fall", "end_fall", "distance")
    )
    bent, close, whole = fall >= FLAT, distance <= CLOSE, end_fall >= WHOLE
    return {
        "all": len(fall),
        "flat": int(np.sum(~bent)),
        "bent": int(np.sum(bent)),
        "close": int(np.sum(bent & close)),
        "whole": int(np.sum(bent & whole)),
        "close_whole": int(np.sum(bent & whole & close)),
        "median": f"{np.median(distance[bent]):.3f}" if bent.any() else "",
        "largest": f"{distance[bent].max():.3f}" if bent.any() else "",
    }


def findings(record: Record) -> list[str]:
    blocks = [
        (block, METHODS[method], counts(list(block["leaves"].values())))
        for task in record["numbers"].values()
        for method, block in task.items()
    ]
    return sentences(ABOUT.name, blocks=blocks, close=CLOSE)


def tables(record: Record) -> list[Table]:
    within = f"within {CLOSE:g}"
    header = ("", "flat", within, f"{within}, curve not cut off", "median", "largest")
    out = []
    for blocks in record["numbers"].values():
        for method, block in blocks.items():
            body = []
            for name, leaf in block["leaves"].items():
                n = counts([leaf])
                close, whole = f"{n['close']} of {n['bent']}", f"{n['close_whole']} of {n['whole']}"
                row = (LEAVES[name], str(n["flat"]), close, whole, n["median"], n["largest"])
                body.append(row)
            title = f"{block['data']}, {METHODS[method]}: total variation from a normal"
            out.append(Table(title, header, body))
    return out


def draw(figure, record: Record) -> None:
    settings = record["settings"]
    sides = figure.subfigures(1, len(record["numbers"]), wspace=0.04)
    for side, (kind, blocks) in zip(sides, record["numbers"].items(), strict=True):
        block = blocks[settings["methods"][0]]
        axes = side.subplots(len(LEAVES), settings["n_drawn"], sharey=True)
        side.suptitle(f"{kind.capitalize()}: {block['data']}")
        side.supxlabel("prior deviations from the trained value", fontsize=8)
        for row, (name, leaf) in zip(axes, block["leaves"].items(), strict=True):
            row[0].set_ylabel(LEAVES[name], rotation=0, ha="right", va="center", fontsize=11)
            for ax, one in zip(row, leaf["curves"], strict=True):
                values, ends = one["values"], (one["values"][0], one["values"][-1])
                ax.plot(values, one["likelihood"], color=BLUE, lw=2)
                ax.plot(values, one["normal"], color=ORANGE, lw=1.3, ls="--")
                ax.set(xlim=ends, ylim=(0, 1.12), yticks=[])
                digits = [1 if abs(end) >= 1 else 2 for end in ends]
                words = [f"{end:+.{n}f}" for end, n in zip(ends, digits, strict=True)]
                ax.set_xticks(ends, words, fontsize=7)
                for label, place in zip(ax.get_xticklabels(), ("left", "right"), strict=True):
                    label.set_ha(place)
    legend = ("likelihood, all other parameters frozen", "normal with the curvature of its top")
    figure.legend(axes[0, 0].lines, legend, loc="outside lower center", ncols=2, frameon=False)


EXPERIMENT = Experiment(ABOUT, PRESETS, plan, combine, findings, tables, draw, (12, 6.6))
