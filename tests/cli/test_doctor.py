"""`gla doctor`: a line a finding, each with its state and, where something is wrong, the fix."""

import importlib
import json

from gla.cli import doctor


def test_every_finding_has_a_state_and_the_host_replays(gla):
    told = gla("doctor", "--json")
    lines = {line["name"]: line for line in json.loads(told.out)}
    assert {line["state"] for line in lines.values()} <= {"OK", "WARN", "FAIL"}
    assert lines["replay host"]["state"] == "OK" and "right numbers" in lines["replay host"]["text"]
    assert {
        "gla",
        "numpy",
        "llvmlite",
        "NVIDIA driver",
        "cuda-bindings",
        "NVRTC",
        "cuBLAS",
        "kernel cache",
        "free memory",
    } <= set(lines)
    assert all(line["fix"] for line in lines.values() if line["state"] == "FAIL")
    assert told.code == (3 if any(line["state"] == "FAIL" for line in lines.values()) else 0)


def test_text_has_a_line_a_finding(gla):
    told = gla("doctor")
    assert told.out.startswith("OK    gla") and "\nOK    replay host" in told.out


def test_what_is_missing_fails_only_where_there_is_a_gpu(monkeypatch):
    probe = importlib.import_module("gla.device.cuda.probe")
    monkeypatch.setattr(probe, "probe", lambda: [probe.Finding("NVRTC", False, "it is missing", "install it")])
    for gpu, state in ((True, "FAIL"), (False, "WARN")):
        monkeypatch.setattr("gla.cli.devices.gpu_present", lambda gpu=gpu: gpu)
        found = {line.name: line for line in doctor.cuda()}
        assert (found["NVRTC"].state, found["NVRTC"].fix) == (state, "install it")


def test_a_broken_part_does_not_end_the_report():
    def look():
        raise RuntimeError("odd")

    assert doctor.looked("part", look) == doctor.Line("FAIL", "part", "RuntimeError: odd")
