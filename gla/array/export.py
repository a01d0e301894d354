"""The names that the package shows besides the ones it imports: functions of the namespace, dtypes, annotations."""

from __future__ import annotations

from typing import Any

from gla import dtypes
from gla.array import exchange, layout, methods, sets, sorting
from gla.array.annotations import KINDS
from gla.array.create import copied
from gla.array.namespace import FUNCTIONS

methods.attach()
sorting.attach()
exchange.attach()

NAMES: dict[str, Any] = {
    **FUNCTIONS,
    **{d.name: d for d in dtypes.ALL if d is not dtypes.bool_},
    **KINDS,
    "bool": dtypes.bool_,
    "bool_": dtypes.bool_,
    "copy": copied,
    "diff": layout.diff,
    "from_dlpack": exchange.from_dlpack,
    "repeat": layout.repeat,
    "tile": layout.tile,
    "unique_all": sets.unique_all,
    "unique_counts": sets.unique_counts,
    "unique_inverse": sets.unique_inverse,
    "unique_values": sets.unique_values,
    "__array_api_version__": exchange.API_VERSION,
    "__array_namespace_info__": exchange.info,
}
"""Public names and what they stand for."""
