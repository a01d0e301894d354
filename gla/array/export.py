"""The names that the package shows besides the ones it imports: functions of the namespace, dtypes, annotations."""

from __future__ import annotations

from typing import Any

from gla import dtypes
from gla.array import methods, sorting
from gla.array.annotations import KINDS
from gla.array.create import copied
from gla.array.namespace import FUNCTIONS

methods.attach()
sorting.attach()

NAMES: dict[str, Any] = {
    **FUNCTIONS,
    **{d.name: d for d in dtypes.ALL if d is not dtypes.bool_},
    **KINDS,
    "bool": dtypes.bool_,
    "bool_": dtypes.bool_,
    "copy": copied,
}
"""Public names and what they stand for."""
