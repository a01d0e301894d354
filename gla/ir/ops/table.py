"""The table of ops: one dict of elementwise rows, one of structural rows. Whoever needs an op asks here.

A node's attrs go to its row by name: `row.expand(s, operand dtype, *values, **attrs)` and `row.reference(*arrays, **attrs)`;
only `cast` (dtype) and `philox` (word) have any. float16 and bfloat16 never reach `expand` (values are taken to float32 and
back with `casts.convert`), but for `cast` and `nextafter`, which take and give their uint16 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType

from gla.ir.ops import arithmetic, casts, comparison, functions, integer, philox
from gla.ir.ops.row import Elementwise, Structural

_MODULES = (arithmetic, comparison, integer, functions, casts, philox)

ELEMENTWISE: Mapping[str, Elementwise] = MappingProxyType({row.name: row for module in _MODULES for row in module.ROWS})


def elementwise(name: str) -> Elementwise:
    """The elementwise row of that name; KeyError when there is none."""
    return ELEMENTWISE[name]


def is_elementwise(name: str) -> bool:
    return name in ELEMENTWISE


def structural(name: str) -> Structural:
    """The structural row of that name; KeyError when there is none."""
    return _structural()[name]


def rows() -> Iterator[Elementwise | Structural]:
    """Every row, elementwise ones first, in the order of the files."""
    yield from ELEMENTWISE.values()
    yield from _structural().values()


@cache
def _structural() -> Mapping[str, Structural]:
    # Late, since structural rows may need the types and builders that stand on this table.
    if find_spec("gla.ir.ops.structural") is None:
        return MappingProxyType({})
    return MappingProxyType({row.name: row for row in import_module("gla.ir.ops.structural").ROWS})
