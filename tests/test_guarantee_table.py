"""docs/graphs.md: its table is what the tests' names say, every guarantee has a test, its code runs."""

from __future__ import annotations

import re

import pytest

from tests import guarantee_table as made


def test_the_table_is_current():
    text = made.PAGE.read_text()
    assert made.page(text) == text, "run: python tests/guarantee_table.py"


def test_every_guarantee_has_a_test():
    tested = {subject for _, test, _ in made.tests() for subject in made.subjects(test)}
    assert [key for key in made.TITLES if key not in tested] == []


def test_names_are_read_right():
    assert made.subjects("test_b7_one") == ["B7"]
    assert made.subjects("test_g10_g11_g125_no_call") == ["g10", "g11", "g125"]
    assert made.subjects("test_g3_numbers") == ["G3"] and made.subjects("test_g03_x") == ["g03"]
    assert made.subjects("test_a_capture") == []


@pytest.mark.parametrize("device", ["host", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_the_code_of_the_page_runs(device, capsys):
    import gla

    blocks = re.findall(r"```python\n(.*?)```", made.PAGE.read_text(), re.DOTALL)
    space: dict = {}
    with gla.device(device):
        for block in blocks:
            exec(compile(block, str(made.PAGE), "exec"), space)
    assert len(blocks) > 5
