"""Features of each kind of column against direct computations, and hostile saved encoders."""

import copy
import datetime
import json
import random

import numpy as np
import pytest

from anchored.errors import TableError
from anchored.tables.encoder import Boolean, Category, Date, Encoder, Numeric, target_kind
from anchored.tables.reading import Table


def table_of(**columns):
    arrays = {name: np.asarray(cells) for name, cells in columns.items()}
    arrays = {n: a if a.dtype == float else a.astype(object) for n, a in arrays.items()}
    return Table(arrays, len(next(iter(arrays.values()))))


def text(cells):
    return np.array(list(cells), dtype=object)


def fitted(cells, name="x", **options):
    encoder = Encoder.fit(Table({name: cells}, len(cells)), **options)
    return encoder, encoder.transform(Table({name: cells}, len(cells)))


def reason(cells, name="x"):
    other = np.arange(len(cells)) + 0.5
    encoder = Encoder.fit(Table({name: cells, "other": other}, len(cells)))
    return dict(encoder.left_out).get(name)


# --- numeric ---


def test_numbers_pass_unchanged(rng):
    x = rng.normal(size=50)
    encoder, features = fitted(x)
    np.testing.assert_array_equal(features[:, 0], x)
    assert encoder.feature_names == encoder.feature_columns == ("x",)
    assert encoder.columns == (Numeric("x", float(np.median(x)), False),)


def test_missing_numbers_get_the_median_and_a_feature(rng):
    x = rng.normal(size=51)
    x[::5] = np.nan
    encoder, features = fitted(x)
    np.testing.assert_array_equal(features[:, 0], np.where(np.isnan(x), np.nanmedian(x), x))
    np.testing.assert_array_equal(features[:, 1], np.isnan(x))
    assert encoder.feature_names == ("x", "x is missing")


def test_missing_only_later_has_no_feature_but_the_median():
    encoder, _ = fitted(np.array([1.0, 2.0, 7.0]))
    later = encoder.transform(table_of(x=[np.nan, 5.0]))
    np.testing.assert_array_equal(later, [[2.0], [5.0]])


def test_medians_of_huge_numbers_are_finite():
    encoder, _ = fitted(np.array([1.7e308, 1.5e308]))
    np.testing.assert_allclose(encoder.columns[0].fill, 1.6e308, rtol=1e-15)


def test_whole_numbers_of_few_values_stay_numeric():
    encoder, _ = fitted(np.array([0.0, 1.0, 2.0] * 20))
    assert encoder.columns[0].kind == "numeric"


def test_numbers_may_come_as_text():
    encoder, _ = fitted(np.array([1.0, 2.0]))
    later = encoder.transform(table_of(x=["1e1", None, "-.5"]))
    np.testing.assert_array_equal(later[:, 0], [10, 1.5, -0.5])


@pytest.mark.parametrize("cell", ["abc", "1_0", "inf", "1e999", "1 2", "0x1", "\u0661"])
def test_text_among_numbers_is_named(cell):
    encoder, _ = fitted(np.array([1.0, 2.0]), name="size")
    table = Table({"size": text(["1", None, cell])}, 3, row_numbers=np.array([7, 8, 9]))
    with pytest.raises(TableError, match="column 'size', row 9 must contain a number") as caught:
        encoder.transform(table)
    assert repr(cell) in str(caught.value)


def test_infinite_numbers_are_named():
    encoder, _ = fitted(np.array([1.0, 2.0]))
    with pytest.raises(TableError, match="row 2 must contain a number, as in training; got '-inf'"):
        encoder.transform(table_of(x=[0.0, -np.inf]))


# --- boolean ---


@pytest.mark.parametrize(
    ("no", "yes"), [("no", "yes"), ("N", "Y"), ("False", "True"), ("f", "t"), ("off", "ON")]
)
def test_pairs_of_words_are_zero_and_one(no, yes):
    encoder, features = fitted(text([no, yes, yes, no, yes.upper()]))
    np.testing.assert_array_equal(features, [[0], [1], [1], [0], [1]])
    assert isinstance(encoder.columns[0], Boolean)
    assert encoder.feature_names == (f"x={yes.lower()}",)


def test_missing_booleans_get_the_mean_and_a_feature():
    encoder, features = fitted(text(["yes", None, "no", "yes", "yes"]))
    np.testing.assert_array_equal(features[:, 0], [1, 0.75, 0, 1, 1])
    np.testing.assert_array_equal(features[:, 1], [0, 1, 0, 0, 0])
    with pytest.raises(
        TableError, match="row 1 must contain 'no' or 'yes', as in training; got 'ja'"
    ):
        encoder.transform(table_of(x=["ja"]))
    with pytest.raises(TableError, match=r"row 2 must contain 'no' or 'yes'.*got '1'"):
        encoder.transform(table_of(x=[np.nan, 1.0]))
    np.testing.assert_array_equal(encoder.transform(table_of(x=[np.nan])), [[0.75, 1.0]])


def test_words_of_two_pairs_are_a_category():
    encoder, _ = fitted(text(["yes", "false"] * 5))
    assert isinstance(encoder.columns[0], Category)


# --- category ---


def test_levels_are_one_hot_in_order_of_frequency():
    cells = text(["b"] * 10 + ["a"] * 6 + ["c"] * 6 + ["rare"] * 4 + [None])
    encoder, features = fitted(cells)
    assert encoder.feature_names == ("x=b", "x=a", "x=c", "x is other", "x is new", "x is missing")
    np.testing.assert_array_equal(features.sum(axis=1), 1)
    np.testing.assert_array_equal(features.sum(axis=0), [10, 6, 6, 4, 0, 1])
    names = {None: "x is missing", "rare": "x is other"}
    for cell, row in zip(cells, features, strict=True):
        hot = encoder.feature_names[int(np.argmax(row))]
        assert hot == names.get(cell, f"x={cell}")


def test_levels_rarer_than_a_hundredth_are_pooled():
    encoder, _ = fitted(text(["a"] * 985 + ["b"] * 10 + ["c"] * 5))
    assert encoder.columns[0].levels == ("a", "b")  # 10 of 1,000 is a hundredth, 5 is not


def test_levels_do_not_depend_on_the_order_of_rows(rng):
    cells = text(["a", "b", "c"] * 20)
    encoder, _ = fitted(cells)
    assert fitted(rng.permutation(cells))[0] == encoder


def test_unseen_levels_go_to_other_and_so_does_unseen_missing():
    encoder, _ = fitted(text(["a", "b"] * 10))
    later = encoder.transform(table_of(x=["b", "new", None]))
    np.testing.assert_array_equal(later, [[0, 1, 0], [0, 0, 1], [0, 0, 1]])


def test_new_levels_are_not_taken_for_rare_ones():
    encoder, _ = fitted(text(["a"] * 10 + ["b"] * 10 + ["rare"] * 2))
    later = encoder.transform(table_of(x=["rare", "new", "b", None]))
    expected = [[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(later, expected)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder


def test_an_encoder_does_not_tell_the_text_of_rare_levels():
    """It may be an address, which files should not spread."""
    cells = text(["a"] * 10 + ["b"] * 10 + ["ann@example.org", "rare", "01"])
    encoder, _ = fitted(cells)
    assert "ann" not in json.dumps(encoder.to_json())
    assert "74e419b8a6e7d106" in encoder.columns[0].rare  # of "rare", on every machine
    assert not np.any(encoder.transform(table_of(x=cells))[:, encoder.new])
    later = encoder.transform(table_of(x=["ann@example.com", "Rare", "02"]))
    np.testing.assert_array_equal(later[:, encoder.new], 1)
    numbers = encoder.transform(table_of(x=[1.0, 2.0]))
    np.testing.assert_array_equal(numbers[:, encoder.new], [[0], [1]])


def test_encoders_saved_without_rare_levels_keep_their_features():
    encoder, _ = fitted(text(["a"] * 10 + ["b"] * 10 + ["rare"] * 2))
    saved = encoder.to_json()
    del saved["columns"][0]["rare"]
    before = Encoder.from_json(saved)
    assert before.feature_names == ("x=a", "x=b", "x is other")
    np.testing.assert_array_equal(before.transform(table_of(x=["new"])), [[0, 0, 1]])


def test_a_category_may_come_as_numbers():
    encoder, _ = fitted(text(["01", "2.50", "A"] * 10))
    later = encoder.transform(table_of(x=[1.0, 2.5, 3.0, np.nan]))
    expected = encoder.transform(table_of(x=["01", "2.50", "new", None]))
    np.testing.assert_array_equal(later, expected)


def test_at_most_thirty_levels():
    cells = text([f"level{k}" for k in range(40) for _ in range(40 - k)])
    encoder, _ = fitted(cells)
    assert encoder.columns[0].levels == tuple(f"level{k}" for k in range(30))


# --- date ---


def days_since_1970(moment):
    return (moment - datetime.datetime(1970, 1, 1)).total_seconds() / 86_400


FORMS = ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y"]
FORMS += ["%d-%b-%Y", "%d %B %Y", "%d %b. %Y", "%B %d, %Y", "%b %d %Y"]
TIMES = ["", " %H:%M", "T%H:%M:%S", "T%H:%M:%SZ", " %H:%M:%S.%f", " %I:%M %p", ", %I:%M:%S%p"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("time", TIMES)
def test_dates_against_datetime(rng, form, time):
    start = datetime.datetime(1931, 1, 1)
    moments = [
        start + datetime.timedelta(days=int(d), seconds=int(s))
        for d, s in zip(rng.integers(0, 50_000, 60), rng.integers(0, 86_400, 60), strict=True)
    ]
    written = [moment.strftime(form + time) for moment in moments]
    read = [datetime.datetime.strptime(cell, form + time) for cell in written]
    encoder, features = fitted(text(written))
    assert isinstance(encoder.columns[0], Date)
    column = {name: features[:, place] for place, name in enumerate(encoder.feature_names)}
    # A microsecond is 1e-11 days; a float64 of 40,000 days has steps of 7e-12.
    np.testing.assert_allclose(column["x: days"], [days_since_1970(m) for m in read], atol=2e-11)
    share_of_day = np.array([days_since_1970(m) % 1 for m in read])
    year = (np.array([m.timetuple().tm_yday - 1 for m in read]) + share_of_day) / 365.25
    week = (np.array([m.weekday() for m in read]) + share_of_day) / 7
    phases = {"year": year, "week": week} | ({"day": share_of_day} if time else {})
    assert len(column) == 1 + 2 * len(phases)
    for cycle, phase in phases.items():
        sine, cosine = column[f"x: sine of {cycle}"], column[f"x: cosine of {cycle}"]
        np.testing.assert_allclose(sine, np.sin(2 * np.pi * phase), atol=1e-9)
        np.testing.assert_allclose(cosine, np.cos(2 * np.pi * phase), atol=1e-9)


def test_time_zones_are_turned_into_utc():
    written = ["2024-03-01T01:30:00+02:00", "2024-02-29 20:00-0330", "2024-02-29T23:30Z"]
    _, features = fitted(text(written))
    np.testing.assert_allclose(features[:, 0], [19782 + 23.5 / 24] * 3, rtol=1e-15)


@pytest.mark.parametrize(
    ("cell", "days"),
    [
        ("03-Jan-2024", 19725),
        ("3 January 2024", 19725),
        ("3 JAN 2024", 19725),
        ("January 3, 2024", 19725),
        ("2024-01-03 05:06 PM", 19725 + (17 * 60 + 6) / 1440),
        ("2024-01-03 12:00 AM", 19725),
        ("2024-01-03 12:00 p.m.", 19725.5),
        ("9 Sept 2024", 19975),
    ],
)
def test_words_and_halves_of_days(cell, days):
    encoder, features = fitted(text([cell, "2020-01-01"]))
    assert encoder.columns[0].kind == "date"
    np.testing.assert_allclose(features[0, 0], days, rtol=1e-15)
    assert encoder.columns[0].written == f"dates like {encoder.columns[0].order}"


def test_only_cycles_that_vary():
    mondays = [f"{year}-01-01" for year in (1973, 1979, 1990)]
    assert fitted(text(mondays))[0].columns[0].cycles == ()
    assert fitted(text(["2024-01-01", "2024-01-08"]))[0].columns[0].cycles == ("year",)
    assert fitted(text(["2024-01-01", "2024-01-09"]))[0].columns[0].cycles == ("year", "week")
    assert fitted(text(["2024-01-01 10:00", "2024-01-01 11:00"]))[0].columns[0].cycles == ("day",)


def test_missing_dates_get_the_median_day_and_the_centre_of_circles():
    encoder, features = fitted(text(["1970-01-03", None, "1970-01-02", "1970-01-09"]))
    assert encoder.feature_names[-1] == "x is missing"
    np.testing.assert_array_equal(features[1], [2, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(features[:, -1], [0, 1, 0, 0])


def test_day_and_month_that_cannot_be_told_apart():
    ambiguous = text(["01/02/2024", "03/04/2024", "05/06/2024"])
    assert "cannot be told apart; write them as YYYY-MM-DD" in reason(ambiguous)
    encoder, _ = fitted(text(["01/02/2024", "03/14/2024"]))
    assert encoder.columns[0].order == "MM/DD/YYYY"
    encoder, _ = fitted(text(["01/02/2024", "14/03/2024"]))
    assert encoder.columns[0].order == "DD/MM/YYYY"
    assert (
        reason(text(["13/02/2024", "01/14/2024"])) == "identifier: every row has a different text"
    )


NO_DATES = [
    "2024-01-03 13:00 PM",
    "3 Janvier 2024",
    "30 Feb 2024",
    "2023-02-29",
    "2024-13-01",
    "2024-01-01 24:00",
    "today",
    "2024",
    "2024-01/02",
]


@pytest.mark.parametrize("cell", [*NO_DATES, "01.02.2024"])
def test_no_date_is_named(cell):
    encoder, _ = fitted(text(["2024-01-01", "2024-02-29"]))
    with pytest.raises(
        TableError, match=r"row 2 must contain a date \(YYYY-MM-DD\), as in training"
    ):
        encoder.transform(table_of(x=["2024-01-01", cell]))


# --- columns left out ---


@pytest.mark.parametrize(
    ("name", "cells", "part"),
    [
        ("x", np.full(9, np.nan), "empty"),
        ("x", text([None] * 9), "empty"),
        ("x", np.full(9, 3.0), "constant"),
        ("x", text(["same"] * 9), "constant"),
        ("id", np.arange(9.0), "identifier"),
        ("customerId", np.arange(9.0), "identifier"),
        ("unnamed_1", np.arange(9.0), "identifier"),
        ("x", text(f"k{k}" for k in range(9)), "identifier: every row has a different text"),
        (
            "x",
            text(f"cat number {k} sat" for k in range(9)),
            "free text: 9 different texts in 9",
        ),
        ("x", text(f"k{k // 2}" for k in range(90)), "too many levels: 45 in 90 cells"),
        (
            "x",
            text([*map(str, range(99)), "?!"]),
            "numbers except for 1 of 100 cells, such as '?!'",
        ),
    ],
)
def test_reasons(name, cells, part):
    assert part in reason(cells, name)
    encoder, features = fitted(cells, name, keep=[name])
    assert encoder.left_out == ()
    assert np.isfinite(features).all()
    assert features.shape == (len(cells), len(encoder.feature_names))


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("x", np.arange(9.0)),  # no name of an identifier
        ("width", np.arange(9.0)),  # "id" is only a part of a word
        ("id", np.arange(9.0) + 0.5),
        ("id", np.array([1.0, 1.0, 2.0])),
        ("x", np.array([3.0, np.nan, 3.0])),  # whether it is missing may matter
        ("x", text(["same"] * 8 + [None])),
        ("x", text([f"2024-01-{day:02}" for day in range(1, 10)])),
    ],
)
def test_columns_that_stay(name, cells):
    assert reason(cells, name) is None


def test_kept_text_has_its_thirty_most_frequent_levels():
    cells = text(f"k{k // 2:02}" for k in range(89))
    encoder, features = fitted(cells, keep=["x"])
    assert encoder.columns[0].levels == tuple(f"k{k:02}" for k in range(30))
    assert features[:, 30].sum() == 89 - 60


def test_nothing_left_and_unknown_names_are_errors():
    with pytest.raises(TableError, match=r"no column is left to predict from: 'x' \(constant\)"):
        fitted(np.ones(5))
    with pytest.raises(TableError, match="lacks the column 'y'; the columns it has are 'x'"):
        fitted(np.arange(5.0), keep=["y"])


# --- the encoder as a whole ---


@pytest.fixture
def mixed():
    """A table of all kinds with missing cells, its encoder, and the number of features each."""
    rng = np.random.default_rng(4)
    n = 60
    days = rng.integers(0, 3_000, n).astype("datetime64[D]").astype(str)
    columns = {
        "number": rng.normal(size=n),
        "flag": text(np.array(["no", "yes"])[rng.integers(0, 2, n)]),
        "colour": text(np.array(["red", "green", "blue"])[rng.integers(0, 3, n)]),
        "when": text(days),
        "same": np.ones(n),
    }
    columns["number"][3] = np.nan
    for place, name in enumerate(("flag", "colour", "when")):
        columns[name][place] = None
    table = Table(columns, n)
    return table, Encoder.fit(table)


def test_order_and_extra_columns_do_not_matter(mixed):
    table, encoder = mixed
    shuffled = dict(reversed(table.columns.items())) | {"extra": np.ones(table.n_rows)}
    again = encoder.transform(Table(shuffled, table.n_rows))
    np.testing.assert_array_equal(again, encoder.transform(table))
    assert encoder.check(list(shuffled)) == ("same", "extra")
    assert encoder.names == ("number", "flag", "colour", "when")
    assert encoder.text_names == ("flag", "colour", "when")
    assert encoder.left_out == (("same", "constant"),)


def test_features_are_named_and_grouped(mixed):
    table, encoder = mixed
    names, columns = encoder.feature_names, encoder.feature_columns
    assert len(names) == len(set(names)) == len(columns) == encoder.transform(table).shape[1]
    for name, column in zip(names, columns, strict=True):
        assert name.startswith(column)


def test_feature_names_differ_even_if_columns_try():
    number = np.arange(20) + 0.5
    columns = {"a": text(["b", "c"] * 10), "a=b": number, "a is other": number}
    names = Encoder.fit(Table(columns, 20)).feature_names
    assert names == ("a=b", "a=c", "a is other", "a=b'", "a is other'")


def test_rows_are_encoded_one_by_one(mixed):
    table, encoder = mixed
    rows = [encoder.transform(table.take(np.array([row])))[0] for row in range(table.n_rows)]
    np.testing.assert_array_equal(np.stack(rows), encoder.transform(table))


def test_missing_columns_are_listed(mixed):
    table, encoder = mixed
    with pytest.raises(TableError, match="lacks the columns 'flag', 'when'; the columns it has"):
        encoder.transform(table.without(["flag", "when"]))
    with pytest.raises(TableError, match="lacks the column 'number'"):
        encoder.check(["flag", "colour", "when"])


def test_json_round_trip(mixed):
    table, encoder = mixed
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    np.testing.assert_array_equal(again.transform(table), encoder.transform(table))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), []),
        ((), None),
        (("columns",), {}),
        (("columns",), []),
        (("columns",), [1]),
        (("left_out",), [["a"]]),
        (("left_out",), [["a", 1]]),
        (("extra",), 1),
        (("columns", 0, "kind"), "pickle"),
        (("columns", 0, "kind"), ["numeric"]),
        (("columns", 0, "kind"), "date"),
        (("columns", 0, "name"), 3),
        (("columns", 0, "name"), "flag"),
        (("columns", 0, "name"), "\ud800"),
        (("columns", 0, "name"), "x" * 200_000),
        (("columns", 0, "fill"), float("nan")),
        (("columns", 0, "fill"), 10**400),
        (("columns", 0, "fill"), True),
        (("columns", 0, "has_missing"), 1),
        (("columns", 0, "extra"), 1),
        (("columns", 1, "truth"), "maybe"),
        (("columns", 2, "levels"), ["a", "a"]),
        (("columns", 2, "levels"), "red"),
        (("columns", 2, "levels"), [None]),
        (("columns", 2, "levels"), [str(k) for k in range(31)]),
        (("columns", 2, "rare"), ["red"]),
        (("columns", 3, "order"), "YYYY"),
        (("columns", 3, "order"), {}),
        (("columns", 3, "cycles"), ["moon"]),
        (("columns", 3, "cycles"), ["year", "year"]),
    ],
)
def test_hostile_json_is_refused_in_one_line(mixed, path, value):
    holder = whole = {"root": mixed[1].to_json()}
    *way, last = ("root", *path)
    for step in way:
        holder = holder[step]
    holder[last] = value
    with pytest.raises(ValueError, match=r"The saved encoder is damaged\.$") as caught:
        Encoder.from_json(whole["root"])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_randomly_mangled_json_is_refused_or_works(mixed):
    table, encoder = mixed
    source = random.Random(2)
    values = [None, True, -1, 1e308, "x", "", [], {}, ["x"], {"kind": "numeric"}, 10**400, [[[]]]]

    def places(content):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in items:
            yield content, key
            if isinstance(value, (dict, list)):
                yield from places(value)

    n_refused = 0
    for _ in range(1_000):
        content = copy.deepcopy(encoder.to_json())
        holder, key = source.choice(list(places(content)))
        if source.random() < 0.2:
            del holder[key]
        else:
            holder[key] = source.choice(values)
        try:
            again = Encoder.from_json(content)
        except ValueError:
            n_refused += 1
            continue
        if again.names == encoder.names:  # its cells still are of these kinds
            features = again.transform(table)
            assert features.shape == (table.n_rows, len(again.feature_names))
    assert n_refused > 500


# --- targets ---


@pytest.mark.parametrize(
    ("cells", "kind", "part"),
    [
        (text(["a", "b", None]), "classification", "text with 2 different values"),
        (text(["true", "false"]), "classification", "text"),
        (np.array([0.0, 1.0] * 5), "classification", "2 different whole numbers"),
        (np.array([0.0, 1.0, 2.0] * 30), "classification", "3 different whole numbers"),
        (np.array([0.0, 1.0, 2.0] * 20), "regression", "3 different values"),  # 5 % of the rows
        (np.array([0.0, 1.0, 2.0] * 30 + [3.0]), "regression", "4 different values"),  # once
        (np.repeat(np.arange(10.0), 50), "classification", "10 different whole numbers"),
        (np.repeat(np.arange(11.0), 50), "regression", "11 different values"),
        (np.array([0.5, 1.0] * 50), "regression", "not all whole"),
        (np.array([1.0, 2.0, np.nan]), "regression", "2 different values"),
        (np.ones(50), "regression", "1 different"),
    ],
)
def test_kind_of_target(cells, kind, part):
    found, why = target_kind(cells)
    assert found == kind
    assert part in why


def test_targets_of_no_use():
    with pytest.raises(TableError, match="every cell of the target is missing"):
        target_kind(np.full(3, np.nan))
    with pytest.raises(TableError, match=r"40 different texts in 40 rows, such as '\$0'"):
        target_kind(text(f"${k}" for k in range(40)))
