"""Shared code of the figures of the theory: a check of draws, and axes of two parameters."""

import numpy as np

from anchored.exact.rms import Normal


def check_draws(draws: np.ndarray, expected: Normal) -> dict:
    """Moments of draws [n, dim], their standard errors, and the largest deviation in standard
    errors.
    """
    n, var = len(draws), np.diag(expected.cov)
    mean, cov = draws.mean(axis=0), np.cov(draws.T)
    mean_error = np.sqrt(var / n)
    cov_error = np.sqrt((np.outer(var, var) + expected.cov**2) / (n - 1))
    z_mean, z_cov = (mean - expected.mean) / mean_error, (cov - expected.cov) / cov_error
    return {
        "n": n,
        "mean": mean,
        "cov": cov,
        "mean_error": mean_error,
        "cov_error": cov_error,
        "max_z": max(np.abs(z_mean).max(), np.abs(z_cov).max()),
    }


def plane(ax, xlim: tuple[float, float], ylim: tuple[float, float]):
    """Axes of two parameters on one scale, with light lines through the origin."""
    for line in (ax.axhline, ax.axvline):
        line(0, color="0.9", lw=0.8, zorder=0)
    ax.set(xlim=xlim, ylim=ylim, aspect=1)
    ax.set_xlabel(r"$\theta_1$", labelpad=1)
    ax.set_ylabel(r"$\theta_2$", labelpad=1)
    return ax


def legend_below(figure, axes) -> None:
    """One legend for all axes, each label once."""
    shown = {}
    for ax in axes:
        shown |= {label: line for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(
        shown.values(), shown.keys(), loc="outside lower center", ncols=len(shown), frameon=False
    )


def entries(matrix, digits: int = 4) -> str:
    """The upper triangle of a symmetric matrix, row by row, as text."""
    matrix = np.asarray(matrix)
    return ", ".join(f"{v:.{digits}f}" for v in matrix[np.triu_indices(len(matrix))])
