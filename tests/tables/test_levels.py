"""Columns of many levels are described by the targets of other rows."""

import json

import numpy as np
import pytest

from anchored.tables.columns import Levels
from anchored.tables.encoder import Encoder
from anchored.tables.levels import Means, Signals, by_other_parts, parts_of
from anchored.tables.reading import Table


def many_levels(seed=0, n_rows=1_200, n_levels=60):
    """Each level has an effect of its own; the noise has deviation 0.5."""
    rng = np.random.default_rng(seed)
    effect = rng.normal(size=n_levels)
    level = rng.integers(n_levels, size=n_rows)
    cells = np.array([f"level {k}" for k in level], dtype=object)
    return Table({"job": cells}, n_rows), effect[level] + 0.5 * rng.normal(size=n_rows), effect


def test_means_are_drawn_together_as_in_the_normal_model(rng):
    """Of balanced levels, (n b) / (n b + w) with the components of variance of the textbook."""
    n_levels, n_each = 200, 6
    level = np.repeat(np.arange(n_levels), n_each)
    y = np.repeat(rng.normal(0, 0.8, n_levels), n_each) + rng.normal(0, 1.5, n_levels * n_each)
    cells = np.array([f"{k:03}" for k in level], dtype=object)
    signals = Signals(("y",), y[:, None], np.ones(len(y)))
    means = Means.fit(cells, signals)
    group = y.reshape(n_levels, n_each)
    within = group.var(axis=1, ddof=1).mean()
    between = group.mean(axis=1).var(ddof=1) - within / n_each
    share = n_each * between / (n_each * between + within)
    expected = y.mean() + share * (group.mean(axis=1) - y.mean())
    np.testing.assert_allclose(means.values[:, 0], expected, rtol=0.02, atol=0.01)
    np.testing.assert_allclose(means.values[:, 1], share, rtol=0.02)
    np.testing.assert_allclose(means.at(np.array(["never", None], object)), [means.usual] * 2)
    assert means.usual[1] == 0


def test_a_weight_of_two_is_a_row_twice(rng):
    cells = np.array([f"{k}" for k in rng.integers(8, size=90)], dtype=object)
    y, twice = rng.normal(size=90), np.arange(90) % 3 == 0
    weighted = Means.fit(cells, Signals(("y",), y[:, None], 1.0 + twice))
    again = np.concatenate([np.arange(90), np.flatnonzero(twice)])
    repeated = Means.fit(cells[again], Signals(("y",), y[again, None], np.ones(len(again))))
    np.testing.assert_allclose(weighted.values, repeated.values, rtol=1e-9)


def test_no_row_is_described_by_its_own_target():
    """Targets of pure noise: what other rows say of a level tells nothing of the row's own."""
    table, _, _ = many_levels()
    noise = np.random.default_rng(5).normal(size=table.n_rows)
    own = Means.fit(table.columns["job"], Signals.of_numbers(noise)).at(table.columns["job"])
    encoder, features = Encoder.fit_transform(table, Signals.of_numbers(noise))
    place = encoder.feature_names.index("job: usual target")
    assert np.corrcoef(own[:, 0], noise)[0, 1] > 0.15  # what would leak
    assert np.corrcoef(features[:, place], noise)[0, 1] < 3 / np.sqrt(table.n_rows)


def test_equal_rows_do_not_say_the_opposite_of_each_other():
    """Labels of one column: what other rows say of a row's level must agree with its label."""
    table, y, _ = many_levels()
    encoder, features = Encoder.fit_transform(table, Signals.of_classes(y > 0))
    place = next(i for i, name in enumerate(encoder.feature_names) if "share of" in name)
    is_first = (y > 0) == (encoder.feature_names[place] == "job: share of True")
    assert np.corrcoef(features[:, place], is_first)[0, 1] > 0.5


def test_what_rows_say_does_not_depend_on_their_order_and_changes_with_one_target(rng):
    table, y, _ = many_levels()
    signals = Signals.of_numbers(y)
    order = rng.permutation(table.n_rows)
    _, features = Encoder.fit_transform(table, signals)
    _, shuffled = Encoder.fit_transform(table.take(order), signals.take(order))
    np.testing.assert_allclose(shuffled, features[order], rtol=1e-9, atol=1e-12)
    parts = parts_of(table, signals)
    assert set(parts) == set(range(10))
    other = signals.values.copy()
    other[0] += 1.0
    changed = by_other_parts(table.columns["job"], Signals(("y",), other, signals.weight), parts)
    before = by_other_parts(table.columns["job"], signals, parts)
    assert changed[0, 0] == pytest.approx(before[0, 0], abs=0.02)


def test_levels_predict_rows_to_come():
    """The feature of new rows follows the levels' true effects; an unseen level is unknown."""
    table, y, effect = many_levels()
    encoder, _ = Encoder.fit_transform(table, Signals.of_numbers(y))
    (column,) = encoder.columns
    assert isinstance(column, Levels)
    new = Table({"job": np.array([f"level {k}" for k in range(60)] + ["new", None], object)}, 62)
    out = encoder.transform(new)
    usual = encoder.feature_names.index("job: usual target")
    known = encoder.feature_names.index("job: how well known")
    assert np.corrcoef(out[:60, usual], effect)[0, 1] > 0.95
    assert np.all(out[:60, known] > 0.5)
    np.testing.assert_array_equal(out[60:, known], 0)
    assert not encoder.indicators[usual]
    assert encoder.indicators[0]


def test_classes_have_shares():
    table, y, _ = many_levels()
    two = Signals.of_classes(np.where(y > 0, "yes", "no"))
    assert len(two.titles) == 1
    three = Signals.of_classes(np.digitize(y, [-0.5, 0.5]))
    assert len(three.titles) == 3
    np.testing.assert_allclose(three.values.sum(axis=1), 1)
    encoder, features = Encoder.fit_transform(table, three)
    shares = features[:, [encoder.feature_names.index(f"job: {t}") for t in three.titles]]
    assert np.all((shares > 0) & (shares < 1))


def test_an_encoder_with_levels_comes_back_from_json():
    table, y, _ = many_levels()
    encoder, _ = Encoder.fit_transform(table, Signals.of_numbers(y))
    content = json.loads(json.dumps(encoder.to_json()))
    assert Encoder.from_json(content) == encoder
    content["columns"][0]["values"][0] = [0.0]
    with pytest.raises(ValueError, match="values"):
        Encoder.from_json(content)
    content["columns"][0]["values"][0] = ["a", 1.0]
    with pytest.raises(ValueError, match="finite numbers"):
        Encoder.from_json(content)


def test_texts_that_hardly_repeat_stay_out(rng):
    tags = np.array([f"tag {k}" for k in rng.integers(2_000, size=800)], dtype=object)
    table = Table({"tag": tags, "size": rng.normal(size=800)}, 800)
    encoder, _ = Encoder.fit_transform(table, Signals.of_numbers(rng.normal(size=800)))
    assert encoder.names == ("size",)
