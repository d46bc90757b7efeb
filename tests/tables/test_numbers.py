"""Numbers as people write them, against Python's own formatting."""

import numpy as np
import pytest

from anchored.errors import TableError
from anchored.tables.encoder import Encoder, Numeric
from anchored.tables.numbers import FORMS, number_form, parse_number
from anchored.tables.table import Table


def written(value, form):
    """A number in a form, by way of Python's own thousands."""
    marks = form.strip("$€£¥₹% ")
    thousands, decimal = {
        "1234.5": ("", "."),
        "1,234.5": (",", "."),
        "1.234,5": (".", ","),
        "1 234,5": ("\u00a0", ","),
        "1 234.5": (" ", "."),
        "1'234.5": ("\u2019", "."),
    }[marks]
    swapped = str.maketrans({",": thousands, ".": decimal})
    return form.replace(marks, f"{value:,.2f}".translate(swapped))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_against_pythons_own(rng, form):
    values = np.round(rng.normal(size=200) * 10.0 ** rng.integers(0, 8, 200), 2)
    cells = [written(value, form) for value in values]
    assert number_form(cells) == form
    np.testing.assert_array_equal([parse_number(cell, form) for cell in cells], values)


@pytest.mark.parametrize(
    ("cells", "form", "values"),
    [
        (["$1,234.50", "-$5", "$-5", "$ .5"], "$1,234.5", [1234.5, -5, -5, 0.5]),
        (["12 %", "3.5%", "-1 %"], "1234.5 %", [12, 3.5, -1]),
        (["1 234,5", "2,25"], "1 234,5", [1234.5, 2.25]),
        (["3,50 €", "1.000,00 €"], "€1.234,5", [3.5, 1000]),
        (["1,234", "5,678"], "1,234.5", [1234, 5678]),  # commas between thousands come first
        (["1,234", "5,6"], "1.234,5", [1.234, 5.6]),
        (["1,234", "5,678.5"], "1,234.5", [1234, 5678.5]),
        (["1000000000000002", "1000000000000003.0"], "1234.5", [1e15 + 2, 1e15 + 3]),
        (["1e3", "2E-1"], "1234.5", [1000, 0.2]),
    ],
)
def test_forms_that_fit_all_cells(cells, form, values):
    assert number_form(cells) == form
    assert [parse_number(cell, form) for cell in cells] == values


@pytest.mark.parametrize(
    "cells",
    ["$5 5", "$5 €5", "5$3", "1,23,456", "12%of", "$", "--5", "1e999", "$--5", "1.2.3", "1_000"],
)
def test_what_is_no_number_in_one_form(cells):
    assert number_form(cells.split()) is None


@pytest.mark.parametrize("cells", ["", "٣", "abc", "12%%", "$5%", "1,2.3"])
def test_what_is_no_number_at_all(cells):
    assert number_form(cells.split()) is None


def text(cells):
    return np.array(cells, dtype=object)


def test_columns_of_money_and_shares_are_numbers():
    cells = text(["$1,234.50", None, "NA", "$99.00", "$2,000.00"])
    table = Table({"price": cells}, 5)
    encoder = Encoder.fit(table)
    assert encoder.columns == (Numeric("price", 1234.5, True, "$1,234.5"),)
    assert encoder.text_names == ("price",)
    assert encoder.columns[0].written == "numbers like $1,234.5"
    np.testing.assert_array_equal(encoder.transform(table)[:, 0], [1234.5, 1234.5, 1234.5, 99, 2e3])
    plain = encoder.transform(Table({"price": text(["7", "$7"])}, 2))
    np.testing.assert_array_equal(plain[:, 0], [7, 7])
    with pytest.raises(TableError, match=r"row 1 must contain a number like \$1,234.5.* got '€7'"):
        encoder.transform(Table({"price": text(["€7"])}, 1))
    assert Encoder.from_json(encoder.to_json()) == encoder


def test_encoders_of_version_0_1_0_have_no_form():
    column = {"kind": "numeric", "name": "x", "fill": 1.0, "has_missing": False}
    encoder = Encoder.from_json({"columns": [column], "left_out": []})
    assert encoder.columns == (Numeric("x", 1.0, False),)
