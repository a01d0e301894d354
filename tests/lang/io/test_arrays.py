"""Files of arrays: NumPy writes what gla reads and reads what gla writes; what is refused says why."""

import io
import os

import ml_dtypes
import numpy as np
import pytest

from gla.errors import GlaFileError
from gla.lang.io.arrays import read_array, write_arrays

DTYPES = ["bool", "int8", "uint64", "int32", "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_npy_goes_both_ways_with_numpy(tmp_path, dtype, shape):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    write_arrays(tmp_path / "b.npy", {"x": array})
    for back in (read_array(tmp_path / "a.npy"), np.load(tmp_path / "b.npy")):
        assert back.dtype == dtype and back.shape == shape and np.array_equal(back, array)


@pytest.mark.parametrize("make", [np.asfortranarray, lambda a: a.astype(">f8"), lambda a: a[::-1, ::2]])
def test_any_order_of_bytes_and_axes_is_read_native_and_row_major(tmp_path, make):
    array = make(np.arange(12.0).reshape(3, 4))
    np.save(tmp_path / "a.npy", array)
    back = read_array(tmp_path / "a.npy")
    assert back.flags.c_contiguous and back.dtype.isnative and np.array_equal(back, array)


def test_bfloat16_is_written_as_float32(tmp_path):
    array = np.array([1.5, -2.25, np.inf], ml_dtypes.bfloat16)
    write_arrays(tmp_path / "a.npy", {"x": array})
    assert np.load(tmp_path / "a.npy").tolist() == [1.5, -2.25, np.inf]


def test_npz_goes_both_ways_with_numpy(tmp_path):
    x, y = np.arange(3), np.eye(2, dtype=np.float32)
    np.savez_compressed(tmp_path / "a.npz", x=x, y=y)
    write_arrays(tmp_path / "b.npz", {"x": x, "file": y})
    assert np.array_equal(read_array(tmp_path / "a.npz", "y"), y)
    with np.load(tmp_path / "b.npz") as back:
        assert np.array_equal(back["x"], x) and np.array_equal(back["file"], y)


def test_equal_arrays_give_equal_files(tmp_path):
    for name in "ab":
        write_arrays(tmp_path / f"{name}.npz", {"x": np.arange(4.0)})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a136_an_npz_with_one_array_needs_no_key(tmp_path):
    np.savez(tmp_path / "a.npz", only=np.arange(3))
    assert read_array(tmp_path / "a.npz").tolist() == [0, 1, 2]


def test_a136_a_missing_key_lists_the_keys_nearest_first(tmp_path):
    np.savez(tmp_path / "a.npz", mass=1, velocity=2, position=3)
    with pytest.raises(GlaFileError, match=r"no array 'velocty'; it holds velocity, position, mass") as caught:
        read_array(tmp_path / "a.npz", "velocty")
    assert "a.npz:velocity?" in str(caught.value)


def test_a136_several_arrays_and_no_key_lists_them(tmp_path):
    np.savez(tmp_path / "a.npz", x=1, y=2)
    with pytest.raises(GlaFileError, match=r"holds 2 arrays: x, y"):
        read_array(tmp_path / "a.npz")


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_a_file_that_is_cut_short_is_refused_wherever_it_is_cut(tmp_path, ending):
    whole = write_arrays(tmp_path / f"a.{ending}", {"x": np.arange(100.0)}).read_bytes()
    cut = tmp_path / f"cut.{ending}"
    for n in range(0, len(whole), 7):
        cut.write_bytes(whole[:n])
        with pytest.raises(GlaFileError) as caught:
            read_array(cut)
        assert caught.value.code in ("GLA0805", "GLA0811")


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_damaged_bytes_raise_no_other_error(tmp_path, ending):
    whole = write_arrays(tmp_path / f"a.{ending}", {"x": np.arange(8.0)}).read_bytes()
    bad = tmp_path / f"bad.{ending}"
    for n in range(len(whole)):
        bad.write_bytes(whole[:n] + bytes([whole[n] ^ 0x55]) + whole[n + 1 :])
        try:
            read_array(bad)
        except GlaFileError:
            continue


@pytest.mark.parametrize(
    "array, words",
    [
        (np.array(["a", "b"]), "values of dtype <U1"),
        (np.array([{}, None]), "Python objects"),
        (np.zeros(2, [("p", "f8"), ("q", "i4")]), "records with the fields p, q"),
        (np.zeros(2, "M8[s]"), "datetime64"),
    ],
)
def test_what_is_no_number_is_refused_by_name(tmp_path, array, words):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(GlaFileError, match=words):
        read_array(tmp_path / "a.npy")


def test_a130_a_missing_file_offers_the_nearest_name(tmp_path):
    np.save(tmp_path / "positions.npy", np.zeros(2))
    with pytest.raises(GlaFileError, match=r"does not exist") as caught:
        read_array(tmp_path / "position.npy")
    assert "positions.npy?" in str(caught.value)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(GlaFileError, match=r"there is no folder .*runs"):
        read_array(tmp_path / "runs" / "deep" / "a.npy")


def test_a130_a_folder_given_for_a_file_is_called_a_folder(tmp_path):
    (tmp_path / "a.npy").mkdir()
    with pytest.raises(GlaFileError, match="is a folder"):
        read_array(tmp_path / "a.npy")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a130_an_unreadable_file_says_permission(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(2))
    (tmp_path / "a.npy").chmod(0)
    with pytest.raises(GlaFileError, match="permission"):
        read_array(tmp_path / "a.npy")


def test_unknown_endings_name_the_known_ones(tmp_path):
    (tmp_path / "a.dat").write_text("1")
    for act in (lambda: read_array(tmp_path / "a.dat"), lambda: write_arrays(tmp_path / "b.dat", {"x": np.zeros(1)})):
        with pytest.raises(GlaFileError, match=r"\.dat") as caught:
            act()
        assert ".npy" in str(caught.value) and ".csv" in str(caught.value)


def test_hdf5_is_refused_with_its_own_code(tmp_path):
    with pytest.raises(GlaFileError) as caught:
        read_array(tmp_path / "a.h5", "x")
    assert caught.value.code == "GLA0803"


def test_npy_takes_one_array(tmp_path):
    with pytest.raises(GlaFileError, match="one array, not 2"):
        write_arrays(tmp_path / "a.npy", {"x": np.zeros(1), "y": np.zeros(1)})


def test_arrays_come_through_standard_input(monkeypatch):
    stream = io.BytesIO()
    np.save(stream, np.arange(3.0))
    stream.seek(0)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
    assert read_array("-").tolist() == [0.0, 1.0, 2.0]
