"""A kernel's form as a short key: equal for kernels that print to the same text, found in a fraction of the time that printing takes.

The runtime keeps compiled kernels under it, so that a known kernel (a new size, a later process) is not printed again. The
key counts what a printer reads, the comment lines aside. On disk it stands beside a digest of this room (runtime/cache.py): a
printer that changes changes all names there.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from operator import attrgetter
from struct import pack
from typing import TYPE_CHECKING, Any

from gla.codegen.kernel import Kernel, Product, Value
from gla.dtypes import DType

if TYPE_CHECKING:
    from gla.codegen.march import March

_UNREAD = {"doc"}
_OURS = ("gla.codegen.", "gla.plan.")


Reader = Callable[[Any], tuple[Any, ...]] | None
_readers: dict[type, Reader] = {}


def _reader(cls: type) -> Reader:
    """What a printer reads of a part of the kernel form; None for anything else."""
    named = getattr(cls, "__dataclass_fields__", None)
    if named is None or not cls.__module__.startswith(_OURS):
        return None
    return attrgetter(*(name for name in named if name not in _UNREAD))


def kernel_key(kernel: Kernel | March | Product) -> str:
    """The key of a kernel's text, whatever the printer."""
    return sha256(repr(form(kernel)).encode()).hexdigest()


def form(x: Any) -> Any:
    """A statement, value or number as nested tuples of strings and integers."""
    cls = type(x)
    if cls is Value:
        return x.id, x.dtype.name
    if cls is tuple:
        return tuple([form(part) for part in x])
    if cls is str or cls is int or x is None:
        return x
    if cls is DType:
        return x.name
    if cls is float:
        return "float", pack("<d", x).hex()  # tells -0.0 from 0.0, one NaN from another
    if cls not in _readers:
        _readers[cls] = _reader(cls)
    fields = _readers[cls]
    if fields is None:
        return cls.__name__, repr(x)
    return cls.__name__, *[form(part) for part in fields(x)]
