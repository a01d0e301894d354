"""The progress line."""

import pytest

from gla.cli import progress


def test_the_line_of_the_specification(monkeypatch):
    line = progress.progress_line("heat", 6200, 10000, 6200, 6200 / 412_000, {})
    assert line == "heat  ███████▍     62%  step 6200/10000  412 k steps/s  eta 0 s"


def test_fields_follow():
    line = progress.progress_line("heat", 1, 4, 1, 2.0, {"name": "step", "peak": 0.9412345})
    assert line.endswith("step 1/4  0.5 steps/s  eta 6 s  peak=0.9412")


@pytest.mark.parametrize("seconds, text", [(0.2, "0 s"), (59.4, "59 s"), (125, "2 min 05 s"), (4200, "1 h 10 min")])
def test_durations(seconds, text):
    assert progress.duration(seconds) == text


@pytest.mark.parametrize("rate, text", [(0.53, "0.53"), (999, "999"), (41_234, "41.2 k"), (2.5e6, "2.5 M")])
def test_rates(rate, text):
    assert progress.per_second(rate) == text


def test_many_files_are_named_by_the_first_and_the_last():
    assert progress.files(["a"]) == "a"
    assert progress.files(["a", "b", "a"]) == "a, b (2 files)"
    assert progress.files([f"f{k}" for k in range(9)]) == "f0, f1, ..., f8 (9 files)"
