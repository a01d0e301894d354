"""Tables of numbers: what is read, and what is refused with the line, the column and the text."""

import numpy as np
import pytest

from gla.errors import GlaFileError
from gla.lang.io.arrays import read_array, write_arrays


@pytest.fixture
def table(tmp_path):
    def make(data, skip=0, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return read_array(path, skip=skip)

    return make


@pytest.mark.parametrize(
    "text",
    ["1,2\n3,4\n", "1;2\n3;4\n", "1\t2\n3\t4\n", "1 2\n3   4\n", " 1 , 2 \n 3 , 4 \n", "1,2\r\n3,4\r\n", "1,2\r3,4"],
    ids=["comma", "semicolon", "tab", "blanks", "padded", "crlf", "cr"],
)
def test_a137_separators_and_line_ends_are_found(table, text):
    assert table(text).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a137_a_byte_order_mark_is_no_part_of_the_first_number(table):
    assert table("\ufeff1,2\n").tolist() == [[1.0, 2.0]]


def test_a137_blank_lines_and_comments_are_no_rows(table):
    assert table("# made by hand\n\n1,2\n\n   \n3,4\n\n").tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a137_skip_passes_over_a_header_even_below_blank_lines(table):
    assert table("\n\nx,y\n1,2\n", skip=1).tolist() == [[1.0, 2.0]]


def test_one_column_stays_a_table(table):
    assert table("1\n2\n3\n").shape == (3, 1)


def test_a137_a_header_alone_gives_no_rows_and_its_columns(table):
    assert table("mass,x,y\n", skip=1).shape == (0, 3)


def test_numbers_are_read_to_the_last_bit(table):
    values = np.random.default_rng(0).normal(size=(40, 3)) * 10.0 ** np.arange(-150, 150, 100)
    text = "\n".join(",".join(map(repr, row)) for row in values.tolist())
    assert np.array_equal(table(text), values)


def test_nan_and_infinity_are_numbers(table):
    assert np.array_equal(table("nan,inf\n-inf,1\n"), [[np.nan, np.inf], [-np.inf, 1.0]], equal_nan=True)


@pytest.mark.parametrize(
    "data, skip, words",
    [
        ("x,y\n1,2\n", 0, ["line 1", "'x,y'", "skip=1"]),
        ("1,2\n3,\n", 0, ["line 2", "column 2", "is empty"]),
        ("1,,2\n", 0, ["line 1", "column 2", "is empty"]),
        ("1,2\n3\n", 0, ["line 2 has 1 columns", "line 1 has 2", "a comma"]),
        ("1,5;2,5\n", 0, ["decimal comma: 1,5", "1.5"]),
        ("1,5\t2\n", 0, ["decimal comma"]),
        ("1,2\n3,x4\n", 0, ["line 2", "column 2", "'x4'"]),
        ('1,"2"\n', 0, ["column 2", "quotes"]),
        ("1,0x10\n", 0, ["column 2", "'0x10'"]),
        ("1_000,2\n", 0, ["column 1"]),
        ("", 0, ["no rows"]),
        ("1,2\n", 3, ["1 lines", "skip=3"]),
        (b"1,2\n3,\xff\n", 0, ["0xff", "byte offset 6"]),
        (b"1,2\n\0\0", 0, ["binary", "byte offset 4"]),
        ("1,2\n".encode("utf-16"), 0, ["UTF-16"]),
    ],
)
def test_a137_what_is_no_table_is_refused(table, data, skip, words):
    with pytest.raises(GlaFileError) as caught:
        table(data, skip)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_written_table_reads_back_to_the_same_bits(tmp_path):
    x = np.random.default_rng(1).normal(size=5)
    p = np.random.default_rng(2).normal(size=(5, 2)).astype(np.float32)
    path = write_arrays(tmp_path / "o.csv", {"x": x, "p": p})
    assert path.read_text().splitlines()[0] == "x,p_0,p_1"
    back = read_array(path, skip=1)
    assert np.array_equal(back[:, 0], x)
    assert np.array_equal(back[:, 1:].astype(np.float32), p)


def test_complex_columns_are_written_as_two(tmp_path):
    path = write_arrays(tmp_path / "o.csv", {"z": np.array([1 + 2j, 3 - 4j])})
    assert path.read_text() == "z_re,z_im\n1.0,2.0\n3.0,-4.0\n"


def test_columns_of_different_lengths_are_no_table(tmp_path):
    with pytest.raises(GlaFileError, match=r"x \(2,\), y \(3,\)"):
        write_arrays(tmp_path / "o.csv", {"x": np.zeros(2), "y": np.zeros(3)})
    assert list(tmp_path.iterdir()) == []
