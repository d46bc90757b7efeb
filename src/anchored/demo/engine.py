"""One live picture: an ensemble that trains while its data and settings change.

A `Picture` is immutable. `follow` makes the next picture for a scene and reuses what it can.
`Picture.advanced` trains, and `Picture.frame` returns what to draw. Rows are padded to a few
lengths, so adding a point compiles nothing. Compiled programs are kept in a `Programs`, which all
clients share and which forgets the least used.
"""

import dataclasses
import threading
from collections import OrderedDict
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored import metrics
from anchored.core.drawing import anchor_of, draw_keys, initial_of
from anchored.core.likelihoods import Categorical, Gaussian
from anchored.core.loss import METHODS, Extra, MemberLoss, Own, checked_method
from anchored.core.members import Vmapped
from anchored.core.networks import MLP
from anchored.core.priors import Prior
from anchored.core.rows import Data
from anchored.core.state import EnsembleState, advance, objective
from anchored.core.training import Schedule, begin
from anchored.core.tree import Raveller, as_pytree, from_pytree, leaf_paths
from anchored.demo.presets import EXTENT, MAX_POINTS, VIEW, Settings
from anchored.demo.protocol import Scene
from anchored.exact import gp
from anchored.exact.kernels import EXACT
from anchored.prediction.predictive import Predictive
from anchored.typing import Array, Likelihood, Params

GRID = 160  # inputs of a regression's picture
SIDE = 41  # of a classification's
ROWS = (48, MAX_POINTS)  # lengths that points are padded to; every preset fits the first
_DIGITS = 4
_NO_WEIGHT = 1e-30  # of padding in the exact posterior: noise so large that it says nothing
_MAX_PROGRAMS = 32  # of some 10 MB each
_CLEAR_EVERY = 16  # programs dropped before JAX is told to forget them too


class Shape(NamedTuple):
    """What compiled programs depend on."""

    problem: str
    activation: str
    n_members: int
    width: int
    n_rows: int

    @classmethod
    def of(cls, scene: Scene) -> "Shape":
        s, n_rows = scene.settings, next(n for n in ROWS if n >= len(scene.points))
        return cls(scene.problem, s.activation, s.n_members, s.width, n_rows)

    @property
    def n_features(self) -> int:
        return 1 if self.problem == "regression" else 2

    @property
    def n_grid(self) -> int:
        return GRID if self.problem == "regression" else SIDE * SIDE

    @property
    def network(self) -> MLP:
        n_outputs = 1 if self.problem == "regression" else 2
        return MLP((self.width,), n_outputs, self.activation)


@dataclasses.dataclass(frozen=True)
class _Look:
    """What one member predicts at the inputs of the picture."""

    network: MLP

    def __call__(self, params: Params, shared) -> Array:
        likelihood, x = shared
        return likelihood.mean(self.network.apply(params, x))


class Program(NamedTuple):
    """What is compiled for one shape."""

    draw: Any  # (prior, key of anchors, key of initial draws, j) -> two vectors
    advance: Any  # (state, data, grid, n_steps) -> state, objective, means on the grid


class Programs:
    """Compiled programs by shape; safe to use from several threads."""

    def __init__(self, most: int = _MAX_PROGRAMS):
        self._most, self._kept = most, OrderedDict()
        self._lock, self._compiling = threading.Lock(), threading.Lock()
        self.n_compiled = self._n_dropped = 0

    def ready(self, shape: Shape) -> bool:
        return shape in self._kept

    def get(self, shape: Shape) -> Program:
        """The programs of a shape, compiled if need be."""
        if (program := self._find(shape)) is None:
            with self._compiling:
                program = self._find(shape) or self._compile(shape)
        return program

    def _find(self, shape: Shape) -> Program | None:
        with self._lock:
            if shape in self._kept:
                self._kept.move_to_end(shape)
            return self._kept.get(shape)

    def _compile(self, shape: Shape) -> Program:
        # Draws do not depend on activation, members and rows.
        alike = (p for s, p in self._kept.items() if s[0] == shape[0] and s.width == shape.width)
        like = next(alike, None)
        program = Program(like.draw if like else _compiled_draw(shape), _compiled_advance(shape))
        with self._lock:
            self.n_compiled += 1
            self._kept[shape] = program
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
                self._n_dropped += 1
        if self._n_dropped and self._n_dropped % _CLEAR_EVERY == 0:
            jax.clear_caches()  # or its own memory of what is compiled would only grow
        return program


def _compiled_draw(shape: Shape):
    network, prior, key = shape.network, _prior(shape, 1.0), jax.random.key(0)
    raveller = Raveller.like(prior.scale)

    def draw(prior, key_anchor, key_init, j):
        x = jnp.zeros((1, shape.n_features))
        anchor, initial = anchor_of(prior, key_anchor, j), initial_of(network, key_init, j, x)
        return raveller.ravel(anchor), raveller.ravel(initial)

    return jax.jit(draw).lower(prior, key, key, 0).compile()


def _compiled_advance(shape: Shape):
    look = _Look(shape.network)

    def advanced(state, data, grid, n_steps):
        state = advance(state, data, n_steps)
        shared = (from_pytree(state.extra.likelihood), grid)
        means = Vmapped().apply(look, state.params, shared)
        return state, objective(state, data), means

    settings = Settings(shape.activation, "anchored", shape.n_members, shape.width)
    blank = Scene(shape.problem, settings, (), (), 0, VIEW, (0, 0))
    prior = _prior(shape, 1.0)
    theta = np.zeros((shape.n_members, Raveller.like(prior.scale).size), np.float32)
    state = _state(blank, shape, prior, theta, theta)
    return jax.jit(advanced).lower(state, _data(blank, shape), _grid(blank), 0).compile()


@dataclasses.dataclass(frozen=True)
class Picture:
    """An ensemble in training, and the exact answer where there is one."""

    scene: Scene
    shape: Shape
    program: Program
    prior: Prior
    anchors: np.ndarray  # [member, parameter]
    state: EnsembleState
    data: Data
    grid: Array
    exact: Predictive | None
    why_not: str  # there is no exact answer
    since: int = 0  # steps since anything changed that training reads
    objective: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    means: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))  # on the grid

    def advanced(self, n_steps: int) -> "Picture":
        """The picture after some more steps; with zero steps, it is only evaluated again."""
        state, objective, means = self.program.advance(self.state, self.data, self.grid, n_steps)
        return dataclasses.replace(
            self,
            state=state,
            since=self.since + n_steps,
            objective=np.asarray(objective, np.float64),
            means=np.asarray(means, np.float64),
        )

    @property
    def step(self) -> int:
        return int(self.state.step)

    @cached_property
    def diverged(self) -> bool:
        return not (np.isfinite(self.objective).all() and np.isfinite(self.means).all())

    def predictive(self) -> Predictive:
        """The ensemble's predictive at the inputs of the picture."""
        if self.scene.problem == "regression":
            noise = np.full_like(self.means, self.scene.settings.noise_var)
            return Predictive.from_members(self.means, noise)
        return Predictive.from_members(self.means, self.means * (1 - self.means), "categorical")

    def frame(self) -> dict:
        """What there is to draw, in numbers of four digits."""
        head = frame_head(self.scene) | {
            "step": self.step,
            "loss": rounded(self.objective),
            "status": "diverged" if self.diverged else "ok",
            "weights": self._weights(),
        }
        with np.errstate(invalid="ignore", over="ignore"):
            if self.scene.problem == "regression":
                return head | self._regression()
            return head | self._classification()

    def _regression(self) -> dict:
        ours = self.predictive()
        record = {"x": rounded(np.ravel(self.grid)), "members": rounded(self.means[..., 0])}
        record |= _deviations(ours) | {"gp": None, "kl": None}
        if self.exact is None:
            return record | {"kl_why": self.why_not}
        if self.diverged:
            return record | {"gp": _deviations(self.exact), "kl_why": "A network diverged."}
        kl = metrics.kl(self.exact, ours).mean()
        return record | {"gp": _deviations(self.exact), "kl": rounded(kl)}

    def _classification(self) -> dict:
        ours = self.predictive()
        return {
            "extent": EXTENT,
            "side": SIDE,
            "probability": rounded(ours.mean[:, 1]),
            "mutual_information": rounded(ours.mutual_information),
        }

    def _weights(self) -> dict:
        pair, names = list(self.scene.pair), parameter_names(self.shape)
        return {
            "pair": pair,
            "names": [names[i] for i in pair],
            "anchors": rounded(np.asarray(self.state.own.centre)[:, pair]),
            "values": rounded(np.asarray(self.state.theta)[:, pair]),
            "prior_std": rounded(np.asarray(self.state.extra.scale)[pair]),
            "n_parameters": len(names),
        }


def follow(picture: Picture | None, scene: Scene, programs: Programs) -> Picture:
    """The picture of a scene; networks continue from ``picture`` where the scene allows it."""
    shape = Shape.of(scene)
    program = programs.get(shape)
    if picture is None or _key(picture.scene, _NETWORKS) != _key(scene, _NETWORKS):
        return _begun(scene, shape, program)
    before, prior, anchors = picture.scene, picture.prior, picture.anchors
    exact, why_not, step = picture.exact, picture.why_not, picture.state.step
    if before.anchors != scene.anchors:
        anchors, _ = _draws(program, prior, scene, scene.anchors)
    theta, opt_state = picture.state.theta, picture.state.opt_state
    if before.initial != scene.initial:
        _, theta = _draws(program, prior, scene, scene.initial)
    state = _state(scene, shape, prior, anchors, theta)
    if before.initial == scene.initial:
        state = dataclasses.replace(state, opt_state=opt_state, step=step)
    if _key(before, _EXACT) != _key(scene, _EXACT):
        exact, why_not = _exact(scene, shape, prior)
    trains_on = dataclasses.replace(before, view=scene.view, pair=scene.pair) == scene
    return Picture(
        scene,
        shape,
        program,
        prior,
        anchors,
        state,
        _data(scene, shape),
        _grid(scene),
        exact,
        why_not,
        since=picture.since if trains_on else 0,
    )


def _begun(scene: Scene, shape: Shape, program: Program) -> Picture:
    prior = _prior(shape, scene.settings.first_var)
    anchors, _ = _draws(program, prior, scene, scene.anchors)
    _, theta = _draws(program, prior, scene, scene.initial)
    state, data = _state(scene, shape, prior, anchors, theta), _data(scene, shape)
    exact = _exact(scene, shape, prior)
    return Picture(scene, shape, program, prior, anchors, state, data, _grid(scene), *exact)


_NETWORKS = ("opened", "activation", "width", "n_members", "first_var")  # begin anew with these
_EXACT = ("points", "view", "noise_var", "method")


def _key(scene: Scene, names: tuple[str, ...]) -> list:
    return [getattr(scene if hasattr(scene, name) else scene.settings, name) for name in names]


def _prior(shape: Shape, first_var: float) -> Prior:
    x = np.zeros((1, shape.n_features), np.float32)
    return Prior.for_network(shape.network, x, first_var)


def _likelihood(scene: Scene) -> Likelihood:
    if scene.problem == "regression":
        return Gaussian(np.float32(scene.settings.noise_var or 0.0))
    return Categorical()


def _draws(program: Program, prior: Prior, scene: Scene, renewed: int):
    """Anchors and initial parameters [member, parameter], after so many renewals.

    The first are those of `fit_ensemble` with the same seed.
    """
    key = jax.random.key(scene.seed)
    key_anchor, key_init, _, _ = draw_keys(jax.random.fold_in(key, renewed) if renewed else key)
    pairs = [program.draw(prior, key_anchor, key_init, j) for j in range(scene.settings.n_members)]
    anchors, initial = zip(*pairs, strict=True)
    return np.stack(anchors), np.stack(initial)


def _state(scene: Scene, shape: Shape, prior: Prior, anchors, theta) -> EnsembleState:
    """The networks before their first step, for parameters [member, parameter]."""
    s, likelihood = scene.settings, _likelihood(scene)
    row = checked_method(s.method, likelihood, s.n_members)
    seeds = numbers = None
    if scene.problem == "regression":
        seeds, numbers = _score_noise(scene, shape.n_rows, row.score_noise)
    mean, scale = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
        for tree in (prior.mean, prior.scale)
    )
    centre = anchors if row.anchors else np.broadcast_to(mean, np.shape(anchors))
    own = Own(jnp.asarray(centre), seeds, None)
    penalty = np.float32(row.penalised)
    extra = Extra(jnp.asarray(scale), as_pytree(likelihood), penalty, None, numbers)
    raveller = Raveller.like(prior.scale)
    loss, schedule = MemberLoss(shape.network, raveller), Schedule(1, shape.n_rows, s.learning_rate)
    run = schedule, shape.n_rows, Vmapped()
    return begin(0, loss, jnp.asarray(theta), own, extra, *run, raveller)


def _data(scene: Scene, shape: Shape) -> Data:
    x, y, weight = map(jnp.asarray, _padded(scene, shape))
    return Data(x, y, weight, len(scene.points), float(len(scene.points)))


def _padded(scene: Scene, shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, n_features = len(scene.points), shape.n_features
    rows = np.zeros((shape.n_rows, n_features + 1), np.float32)
    if n:
        rows[:n] = scene.points
    weight = (np.arange(shape.n_rows) < n).astype(np.float32)
    return rows[:, :n_features], rows[:, n_features:], weight


def _score_noise(scene: Scene, n_rows: int, wanted: bool) -> tuple[Array, Array]:
    """Seeds [member, 3] and numbers [row]: a point's noise is of the seed and its number alone."""
    rng, numbers = np.random.default_rng(scene.seed), np.full(n_rows, -1, np.int32)
    if wanted:
        numbers[: len(scene.numbers)] = scene.numbers
    members = np.arange(scene.settings.n_members, dtype=np.uint32)
    of_pair = rng.integers(2**32, size=(len(members), 2), dtype=np.uint32)[members // 2]
    seeds = np.column_stack([of_pair, members % 2])
    return jnp.asarray(seeds), jnp.asarray(numbers)


def _grid(scene: Scene) -> Array:
    if scene.problem == "regression":
        return jnp.asarray(np.linspace(*scene.view, GRID, dtype=np.float32)[:, None])
    side = np.linspace(*EXTENT, SIDE, dtype=np.float32)
    return jnp.asarray(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2))


def _exact(scene: Scene, shape: Shape, prior: Prior) -> tuple[Predictive | None, str]:
    """The infinitely wide network's exact posterior on the grid, or why there is none."""
    s = scene.settings
    if scene.problem != "regression":
        return None, "The exact answer is known only for regression."
    if s.activation not in EXACT:
        return None, f"An infinitely wide network of {s.activation} has no known kernel."
    if not METHODS[s.method].penalised:
        return None, "The unconstrained loss has no prior, so there is no posterior to compare."
    x, y, weight = _padded(scene, shape)
    kernel = gp.twin(shape.network, prior)
    exact = gp.condition(kernel, x, y, s.noise_var, np.where(weight > 0, 1.0, _NO_WEIGHT))
    return exact.predict(np.asarray(_grid(scene))), ""


@lru_cache(maxsize=_MAX_PROGRAMS)
def parameter_names(shape: Shape) -> list[str]:
    """Short names of the parameters in flat order: b1[0], W1[0,0], W2[0,0] and so on."""
    scale, names = _prior(shape, 1.0).scale, []
    for path, leaf in zip(leaf_paths(scale), jax.tree.leaves(scale), strict=True):
        layer, kind = path.split("/")
        letter = {"weight": "W", "bias": "b"}[kind]
        for index in np.ndindex(leaf.shape):
            names.append(f"{letter}{int(layer) + 1}[{','.join(map(str, index))}]")
    return names


def frame_head(scene: Scene) -> dict:
    """What every frame says about its scene, even if there is nothing to draw yet."""
    return {
        "type": "frame",
        "problem": scene.problem,
        "step": 0,
        "settings": scene.settings.as_dict(),
        "seed": scene.seed,
        "n_points": len(scene.points),
        "loss": [],
    }


def _deviations(dist: Predictive) -> dict:
    epistemic = np.sqrt(dist.epistemic_var)
    parts = {"mean": dist.mean, "epistemic": epistemic, "total": dist.std}
    return {name: rounded(np.ravel(values)) for name, values in parts.items()}


def rounded(values) -> Any:
    """Numbers of four significant digits in nested lists; None where not finite."""
    values = np.asarray(values, np.float64)
    finite = np.isfinite(values)
    size = np.abs(np.where(finite & (values != 0), values, 1.0))
    places = _DIGITS - 1 - np.floor(np.log10(size)).astype(int)
    # Powers of ten up to 22 are exact, and so then is the nearest decimal.
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    with np.errstate(invalid="ignore", over="ignore"):
        short = np.round(np.where(finite, values, 0.0) * up / down) * down / up
    if finite.all():
        return short.tolist()
    gaps = np.array(short, object)
    gaps[~finite] = None
    return gaps.tolist()
