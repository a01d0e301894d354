"""A kernel's form as a short key: equal for kernels that print to the same text, found in a fraction of the time that printing takes.

The runtime keeps compiled kernels under it, so that a known kernel (a new size, a later process) is not printed again. The
key counts what a printer reads, the comment lines aside, and the sources of this room: a printer that changes changes all keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from struct import pack
from typing import Any

from gla.codegen.kernel import (
    Compute,
    Constant,
    ForEach,
    Function,
    If,
    Kernel,
    Load,
    Loop,
    Parameter,
    Product,
    Reduce,
    Store,
    Value,
)
from gla.codegen.march import Cell, March, TapValue
from gla.dtypes import DType
from gla.plan.tiles import Tile

_CLASSES = (Compute, Constant, ForEach, Function, If, Load, Loop, Parameter, Reduce, Store, Kernel, Product, Tile, March, Cell, TapValue)
_UNREAD = {"doc"}


def _fields(cls: type) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*(name for name in cls.__dataclass_fields__ if name not in _UNREAD))  # type: ignore[attr-defined]


_FIELDS = {cls: _fields(cls) for cls in _CLASSES}


def kernel_key(kernel: Kernel | March | Product) -> str:
    """The key of a kernel's text, whatever the printer."""
    return sha256(repr((room(), form(kernel))).encode()).hexdigest()


def form(x: Any) -> Any:
    """A statement, value or number as nested tuples of strings and integers."""
    cls = type(x)
    if cls is Value:
        return x.id, x.dtype.name
    if cls is tuple:
        return tuple([form(part) for part in x])
    fields = _FIELDS.get(cls)
    if fields is not None:
        return cls.__name__, *[form(part) for part in fields(x)]
    if cls is str or cls is int or x is None:
        return x
    if cls is DType:
        return x.name
    if cls is float:
        return "float", pack("<d", x).hex()  # tells -0.0 from 0.0, one NaN from another
    return cls.__name__, repr(x)


@cache
def room() -> str:
    """A digest of the printers' sources."""
    digest = sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
