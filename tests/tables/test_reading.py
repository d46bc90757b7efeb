"""Tables against what Python's own csv, gzip and datetime say, and against mangled files."""

import csv
import datetime
import gzip
import io
import random
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from anchored.errors import TableError
from anchored.tables import csv_rows as _csv_rows
from anchored.tables.columns import missing_cells
from anchored.tables.encoder import Encoder
from anchored.tables.reading import Table, read_blocks, read_table

PLAIN = b"a,b\n1,x\n2.5,y\n"


def table_of(content):
    return read_table(io.BytesIO(content))


def fault_of(content):
    with pytest.raises(TableError) as caught:
        table_of(content)
    message = str(caught.value)
    assert "\n" not in message
    return message


def parquet_bytes(columns):
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def same(table, other):
    assert table.n_rows == other.n_rows
    assert list(table.columns) == list(other.columns)
    for name, cells in table.columns.items():
        assert cells.dtype == other.columns[name].dtype
        np.testing.assert_array_equal(cells, other.columns[name])


def test_numbers_and_text():
    table = table_of(PLAIN)
    np.testing.assert_array_equal(table.columns["a"], [1.0, 2.5])
    assert table.columns["a"].dtype == np.float64
    assert table.columns["b"].tolist() == ["x", "y"]
    assert table.columns["b"].dtype == object
    assert table.n_rows == 2
    assert table.notes == table.others == ()
    np.testing.assert_array_equal(table.row_numbers, [1, 2])


@pytest.mark.parametrize("separator", ",;\t")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_cells_are_those_of_the_csv_module(separator, end, last):
    rows = [
        ["id", "free, text", 'a "quoted" name', "tab\tname"],
        ["1", "one; two, three", 'say ""', "x\ty"],
        ["2", "two" + end + "lines", '"', "plain"],
        ["3", "ümlaut", "5 inches", "z"],
    ]
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=separator, lineterminator=end).writerows(rows)
    text = out.getvalue() if last else out.getvalue().removesuffix(end)
    table = table_of(text.encode())
    expected = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    assert [name.replace("\n", end) for name in table.columns] == expected[0]
    np.testing.assert_array_equal(table.columns["id"], [1, 2, 3])
    for place, name in list(enumerate(expected[0]))[1:]:
        got = [cell.replace("\n", end) if end == "\r" else cell for cell in table.columns[name]]
        assert got == [row[place] for row in expected[1:]]


def test_every_word_for_missing_in_any_case_and_with_spaces():
    words = ["", "NA", "n/a", "NaN", "NULL", "None", "?", "-", "  na ", " - ", "nAn", " N/A"]
    numbers = table_of(("x,y\n1.5,1\n" + "".join(f"{w},1\n" for w in words)).encode())
    np.testing.assert_array_equal(np.isnan(numbers.columns["x"]), [False] + [True] * len(words))
    text = table_of(("x,y\nword,1\n" + "".join(f'"{w}",1\n' for w in words)).encode())
    assert text.columns["x"].tolist() == ["word", *(word.strip() or None for word in words)]
    assert missing_cells(text.columns["x"]).tolist() == [False] + [True] * len(words)
    nothing = table_of(b"x,y\n,1\n NA,2\n")
    assert nothing.columns["x"].dtype == np.float64
    assert np.isnan(nothing.columns["x"]).all()


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1e3", 1e3), ("+2", 2), (" -.5 ", -0.5), ("7.", 7), ("007", 7), ("1e-400", 0), ('"3"', 3)],
)
def test_spellings_of_numbers(cell, value):
    table = table_of(f"x,y\n1,1\n{cell},1\n".encode())
    np.testing.assert_array_equal(table.columns["x"], [1, value])


@pytest.mark.parametrize("cell", ["1_000", "0x10", "1e", "--1", "1 2", "$3", "12%", "٣"])
def test_what_is_no_number_makes_a_column_text(cell):
    table = table_of(f"x,y\n1,1\n{cell},1\n".encode())
    assert table.columns["x"].tolist() == ["1", cell]


def test_decimal_commas_between_semicolons():
    table = table_of(b"x;y;z\n1,5;1.5;1,5\n2;3;1.5\n")
    np.testing.assert_array_equal(table.columns["x"], [1.5, 2])
    np.testing.assert_array_equal(table.columns["y"], [1.5, 3])
    assert table.columns["z"].tolist() == ["1,5", "1.5"]  # one of them is no number
    assert table_of(b'x,y\n"1,5",1\n').columns["x"].tolist() == ["1,5"]


def test_random_numbers_come_back_exactly(rng):
    x = rng.normal(size=(500, 3)) * 10.0 ** rng.integers(-300, 300, (500, 3))
    content = "a\tb\tc\n" + "".join("\t".join(map(repr, row)) + "\n" for row in x.tolist())
    np.testing.assert_array_equal(np.stack(list(table_of(content.encode()).columns.values()), 1), x)


def test_names_are_stripped_and_blank_ones_numbered():
    table = table_of(b"\n\n a ,,b\n1,2,3\n\n4,5,6\n")
    assert list(table.columns) == ["a", "unnamed_2", "b"]
    np.testing.assert_array_equal(table.columns["b"], [3, 6])


def test_encodings():
    text = "größe,ort\n1,Zürich\n"
    for content in (text.encode(), b"\xef\xbb\xbf" + text.encode()):
        table = table_of(content)
        assert list(table.columns) == ["größe", "ort"]
        assert table.columns["ort"].tolist() == ["Zürich"]
        assert table.notes == ()
    table = table_of(b"a,ort\n1,Bern\n2," + "Zürich\n".encode("latin-1") + "3,Zürich\n".encode())
    assert table.columns["ort"].tolist() == ["Bern", "Zürich", "Zürich"]
    assert table.notes == ("Line 3 is not UTF-8: its invalid bytes are read as Latin-1.",)
    assert list(table_of(text.encode("latin-1")).columns) == ["größe", "ort"]


def test_numbers_as_names_are_noted():
    assert "lack a header" in table_of(b"1,2.5\n3,4\n").notes[0]


@pytest.mark.parametrize("name", ["table.csv", "table.gz", "noise.parquet"])
def test_gzip_is_known_by_content(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(PLAIN))
    same(read_table(path), table_of(PLAIN))
    path.write_bytes(gzip.compress(PLAIN[:5]) + gzip.compress(PLAIN[5:]))
    same(read_table(str(path)), table_of(PLAIN))


def test_standard_input():
    code = (
        "from anchored.tables.reading import read_table; print(read_table('-').columns['a'].sum())"
    )
    for content in (PLAIN, gzip.compress(PLAIN), parquet_bytes({"a": [1, 2.5]})):
        run = subprocess.run(
            [sys.executable, "-c", code], input=content, capture_output=True, check=True, timeout=60
        )
        assert run.stdout.split() == [b"3.5"]


def test_parquet_types():
    moment = datetime.datetime(2024, 2, 29, 23, 59, 58)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    table = table_of(
        parquet_bytes(
            {
                "int": pa.array([1, None], pa.int8()),
                "float": pa.array([0.5, float("nan")], pa.float32()),
                "decimal": pa.array(["1.25", None]).cast(pa.decimal128(5, 2)),
                "bool": [True, None],
                "date": [moment.date(), None],
                "time": [moment, None],
                "zoned": [moment.replace(tzinfo=zone), None],
                "level": pa.array(["x", None]).dictionary_encode(),
                "text": [" x ", "NA"],
                "digits": ["1", " "],
                "list": [[1], [2]],
                "null": pa.nulls(2),
            }
        )
    )
    first = {name: cells[0] for name, cells in table.columns.items()}
    assert np.isnan(first.pop("null"))
    assert first == {
        "int": 1.0,
        "float": 0.5,
        "decimal": 1.25,
        "bool": "true",
        "date": "2024-02-29",
        "time": "2024-02-29 23:59:58",
        "zoned": "2024-02-29 21:59:58",
        "level": "x",
        "text": "x",
        "digits": 1.0,
    }
    for name, cells in table.columns.items():
        assert missing_cells(cells).tolist() == [False, True] or name == "null", name
    assert table.others == ("list",)
    assert "'list'" in table.notes[0]


@pytest.mark.parametrize("as_parquet", [False, True])
@pytest.mark.parametrize("block_rows", [1, 7, 100, 999, 10_000])
def test_blocks_joined_are_the_table(rng, monkeypatch, as_parquet, block_rows):
    monkeypatch.setattr(_csv_rows, "_CHUNK", 1_000)
    x = rng.normal(size=999)
    words = np.array(["one", "two\nlines", 'say "x"'])[rng.integers(0, 3, 999)]
    if as_parquet:
        content = parquet_bytes({"x": x, "word": words})
    else:
        out = io.StringIO(newline="")
        csv.writer(out).writerows([("x", "word"), *zip(x.tolist(), words.tolist(), strict=True)])
        content = out.getvalue().encode()
    blocks = list(read_blocks(io.BytesIO(content), block_rows=block_rows))
    sizes = [block.n_rows for block in blocks]
    assert sizes[:-1] == [block_rows] * (len(sizes) - 1)
    assert 0 < sizes[-1] <= block_rows
    for name, whole in (("x", x), ("word", words.astype(object))):
        joined = np.concatenate([block.columns[name] for block in blocks])
        np.testing.assert_array_equal(joined, whole)
    numbers = np.concatenate([block.row_numbers for block in blocks])
    np.testing.assert_array_equal(numbers, np.arange(1, 1_000))


def test_only_the_columns_asked_for():
    content = b"a,b,c\n1,x,inf\n2,y,inf\n"  # the fault in c is of no concern
    [block] = read_blocks(io.BytesIO(content), names=["b", "a", "gone"])
    assert list(block.columns) == ["a", "b"]
    assert block.others == ("c",)
    [block] = read_blocks(io.BytesIO(content), names=[])
    assert (block.columns, block.n_rows, block.others) == ({}, 2, ("a", "b", "c"))
    [block] = read_blocks(io.BytesIO(parquet_bytes({"a": [1], "b": [2]})), names=["b"])
    assert (list(block.columns), block.others) == (["b"], ("a",))


def test_a_block_of_digits_stays_text_if_asked():
    content = b"code\n01\n02\nA1\n"
    digits, _ = read_blocks(io.BytesIO(content), block_rows=2)
    assert digits.columns["code"].dtype == np.float64
    digits, mixed = read_blocks(io.BytesIO(content), block_rows=2, text=["code"])
    assert digits.columns["code"].tolist() == ["01", "02"]
    assert mixed.columns["code"].tolist() == ["A1"]


def test_block_rows_must_be_positive():
    with pytest.raises(ValueError, match="`block_rows` must be a positive whole number; got 0"):
        read_blocks(io.BytesIO(PLAIN), block_rows=0)


def test_take_and_without():
    table = table_of(b"a,b\n1,x\n2,y\n3,z\n")
    taken = table.take(np.array([2, 0]))
    np.testing.assert_array_equal(taken.columns["a"], [3, 1])
    assert taken.columns["b"].tolist() == ["z", "x"]
    assert taken.n_rows == 2
    assert [taken.row_number(0), taken.row_number(1)] == [3, 1]
    assert table.take(np.array([True, False, True])).n_rows == 2
    assert list(table.without(["a"]).columns) == ["b"]
    assert Table({}, 3).take(np.array([1])).n_rows == 1
    assert Table({}, 3).row_number(2) == 3


JUNK = bytes(np.random.default_rng(3).integers(0, 256, 5_000, dtype=np.uint8))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "the file is empty"),
        (b" \n\r\n\t\n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b",,\n", "only blank lines"),
        (b"a,b\n", "the file has column names but no rows"),
        (b"a,b\n\n\n", "the file has column names but no rows"),
        (b"a,b, a\n1,2,3\n", "columns 1 and 3 are both named 'a'; rename one"),
        (b"a," * 60_000 + b"\n1\n", "there are 60001 columns, more than 50000"),
        (b"a,b\n1,2\n3\n", "line 3 has 1 cell but the header has 2"),
        (b"a,b\n1,2\n\n3,4,5\n", "line 4 has 3 cells but the header has 2"),
        (b'a,b\n1,"x\ny"\n3,4,5\n', "line 4 has 3 cells but the header has 2"),
        (b"a,b\r1,2\r3\r", "line 3 has 1 cell but the header has 2"),
        (b"a,b\n1,2\n3,\x00\n", "line 3 contains a NUL byte"),
        (b"a,b\n1,2\n3,\x07\n", "line 3 contains the control byte 0x07"),
        (JUNK, "line 1 contains"),
        (b'a,b\n1,2\n3,"x\n4,5\n6,7\n', "the quote opened in line 3 is never closed"),
        (b'a,"b\n1,2\n', "the quote opened in line 1 is never closed"),
        (
            b'a,b\n1,2\n3,"x\n4,5\n6,"y"\n7,8\n',
            "the quote opened in line 3 is not closed: the next quote, in line 5, does not end",
        ),
        (b"a,b\n1,2\n3,inf\n", "column 'b', row 2 contains an infinite number"),
        (b"a,b\n1,2\n3, -Infinity\n", "column 'b', row 2 contains an infinite number"),
        (b"a,b\n1,2\n3,1e999\n", "column 'b', row 2 contains an infinite number"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16 text; save it as UTF-8"),
        (b"PK\x03\x04rest", "a workbook; save the sheet as CSV"),
        (gzip.compress(PLAIN, mtime=0)[:-10], "the file is damaged"),
        (gzip.compress(PLAIN, mtime=0)[:-4] + b"\0\0\0\0", "Incorrect length"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (
            gzip.compress(parquet_bytes({"a": [1]}), mtime=0),
            "a gzipped Parquet file; unpack it first",
        ),
        (b"PAR1", "Parquet"),
        (parquet_bytes({"a": [1]})[:-9], "Parquet"),
        (
            parquet_bytes({"a": [1.0, float("inf")]}),
            "column 'a', row 2 contains an infinite number",
        ),
        (parquet_bytes({"a": pa.array([], pa.int8())}), "has column names but no rows"),
    ],
)
def test_faults_are_one_line_that_names_the_place(content, part):
    assert part in fault_of(content)


def test_rows_of_later_blocks_are_named_as_in_the_file(monkeypatch):
    monkeypatch.setattr(_csv_rows, "_CHUNK", 64)
    rows = [b"%d,2\n" % row for row in range(1_000)]
    rows[700] = b"700,-inf\n"
    with pytest.raises(TableError, match="column 'b', row 701 "):
        list(read_blocks(io.BytesIO(b"a,b\n" + b"".join(rows)), block_rows=10))
    rows[700] = b"700\n"
    assert "line 702 has 1 cell" in fault_of(b"a,b\n" + b"".join(rows))
    rows[700] = b"700,\x00\n"
    assert "line 702 contains a NUL byte" in fault_of(b"a,b\n" + b"".join(rows))
    rows[700] = b'700,"\n'
    assert "the quote opened in line 702" in fault_of(b"a,b\n" + b"".join(rows))
    rows[700], rows[900] = b'700,"x\n', b'900,"y"\n'
    assert "the quote opened in line 702 is not closed" in fault_of(b"a,b\n" + b"".join(rows))
    rows[700], rows[900] = b"700,\xff\n", b"900,2\n"
    assert "Line 702 is not UTF-8" in table_of(b"a,b\n" + b"".join(rows)).notes[0]


def test_rows_that_are_too_long(monkeypatch):
    monkeypatch.setattr(_csv_rows, "_LONGEST_ROW", 3 << 20)
    long = b"a,b\n1," + b"x" * (5 << 20)
    assert "line 2 is longer than 3 MB." in fault_of(long + b"\n2,y\n")
    assert "or a quote in it is never closed" in fault_of(b'a,b\n1,"' + b"x\n" * (3 << 20))
    assert "line 1" in fault_of(b"a" * (5 << 20))


def test_files_that_are_not_there(tmp_path):
    for path, part in (
        (tmp_path / "gone.csv", "No such file"),
        (tmp_path, "Is a directory"),
        ("nul\0byte", "null byte"),
        (tmp_path / ("long" * 100), "name too long"),
    ):
        with pytest.raises(TableError, match=part) as caught:
            read_table(path)
        assert "\n" not in str(caught.value)


def test_quotes_that_swallow_rows_are_noted():
    rows = [b"%d,2,z" % row for row in range(99)]
    rows[40] = b'40,"2,z'
    rows[70] = b'70,2",z'
    table = table_of(b"a,b,c\n" + b"\n".join(rows))
    [note] = table.notes
    assert note.startswith("Column 'b', row 41 contains 31 quoted lines that look like rows")
    letters = table_of(b'a,b,c\n1,"Dear all,\nthe, end\nbye",2\n')
    assert letters.notes == ()


def test_stray_quotes_do_not_join_rows(monkeypatch):
    monkeypatch.setattr(_csv_rows, "_CHUNK", 50)
    rows = b"".join(b'%d,5" pipe\n' % row for row in range(99))
    table = table_of(b"a,b\n" + rows)
    assert table.n_rows == 99
    assert set(table.columns["b"]) == {'5" pipe'}


def test_single_carriage_returns_end_rows_of_any_file(monkeypatch):
    monkeypatch.setattr(_csv_rows, "_CHUNK", 50)
    monkeypatch.setattr(_csv_rows, "_LONGEST_ROW", 100)
    table = table_of(b"a,b\r" + b"1,2\r" * 500)
    assert table.columns["b"].sum() == 1_000


def test_the_separator_splits_the_rows_as_it_splits_the_header():
    table = table_of(b"a;price, net, in EUR;c\n1;2;3\n4;5;6\n")
    assert list(table.columns) == ["a", "price, net, in EUR", "c"]
    table = table_of(b"a,b\n1;2;3,4\n5;6;7,8\n")
    np.testing.assert_array_equal(table.columns["b"], [4, 8])


@pytest.mark.slow
def test_speed_and_memory_of_blocks(rng, tmp_path):
    """400,000 rows of ten columns a second of one core, in a few blocks of memory."""
    n_rows = 1_000_000
    columns = {f"x{place}": rng.normal(size=n_rows) for place in range(10)}
    arrow_csv.write_csv(pa.table(columns), tmp_path / "big.csv")
    code = (
        "import sys, time; from anchored.tables.reading import read_blocks\n"
        "def memory(): return int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
        "for part in read_blocks(sys.argv[2]): pass\n"
        "before, start = memory(), time.process_time()\n"
        "n_rows = sum(part.n_rows for part in read_blocks(sys.argv[1]))\n"
        "print(n_rows / (time.process_time() - start), (memory() - before) / 1e3)"
    )
    (tmp_path / "small.csv").write_bytes(PLAIN)
    files = [str(tmp_path / "big.csv"), str(tmp_path / "small.csv")]
    run = subprocess.run(
        [sys.executable, "-c", code, *files], capture_output=True, check=True, timeout=120
    )
    rate, megabytes = map(float, run.stdout.split())
    assert rate > 400_000
    assert megabytes < 200  # the file has 196, and the whole table would take twice that


def test_importing_loads_no_pyarrow():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import anchored.tables.encoder, anchored.tables.reading as t, numpy as np\n"
        "print(t.Table({'a': np.ones(2)}, 2).take([0]).n_rows, 'jax' in sys.modules)\n"
        "try: t.read_table('x.csv')\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.split("\n")[:2] == [
        "1 False",
        "Reading tables needs pyarrow: pip install 'anchored[table]'",
    ]


# --- mangled files ---


def healthy(random):
    """A CSV file of all kinds of columns, as text."""
    separator = random.choice(",;\t")
    words = ["red", "green", "blue", "", "NA", "ümläut", 'say "hi"', "a,b;c", "two\nlines"]
    makers = [
        lambda row: f"{random.gauss(0, 10):.4f}",
        lambda row: str(row),
        lambda row: random.choice(words),
        lambda row: random.choice(["yes", "no"]),
        lambda row: f"20{random.randrange(10, 30)}-0{random.randrange(1, 10)}-11",
        lambda row: random.choice(["", "?", "nan"]),
        lambda row: "only one class",
        lambda row: random.choice(["1", "x", "2.5", "2020-01-01"]),
    ]
    kinds = [random.choice(makers) for _ in range(random.randrange(1, 8))]
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=separator, lineterminator=random.choice(["\n", "\r\n"]))
    writer.writerow([f"c{place}" for place in range(len(kinds))])
    for row in range(random.randrange(0, 40)):
        writer.writerow([make(row) for make in kinds])
    return out.getvalue()


SNIPPETS = [b'"', b'""', b'"\n"', b",", b";", b"\t", b"\n", b"\r", b" ", b"-", b"inf", b"1e999"]
SNIPPETS += [b"\0", b"\x1a", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"c0,", b"=cmd()"]


def mangled(random):
    """A healthy file with a few random injuries, as bytes."""
    encoding = random.choice(["utf-8"] * 5 + ["latin-1"] * 2 + ["utf-16"])
    content = bytearray(healthy(random).encode(encoding))
    for _ in range(random.randrange(0, 6)):
        at = random.randrange(len(content) + 1)
        until = min(len(content), at + random.randrange(1, 30))
        injury = random.randrange(6)
        if injury == 0:
            content[at:at] = random.choice(SNIPPETS)
        elif injury == 1:
            del content[at:until]
        elif injury == 2:
            del content[at:]
        elif injury == 3:
            content[at:at] = content[at:until]
        elif injury == 4 and at < len(content):
            content[at] ^= 1 << random.randrange(8)
        else:
            content[at:at] = random.choice(SNIPPETS) * random.randrange(1, 200)
    if random.random() < 0.1:
        content = bytearray(gzip.compress(bytes(content), mtime=0))
        if random.random() < 0.7:
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    return bytes(content)


def check_valid(table):
    assert table.n_rows > 0
    for name, cells in table.columns.items():
        assert isinstance(name, str)
        assert cells.shape == (table.n_rows,)
        if cells.dtype == object:
            assert all(cell is None or (isinstance(cell, str) and cell) for cell in cells)
        else:
            assert cells.dtype == np.float64
            assert not np.isinf(cells).any()


def attempt(make, *arguments):
    """What is made, or None and the one line that says why not."""
    try:
        return make(*arguments), ""
    except TableError as error:
        return None, str(error)


def is_clear(message):
    return message.isprintable() and 10 < len(message) < 500  # line ends are not printable


def test_mangled_files_give_a_table_or_one_line(monkeypatch):
    """2,000 files, each read whole, in small blocks, and encoded."""
    monkeypatch.setattr(_csv_rows, "_CHUNK", 700)
    source = random.Random(5)
    n_tables = n_faults = n_encoded = 0
    start = time.monotonic()
    for _ in range(2_000):
        content = mangled(source)
        table, fault = attempt(table_of, content)
        if table is None:
            assert is_clear(fault)
            with pytest.raises(TableError):
                list(read_blocks(io.BytesIO(content), block_rows=15))
            n_faults += 1
            continue
        check_valid(table)
        text = [name for name, cells in table.columns.items() if cells.dtype == object]
        blocks = list(read_blocks(io.BytesIO(content), block_rows=15, text=text))
        for name, cells in table.columns.items():
            joined = np.concatenate([block.columns[name] for block in blocks])
            np.testing.assert_array_equal(joined, cells)
        n_tables += 1
        encoder, fault = attempt(Encoder.fit, table)
        if encoder is None:
            assert is_clear(fault)
            continue
        features = encoder.transform(table)
        assert features.shape == (table.n_rows, len(encoder.feature_names))
        assert np.isfinite(features).all()
        again = read_blocks(io.BytesIO(content), encoder.names, 15, encoder.text_names)
        joined = np.concatenate([encoder.transform(block) for block in again])
        np.testing.assert_array_equal(joined, features)
        n_encoded += 1
    assert time.monotonic() - start < 40
    assert min(n_tables, n_faults, n_encoded) > 300, (n_tables, n_faults, n_encoded)


def test_mangled_parquet_gives_a_table_or_one_line(rng):
    healthy = parquet_bytes({"a": rng.normal(size=50), "b": ["x", "y"] * 25, "c": [True] * 50})
    n_faults = 0
    for _ in range(300):
        content = bytearray(healthy)
        for place in rng.integers(4, len(content), rng.integers(1, 4)):
            content[place] ^= 1 << rng.integers(0, 8)
        table, fault = attempt(table_of, bytes(content))
        if table is None:
            assert is_clear(fault)
            n_faults += 1
        else:
            check_valid(table)
    assert n_faults > 30
