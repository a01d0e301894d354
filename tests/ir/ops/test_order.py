"""The number of partial sums is a function of the length alone."""

import pytest

from gla.ir.ops.order import partials


@pytest.mark.parametrize(("length", "count"), [(0, 1), (8, 1), (9, 32), (2048, 32), (2049, 256), (10**9, 256)])
def test_partials(length, count):
    assert partials(length) == count
