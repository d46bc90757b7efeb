"""Others that choose where to evaluate next: random search, Optuna's TPE, Gaussian processes.

Each is a function of a problem, a seed and the first points with their values, and yields points;
it is sent their values.
"""

import warnings
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from scipy import optimize, stats

from anchored.decisions import Category, Float, Optimiser, Space
from anchored.decisions.surrogate import Surrogate
from benchmarks.decision_problems import Problem

Point = dict[str, Any]
Search = Generator[Point, float, None]
First = list[tuple[Point, float]]
_N_CANDIDATES, _N_STARTS = 2_000, 5


def anchored(surrogate: str | Surrogate, acquisition: str) -> Callable[..., Search]:
    def search(problem: Problem, seed: int, first: First) -> Search:
        optimiser = Optimiser(
            problem.space,
            surrogate=surrogate,
            acquisition=acquisition,
            n_initial=len(first),
            random_state=seed,
        )
        optimiser.tell(*(list(part) for part in zip(*first, strict=True)))
        while True:
            (point,) = optimiser.ask()
            optimiser.tell(point, (yield point))

    return search


def random_search(problem: Problem, seed: int, first: First) -> Search:
    rng = np.random.default_rng([seed, 7])
    while True:
        yield problem.space.decode(problem.space.random(rng, 1))[0]


def tpe(problem: Problem, seed: int, first: First) -> Search:
    """Optuna's default sampler with the same first points."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = problem.space
    kinds = {n: _distribution(d) for n, d in zip(space.names, space.dimensions, strict=True)}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    for point, y in first:
        study.add_trial(optuna.trial.create_trial(params=point, distributions=kinds, value=y))
    while True:
        trial = study.ask(kinds)
        study.tell(trial, (yield trial.params))


def _distribution(dimension):
    from optuna import distributions as d

    if isinstance(dimension, Category):
        return d.CategoricalDistribution(dimension.choices)
    kind = d.FloatDistribution if isinstance(dimension, Float) else d.IntDistribution
    return kind(dimension.low, dimension.high, log=dimension.log)


def sklearn_gp(problem: Problem, seed: int, first: First) -> Search:
    """scikit-learn's Gaussian process, Matern 5/2 with a length for each input, by EI."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    rng, space = np.random.default_rng([seed, 8]), problem.space
    points, values = _rows(first)
    while True:
        u, y = space.encode(points), _standardised(values)
        matern = Matern(np.ones(u.shape[1]), (0.01, 100.0), nu=2.5)
        kernel = ConstantKernel(1.0, (0.01, 100.0)) * matern + WhiteKernel(1e-4, (1e-8, 1.0))
        model = GaussianProcessRegressor(
            kernel, n_restarts_optimizer=2, random_state=int(rng.integers(2**31))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(u, y)

        best = y.min()

        def negative(rows, model=model, best=best):
            mean, scale = model.predict(np.atleast_2d(rows), return_std=True)
            z = (best - mean) / np.maximum(scale, 1e-9)
            return -np.maximum(scale, 1e-9) * (z * stats.norm.cdf(z) + stats.norm.pdf(z))

        point = _lowest(negative, space, rng, u[np.argsort(y)[:5]])
        points, values = [*points, point], [*values, (yield point)]


def botorch_gp(problem: Problem, seed: int, first: First) -> Search:
    """BoTorch's `SingleTaskGP` with its defaults, by the logarithm of EI."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    space = problem.space
    points, values = _rows(first)
    bounds = torch.tensor([[0.0] * space.n_coordinates, [1.0] * space.n_coordinates]).double()
    while True:
        x = torch.tensor(space.encode(points))
        y = -torch.tensor(values).double()[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SingleTaskGP(x, y, outcome_transform=Standardize(1))
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            worth = LogExpectedImprovement(model, best_f=y.max())
            found, _ = optimize_acqf(worth, bounds, q=1, num_restarts=4, raw_samples=128)
        (point,) = space.decode(found.detach().numpy())
        points, values = [*points, point], [*values, (yield point)]


def _rows(first: First) -> tuple[list[Point], list[float]]:
    return [point for point, _ in first], [y for _, y in first]


def _standardised(values) -> np.ndarray:
    y = np.array(values)
    return (y - y.mean()) / (y.std() or 1.0)


def _lowest(negative, space: Space, rng, best: np.ndarray) -> Point:
    """Candidates all over and near the best points, then L-BFGS from the best of them."""
    near = np.clip(np.repeat(best, 40, axis=0) + 0.05 * rng.normal(size=(200, best.shape[1])), 0, 1)
    rows = np.concatenate([space.random(rng, _N_CANDIDATES), near])
    found = rows[np.argsort(negative(rows))[:_N_STARTS]]
    nudges = 1e-6 * np.eye(best.shape[1])

    def with_slope(row: np.ndarray):  # one call for all differences
        values = negative(np.concatenate([row[None], row + nudges]))
        return values[0], (values[1:] - values[0]) / 1e-6

    bounds, most = [(0, 1)] * best.shape[1], {"maxiter": 20}
    ends = [
        optimize.minimize(with_slope, start, jac=True, bounds=bounds, options=most).x
        for start in found
    ]
    ends = np.concatenate([space.snapped(np.clip(ends, 0, 1)), space.snapped(found)])
    return space.decode(ends[np.argmin(negative(ends))][None])[0]
