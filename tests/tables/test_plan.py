"""What is decided about a table before any training."""

import dataclasses
import io

import numpy as np
import pytest

from anchored.errors import TableError
from anchored.tables.plan import labelled_rows, make_plan
from anchored.tables.reading import read_table
from anchored.tables.table import Table


def text(cells):
    return np.array(list(cells), dtype=object)


def table_of(n_rows=100, **columns):
    x = np.random.default_rng(0).normal(size=n_rows)
    return Table({"x": x} | columns, n_rows)


def damage(n_rows=200):
    """Most rows have the class None, as in a table of damage to aircraft."""
    words = np.random.default_rng(1).choice(
        ["None", "NA", "Minor", "Large"], n_rows, p=[0.7, 0.1, 0.1, 0.1]
    )
    return text([*words[:-3], None, None, None])


def test_words_for_missing_are_classes_of_a_target():
    lines = "".join(f"{i / 7:.2f},{word or ''}\n" for i, word in enumerate(damage()))
    table = read_table(io.BytesIO(f"x,damage\n{lines}".encode()))
    plan = make_plan(table, "damage")
    assert plan.task == "classification"
    assert plan.n_dropped == 3
    assert set(plan.y) == {"None", "NA", "Minor", "Large"}
    assert np.mean(plan.y == "None") == pytest.approx(np.mean(damage() == "None"), abs=0.02)
    said = [note for note in plan.notes if "of the target is a class" in note]
    assert len(said) == 2
    assert any(note.startswith("'None' in ") for note in said)


def test_words_for_missing_among_numbers_are_missing():
    lines = "".join(f"{i},{'NA' if i % 10 == 0 else i / 3}\n" for i in range(100))
    plan = make_plan(read_table(io.BytesIO(f"x,y\n{lines}".encode())), "y")
    assert (plan.task, plan.n_dropped) == ("regression", 10)


def test_words_for_missing_among_inputs_are_said():
    town = text(["NA", "north", "south", None] * 25)
    plan = make_plan(table_of(town=town), "x")
    assert plan.encoder.feature_names[-1] == "town is missing"
    assert "Words that count as missing: 'NA' in 'town' (25 cells)." in plan.notes


def test_a_target_of_money_is_regression():
    price = text(f"${1_000 + k * k:,.2f}" for k in range(100))
    plan = make_plan(table_of(price=price), "price")
    assert plan.task == "regression"
    assert "The target is read as numbers like $1,234.5." in plan.notes
    everything = np.sort(np.concatenate([plan.y, plan.y_test]))
    np.testing.assert_array_equal(everything, 1_000 + np.arange(100.0) ** 2)
    few = text(["$5.00", "$7.00"] * 50)
    assert set(make_plan(table_of(few=few), "few").y) == {5, 7}
    assert set(make_plan(table_of(few=few), "few", task="classification").y) == {"$5.00", "$7.00"}


def test_numbers_near_a_thousand_billion_are_numbers():
    near = np.random.default_rng(2).integers(0, 10**6, 100) + 10**15
    lines = "".join(f"{i}.5,{value}\n" for i, value in enumerate(near))
    plan = make_plan(read_table(io.BytesIO(f"x,y\n{lines}".encode())), "y")
    assert plan.task == "regression"
    np.testing.assert_array_equal(np.sort([*plan.y, *plan.y_test]), np.sort(near))


def test_each_class_has_its_share_of_the_test_rows():
    label = text(np.random.default_rng(3).choice(["a", "b", "c"], 503, p=[0.9, 0.08, 0.02]))
    plan = make_plan(table_of(503, label=label), "label")
    assert len(plan.y_test) == 101
    for name in "abc":
        assert abs(np.sum(plan.y_test == name) - np.sum(label == name) * 101 / 503) < 1
    other = make_plan(table_of(503, label=label), "label", seed=1)
    assert not np.array_equal(other.test_rows, plan.test_rows)


def test_rows_are_split_once():
    plan = make_plan(table_of(y=np.arange(100.0)), "y")
    np.testing.assert_array_equal(plan.y_test, plan.test_rows - 1)
    assert sorted([*plan.y, *plan.y_test]) == list(range(100))
    np.testing.assert_array_equal(
        np.concatenate([plan.inputs.columns["x"], plan.test_inputs.columns["x"]]),
        table_of().columns["x"][np.concatenate([plan.y, plan.y_test]).astype(int)],
    )


def test_groups_and_times():
    group = text(f"g{k % 10}" for k in range(100))
    plan = make_plan(table_of(y=np.arange(100.0), group=group), "y", group="group")
    assert not set(plan.groups) & {f"g{int(k) % 10}" for k in plan.y_test}
    assert "group" not in plan.inputs.columns
    day = text(
        f"{1 + k % 28} {('Jan', 'Feb', 'March')[k % 3]} 20{10 + k // 10}" for k in range(100)
    )
    plan = make_plan(table_of(y=np.arange(100.0), day=day), "y", order="day")
    assert min(plan.y_test) == 80


def test_test_rows_unlike_the_training_rows_are_left_out():
    lift = text(["yes", "no"] * 50)
    rows = make_plan(table_of(y=np.arange(100.0), lift=lift), "y").test_rows
    lift[rows[0] - 1] = "maybe"
    plan = make_plan(table_of(y=np.arange(100.0), lift=lift), "y")
    np.testing.assert_array_equal(plan.test_rows, rows[1:])
    [note] = plan.notes
    assert "1 of 20 test rows cannot be read and are left out: column 'lift', row " in note
    assert "got 'maybe'" in note


def test_doubles_are_counted():
    y = np.arange(100.0) // 2
    plan = make_plan(Table({"x": y * 3, "y": y}, 100), "y")
    twins = np.isin(plan.y_test, plan.y).sum()
    assert f"{twins} of 20 test rows are also among the training rows" in plan.notes[0]
    assert make_plan(table_of(y=y), "y").notes == ()


def test_a_target_far_from_all_others_is_said():
    y = np.random.default_rng(1).normal(size=200)
    assert make_plan(table_of(200, y=y), "y").notes == ()
    train = np.setdiff1d(np.arange(200), make_plan(table_of(200, y=y), "y").test_rows - 1)
    y[train[3]] = 1e4
    [note] = make_plan(table_of(200, y=y), "y").notes
    assert f"Row {train[3] + 1} has the target 10000, " in note
    assert "correct it or leave the cell empty" in note
    assert make_plan(table_of(200, y=np.exp(2 * y.clip(-3, 3))), "y").notes == ()


def test_one_training_row_is_not_far_from_others():
    """Of two groups, the larger one may be that of the test; columns to keep may be constant."""
    table = table_of(30, y=np.arange(30.0), group=text(["a"] * 29 + ["b"]))
    how = {"group": "group", "keep": ["x"]}
    assert {len(make_plan(table, "y", seed=seed, **how).y) for seed in range(8)} == {1, 29}


def test_rows_are_named_by_the_numbers_that_their_table_gives_them():
    """A sample of a larger table knows where its rows stand there."""
    y = np.random.default_rng(1).normal(size=200)
    plan = make_plan(table_of(200, y=y), "y")
    train = np.setdiff1d(np.arange(200), plan.test_rows - 1)
    y[train[3]] = 1e4
    numbers = 1_000 + 7 * np.arange(200)
    sample = dataclasses.replace(table_of(200, y=y), row_numbers=numbers)
    found = make_plan(sample, "y")
    assert f"Row {numbers[train[3]]} has the target 10000, " in found.notes[0]
    np.testing.assert_array_equal(found.test_rows, numbers[plan.test_rows - 1])


def test_words_among_a_target_of_numbers_are_said():
    y = text("unknown" if k % 5 == 0 else f"{k / 3:.3f}" for k in range(100))
    with pytest.raises(TableError, match="20 of 100 cells of the target are not numbers, such as"):
        make_plan(table_of(y=y), "y")


def test_one_row_is_one_row():
    with pytest.raises(TableError, match="has 1 row with a target"):
        make_plan(table_of(1, y=np.array([1.0])), "y")


def test_columns_to_keep():
    code = text(f"k{k}" for k in range(100))
    table = table_of(y=np.arange(100.0), code=code)
    assert make_plan(table, "y").encoder.names == ("x",)
    plan = make_plan(table, "y", keep=["code"])
    assert plan.encoder.names == ("x", "code")
    assert plan.inputs.keep == ("code",)
    with pytest.raises(TableError, match="lacks the column 'cod'"):
        make_plan(table, "y", keep=["cod"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "z"}, "lacks the column 'z'; the columns it has are 'x', 'y'"),
        ({"target": "y", "group": "z"}, "lacks the column 'z'"),
        ({"target": "y", "order": "z"}, "lacks the column 'z'"),
        ({"target": "same"}, "has only one value"),
        ({"target": "y", "group": "same"}, "'same' to group by has only one value"),
        ({"target": "same", "task": "ranking"}, "`task` must be one of"),
    ],
)
def test_what_cannot_be_planned(options, words):
    table = table_of(y=np.arange(100.0), same=np.ones(100))
    with pytest.raises(ValueError, match=words):
        make_plan(table, **options)


def test_rows_for_a_fitted_model():
    label = text(["01", "2", "9", None])
    rows, y, numbers = labelled_rows(Table({"y": label}, 4), "y", np.array(["01", "2"]))
    assert (rows.n_rows, y.tolist(), numbers.tolist()) == (2, ["01", "2"], [1, 2])
    money = text(["$1.50", None, "NA"])
    _, y, numbers = labelled_rows(Table({"y": money}, 3), "y", None)
    assert (y.tolist(), numbers.tolist()) == ([1.5], [1])
    _, y, _ = labelled_rows(Table({"y": np.array([1.0, 5.0])}, 2), "y", np.array([1, 2]))
    assert y.tolist() == [1]
    with pytest.raises(TableError, match="no row has a target 'y' that the model knows"):
        labelled_rows(Table({"y": label}, 4), "y", np.array(["x"]))
