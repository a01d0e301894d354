"""The driver layer fits both bindings: the installed ones by looking, version 13 by a list of its signatures."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest
from cuda.bindings import driver

from gla.device.cuda import bindings
from gla.device.cuda.bindings import PLAIN, RENAMED, Table
from gla.errors import DeviceError

# each line: a function of cuda-bindings 13.5 and its parameters; = marks one with a default
SIGNATURES_13 = {
    words[0]: words[1:]
    for line in Path(__file__).with_name("signatures_13.txt").read_text().splitlines()
    if (words := line.split())
}


def parameters(function):
    return [p.name + "=" * (p.default is not p.empty) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_function_takes_the_same_in_both(name):
    assert parameters(getattr(driver, name)) == SIGNATURES_13[name]


@pytest.mark.parametrize("ours", RENAMED)
def test_a_renamed_function_takes_the_same_under_both_names(ours):
    old, new = RENAMED[ours]
    installed = old if bindings.version() < (13,) else new
    assert parameters(getattr(driver, installed)) == SIGNATURES_13[new]


@pytest.mark.parametrize(("major", "expected"), [(12, "cuStreamGetCaptureInfo_v3"), (13, "cuStreamGetCaptureInfo")])
def test_the_name_is_chosen_by_the_version(major, expected):
    named = {name: name for name in (*PLAIN, *(name for pair in RENAMED.values() for name in pair))}
    assert Table(SimpleNamespace(**named), major).capture_info == expected


def test_what_the_layer_does_not_name_is_not_there():
    with pytest.raises(AttributeError, match="does not use 'cuCtxSynchronize'"):
        bindings.load().cuCtxSynchronize  # noqa: B018


def test_the_signatures_kept_are_of_what_is_used():
    assert sorted(SIGNATURES_13) == sorted([*PLAIN, *(new for _, new in RENAMED.values())])


def test_a_context_is_never_synchronised_nor_destroyed():
    assert not [name for name in PLAIN if name.startswith("cuCtx") and name not in ("cuCtxSetCurrent", "cuCtxGetCurrent")]


def test_missing_bindings_name_what_to_install(monkeypatch):
    monkeypatch.setattr(bindings.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"cuda-bindings") as caught:
        bindings.version()
    assert 'pip install "gla[cuda1' in str(caught.value)


def test_old_bindings_are_refused(monkeypatch):
    import cuda.bindings

    monkeypatch.setattr(cuda.bindings, "__version__", "12.8.0")
    with pytest.raises(DeviceError, match=r"cuda-bindings 12\.8\.0 is too old"):
        bindings.version()
