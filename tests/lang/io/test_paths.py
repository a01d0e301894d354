"""Files are written whole or not at all; folders for outputs are looked at before anything is computed."""

import errno
import os

import numpy as np
import pytest

from gla.errors import GlaFileError
from gla.lang.io import paths
from gla.lang.io.arrays import write_arrays


def test_a_place_is_split_at_the_key_only():
    assert paths.split_place("run/f.npz:pos") == ("run/f.npz", "pos")
    assert paths.split_place("f.npy") == ("f.npy", None)
    assert paths.split_place("C:/data/f.npy") == ("C:/data/f.npy", None)


def test_a_file_whose_name_holds_a_colon_is_that_file(tmp_path):
    name = tmp_path / "f.npz:pos"
    name.write_bytes(b"")
    assert paths.split_place(str(name)) == (str(name), None)


@pytest.mark.parametrize("call", ["os.fsync", "os.replace"])
def test_a141_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, call):
    path = write_arrays(tmp_path / "a.npz", {"x": np.arange(3)})
    before = path.read_bytes()

    def fail(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(call, fail)
    with pytest.raises(GlaFileError, match=r"a\.npz cannot be written: no space left") as caught:
        write_arrays(path, {"x": np.arange(99)})
    assert caught.value.code == "GLA0809"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"] and path.read_bytes() == before


def test_a139_an_interrupt_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), paths.writing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npy"] and path.read_bytes() == b"old"


def test_a141_a_full_device_is_an_error():
    with pytest.raises(GlaFileError, match="no space left"):
        paths.write_bytes("/dev/full", b"text")


def test_writing_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "real.npy").write_bytes(b"old")
    (tmp_path / "link.npy").symlink_to("real.npy")
    paths.write_bytes(tmp_path / "link.npy", b"new")
    assert (tmp_path / "link.npy").is_symlink() and (tmp_path / "real.npy").read_bytes() == b"new"


def test_a_folder_for_outputs_is_made_and_left_empty(tmp_path):
    assert list(paths.check_folder(tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_is_no_folder_for_outputs(tmp_path, below):
    (tmp_path / "out").write_text("")
    with pytest.raises(GlaFileError, match=r"out is a file, not a folder"):
        paths.check_folder(tmp_path / "out" / below)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(GlaFileError, match="permission denied"):
            paths.check_folder(tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_given_for_an_output_is_refused(tmp_path):
    with pytest.raises(GlaFileError, match="is a directory"):
        paths.write_bytes(tmp_path, b"")
