"""Images on disk: written whole, checked when read, bounded; whatever goes wrong is a miss."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gla.runtime.cache import ImageCache, image_key


def test_what_was_written_is_read_by_another_cache(tmp_path: Path) -> None:
    key = image_key("compiler 1", "k", "source")
    ImageCache(tmp_path).write(key, b"image")
    assert ImageCache(tmp_path).read(key) == b"image"


def test_the_key_depends_on_each_part_and_on_where_it_ends() -> None:
    keys = {
        image_key(*parts) for parts in (("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "b", "d"), ("x", "b", "c"))
    }
    assert len(keys) == 5


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:40] + b"X" + d[41:], lambda d: b"", lambda d: b"other" + d])
def test_a_damaged_file_is_a_miss(tmp_path: Path, damage) -> None:
    cache = ImageCache(tmp_path)
    cache.write("ab" * 32, b"image" * 100)
    (path,) = [p for p in tmp_path.rglob("*") if len(p.name) == 64]
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read("ab" * 32) is None
    cache.write("ab" * 32, b"again")
    assert cache.read("ab" * 32) == b"again"


def test_a_folder_that_cannot_be_written_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = ImageCache(tmp_path / "file" / "below")
    with caplog.at_level(logging.WARNING):
        for k in range(3):
            cache.write(f"{k:064}", b"image")
            assert cache.read(f"{k:064}") is None
    assert len(caplog.records) == 1


def test_the_folder_is_bounded_and_the_longest_unread_go_first(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path, limit=16000)
    for k in range(40):
        key = f"{k:02}" + "0" * 62
        cache.write(key, bytes(1000))
        os.utime(tmp_path / "kernels-2" / key[:2] / key, (k, k))
    cache.write("ff" * 32, bytes(1000))
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert sum(p.stat().st_size for p in files) <= 16000 + 2000
    assert cache.read("39" + "0" * 62) is not None and cache.read("00" + "0" * 62) is None


def test_nothing_is_left_beside_the_images(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    for _ in range(5):
        cache.write("cd" * 32, b"x" * 5000)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file() and p.name != "swept"] == ["cd" * 32]


def test_many_processes_share_one_folder(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from gla.runtime.cache import ImageCache\n"
        "cache = ImageCache(Path(sys.argv[1]))\n"
        "for k in range(100):\n"
        "    key = f'{k % 7:064}'\n"
        "    got = cache.read(key)\n"
        "    assert got in (None, key.encode() * 50), got\n"
        "    cache.write(key, key.encode() * 50)\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [w.wait() for w in workers] == [0, 0, 0]


def test_a_second_machine_compiles_nothing(tmp_path: Path) -> None:
    from gla.compiler import executable
    from gla.device.host import HostDevice
    from gla.ir.builder import apply
    from gla.ir.graph import Graph
    from gla.runtime.machine import Machine
    from tests.runtime.conftest import array

    counts = []
    for _ in range(2):
        machine = Machine(HostDevice(strict=True), ImageCache(tmp_path))
        x = array((40,))
        executable(Graph((x,), (apply("add", x, 1.0),)), machine)
        counts.append((machine.kernels.compiled, machine.kernels.loaded))
    assert counts == [(1, 1), (0, 1)]
