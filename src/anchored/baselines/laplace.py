"""Laplace's approximation: a normal around one trained network, in function space.

With J the Jacobian of the outputs in z at the MAP and L the curvature of -log p(y | f),

    precision = I + sum_rows w J' L J,     f(x) ~ N(f_MAP(x), J(x) precision^-1 J(x)')

the generalised Gauss-Newton form with a linearised predictive (Immer et al. 2021).
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy import linalg

from anchored.baselines.problem import Model, Problem, Whitened, check_trained
from anchored.core.ensembles import fit_ensemble
from anchored.core.likelihoods import Gaussian, HeteroskedasticGaussian
from anchored.core.outputs import member_moments
from anchored.core.training import Schedule
from anchored.core.tree import from_pytree, leaf_paths
from anchored.errors import unknown_name
from anchored.prediction.predictive import Predictive
from anchored.typing import Array

_MAX_PARAMS = 5_000  # a full covariance of more does not pay
_BLOCK_VALUES = 50_000_000  # most values of a Jacobian held at a time
SUBSETS = ("all", "last")


@dataclasses.dataclass(frozen=True)
class Laplace:
    """Laplace's approximation over ``all`` parameters, or over those of the ``last`` layer."""

    subset: str = "all"
    schedule: Schedule = Schedule(epochs=4000, learning_rate=0.005)
    n_draws: int = 200

    def __call__(self, key: Array, problem: Problem) -> Predictive:
        if isinstance(problem.likelihood, HeteroskedasticGaussian):
            raise TypeError(
                "Laplace needs a likelihood that is log-concave in the outputs, which "
                "`HeteroskedasticGaussian` is not. Use `Gaussian` instead."
            )
        key_fit, key_draw = jax.random.split(key)
        whitened, model = Whitened.of(problem)
        chosen = self._chosen(whitened, problem)
        mode = fit_ensemble(
            key_fit,
            problem.network,
            problem.prior,
            problem.likelihood,
            problem.data,
            method="regularised",
            n_members=1,
            schedule=self.schedule,
        )
        check_trained(mode.info)
        flat = whitened.raveller.ravel(jax.tree.map(lambda leaf: leaf[0], mode.params))
        z = (flat - model.mean) / model.scale
        n_outputs = jax.eval_shape(whitened.outputs, z, model, model.data.x[:1]).shape[-1]
        step = max(1, _BLOCK_VALUES // (len(chosen) * n_outputs))
        precision = np.eye(len(chosen))
        for i in range(0, model.data.n_rows, step):
            rows = slice(i, i + step)
            _, jacobian = _linearise(whitened, z, chosen, model, model.data.x[rows])
            curvature = _curvature(whitened, z, model, model.data.x[rows], model.data.y[rows])
            jacobian, curvature = np.asarray(jacobian, float), np.asarray(curvature, float)
            weighted = np.asarray(model.data.weight[rows], float)[:, None, None] * curvature
            precision += np.einsum("noi,nop,npj->ij", jacobian, weighted, jacobian, optimize=True)
        factor = linalg.cholesky(precision, lower=True)
        normals = np.asarray(jax.random.normal(key_draw, (len(chosen), self.n_draws)), float)
        shifts = linalg.solve_triangular(factor.T, normals, lower=False).T
        dist, variance = self._predict(whitened, z, chosen, factor, shifts, model, problem, step)
        if not isinstance(problem.likelihood, Gaussian):
            return dist
        # Functions are normal here: their moments need no draws.
        centre = member_moments(problem.network, problem.likelihood, mode.params, problem.x)[0][0]
        return dataclasses.replace(dist, mean=centre.astype(float), epistemic_var=variance)

    def _chosen(self, whitened: Whitened, problem: Problem) -> Array:
        """Positions in z of the parameters that vary."""
        if self.subset not in SUBSETS:
            raise unknown_name("subset", self.subset, SUBSETS)
        paths = leaf_paths(problem.prior.scale)
        last = paths[-1].split("/")[0]
        wanted = [self.subset == "all" or path.split("/")[0] == last for path in paths]
        sizes = [int(np.prod(shape)) for shape in whitened.raveller.shapes]
        chosen = np.flatnonzero(np.repeat(wanted, sizes))
        if len(chosen) > _MAX_PARAMS:
            raise ValueError(
                f"`subset` {self.subset!r} has {len(chosen):,} parameters; a full covariance is "
                f"made of at most {_MAX_PARAMS:,}. Use subset='last' or a smaller network."
            )
        return jnp.asarray(chosen)

    def _predict(self, whitened, z, chosen, factor, shifts, model, problem, step):
        """The target under functions drawn from the linearised posterior, and their variance."""
        likelihood, parts = problem.likelihood, []
        for i in range(0, len(problem.x), step):
            x = jnp.asarray(problem.x[i : i + step], model.data.x.dtype)
            outputs, jacobian = _linearise(whitened, z, chosen, model, x)
            functions = outputs + jnp.einsum("noi,di->dno", jacobian, jnp.asarray(shifts))
            moments = jax.vmap(likelihood.mean)(functions), jax.vmap(likelihood.variance)(functions)
            flat = np.asarray(jacobian, float).reshape(-1, len(chosen))
            solved = linalg.solve_triangular(factor, flat.T, lower=True)
            variance = np.sum(solved**2, axis=0).reshape(1, *outputs.shape)
            parts.append([np.asarray(array) for array in (*moments, variance)])
        mean, var, exact = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
        return Predictive.from_members(mean, var, likelihood.family), exact[0]


@partial(jax.jit, static_argnums=0)
def _linearise(whitened: Whitened, z: Array, chosen: Array, model: Model, x: Array):
    """Outputs [row, out] and their Jacobian [row, out, chosen]."""

    def outputs(part, row):
        return whitened.outputs(z.at[chosen].set(part), model, row[None])[0]

    jacobian = jax.vmap(jax.jacrev(outputs), in_axes=(None, 0))(z[chosen], x)
    return whitened.outputs(z, model, x), jacobian


@partial(jax.jit, static_argnums=0)
def _curvature(whitened: Whitened, z: Array, model: Model, x: Array, y: Array) -> Array:
    """Hessian [row, out, out] of -log p(y | outputs) in the outputs."""

    def loss(outputs, target):
        return -from_pytree(model.likelihood).log_prob(outputs[None], target[None])[0]

    return jax.vmap(jax.hessian(loss))(whitened.outputs(z, model, x), y)
