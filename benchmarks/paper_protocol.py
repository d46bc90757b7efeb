"""What in the authors' training explains their numbers: docs/benchmarks/paper/paper-protocol.json.

Their published scripts differ from our ``paper`` preset in ways the paper does not print:

- a member starts at its own anchor, and not at another draw of the prior;
- the penalty is over the rows of the batch, and not over those of the training part;
- every member has its own order of the rows, and an epoch ends with a smaller batch;
- a member whose loss rose by over 2 % in the last tenth of its epochs goes on for another tenth.

`ROWS` takes them back one by one, on the splits the authors drew. All members of all splits are
trained in one program, apart from the library, so that this file can differ from it at will.

    python -m benchmarks.paper_protocol [DATASET ...]
"""

import dataclasses
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchored import metrics
from anchored.datasets import load_paper_split
from anchored.paper import runner
from anchored.paper.tables.uci_settings import PAPER_SETTINGS
from anchored.prediction.predictive import Predictive
from anchored.tuning import Settings
from benchmarks import beside_table_1

N_SPLITS = {"energy": 20, "yacht": 10, "kin8nm": 2, "naval": 20}
N_MEMBERS = 5
_EPOCHS = 20  # most in one call
_MOST_ROUNDS = 40


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How members are trained; the fields are the differences above."""

    start: str = "anchor"  # or prior: another draw of it; or init: the network's own
    penalty: str = "batch"  # rows it is divided by, or all
    own_order: bool = True
    last_batch: bool = True  # the smaller one
    goes_on: bool = True


_THEIRS = Protocol()
_LAWFUL = dataclasses.replace(_THEIRS, penalty="all", start="prior")
_SHARED = dataclasses.replace(_LAWFUL, own_order=False)
_FINAL = dataclasses.replace(_SHARED, goes_on=False)
_EVEN = dataclasses.replace(_FINAL, last_batch=False)
ROWS: dict[str, tuple[Protocol, int]] = {  # with the seed
    "as in the scripts": (_THEIRS, 0),
    "the same, another seed": (_THEIRS, 1),
    "penalty over all rows": (dataclasses.replace(_THEIRS, penalty="all"), 0),
    "and started at another draw of the prior": (_LAWFUL, 0),
    "and one order of the rows for all members": (_SHARED, 0),
    "and no member trains longer": (_FINAL, 0),
    "and no smaller batch": (_EVEN, 0),
    "and started where networks are initialised": (dataclasses.replace(_EVEN, start="init"), 0),
}


class Task(NamedTuple):
    """Standardised rows of every split, and the scale of the target."""

    x: np.ndarray  # [split, row, feature]
    y: np.ndarray  # [split, row]
    x_test: np.ndarray
    y_test: np.ndarray
    scale: np.ndarray  # [split]

    @classmethod
    def load(cls, name: str, n_splits: int, data_dir=None) -> "Task":
        parts = []
        for i in range(n_splits):
            rows = load_paper_split(name, i, data_dir)
            mean, std = rows.x_train.mean(axis=0), rows.x_train.std(axis=0)
            std = np.where(std > 1e-12 * np.abs(mean), std, 1.0)
            middle, scale = rows.y_train.mean(), rows.y_train.std()
            x, x_test = (rows.x_train - mean) / std, (rows.x_test - mean) / std
            y, y_test = (rows.y_train - middle) / scale, (rows.y_test - middle) / scale
            parts.append((x, y, x_test, y_test, scale))
        return cls(*(np.asarray(array, np.float32) for array in zip(*parts, strict=True)))


class Net(NamedTuple):
    """Parameters of networks with one hidden layer, or something for each of them."""

    weight: Any  # [net, feature, node]
    bias: Any  # [net, node]
    last: Any


def run(task: Task, settings: Settings, protocol: Protocol, seed: int) -> list[dict[str, float]]:
    """Scores of every split."""
    rng = np.random.default_rng(seed)
    (n_splits, _, n_features), width = task.x.shape, settings.hidden[0]
    split = np.repeat(np.arange(n_splits), N_MEMBERS)
    shapes = Net((n_features, width), (width,), (width,))
    prior = Net(settings.first_var / n_features, settings.first_var, 1 / width)

    def drawn(variance: Net) -> Net:
        normals = (rng.normal(size=(len(split), *shape)) for shape in shapes)
        return Net(*(jnp.float32(z * v**0.5) for z, v in zip(normals, variance, strict=True)))

    anchor, other, init = drawn(prior), drawn(prior), drawn(Net(1 / n_features, 0.0, 1 / width))
    start = {"anchor": anchor, "prior": other, "init": init}[protocol.start]
    trainer = _Trainer(task, settings, protocol, prior, rng)
    params = trainer.train(start, anchor, split)
    outputs = jax.vmap(_outputs)(params, jnp.asarray(task.x_test)[split])
    members = np.asarray(outputs, np.float64).reshape(n_splits, N_MEMBERS, -1)
    return [_scores(task, settings, i, members[i]) for i in range(n_splits)]


def _scores(task: Task, settings: Settings, i: int, members: np.ndarray) -> dict[str, float]:
    scale = float(task.scale[i])
    noise = np.full_like(members, scale**2 * settings.noise_var)
    dist, y = Predictive.from_members(scale * members, noise), scale * task.y_test[i]
    return {
        "nll": metrics.nll(dist, y),
        "rmse": metrics.rmse(dist, y),
        "coverage_90": metrics.coverage(dist, y, 0.9),
    }


def _outputs(params: Net, x):
    return jax.nn.relu(x @ params.weight + params.bias) @ params.last


class _State(NamedTuple):
    params: Net
    mean: Net  # of Adam
    square: Net


@dataclasses.dataclass(frozen=True, eq=False)
class _Trainer:
    """Trains every network of every split; the loss is equation (10) of the paper."""

    task: Task
    settings: Settings
    protocol: Protocol
    prior: Net
    rng: np.random.Generator

    def train(self, start: Net, anchor: Net, split: np.ndarray) -> Net:
        zeros = jax.tree.map(jnp.zeros_like, start)
        state, n_all = _State(start, zeros, zeros), self.settings.epochs
        # Looked at after epoch 0.9 n, counted from 0, and after the last one.
        n_first = n_all * 9 // 10 + 1
        state = self._epochs(state, anchor, split, 0, n_first)
        before = self._loss(state, anchor, split)
        state = self._epochs(state, anchor, split, n_first, n_all - n_first)
        rising = np.flatnonzero(self._rose(before, self._loss(state, anchor, split)))
        done = n_all
        for _ in range(_MOST_ROUNDS if self.protocol.goes_on else 0):
            if not len(rising):
                break
            # Filled up to one of a few lengths, as each has a program of its own.
            size = min(len(split), max(4, 1 << (len(rising) - 1).bit_length()))
            index = np.concatenate([rising, np.repeat(rising[:1], size - len(rising))])
            part, pulled = jax.tree.map(lambda leaf: leaf[index], (state, anchor))  # noqa: B023
            part = self._epochs(part, pulled, split[index], done, 2)
            before = self._loss(part, pulled, split[index])
            part = self._epochs(part, pulled, split[index], done + 2, n_all // 10 - 1)
            rose = self._rose(before, self._loss(part, pulled, split[index]))[: len(rising)]
            done += n_all // 10 + 1
            n = len(rising)
            state = jax.tree.map(lambda a, b: a.at[rising].set(b[:n]), state, part)  # noqa: B023
            rising = rising[rose]
        return state.params

    @staticmethod
    def _rose(before: np.ndarray, after: np.ndarray) -> np.ndarray:
        return (after - before) / after > 0.02

    def _epochs(self, state, anchor, split, first: int, n_epochs: int) -> _State:
        for done, n in self._parts(n_epochs, len(split)):
            rows, step = self._rows(split, n), (first + done) * self._batches[0]
            state = self._steps(state, anchor, jnp.asarray(split), jnp.asarray(rows), step)
        return state

    def _parts(self, n_epochs: int, n_nets: int) -> Iterator[tuple[int, int]]:
        """Epochs done and to do, so that there are calls of two lengths only."""
        n_batches, size = self._batches
        most = max(1, min(_EPOCHS, 4_000_000 // (n_nets * n_batches * size)))
        done = 0
        while done < n_epochs:
            n = most if n_epochs - done >= most else 1
            yield done, n
            done += n

    @property
    def _batches(self) -> tuple[int, int]:
        """How many in an epoch, and their rows."""
        n_rows = self.task.x.shape[1]
        size = min(self.settings.batch_size, n_rows)
        return (-(-n_rows // size) if self.protocol.last_batch else n_rows // size), size

    def _rows(self, split: np.ndarray, n_epochs: int) -> np.ndarray:
        """Row numbers [epoch, net, row], filled up with zeros."""
        (n_splits, n_rows, _), (n_batches, size) = self.task.x.shape, self._batches
        found = np.zeros((n_epochs, len(split), n_batches * size), np.int32)
        n_used = min(n_rows, n_batches * size)
        for epoch in found:
            n_orders = len(split) if self.protocol.own_order else n_splits
            orders = np.tile(np.arange(n_rows, dtype=np.int32), (n_orders, 1))
            orders = self.rng.permuted(orders, axis=1)
            epoch[:, :n_used] = (orders if self.protocol.own_order else orders[split])[:, :n_used]
        return found

    @partial(jax.jit, static_argnums=0)
    def _steps(self, state: _State, anchor, split, rows, first_step) -> _State:
        (n_epochs, n_nets, _), (n_batches, size) = rows.shape, self._batches
        n_rows = self.task.x.shape[1]
        weight = (np.arange(n_batches * size) < n_rows).astype(np.float32).reshape(-1, size)
        rows = rows.reshape(n_epochs, n_nets, n_batches, size).swapaxes(1, 2)
        rows = rows.reshape(n_epochs * n_batches, n_nets, size)
        weights = jnp.tile(weight, (n_epochs, 1))
        gradient = jax.vmap(jax.grad(self._member_loss), in_axes=(0, 0, 0, 0, None))
        x, y = jnp.asarray(self.task.x), jnp.asarray(self.task.y)

        def step(carry, batch):
            (params, mean, square), t = carry
            picked, weight = batch
            x_batch, y_batch = x[split[:, None], picked], y[split[:, None], picked]
            g = gradient(params, anchor, x_batch, y_batch, weight)
            mean = jax.tree.map(lambda m, d: 0.9 * m + 0.1 * d, mean, g)
            square = jax.tree.map(lambda v, d: 0.999 * v + 0.001 * d * d, square, g)
            decay = jnp.exp(np.log(self.settings.decay_rate) * (t // 20))
            count = (t + 1).astype(jnp.float32)
            rate = self.settings.learning_rate * decay / (1 - 0.9**count)
            level = 1 / (1 - 0.999**count)
            params = jax.tree.map(
                lambda p, m, v: p - rate * m / (jnp.sqrt(v * level) + 1e-8), params, mean, square
            )
            return (_State(params, mean, square), t + 1), None

        (state, _), _ = jax.lax.scan(step, (state, jnp.int32(first_step)), (rows, weights))
        return state

    def _member_loss(self, params: Net, anchor: Net, x, y, weight):
        n_seen, n_rows = jnp.sum(weight), self.task.x.shape[1]
        misfit = jnp.sum(weight * jnp.square(_outputs(params, x) - y)) / n_seen
        over = n_seen if self.protocol.penalty == "batch" else n_rows
        return misfit + self._pull(params, anchor) / over

    def _pull(self, params: Net, anchor: Net):
        return self.settings.noise_var * sum(
            jnp.sum(jnp.square(p - a)) / v
            for p, a, v in zip(params, anchor, self.prior, strict=True)
        )

    def _loss(self, state: _State, anchor: Net, split: np.ndarray) -> np.ndarray:
        return np.asarray(self._full_loss(state.params, anchor, jnp.asarray(split)))

    @partial(jax.jit, static_argnums=0)
    def _full_loss(self, params: Net, anchor: Net, split):
        """The loss of each network on all rows."""
        x, y = jnp.asarray(self.task.x), jnp.asarray(self.task.y)

        def one(net):
            params, anchor, i = net
            misfit = jnp.mean(jnp.square(_outputs(params, x[i]) - y[i]))
            return misfit + self._pull(params, anchor) / x.shape[1]

        return jax.lax.map(one, (params, anchor, split))


def plan(s: Protocol, context: runner.Context) -> list[runner.Cell]:
    return [
        runner.Cell(
            f"{name}/{number}",
            1.0,
            partial(_cell, name, words, context.data_dir),
            settings=PAPER_SETTINGS[name],
        )
        for name in runner.chosen("datasets", context.datasets, N_SPLITS, N_SPLITS)
        for number, words in enumerate(ROWS)
    ]


def _cell(name: str, words: str, data_dir) -> dict:
    protocol, seed = ROWS[words]
    splits = run(Task.load(name, N_SPLITS[name], data_dir), PAPER_SETTINGS[name], protocol, seed)
    told = {"training": words, "protocol": dataclasses.asdict(protocol), "seed": seed}
    return {**told, "splits": splits}


EXPERIMENT = beside_table_1.experiment(
    "paper-protocol",
    "What the authors' training adds",
    "Their scripts do more than the paper prints.",
    _THEIRS,
    plan,
)

if __name__ == "__main__":
    beside_table_1.run(EXPERIMENT, sys.argv[1:])
