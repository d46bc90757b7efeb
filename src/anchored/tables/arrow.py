"""Turns columns of Arrow into NumPy columns of a table; only this module knows pyarrow's types."""

import contextlib
import itertools
import sys
from typing import Any

import numpy as np

from anchored.tables.table import MISSING, cells_of_words, text_of_words


def pyarrow() -> Any:
    """The package, which is optional."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Reading tables needs pyarrow: pip install 'anchored[table]'"
        ) from error
    return pyarrow


def release_unused() -> None:
    """Release memory that the package keeps for later, if it is loaded."""
    package = sys.modules.get("pyarrow")
    if package is not None:
        package.default_memory_pool().release_unused()


def filesystems() -> Any:
    """The part of the package that reads storage named by URLs."""
    pyarrow()  # which says what is missing
    from pyarrow import fs

    return fs


def chunked(column):
    """A column of an Arrow table or batch as a column of a table."""
    pa = pyarrow()
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def plain_type(kind):
    """The plain type that a column of this Arrow type is turned into; None if there is none."""
    pa = pyarrow()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_a = pa.types
    numbers = (is_a.is_integer, is_a.is_floating, is_a.is_decimal, is_a.is_null)
    words = (is_a.is_string, is_a.is_large_string, is_a.is_string_view, is_a.is_boolean)
    if any(fits(kind) for fits in numbers):
        return pa.float64()
    if any(fits(kind) for fits in (*words, is_a.is_date, is_a.is_timestamp)):
        return pa.string()
    return None


def plain(column):
    """A column of any known type as numbers or text."""
    pa = pyarrow()
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us"), safe=False)  # in UTC if it has a time zone
        text = column.cast(pa.string())
        return pa.compute.replace_substring_regex(text, r"\.0+$", "")
    return column.cast(plain_type(kind), safe=False)


def cells(column, as_text: bool = False, comma: bool = False) -> np.ndarray:
    """A plain column in the form of a table; with ``comma``, a comma may be the decimal mark."""
    pa = pyarrow()
    pc = pa.compute
    if not as_text or column.type == pa.float64():
        with contextlib.suppress(pa.ArrowInvalid):
            return _numbers(column)
        with contextlib.suppress(pa.ArrowInvalid):
            words = pc.is_in(column, value_set=pa.array(_spellings()))
            return _numbers(pc.if_else(words, pa.scalar(None, column.type), column))
    if not len(column):
        return np.empty(0, object)
    # Each different cell is looked at once.
    coded = column.dictionary_encode().unify_dictionaries()
    words = coded.chunk(0).dictionary.to_pylist()
    codes = np.concatenate([np.asarray(c.indices.fill_null(-1)) for c in coded.chunks])
    return text_of_words(words, codes) if as_text else cells_of_words(words, codes, comma)


def _numbers(column) -> np.ndarray:
    values = column.cast(pyarrow().float64())
    return np.array(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _spellings() -> list[str]:
    """Every case of the words for a missing cell."""
    cases = (itertools.product(*zip(word.lower(), word.upper(), strict=True)) for word in MISSING)
    return sorted({"".join(letters) for word in cases for letters in word})
