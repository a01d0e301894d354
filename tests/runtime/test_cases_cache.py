"""The disk cache, processes and the end of a process (E9, g35 to g49, g105, g133, g141)."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gla.runtime import cache as caching
from gla.runtime.cache import ImageCache, image_key

KEY = "ab" * 32
ROOT = Path(__file__).resolve().parents[2]
FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def python(code: str, cache: object = None, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program on the host device, with a cache folder of its own."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    given = {**os.environ, "GLA_DEVICE": "host", "PYTHONPATH": path, "PYTHONWARNINGS": "ignore::DeprecationWarning", **env}
    if cache is not None:
        given["GLA_CACHE_DIR"] = str(cache)
    return subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=60, check=False)


USE = "import gla, numpy as np; x = gla.asarray(np.arange(3.0)); print(np.asarray(x * 2 + 1).tolist())\n"
RIGHT = "[1.0, 3.0, 5.0]\n"


# --- E9, g35: processes
@FORK
def test_g35_a_fork_before_first_use_is_fine_in_parent_and_child(tmp_path):
    code = f"""
import os, warnings
warnings.simplefilter("error")
import gla
child = os.fork()
{USE}
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout.count(RIGHT.strip()), done.stderr) == (0, 2, "")


def test_g35_spawned_workers_work(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, numpy as np, gla\n"
        "def work(k): return float(gla.sum(gla.asarray(np.arange(4.0)) * k))\n"
        "if __name__ == '__main__':\n"
        "    work(1)\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool: print(pool.map(work, [1, 2, 3]))\n"
    )
    env = {**os.environ, "GLA_DEVICE": "host", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[6.0, 12.0, 18.0]\n", "")


@FORK
def test_e9_every_use_after_a_fork_is_refused_and_nothing_hangs(tmp_path):
    code = """
import gc, os, threading, numpy as np, gla
x, y = gla.asarray(np.arange(3.0)), gla.zeros(3)
f = gla.function(lambda v: v + 1)
f(x); exe = gla.capture(lambda: y.assign(x * 2)).instantiate(); exe()
stop = False
def busy():
    while not stop: np.asarray(gla.asarray(np.ones(5)) + 1)
threads = [threading.Thread(target=busy) for _ in range(2)]
for t in threads: t.start()
for round in range(4):
    child = os.fork()
    if not child:
        uses = [lambda: np.asarray(x), lambda: f(x), exe, lambda: gla.asarray(np.ones(2)), lambda: gla.capture(lambda: y.assign(x)),
                x.free, gla.synchronize, gla.memory, gla.reclaim, gla.Stream, lambda: y.assign(x)]
        refused = 0
        for use in uses:
            try: use()
            except gla.DeviceError as error: refused += "spawn" in str(error)
        del exe, x, f
        gc.collect()
        os._exit(len(uses) - refused)
    assert os.waitpid(child, 0)[1] == 0, round
stop = True
for t in threads: t.join()
print(np.asarray(x).tolist())
"""
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0.0, 1.0, 2.0]\n", "")


# --- the cache
def test_g38_an_entry_says_what_it_is_of(tmp_path):
    cache = ImageCache(tmp_path)
    cache.write(KEY, b"image of ab")
    other = "cd" * 32
    target = cache._path(other)
    target.parent.mkdir(parents=True)
    cache._path(KEY).rename(target)
    assert cache.read(other) is None
    cache.write(other, b"image of cd")
    assert cache.read(other) == b"image of cd"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_g39_a_cache_that_cannot_be_written_is_warned_of_once(tmp_path, monkeypatch, caplog, number):
    cache = ImageCache(tmp_path)

    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("builtins.open", refuse)
    with caplog.at_level(logging.WARNING):
        for k in range(3):
            assert cache.get("c", "n", str(k), lambda: b"made") == b"made"
    assert len(caplog.records) == 1 and str(tmp_path) in caplog.text


def test_g39_a_cache_that_can_only_be_read_is_read(tmp_path, monkeypatch):
    cache = ImageCache(tmp_path)
    cache.write(KEY, b"image")

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(os, "utime", refuse)
    assert cache.read(KEY) == b"image"


@pytest.mark.parametrize("place", ["/dev/null", "/dev/null/below", "long", "dangling"])
def test_g40_places_where_there_can_be_no_cache(tmp_path, caplog, place):
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "else")
    cache = ImageCache(tmp_path / ("x" * 300 if place == "long" else place))
    with caplog.at_level(logging.WARNING):
        for k in range(3):
            assert cache.get("c", "n", str(k), lambda: b"made") == b"made"
    assert len(caplog.records) == 1 and "kernels are not kept in" in caplog.text


@pytest.mark.parametrize(
    "env", [{"XDG_CACHE_HOME": "/dev/null"}, {"HOME": "/nonexistent", "XDG_CACHE_HOME": ""}], ids=["xdg", "home"]
)
def test_g39_a_process_without_a_place_for_a_cache(env):
    done = python(USE, None, GLA_CACHE_DIR="", **env)
    assert (done.returncode, done.stdout) == (0, RIGHT) and "Traceback" not in done.stderr
    assert done.stderr.count("kernels are not kept in") == (os.geteuid() != 0 or env["XDG_CACHE_HOME"] == "/dev/null")


@pytest.mark.parametrize("number", [errno.ESTALE, errno.ENOENT, errno.EIO])
@pytest.mark.parametrize("call", ["read_bytes", "stat", "unlink", "mkdir", "touch"])
def test_g41_any_error_of_the_system_is_a_miss(tmp_path, monkeypatch, call, number):
    cache = ImageCache(tmp_path, limit=10)
    cache.write("cd" * 32, b"other" * 9)
    cache._written = 0
    real, left = getattr(Path, call), [1]

    def failing(self, *args, **kwargs):
        if left[0] and tmp_path in (self, *self.parents):
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, call, failing)
    assert cache.get("c", "n", "s", lambda: b"made") == b"made"
    monkeypatch.undo()
    assert cache.get("c", "n", "s", lambda: b"made") == b"made"


def test_g41_cache_files_are_not_mapped():
    assert "mmap" not in Path(caching.__file__).read_text()


def test_g42_the_key_has_compiler_options_architecture_source_and_generator(monkeypatch):
    from gla.device.cuda import nvrtc

    base = image_key("nvrtc 12.9 sm_90 flags", "k", "source")
    assert base == image_key("nvrtc 12.9 sm_90 flags", "k", "source")
    others = [image_key(c, n, s) for c, n, s in (("nvrtc 12.8 sm_90 flags", "k", "source"), ("nvrtc 12.9 sm_80 flags", "k", "source"),
              ("nvrtc 12.9 sm_90", "k", "source"), ("nvrtc 12.9 sm_90 flags", "k", "source2"), ("nvrtc 12.9 sm_90 flags", "l", "source"))]  # fmt: skip
    monkeypatch.setattr(caching, "generator", lambda: "another version of gla")
    others.append(image_key("nvrtc 12.9 sm_90 flags", "k", "source"))
    assert len({base, *others}) == 7
    try:
        assert nvrtc.identity("sm_80") != nvrtc.identity("sm_90")
    except Exception:
        pytest.skip("no NVRTC here to ask for its version")


def test_g42_the_generators_files_are_in_the_key():
    text = caching.generator.__wrapped__()
    assert "llvm.py" in text and "cuda.py" in text and "table.py" in text


def test_g43_another_format_is_a_miss_and_stays(tmp_path):
    cache = ImageCache(tmp_path)
    cache.write(KEY, b"image")
    for other in ("kernels", f"kernels-{caching.FORMAT + 1}"):
        path = tmp_path / other / KEY[:2] / KEY
        path.parent.mkdir(parents=True)
        path.write_bytes(b"of another version")
    assert cache.read(KEY) == b"image"
    cache.limit = 0
    cache._written = 0
    cache.write("cd" * 32, b"x")
    assert sum(p.read_bytes() == b"of another version" for p in tmp_path.rglob("*") if p.is_file()) == 2


def test_g49_folders_with_any_letters(tmp_path):
    folder = tmp_path / "Zwischen Ablage" / "étude" / "缓存 🙂"
    done = python(USE, None, GLA_CACHE_DIR="", XDG_CACHE_HOME=str(folder), HOME=str(tmp_path / "Ünïcode"))
    assert (done.returncode, done.stdout, done.stderr) == (0, RIGHT, "")
    assert sys.platform != "linux" or any(p.is_file() for p in folder.rglob("*"))


@FORK
def test_g133_sixteen_cold_processes_share_one_folder(tmp_path):
    code = """
import os, sys
from gla.runtime.cache import ImageCache
children = []
for _ in range(16):
    child = os.fork()
    if not child:
        cache = ImageCache()
        wrong = sum(cache.get("c", "n", str(k), lambda: b"%d" % k * 99999) != b"%d" % k * 99999 for k in (*range(9), *range(9)))
        os._exit(wrong)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
"""
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{[0] * 16}\n", "")
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert files and not [p for p in files if p.name.startswith(".")]


def test_g116_g133_temporaries_of_dead_processes_are_swept(tmp_path):
    cache = ImageCache(tmp_path)
    cache.write(KEY, b"image")
    old, new = (cache._path(KEY).with_name(name) for name in (".dead.1.1", ".alive.2.2"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache._written = cache.limit
    cache.write("ab" + "cd" * 31, b"image")
    assert not old.exists() and new.exists() and cache.read(KEY) == b"image"


def test_g105_a_warm_cache_compiles_nothing_not_even_the_devices_own_code(tmp_path):
    code = (
        "import gla, numpy as np, sys\nfrom gla.device.host import jit\n"
        "made, emit = [], jit.emit_object\n"
        "jit.emit_object = lambda source, name: (made.append(name), emit(source, name))[1]\n"
        "x = gla.asarray(np.arange(3.0)); print(np.asarray(gla.cumulative_sum(x * 2) + 1).tolist(), len(made) > 0)\n"
    )
    assert python(code, tmp_path).stdout == "[1.0, 3.0, 7.0] True\n"
    assert python(code, tmp_path).stdout == "[1.0, 3.0, 7.0] False\n"


# --- g141: the end
@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("device", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_g141_exits_are_silent(tmp_path, device, status):
    code = f"""
import atexit, sys, threading, time
import numpy as np
atexit.register(lambda: print(np.asarray(x + 1).tolist()))
import gla
x, y = gla.asarray(np.arange(3.0)), gla.zeros(3)
exe = gla.capture(lambda: y.assign(y + x)).instantiate()
atexit.register(lambda: (exe(), print(np.asarray(x * 2).tolist())))
def forever():
    while True: exe()
threading.Thread(target=forever, daemon=True).start()
cycle = [x, y, exe]; cycle.append(cycle)
time.sleep(0.05)
sys.exit({status})
"""
    done = python(code, tmp_path, GLA_DEVICE=device)
    assert (done.returncode, done.stdout, done.stderr) == (status, "[0.0, 2.0, 4.0]\n[1.0, 2.0, 3.0]\n", "")


@pytest.mark.parametrize("device", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_g141_a_pending_launch_at_exit(tmp_path, device):
    code = """
import asyncio, numpy as np, gla
x = gla.asarray(np.zeros(3))
exe = gla.capture(lambda: x.assign(x + 1)).instantiate()
async def main():
    asyncio.ensure_future(exe.launch_async())
    await asyncio.sleep(0)
asyncio.run(main())
print("end")
"""
    done = python(code, tmp_path, GLA_DEVICE=device)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
