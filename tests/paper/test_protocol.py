"""The authors' training taken apart: what each part of it does to batches and scores."""

import dataclasses

import jax
import numpy as np
import pytest
from benchmarks import beside_table_1, paper_protocol
from benchmarks.paper_protocol import N_MEMBERS, N_SPLITS, ROWS, Net, Protocol, Task, run

from anchored import paper
from anchored.paper.runner import plain
from anchored.paper.tables.uci_settings import PAPER_SETTINGS
from anchored.tuning import Settings

SETTINGS = Settings((8,), "relu", 0.05, 5.0, 32, 0.05, 20, 0.99)


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 50, 3))
    y = np.sin(x[..., 0]) + 0.1 * rng.normal(size=(2, 50))
    arrays = x[:, :40], y[:, :40], x[:, 40:], y[:, 40:], np.array([2.0, 3.0])
    return Task(*(np.asarray(array, np.float32) for array in arrays))


def trainer(task, protocol):
    prior = Net(5.0 / 3, 5.0, 1 / 8)
    return paper_protocol._Trainer(task, SETTINGS, protocol, prior, np.random.default_rng(0))


def test_an_epoch_shows_each_row_once_and_the_smaller_batch_if_asked(task):
    split = np.repeat([0, 1], N_MEMBERS)
    own = trainer(task, Protocol())._rows(split, 2)
    assert own.shape == (2, 10, 64)
    assert (np.sort(own[..., :40], axis=-1) == np.arange(40)).all()
    assert len({order.tobytes() for order in own.reshape(20, -1)}) == 20
    shared = trainer(task, Protocol(own_order=False, last_batch=False))._rows(split, 2)
    assert shared.shape == (2, 10, 32)
    assert len({order.tobytes() for order in shared.reshape(20, -1)}) == 4


def test_the_loss_is_equation_10_over_the_batch_or_over_all_rows(task):
    rng = np.random.default_rng(1)
    params, anchor = (
        Net(*(rng.normal(size=shape) for shape in ((3, 8), (8,), (8,)))) for _ in range(2)
    )
    x, y, weight = task.x[0, :10], task.y[0, :10], np.array([1.0] * 8 + [0.0] * 2)
    outputs = np.maximum(x[:8] @ params.weight + params.bias, 0) @ params.last
    pull = sum(
        np.sum((p - a) ** 2) * SETTINGS.noise_var / v
        for p, a, v in zip(params, anchor, (5.0 / 3, 5.0, 1 / 8), strict=True)
    )
    for penalty, n_rows in (("batch", 8), ("all", 40)):
        loss = jax.jit(trainer(task, Protocol(penalty=penalty))._member_loss)
        by_hand = np.mean((outputs - y[:8]) ** 2) + pull / n_rows
        np.testing.assert_allclose(loss(params, anchor, x, y, weight), by_hand, rtol=1e-5)


def test_members_learn_and_those_whose_loss_rose_go_on(task, monkeypatch):
    calls = []
    real = paper_protocol._Trainer._epochs
    monkeypatch.setattr(
        paper_protocol._Trainer,
        "_epochs",
        lambda self, *args: calls.append((len(args[2]), *args[3:])) or real(self, *args),
    )
    rises = iter([np.arange(10) == 3, np.array([True] * 4), np.array([False] * 4)])
    monkeypatch.setattr(paper_protocol._Trainer, "_rose", lambda *losses: next(rises))
    found = run(task, SETTINGS, Protocol(), 0)
    assert calls == [(10, 0, 19), (10, 19, 1), (4, 20, 2), (4, 22, 1), (4, 23, 2), (4, 25, 1)]
    for scores, scale, y in zip(found, task.scale, task.y_test, strict=True):
        assert scores["rmse"] < 0.8 * scale * np.std(y)


def test_the_record_is_of_the_rows_and_splits_in_the_script():
    record = paper.load(beside_table_1.FOLDER, "paper-protocol")
    words = list(ROWS)
    for label, cell in record["numbers"].items():
        name, row = label.split("/")
        assert cell["training"] == words[int(row)]
        protocol, seed = ROWS[cell["training"]]
        assert (cell["protocol"], cell["seed"]) == (dataclasses.asdict(protocol), seed)
        assert 2 <= len(cell["splits"]) <= N_SPLITS[name]  # the page tells how many
        row = plain(dataclasses.asdict(PAPER_SETTINGS[name]))
        assert record["settings"][name] == row
