"""`gla run`: outputs, entries, streams, exit codes."""

import errno
import io
import os
import re
import signal
import subprocess
import time

import numpy as np
import pytest

from tests.cli.programs import GROWTH, TWO, arguments, command, environment


def test_outputs_lie_in_the_folder_that_was_asked_for(gla, folder):
    told = gla("run", "growth.gla", "--out", "runs/a")
    assert told.code == 0
    assert sorted(path.name for path in (folder / "runs/a").iterdir()) == ["x_2.npy", "x_4.npy", "x_6.npy"]
    assert np.load(folder / "runs/a/x_6.npy").tolist() == [1.5**6] * 4


def test_a142_the_folder_is_looked_at_before_anything_is_computed(gla, folder):
    (folder / "taken").write_text("")
    told = gla("run", "growth.gla", "--out", "taken")
    assert (told.code, told.out) == (2, "") and "is a file" in told.err


def test_a_program_that_writes_nothing_needs_no_folder(gla, monkeypatch):
    monkeypatch.setattr("gla.lang.io.check_folder", lambda folder: 1 / 0)
    assert gla("run", "two.gla", "--entry", "first").code == 0
    assert gla("run", "growth.gla").code == 101


def test_a142_files_of_an_earlier_run_are_replaced_and_that_is_said_once(gla):
    assert gla("run", "growth.gla").err == ""
    again = gla("run", "growth.gla")
    assert again.code == 0 and again.err.count("\n") == 1 and "earlier run" in again.err and "x_2.npy" in again.err
    assert gla("run", "growth.gla", "--quiet").err == ""


def test_run_blocks_are_chosen_by_name(gla):
    assert gla("run", "two.gla", "--entry", "second").out == "two\n"
    several = gla("run", "two.gla")
    assert several.code == 2 and "first, second" in several.err
    unknown = gla("run", "two.gla", "--entry", "secnd")
    assert unknown.code == 2 and "'second'?" in unknown.err


def test_a_program_without_a_run_block_says_so(gla):
    told = gla("run", "fails.gla")
    assert told.code == 1 and "no `run` block" in told.err


def test_an_error_in_the_program_is_code_1_with_a_caret(gla):
    told = gla("run", "wrong.gla")
    assert told.code == 1 and told.out == ""
    assert "error[GLA0101]" in told.err and "wrong.gla:2:11" in told.err and "^^^^^^^^^^^^" in told.err
    assert "Traceback" not in told.err


def test_a_failed_assert_is_code_1(gla, folder):
    (folder / "a.gla").write_text('param x: f64 = 1.0\nrun { assert x > 2.0, "x is {x}" }\n')
    told = gla("run", "a.gla")
    assert told.code == 1 and "GLA0601" in told.err and "x is 1.0" in told.err


def test_a_load_in_the_program_is_the_programs_fault(gla, folder):
    (folder / "l.gla").write_text('run { print sum(load("gone.npy")) }\n')
    told = gla("run", "l.gla")
    assert told.code == 1 and "gone.npy does not exist" in told.err and "l.gla:1:" in told.err


@pytest.mark.parametrize(
    "args, word",
    [
        (["gone.gla"], "does not exist"),
        (["growht.gla"], "growth.gla?"),
        (["."], "is a folder"),
        (["data.gla"], "byte offset 3"),
    ],
)
def test_a130_a_program_that_cannot_be_read_is_code_2(gla, folder, args, word):
    (folder / "data.gla").write_bytes(b"run\xff{}")
    told = gla("run", *args)
    assert told.code == 2 and word in told.err


def test_checks_are_known_by_name(gla):
    assert gla("run", "growth.gla", "--check", "bounds,nan").code == 0
    told = gla("run", "growth.gla", "--check", "bonds")
    assert told.code == 2 and "bounds, nan, all" in told.err


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:", "host:1"])
def test_a_device_that_cannot_be_is_a_usage_error(gla, name):
    told = gla("run", "growth.gla", "--device", name)
    assert told.code == 2 and "cuda:1" in told.err


def test_a_device_that_is_not_there_is_code_3(gla):
    told = gla("run", "growth.gla", "--device", "cuda:77")
    assert told.code == 3 and told.out == "" and "GLA05" in told.err


def test_auto_says_why_it_is_not_the_gpu(monkeypatch):
    from gla import config
    from gla.cli import devices
    from gla.runtime.devices import get_device

    monkeypatch.setattr(devices, "gpu_present", lambda: True)
    monkeypatch.setattr(devices, "why_not_cuda", lambda: "the driver is too old")
    monkeypatch.setattr("gla.runtime.devices.get_device", lambda name: get_device("host"))
    for device, line in [("auto", "the driver is too old; see gla doctor"), ("host", "")]:
        monkeypatch.setattr(config, "environment", lambda device=device: config.Environment(device=device))
        assert devices.open_machine("auto")[1].endswith(line) and bool(devices.open_machine("auto")[1]) == bool(line)
    assert devices.open_machine("host")[1] == ""


def test_time_tells_how_long_it_took(gla):
    told = gla("run", "growth.gla", "--time")
    assert re.fullmatch(r"time: read and checked in [\d.]+ s, planned and ran in [\d.]+ s on host.*\n", told.err)


def test_memory_that_cannot_be_had_is_code_4(gla, folder):
    (folder / "m.gla").write_text("size n = 1_000_000\nrun { let x = cumsum(ones((n, n))); print sum(x) }\n")
    assert gla("run", "m.gla").code == 4


def test_a_fault_of_gla_is_code_101_and_leaves_a_report(gla, folder, monkeypatch):
    monkeypatch.setattr("gla.lang.session.Session.run", lambda self, entry: {}["a key"])
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    told = gla("run", "growth.gla")
    assert told.code == 101 and "internal error: KeyError" in told.err and "Traceback" not in told.err
    (report,) = folder.glob("gla-report-*.txt")
    assert str(report) in told.err and "Traceback" in report.read_text()


@pytest.mark.parametrize("name", ["with blank.gla", "größe.gla", "a.b.gla"])
def test_a143_any_file_name_will_do(gla, folder, name):
    (folder / name).write_text('run { print "here" }\n')
    assert gla("run", name).out == "here\n"


def test_a144_quiet_leaves_what_the_program_prints(gla):
    told = gla("run", "growth.gla", "--quiet")
    assert told.out.startswith("sum ") and told.err == ""


def test_warnings_of_the_program_are_shown_once(gla, folder):
    (folder / "w.gla").write_text(
        "run {\n    let k = random.key(1)\n    print sum(random.normal(k, (3,)) - random.normal(k, (3,)))\n}\n"
    )
    told = gla("run", "w.gla")
    assert told.code == 0 and told.err.count("warning[GLA0250]") == 1 and "w.gla:3:" in told.err
    assert gla("run", "w.gla", "--quiet").err == ""


def test_a141_a_disk_that_is_full_is_code_2_and_leaves_no_part(gla, folder, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", fail)
    told = gla("run", "growth.gla", "--out", "o")
    assert told.code == 2 and "x_2.npy cannot be written: no space left" in told.err and "Traceback" not in told.err
    assert list((folder / "o").iterdir()) == []


def test_data_given_for_a_program_is_named(gla, folder):
    np.save(folder / "x.npy", np.zeros(2))
    told = gla("run", "x.npy", "growth.gla")
    assert told.code == 2 and "data, not a program" in told.err


# ---------------------------------------------------------------- in a process of its own


def test_a143_a_program_comes_through_standard_input():
    told = command("run", "-", "--entry", "second", input=TWO.encode())
    assert (told.returncode, told.stdout, told.stderr) == (0, b"two\n", b"")
    told = command("run", "-", input=b"run { print x }\n")
    assert told.returncode == 1 and b"<stdin>:1:13" in told.stderr


def test_an_array_comes_through_standard_input_but_not_with_the_program(tmp_path):
    (tmp_path / "growth.gla").write_text(GROWTH)
    stream = io.BytesIO()
    np.save(stream, np.arange(4.0))
    told = command("run", "growth.gla", "--start", "-", "--rate", "0", "-q", input=stream.getvalue(), cwd=tmp_path)
    assert told.returncode == 0 and told.stdout.startswith(b"sum 6.0 ")
    told = command("run", "-", "--start", "-", input=GROWTH.encode(), cwd=tmp_path)
    assert told.returncode == 2 and b"standard input" in told.stderr


def test_a144_nothing_but_results_comes_out_where_nobody_looks(tmp_path):
    told = command("run", "-", input=GROWTH.encode(), cwd=tmp_path)
    assert told.returncode == 0 and told.stderr == b""
    assert told.stdout == f"sum {4 * 1.5**6} 3 false 2.0\n".encode()


def test_a141_a_full_device_for_standard_output_is_code_2(tmp_path):
    (tmp_path / "two.gla").write_text(TWO)
    with open("/dev/full", "w") as full:
        told = subprocess.run(
            arguments("run", "two.gla", "--entry", "first"),
            env=environment(), cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False,
        )  # fmt: skip
    assert told.returncode == 2 and b"standard output" in told.stderr and b"no space left" in told.stderr


def test_a139_a_second_interrupt_ends_at_once(folder):
    process = subprocess.Popen(
        arguments("run", "endless.gla", "--out", "o"), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(folder / "o" / "x_3000.npy", process)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and b"Traceback" not in err


def test_a_full_traceback_is_shown_when_asked_for(tmp_path):
    (tmp_path / "p.gla").write_text("run { print x }\n")
    told = command("run", "p.gla", cwd=tmp_path, env={"GLA_FULL_TRACEBACK": "1"})
    assert told.returncode == 1 and b"Traceback" in told.stderr


def test_a139_an_interrupt_ends_with_130_and_whole_files(folder):
    process = subprocess.Popen(
        arguments("run", "endless.gla", "--out", "o"), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(folder / "o" / "x_3000.npy", process)
    process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - asked < 2.0
    assert process.returncode == 130
    assert re.fullmatch(rb"interrupted at step \d+/2000000000; wrote .*\n", err)
    assert not list((folder / "o").glob(".*"))
    with np.load(folder / "o" / "x.npz") as rows:
        assert len(rows["x"]) >= 3
    for path in (folder / "o").glob("x_*.npy"):
        assert np.load(path).shape == (8,)


def wait_for(path, process):
    end = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)


def test_on_a_terminal_progress_is_drawn_and_taken_away(folder):
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        arguments("run", "endless.gla", "--steps", "200_000", "--out", "o"),
        env=environment({"TERM": "xterm", "NO_COLOR": "1"}), stdout=subprocess.PIPE, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    process.communicate(timeout=120)
    text = os.read(master, 1 << 20).decode()
    assert process.returncode == 0
    assert re.search(r"\rendless  [█▏▎▍▌▋▊▉ ]{12} +\d+%  step \d+/200000  [\d.]+ ?[kM]? steps/s  eta \d+ s\x1b\[K", text)
    assert text.endswith(")\r\n") and "\r\x1b[Kwrote" in text
    assert "\x1b[3" not in text  # no colours
