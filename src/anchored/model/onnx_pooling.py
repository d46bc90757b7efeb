"""Pools outputs of the members in an ONNX graph, as `FittedModel.predictive` does in NumPy."""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from anchored.model.onnx_dense import dense_outputs
from anchored.model.onnx_graph import Graph
from anchored.model.record import LOG_NOISE_CLIP, Noise, Regression
from anchored.prediction import special
from anchored.prediction.conformal import Conformal


def probabilities(graph: Graph, logits: str, temperature: float) -> str:
    """Probabilities of classes [row, class], from logits [member, row, class]."""
    mean = graph.mean(graph.add("Softmax", [logits], axis=-1))
    if temperature == 1:
        return mean
    powers = graph.add("Pow", [mean, graph.constant(1 / temperature)])
    return graph.add("Div", [powers, graph.last_sum(powers)])


def regression_columns(
    graph: Graph, outputs: str, rows: str, n_members: int, part: Regression, coverage: float
) -> dict[str, str]:
    """Moments and interval [row, out] in the units of the target, by name."""
    n_targets = len(part.scale)
    members = graph.columns(outputs, 0, n_targets)
    members = graph.add("Mul", [members, graph.constant(part.scale)])
    members = graph.add("Add", [members, graph.constant(part.mean)])
    noise = _noise(graph, outputs, rows, part)
    noise = graph.add("Mul", [noise, graph.constant(np.square(part.scale))])
    pooled = latent = _pooled(graph, members, noise, n_members, part)
    lower, upper = _ends(graph, latent, n_members, part, coverage)
    if part.warp is not None:
        members, noise = _unwarped(graph, members, noise, part)
        pooled = _pooled(graph, members, noise, n_members, part)
        lower, upper = (_inverse(graph, end, part) for end in (lower, upper))
    total = graph.add("Add", [pooled.epistemic, pooled.noise])
    return {
        "mean": pooled.mean,
        "epistemic_std": graph.add("Sqrt", [pooled.epistemic]),
        "aleatoric_std": graph.add("Sqrt", [pooled.noise]),
        "std": graph.add("Sqrt", [total]),
        "lower": lower,
        "upper": upper,
    }


class _Pooled(NamedTuple):
    """Moments of the members [row, out]; ``spread`` is their variance before any factor."""

    mean: str
    spread: str
    epistemic: str
    noise: str


def _pooled(graph: Graph, members: str, noise: str, n_members: int, part: Regression) -> _Pooled:
    n_targets = len(part.scale)
    mean = graph.mean(members)
    apart = graph.add("Sub", [members, mean])
    # The mean of squares, times M / (M - 1); one member has no spread.
    unbiased = graph.constant(np.full(n_targets, n_members / max(n_members - 1, 1)))
    spread = graph.add("Mul", [graph.mean(graph.add("Mul", [apart, apart])), unbiased])
    epistemic = spread
    if part.noise is not None:
        factor = graph.constant([noise.factor for noise in part.noise])
        epistemic = graph.add("Mul", [spread, factor])
    # As many rows as there are, where the noise is the same for all.
    noise = graph.add("Add", [graph.add("Mul", [mean, graph.constant(0.0)]), noise])
    return _Pooled(mean, spread, epistemic, noise)


def _ends(
    graph: Graph, pooled: _Pooled, n_members: int, part: Regression, coverage: float
) -> tuple[str, str]:
    """The ends of the interval [row, out], as in `Predictive.quantiles`."""
    if part.family == "gaussian":
        variance = graph.add("Add", [pooled.epistemic, pooled.noise])
        in_dof = None
    else:
        variance, in_dof = _student(graph, pooled, n_members, part)
    scale = graph.add("Sqrt", [variance])
    ends = []
    for level in ((1 - coverage) / 2, (1 + coverage) / 2):
        unit = _standard_quantile(graph, _scores(part, level), in_dof)
        ends.append(graph.add("Add", [pooled.mean, graph.add("Mul", [scale, unit])]))
    return ends[0], ends[1]


def _scores(part: Regression, level: float) -> np.ndarray:
    """Normal scores [out] of the quantile at a level, with the correction of held-out rows."""
    known = None
    if part.noise is not None:
        known = Conformal.stacked([noise.conformal for noise in part.noise])
    score = NormalDist().inv_cdf(level) if known is None else known.score(level)
    return np.broadcast_to(score, len(part.scale))


def _student(graph: Graph, pooled: _Pooled, n_members: int, part: Regression) -> tuple[str, str]:
    """Squared scale and one over the degrees of freedom, as in `special.combined`."""
    in_noise_dof = np.zeros(len(part.scale))
    if part.noise is not None:
        in_noise_dof = np.array([1 / noise.noise_dof for noise in part.noise])
    spread = pooled.epistemic
    if n_members > 1:  # the mean of M members is off by a share of their variance in any case
        of_mean = graph.add("Mul", [pooled.spread, graph.constant(1 / n_members)])
        spread = graph.add("Add", [spread, of_mean])
    bulk = graph.add("Mul", [pooled.noise, graph.constant(1 - 2 * in_noise_dof)])
    total = graph.add("Add", [spread, bulk])
    least = graph.constant(np.finfo(np.float64).tiny)  # nothing of nothing is nothing
    share = graph.add("Div", [spread, graph.add("Max", [total, least])])
    rest = graph.add("Sub", [graph.constant(1.0), share])
    terms = []
    for value, in_dof in ((share, 1 / max(n_members - 1, 1)), (rest, in_noise_dof)):
        square = graph.add("Mul", [value, value])
        terms.append(graph.add("Mul", [square, graph.constant(in_dof)]))
    return total, graph.add("Add", terms)


def _standard_quantile(graph: Graph, scores: np.ndarray, in_dof: str | None) -> str:
    """As `special.quantile`, at one score for each output."""
    if in_dof is None:
        return graph.constant(scores)
    fits = np.stack([special.quantile_fit(float(score)) for score in scores], axis=1)
    least = graph.constant(1 / special.MAX_DOF)
    at = graph.add("Sub", [graph.add("Add", [in_dof, in_dof]), graph.constant(1.0)])
    twice = graph.add("Add", [at, at])
    one, two = graph.constant(0.0), graph.constant(0.0)
    for fit in fits[:0:-1]:  # Clenshaw's recurrence
        here = graph.add("Sub", [graph.add("Mul", [twice, one]), two])
        one, two = graph.add("Add", [here, graph.constant(fit)]), one
    log = graph.add("Sub", [graph.add("Mul", [at, one]), two])
    log = graph.add("Add", [log, graph.constant(fits[0])])
    found = graph.add("Mul", [graph.add("Exp", [log]), graph.constant(np.sign(scores))])
    is_normal = graph.add("LessOrEqual", [in_dof, least])
    return graph.add("Where", [is_normal, graph.constant(scores), found])


def _inverse(graph: Graph, value: str, part: Regression) -> str:
    """As in `Warp.inverse`."""
    warp = part.warp
    assert warp is not None
    top = graph.constant(np.log(warp.most + warp.shift))
    raised = graph.add("Exp", [graph.add("Min", [value, top])])
    return graph.clipped(
        graph.add("Sub", [raised, graph.constant(warp.shift)]), warp.least, warp.most
    )


def _unwarped(graph: Graph, members: str, noise: str, part: Regression) -> tuple[str, str]:
    """Means [member, row, out] and the variance of the noise, as in `Predictive.unwarped`."""
    warp = part.warp
    assert warp is not None
    top = graph.constant(np.log(warp.most + warp.shift))
    raised = graph.add("Exp", [graph.add("Min", [members, top])])
    above = graph.add("Mul", [raised, graph.constant(warp.raised)])
    means = graph.add("Sub", [above, graph.constant(warp.shift)])
    if part.noise is not None:
        bulk = np.array([1 - 2 / noise.noise_dof for noise in part.noise])
        noise = graph.add("Mul", [noise, graph.constant(bulk)])
    grown = graph.add("Exp", [graph.add("Min", [noise, graph.constant(1.0)])])
    share = graph.add("Sub", [grown, graph.constant(1.0)])
    square = graph.mean(graph.add("Mul", [above, above]))
    return graph.clipped(means, warp.least, warp.most), graph.add("Mul", [square, share])


def _noise(graph: Graph, outputs: str, rows: str, part: Regression) -> str:
    """Variance of the noise, standardised: [row, out] or [out]."""
    n_targets = len(part.scale)
    if part.floor is not None:
        raw = graph.columns(outputs, n_targets, 2 * n_targets)
        positive = graph.add("Softplus", [raw])
        return graph.mean(graph.add("Add", [positive, graph.constant(part.floor)]))
    if part.noise is None:
        assert part.noise_var is not None
        return graph.constant(part.noise_var / part.scale**2)
    if all(noise.shape is None for noise in part.noise):
        return graph.constant([noise.noise_var for noise in part.noise])
    return graph.add("Concat", [_noise_at(graph, rows, part) for part in part.noise], axis=-1)


def _noise_at(graph: Graph, rows: str, noise: Noise) -> str:
    """Variance of the noise of one output [row, 1], at rows [row, feature]."""
    if noise.shape is None:
        nothing = graph.add("Mul", [graph.columns(rows, 0, 1), graph.constant(0.0)])
        return graph.add("Add", [nothing, graph.constant(noise.noise_var)])
    assert noise.shape.network.row_shape is not None
    features = graph.columns(rows, 0, noise.shape.network.row_shape[0])
    networks = dense_outputs(graph, features, noise.shape.network, noise.shape.params)
    log_noise = graph.cast(networks, np.float64)
    log_noise = graph.mean(graph.clipped(log_noise, -LOG_NOISE_CLIP, LOG_NOISE_CLIP))
    log_noise = graph.clipped(log_noise, noise.shape.least, noise.shape.most)
    return graph.add("Mul", [graph.add("Exp", [log_noise]), graph.constant(noise.noise_var)])
