"""Pictures of predictives: an ``ax`` in, the same ``ax`` out; colour-blind safe."""

import numpy as np

from anchored.predictive import Predictive

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#555555"


def predicted_against_observed(ax, dist: Predictive, y, level: float = 0.9):
    """Mean prediction with its ``level`` interval for each observed target."""
    y = dist.observed(y)
    lower, upper = dist.interval(level)
    inside = (lower <= y) & (y <= upper)
    for mask, colour, word in ((inside, BLUE, "inside"), (~inside, ORANGE, "outside")):
        error = np.stack([dist.mean - lower, upper - dist.mean])[:, mask]
        ax.errorbar(
            y[mask],
            dist.mean[mask],
            error,
            fmt="o",
            ms=3.5,
            lw=0.8,
            alpha=0.75,
            color=colour,
            label=f"{word} the interval: {mask.sum()}",
        )
    ends = [min(y.min(), dist.mean.min()), max(y.max(), dist.mean.max())]
    ax.plot(ends, ends, color=GREY, lw=1, ls="--", zorder=0)
    ax.set(xlabel="observed", ylabel=f"predicted, with {level:.0%} interval")
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return ax


def coverage_curve(ax, dist: Predictive, y):
    """Share of targets inside central intervals of every level, with its sampling error."""
    nominal = np.linspace(0.01, 0.99, 99)
    # A central interval of level c holds y exactly if |2 cdf(y) - 1| <= c.
    needed = np.abs(2 * dist.cdf(y).ravel() - 1)
    observed = (needed[None, :] <= nominal[:, None]).mean(axis=1)
    error = 2 * np.sqrt(nominal * (1 - nominal) / needed.size)
    ax.fill_between(
        nominal,
        nominal - error,
        nominal + error,
        color=GREY,
        alpha=0.2,
        lw=0,
        label="±2 standard errors",
    )
    ax.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    ax.plot(nominal, observed, color=BLUE, lw=2, label="this ensemble")
    ax.set(
        xlabel="nominal coverage", ylabel="observed coverage", xlim=(0, 1), ylim=(0, 1), aspect=1
    )
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return ax


def bands(ax, x, dist: Predictive, colour: str = BLUE):
    """Mean and bands of 1, 2 and 3 total deviations over a one-dimensional input ``x``."""
    mean, std = np.ravel(dist.mean), np.ravel(dist.std)
    for n in (3, 2, 1):
        ax.fill_between(x, mean - n * std, mean + n * std, color=colour, alpha=0.17, lw=0)
    ax.plot(x, mean, color=colour, lw=2)
    return ax
