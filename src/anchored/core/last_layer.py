"""Hidden layers that stay at a prior draw, so that the last layer alone is trained.

The outputs are then linear in what is trained, and members with anchors and score noise are exact
posterior draws for their own features. In an infinitely wide network, all draws of the hidden
layers have the same kernel. So with growing width, the members tend to draws from its Gaussian
process.

Parameters of a network whose trait is ``layered`` are a tuple of layers, the last of them linear.
"""

import jax
import numpy as np

from anchored.core.priors import Prior
from anchored.typing import Network, Params, traits


def check_hidden(method: str, network: Network, prior: Prior) -> None:
    """Refuse a network whose hidden layers are not known, or a prior that they cannot be drawn
    from.
    """
    if not traits(network).layered:
        raise TypeError(
            f"`method` {method!r} trains only the last layer, and {type(network).__name__} does "
            "not say which layer that is. If its parameters are a tuple of layers and the last "
            "one is "
            'linear, give it the class attribute `layered = True`; otherwise use method="rms".'
        )
    if any(np.isinf(leaf).any() for leaf in jax.tree.leaves(prior.scale[:-1])):
        raise ValueError(
            f"`prior` is flat in hidden layers, which `method` {method!r} draws from it: give "
            'them finite scales, or use method="rms".'
        )


def with_hidden(params: Params, hidden: Params) -> Params:
    """The last layer of ``params`` on the hidden layers of ``hidden``."""
    return (*hidden[:-1], params[-1])


def last_alone(params: Params) -> Params:
    """The same parameters, with gradients in the last layer alone."""
    return with_hidden(params, jax.lax.stop_gradient(params))
