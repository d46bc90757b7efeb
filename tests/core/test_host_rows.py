"""Inputs that stay in a file: read batch by batch, never as a whole; and changed at random."""

import jax
import numpy as np
import pytest

import anchored
from anchored import AnchoredClassifier, Data, Prior, Schedule, fit_ensemble
from anchored.core.likelihoods import Categorical
from anchored.core.networks import MLP, ConvNet, TextCNN
from anchored.core.rows import HostRows, Standardiser, rows_at_once
from anchored.core.state import _BLOCK_BYTES


@pytest.fixture
def images(tmp_path):
    """Stripes across or along, as uint8 [60, 6, 6, 1] in a file, and their labels."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    x = rng.integers(0, 120, (60, 6, 6, 1))
    x[labels == 0, ::2] += 120
    x[labels == 1, :, ::2] += 120
    file = np.memmap(tmp_path / "images.bin", np.uint8, "w+", shape=x.shape)
    file[:] = x
    file.flush()
    return np.memmap(tmp_path / "images.bin", np.uint8, "r", shape=x.shape), labels


def host(x: np.ndarray, augment=None) -> HostRows:
    rows = HostRows(x, np.arange(len(x)), Standardiser.identity())
    standardiser = Standardiser.of_rows(rows, np.ones(len(x)))
    return HostRows(x, rows.index, standardiser, augment)


@pytest.mark.parametrize("shape", [(50, 4), (50, 4, 3, 2)], ids=["table", "images"])
def test_a_standardiser_read_in_pieces_is_the_usual_one(shape, monkeypatch):
    monkeypatch.setattr("anchored.core.rows._PIECE_BYTES", 200)
    rng = np.random.default_rng(0)
    x, weight = rng.normal(3.0, 2.0, shape), rng.uniform(0.5, 2.0, 50)
    x[:, 0] = 7.0
    rows = HostRows(x, np.arange(50), Standardiser.identity())
    ours, usual = Standardiser.of_rows(rows, weight), Standardiser.fit(x, weight)
    np.testing.assert_allclose(ours.mean, usual.mean, rtol=1e-12)
    np.testing.assert_allclose(ours.scale, usual.scale, rtol=1e-9)


def test_rows_of_a_file_train_the_same_members_as_rows_in_memory(monkeypatch):
    monkeypatch.setattr("anchored.core.state._BLOCK_BYTES", 3_000)  # several blocks in a segment
    rng = np.random.default_rng(1)
    x, y = rng.normal(2.0, 3.0, (128, 5)), rng.integers(0, 2, 128)
    rows, network = host(x), MLP((8,), 2)
    datas = Data.make(rows.standardiser.forward(x), y), Data.make(rows, y)
    assert isinstance(datas[1].x, HostRows)
    fits = [
        fit_ensemble(
            jax.random.key(0),
            network,
            Prior.for_network(network, data.x[:1]),
            Categorical(),
            data,
            n_members=2,
            schedule=Schedule(6, 16),
        )
        for data in datas
    ]
    for first, second in zip(*(jax.tree.leaves(fit.params) for fit in fits), strict=True):
        np.testing.assert_allclose(first, second, atol=2e-6)


def test_a_classifier_reads_images_from_a_file(images):
    x, y = images
    network = ConvNet(blocks=((4,),), hidden=(8,), n_outputs=2)
    model = AnchoredClassifier(network=network, n_members=2, epochs=40, random_state=0)
    model.fit(x, y)
    assert np.mean(model.predict(x) == y) == 1.0
    assert model.novelty(x).shape == (60,)
    np.testing.assert_allclose(model.predict_proba(x), model.predict_proba(np.array(x)), atol=1e-6)


def test_no_more_than_a_few_rows_of_a_file_are_read_at_a_time(tmp_path, monkeypatch):
    """As a file of ten times the block would be: the largest piece read stays a block."""
    monkeypatch.setattr("anchored.core.state._BLOCK_BYTES", 40 * 6 * 6 * 4)
    monkeypatch.setattr("anchored.core.training._CHECK_ROWS", 32)
    monkeypatch.setattr("anchored.core.rows._PIECE_BYTES", 40 * 6 * 6 * 4)
    assert _BLOCK_BYTES > 40 * 6 * 6 * 4
    sizes = []

    class Watched(np.ndarray):
        def __getitem__(self, key):
            out = super().__getitem__(key)
            if isinstance(key, np.ndarray):
                sizes.append(len(out))
            return out

    x = np.random.default_rng(0).normal(size=(400, 6, 6, 1)).astype(np.float32).view(Watched)
    data = Data.make(host(x), np.arange(400) % 2)
    network = ConvNet(blocks=((2,),), hidden=(4,), n_outputs=2)
    prior = Prior.for_network(network, data.x[:1])
    schedule = Schedule(2, 20)
    fit_ensemble(
        jax.random.key(0), network, prior, Categorical(), data, n_members=2, schedule=schedule
    )
    assert max(sizes) <= 40


def test_tokens_of_a_file_are_checked_and_learned(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    file = np.memmap(tmp_path / "tokens.bin", np.int32, "w+", shape=(80, 8))
    file[:] = rng.integers(2, 12, (80, 8)) + 10 * y[:, None]
    network = TextCNN(vocabulary=30, embedding=4, filters=6, hidden=8)
    model = AnchoredClassifier(network=network, n_members=2, epochs=60, random_state=0)
    assert np.mean(model.fit(file, y).predict(file) == y) > 0.95
    file[3, 3] = 30
    with pytest.raises(ValueError, match="from 0 to 29"):
        model.fit(file, y)


def test_augmenting_makes_a_classifier_blind_to_what_it_changes(tmp_path):
    """Trained on inputs that are mirrored at random, it predicts the same for mirrored inputs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    y = (np.abs(x[:, 0]) + 0.3 * x[:, 0] > 0.8).astype(int)

    def mirror(rng, batch):
        return batch * np.where(rng.random((len(batch), 1)) < 0.5, -1.0, 1.0)

    gaps = []
    for augment in (None, mirror):
        model = AnchoredClassifier(
            (16,), n_members=2, epochs=150, prior=10.0, augment=augment, random_state=0
        ).fit(x, y)
        gaps.append(np.mean(np.abs(model.predict_proba(x) - model.predict_proba(-x))))
    assert gaps[1] < 0.5 * gaps[0]
    model.save(tmp_path / "model.safetensors")  # without the function
    again = anchored.load(tmp_path / "model.safetensors")
    np.testing.assert_allclose(again.predict_proba(x), model.predict_proba(x), atol=1e-6)


def test_what_augment_may_not_do():
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    with pytest.raises(ValueError, match="`augment` must be a function"):
        AnchoredClassifier(augment="flip").fit(x, y)
    with pytest.raises(ValueError, match="`augment` must keep the shape of a batch"):
        AnchoredClassifier(augment=lambda rng, b: b[:, :2], prior=1.0, epochs=1).fit(x, y)


def test_images_and_texts_go_through_a_network_a_few_at_a_time():
    table, images = np.zeros((3, 50)), np.zeros((3, 8, 8, 1), np.float32)
    tokens = np.zeros((3, 200), np.int32)
    assert rows_at_once(table) > 10_000
    assert rows_at_once(images) == rows_at_once(tokens) == rows_at_once(host(images)) == 512
