"""`gla ir`: every stage in every form; sizes change it; no device is opened."""

import json
import re

import pytest

from tests.cli.programs import ROOT

STAGES = ["ast", "ir", "plan", "kernels", "graph"]


@pytest.mark.parametrize(
    "stage, word", [("ast", "Function"), ("ir", "multiply("), ("plan", "kernel"), ("kernels", "define"), ("graph", "kernel")]
)
def test_stages_as_text(gla, stage, word):
    told = gla("ir", "growth.gla", "--stage", stage)
    assert (told.code, told.err) == (0, "") and word in told.out


@pytest.mark.parametrize("stage", STAGES)
def test_stages_as_json(gla, stage):
    told = gla("ir", "growth.gla", "--stage", stage, "--format", "json")
    assert told.code == 0 and json.loads(told.out)


@pytest.mark.parametrize("stage", ["ast", "ir", "plan", "graph"])
def test_stages_as_graphviz(gla, stage):
    told = gla("ir", "growth.gla", "--stage", stage, "--format", "dot")
    lines = told.out.splitlines()
    assert lines[0] == "digraph gla {" and lines[-1] == "}"
    names = set(re.findall(r"^  (\w+) \[label", told.out, re.M))
    assert all(a in names and b in names for a, b in re.findall(r"^  (\w+) -> (\w+);$", told.out, re.M))


def test_kernels_have_no_drawing(gla):
    told = gla("ir", "growth.gla", "--stage", "kernels", "--format", "dot")
    assert told.code == 2 and "--stage graph" in told.err


def test_cuda_kernels_are_shown_without_a_gpu(gla):
    assert "__global__" in gla("ir", "growth.gla", "--stage", "kernels", "--device", "cuda").out


def test_one_function_and_its_sizes(gla):
    told = gla("ir", "growth.gla", "--fn", "grow", "--n", "17")
    assert told.out.startswith("grow(x: f64[17], r: f64) {")


def test_a_function_of_the_tree(gla):
    told = gla("ir", "growth.gla", "--stage", "ast", "--fn", "grow")
    assert told.out.startswith("Function")


@pytest.mark.parametrize("stage", ["ast", "ir"])
def test_an_unknown_function_names_the_nearest(gla, stage):
    told = gla("ir", "growth.gla", "--stage", stage, "--fn", "gorw")
    assert told.code == 2 and "grow?" in told.err


def test_a_program_that_does_not_check_has_a_tree_all_the_same(gla):
    assert gla("ir", "wrong.gla", "--stage", "ast").code == 0
    assert gla("ir", "wrong.gla", "--stage", "ir").code == 1


def test_a_loop_is_launched_once_and_what_follows_reads_its_result(gla):
    heat = ROOT / "examples" / "heat.gla"
    rows = json.loads(gla("ir", str(heat), "--stage", "graph", "--format", "json").out)
    assert [row["kind"] for row in rows].count("loop") == 1


def test_a_function_without_types_is_refused_with_its_parameter(gla, folder):
    (folder / "f.gla").write_text("fn f(x) = x + 1.0\nrun { print f(1.0) }\n")
    told = gla("ir", "f.gla", "--fn", "f")
    assert told.code == 1 and "GLA0414" in told.err and "x: f64" in told.err
