"""A fitted regressor as a BoTorch model, for BoTorch's acquisition functions.

Each member is one function from the posterior, as in BoTorch's own ensembles. JAX computes the
values and their gradients.
"""

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchored.core.rows import padded_size
from anchored.errors import bad_value

try:
    import torch  # pyright: ignore[reportMissingImports]

    with warnings.catch_warnings():  # of PyTorch, about what BoTorch imports
        warnings.simplefilter("ignore", DeprecationWarning)
        from botorch.models.ensemble import EnsembleModel  # pyright: ignore[reportMissingImports]
        from botorch.posteriors.torch import TorchPosterior  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "`AnchoredModel` needs BoTorch: pip install torch==2.13.0 botorch"
    ) from error


class AnchoredModel(EnsembleModel):
    """The members of a fitted `AnchoredRegressor` of numbers, in the units of the target.

    ``posterior`` is BoTorch's ensemble of the members' means. `student_t` is the marginal of the
    mean that accounts for the number of members.
    """

    def __init__(self, model: Any):
        super().__init__()
        record = model.model_
        if record.regression is None or record.regression.warp is not None:
            raise bad_value("model", model, 'a regressor with target_scale="linear"')
        if record.encoder is not None or record.x_mean is None:
            raise bad_value("model", model, "fitted to an array of numbers")
        self._num_outputs = len(record.regression.scale)
        self._network, self._params = model.ensemble_.network, model.ensemble_.params
        self._inputs = (record.x_mean, record.x_scale, record.x_reach, record.x_limit)
        self._ramps = record.x_ramps
        self._outputs = (record.regression.mean, record.regression.scale)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Means [..., member, row, output] at inputs [..., row, feature]."""
        rows = X.reshape(-1, X.shape[-1])
        values = _Members.apply(rows, self)  # [member, row, output]
        values = values.reshape(values.shape[0], *X.shape[:-1], -1)
        return values.movedim(0, -3)

    def student_t(self, X: torch.Tensor) -> TorchPosterior:
        """Student-t of each mean [..., row, output]; it has n_members - 1 degrees of freedom."""
        values = self.forward(X)
        n = values.shape[-3]
        scale = (values.var(dim=-3) * (1 + 1 / n)).clamp_min(1e-24).sqrt()
        return TorchPosterior(torch.distributions.StudentT(n - 1, values.mean(dim=-3), scale))

    def values(self, x: jax.Array) -> jax.Array:
        mean, scale, reach, limit = self._inputs
        z = (x - mean) / scale
        z = z if reach is None else jnp.clip(z, *reach)
        z = z if limit is None else z / jnp.hypot(1.0, z / limit)
        if self._ramps is not None:
            column, start, end, height = self._ramps
            share = jnp.clip((z[:, column.astype(int)] - start) / (end - start), 0.0, 1.0)
            z = jnp.concatenate([z, height * (share - 0.5)], axis=1)
        z = z.astype(jnp.float32)
        outputs = jax.vmap(self._network.apply, in_axes=(0, None))(self._params, z)
        shift, unit = self._outputs
        return outputs[..., : self._num_outputs] * unit + shift


class _Members(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, model):
        size = padded_size(len(rows))
        x = np.zeros((size, rows.shape[1]))
        x[: len(rows)] = rows.detach().cpu().numpy()
        ctx.model, ctx.x, ctx.n = model, x, len(rows)
        found = np.asarray(_values(model, x))[:, : len(rows)]
        return torch.as_tensor(found.copy(), dtype=rows.dtype)

    @staticmethod
    def backward(ctx, *grads):
        grad = grads[0]
        pulled = np.zeros((grad.shape[0], len(ctx.x), grad.shape[2]), np.float32)
        pulled[:, : ctx.n] = grad.detach().cpu().numpy()
        found = np.asarray(_gradient(ctx.model, ctx.x, pulled))[: ctx.n]
        return torch.as_tensor(found.copy(), dtype=grad.dtype), None


@partial(jax.jit, static_argnums=0)
def _values(model: AnchoredModel, x):
    return model.values(x)


@partial(jax.jit, static_argnums=0)
def _gradient(model: AnchoredModel, x, pulled):
    return jax.vjp(model.values, x)[1](pulled)[0]
