"""Sentences, tables and learning curves from the record of the cart-pole."""

from typing import NamedTuple

import numpy as np

from anchored.paper.plotting import GREY, SERIES
from anchored.paper.prose import sentences
from anchored.paper.runner import Record, Table, standard_error

NOISES = {"low": 0.001, "medium": 0.002, "high": 0.005}
WORDS = {
    "unconstrained": "unconstrained",
    "regularised": "regularised",
    "anchored": "anchored",
    "rms": "rms",
    "anchored-averaged": "anchored, planned with the members' mean",
    "true": "true model",
    "random": "random actions",
}
AVERAGED = "-averaged"  # behind a method: planned with the mean of the members
MODELS = "models"  # in place of a noise, in the labels of models alone
_LEARNT = ("anchored", "unconstrained", "regularised")
_SCORES = {
    "error": "error of the mean, in deviations of the noise",
    "spread": "spread of the members, in the same deviations",
    "lost": "NLL above the true distribution's, nats a step",
}
_CLEAR = 2.0  # standard errors


class Mean(NamedTuple):
    """Over seeds."""

    value: float
    error: float | None

    @classmethod
    def of(cls, values) -> "Mean":
        return cls(float(np.mean(values)), standard_error(values))

    @property
    def sign(self) -> int:
        """The sign of the difference, 1 or -1, if it is clearly not zero; otherwise 0."""
        far = self.error is not None and abs(self.value) > _CLEAR * self.error
        return int(np.sign(self.value)) if far else 0

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec}}" + ("" if self.error is None else f" ± {self.error:{spec}}")

    def __str__(self) -> str:
        return format(self, ".1f")


class Curves:
    """The runs of a record, by noise and method."""

    def __init__(self, record: Record):
        self.runs: dict[str, dict[str, dict[int, list[float]]]] = {}
        self.models: dict[str, list[dict[str, float]]] = {}
        for label, result in record["numbers"].items():
            group, _, seed = label.partition("/")
            noise, _, name = group.partition(":")
            if noise == MODELS:
                self.models.setdefault(name, []).append(result)
                continue
            by_seed = self.runs.setdefault(noise, {}).setdefault(name, {})
            by_seed[int(seed)] = result["returns"]
        self.settings = main_settings(record)
        self.n_last = self.settings["n_last"]

    @property
    def noises(self) -> list[str]:
        return [noise for noise in NOISES if noise in self.runs]

    def model(self, name: str, score: str) -> Mean:
        """A score of the models without planning, all fitted to the same rows."""
        return Mean.of([result[score] for result in self.models[name]])

    def names(self, noise: str) -> list[str]:
        """Methods in the order of the page: the three main ones, shorter trainings, limits."""
        found = self.runs[noise]
        stopped = sorted((n for n in found if "@" in n), key=_in_order)
        known = [name for name in WORDS if name in found]
        limits = [name for name in known if name in ("true", "random")]
        return [*(name for name in known if name not in limits), *stopped, *limits]

    def ends(self, noise: str, name: str) -> dict[int, float]:
        """Where each seed ends: the mean of its last trials."""
        runs = self.runs.get(noise, {}).get(name, {})
        return {seed: float(np.mean(run[-self.n_last :])) for seed, run in runs.items()}

    def end(self, noise: str, name: str) -> Mean | None:
        ends = self.ends(noise, name)
        return Mean.of(list(ends.values())) if ends else None

    def whole(self, noise: str, name: str) -> Mean | None:
        """The mean over all trials but the first, which uses random actions."""
        runs = self.runs.get(noise, {}).get(name, {}).values()
        means = [float(np.mean(run[1:] or run)) for run in runs]
        return Mean.of(means) if means else None

    def less(self, noise: str, name: str, other: str) -> Mean | None:
        """How much higher one method ends than the other, over the seeds that both have."""
        return _difference(self.ends(noise, name), self.ends(noise, other))

    def less_at_first(self, noise: str, name: str, other: str) -> Mean | None:
        """The same difference in the first planned trial, which is the second of all."""
        runs = (self.runs.get(noise, {}).get(each, {}) for each in (name, other))
        return _difference(*({seed: run[1] for seed, run in of.items()} for of in runs))

    def curve(self, noise: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard error over seeds, trial by trial."""
        runs = np.array(list(self.runs[noise][name].values()))
        error = np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0 * runs[0]
        return runs.mean(axis=0), error


def _difference(one: dict[int, float], two: dict[int, float]) -> Mean | None:
    both = sorted(one.keys() & two.keys())
    return Mean.of([one[seed] - two[seed] for seed in both]) if both else None


def main_settings(record: Record) -> dict:
    """The curves of the runs that are not stopped early, if there are any."""
    groups = record["settings"]
    return groups[min(groups, key=lambda group: ("@" in group, group))]


def _in_order(name: str) -> tuple[str, int]:
    method, _, n_steps = name.partition("@")
    return method, int(n_steps)


def words(name: str) -> str:
    method, _, n_steps = name.partition("@")
    return WORDS[method] + (f", {int(n_steps):,} steps" if n_steps else "")


def findings(record: Record) -> list[str]:
    curves = Curves(record)
    high = curves.noises[-1]
    told = [
        {
            "noise": noise,
            "variance": NOISES[noise],
            "n_seeds": len(curves.ends(noise, "anchored")),
            "ends": [(words(n), curves.end(noise, n)) for n in curves.names(noise)],
            "less": [(n, curves.less(noise, "anchored", n)) for n in _LEARNT[1:]],
        }
        for noise in curves.noises
    ]
    first = [
        (noise, other, less)
        for noise in curves.noises
        for other in _LEARNT[1:]
        if (less := curves.less_at_first(noise, "anchored", other)) is not None
    ]
    others = [name for name in curves.names(high) if "@" in name]
    stopped = [
        {"words": words(n), "end": curves.end(high, n), "less": curves.less(high, "anchored", n)}
        for n in others
    ]
    longest = [n for n in curves.models if n.endswith(f"@{curves.settings['n_train_steps']}")]
    models = [
        {"words": words(n)} | {score: curves.model(n, score) for score in _SCORES} for n in longest
    ]
    averaged = curves.less(high, _LEARNT[0], _LEARNT[0] + AVERAGED)
    given = {"told": told, "first": first, "stopped": stopped, "models": models}
    return sentences(record["name"], s=curves.settings, high=high, averaged=averaged, **given)


def tables(record: Record) -> list[Table]:
    curves = Curves(record)
    shown = dict.fromkeys(name for noise in curves.noises for name in curves.names(noise))
    header = ["", *(f"{noise} noise ({NOISES[noise]:g})" for noise in curves.noises)]
    s = curves.settings
    ends = f"Reward of a trial at the end: mean of the last {s['n_last']} of {s['n_trials']} trials"
    whole = "Reward of a trial, mean over all but the first"
    made = []
    for title, score in ((ends, curves.end), (whole, curves.whole)):
        rows = [
            [words(n), *(str(score(noise, n) or "-") for noise in curves.noises)] for n in shown
        ]
        made.append(Table(f"{title}, ± one standard error over seeds", header, rows))
    if curves.models:
        names = sorted(curves.models, key=_in_order)
        scored = [[words(n), *(f"{curves.model(n, c):.2f}" for c in _SCORES)] for n in names]
        title = "Models alone, fitted to the same rows of the highest noise"
        made.append(Table(f"{title}, ± one standard error", ["", *_SCORES.values()], scored))
    return made


def draw(figure, record: Record) -> None:
    """A panel for each noise, and one for trainings that are stopped early at the highest."""
    curves = Curves(record)
    high = curves.noises[-1]
    stopped = [name for name in curves.names(high) if "@" in name]
    panels = [(noise, _LEARNT) for noise in curves.noises]
    panels += [(high, ("anchored", "unconstrained", *stopped))] if stopped else []
    styles = dict(zip((*_LEARNT, *stopped), SERIES, strict=False))
    axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    lines, n_trials = {}, curves.settings["n_trials"]
    for ax, (noise, names), last in zip(axes, panels, [*curves.noises, None], strict=False):
        letter = "ABCD"[list(NOISES).index(noise) if last else -1]
        what = f"{noise.capitalize()} noise, variance {NOISES[noise]:g}"
        ax.set_title(f"{letter}. {what}" if last else f"{letter}. Early stopping, {noise} noise")
        for name in names:
            if name in curves.runs[noise] and name in styles:
                lines[words(name)] = _line(ax, curves, noise, name, *styles[name])
        lines |= _limits(ax, curves, noise)
        ax.set_xlabel("trial")
        ax.set_xticks(range(1, n_trials + 1, -(-n_trials // 8)))
    axes[0].set_ylabel("reward of a trial")
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=len(lines), fontsize=8)


def _line(ax, curves: Curves, noise: str, name: str, colour: str, marker: str):
    mean, error = curves.curve(noise, name)
    trial = np.arange(1, len(mean) + 1)
    ax.fill_between(trial, mean - error, mean + error, color=colour, alpha=0.15, lw=0)
    return ax.plot(trial, mean, color=colour, marker=marker, ms=3.5, lw=1.4)[0]


def _limits(ax, curves: Curves, noise: str) -> dict:
    """What no learning can pass, and what needs none."""
    ends = {name: curves.end(noise, name) for name in ("true", "random")}
    return {
        words(name): ax.axhline(end.value, color=GREY, ls="--" if name == "true" else ":", lw=1)
        for name, end in ends.items()
        if end is not None
    }
