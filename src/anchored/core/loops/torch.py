"""For training loops of your own in PyTorch: the penalty of the scaling contract.

    prior = anchored.torch.prior(module, x)           # variances from the shapes of its parameters
    anchor = anchored.torch.draw_anchor(prior, generator)
    loss = mse / (2 * noise_var) + anchored.torch.anchor_penalty(module, anchor, prior, n_rows)

`predictive` turns M trained modules into one distribution. See `anchored.jax` for the contract.
"""

from __future__ import annotations  # the module loads without PyTorch, so that it can be named

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from anchored.core.loops.jax import predictive as of_outputs
from anchored.core.priors import Prior
from anchored.errors import bad_value
from anchored.prediction.predictive import Predictive

if TYPE_CHECKING:
    import torch  # pyright: ignore[reportMissingImports]

    Tensors = dict[str, torch.Tensor]


def prior(module: torch.nn.Module, x: Any, first_var: float = 1.0) -> Prior:
    """The default `Prior` of a module on inputs like ``x``, by parameter name."""
    inputs = x.detach().cpu().numpy() if hasattr(x, "detach") else x
    return Prior.for_network(module, inputs[:1], first_var)


def draw_anchor(prior: Prior, generator: torch.Generator | None = None) -> Tensors:
    """An anchor: a draw from the prior, by parameter name."""
    import torch  # pyright: ignore[reportMissingImports]

    return {
        name: _tensor(prior.mean[name])
        + _tensor(scale) * torch.randn(tuple(scale.shape), generator=generator)
        for name, scale in prior.scale.items()
    }


def anchor_penalty(
    module: torch.nn.Module, anchor: Tensors, prior: Prior, n_rows: int
) -> torch.Tensor:
    """sum_i (theta_i - anchor_i)^2 / prior_var_i / (2 N), to add to a mean over a batch.

    ``n_rows`` is N, the number of rows in the whole training set, not in the batch.
    """
    if not n_rows > 0:
        raise bad_value("n_rows", n_rows, "the number of training rows, above 0")
    params = dict(module.named_parameters())
    for name, named in (("anchor", anchor), ("prior", prior.scale)):
        odd = sorted(params.keys() ^ named.keys())
        if odd:
            raise ValueError(f"`{name}` must name the parameters of the module; {odd[0]} differs.")
    terms = [
        (((p - anchor[name].to(p)) / _tensor(prior.scale[name]).to(p)) ** 2).sum()
        for name, p in params.items()
    ]
    return sum(terms[1:], terms[0]) / (2 * n_rows)


def predictive(modules: Iterable[torch.nn.Module], x: Any, likelihood: Any) -> Predictive:
    """The predictive distribution of trained modules at inputs ``x``."""
    import torch  # pyright: ignore[reportMissingImports]

    with torch.no_grad():
        outputs = [
            module(*(x if isinstance(x, tuple) else (x,))).cpu().numpy() for module in modules
        ]
    return of_outputs(np.stack([o[:, None] if o.ndim == 1 else o for o in outputs]), likelihood)


def _tensor(array: Any) -> torch.Tensor:
    import torch  # pyright: ignore[reportMissingImports]

    return torch.from_numpy(np.array(array))
