"""Convolutional network for token sequences [batch, length] of integers."""

import dataclasses
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from anchored.core.networks._layers import (
    ACTIVATIONS,
    affine,
    check_activation,
    init_layers,
    layer_variances,
    sizes,
)
from anchored.typing import Array, Params

_START = 0.1  # deviation of initial embeddings: small, so that words seen rarely are learned too


@dataclasses.dataclass(frozen=True)
class TextCNN:
    """Embedding, one 1-D convolution, maximum over positions, one hidden layer.

    The defaults are the paper's IMDb network. The convolution is written as one matrix
    product over stacked neighbours, so members can be vmapped.

    >>> import jax
    >>> import numpy as np
    >>> from anchored import TextCNN
    >>> network = TextCNN(vocabulary=100, embedding=4, filters=4, hidden=8)
    >>> words = np.ones((2, 10), np.int32)
    >>> params = network.init(jax.random.key(0), words)
    >>> network.apply(params, words).shape
    (2, 2)
    """

    vocabulary: int = 6000
    embedding: int = 20
    filters: int = 50
    window: int = 3
    hidden: int = 200
    n_outputs: int = 2
    activation: str = "relu"
    vmappable: ClassVar[bool] = True
    takes_tokens: ClassVar[bool] = True  # inputs are numbers of words, not to be standardised
    layered: ClassVar[bool] = True

    def __post_init__(self):
        check_activation(self.activation)
        for field in ("vocabulary", "embedding", "filters", "window", "hidden", "n_outputs"):
            sizes(field, getattr(self, field))

    def init(self, key: Array, x: Array) -> Params:
        if x.shape[-1] < self.window:
            raise ValueError(
                f"`window` is {self.window} but the sequences have only {x.shape[-1]} tokens."
            )
        key_embed, key_layers = jax.random.split(key)
        embedding = _START * jax.random.normal(key_embed, (self.vocabulary, self.embedding))
        widths = (self.window * self.embedding, self.filters, self.hidden, self.n_outputs)
        layers = init_layers(key_layers, list(itertools.pairwise(widths)))
        return ({"embedding": embedding}, *layers)

    def apply(self, params: Params, x: Array) -> Array:
        activation, tokens = ACTIVATIONS[self.activation], x.astype(jnp.int32)
        embedding, layer = params[0]["embedding"], params[1]
        # Only the window of the maximum has a gradient: find it first, then compute it again.
        at = lax.stop_gradient(self._strongest(params, tokens))  # [batch, filter]
        places = at[:, :, None] + jnp.arange(self.window)
        chosen = jnp.take_along_axis(tokens[:, None], places, axis=2)
        windows = embedding[chosen].reshape(*at.shape, -1)  # [batch, filter, window * embedding]
        z = jnp.einsum("bfk,kf->bf", windows, layer["weight"]) + layer["bias"]
        return affine(params[3], activation(affine(params[2], activation(z))))

    def _strongest(self, params: Params, tokens: Array) -> Array:
        """Where each filter's output is largest: the first token of that window."""
        words = params[0]["embedding"][tokens]  # [batch, length, embedding]
        n_windows = words.shape[1] - self.window + 1
        windows = [words[:, i : i + n_windows] for i in range(self.window)]
        z = affine(params[1], jnp.concatenate(windows, axis=-1))
        return jnp.argmax(ACTIVATIONS[self.activation](z), axis=1)

    def prior_variances(self, params: Params, first_var: float) -> Params:
        # A token picks one row of the embedding: fan-in one.
        return ({"embedding": first_var}, *layer_variances(params[1:], None))
