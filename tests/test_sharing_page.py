"""The examples of docs/sharing.md run as they stand, and give what they say."""

import re
from pathlib import Path

import numpy as np

import gla

PAGE = Path(__file__).parents[1] / "docs" / "sharing.md"


def test_the_examples_run_and_give_what_they_say():
    names = {}
    with gla.device("host"):
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
            exec(compile(block, str(PAGE), "exec"), names)
            if "x += 10" in block:
                assert names["a"].tolist() == [10.0, 11.0, 12.0, 13.0]
            if "exe()" in block:
                assert np.asarray(names["y"]).tolist() == [2.0, 2.0, 2.0, 2.0]
    assert names["k"].name == "scale"
