"""What a row of the op table says. One row is one op: its type, its meaning, its lowering, its algebra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from gla.dtypes import DType, bool_, complex_of, real_of

Family = Literal["source", "elementwise", "reduce", "view", "index", "control", "library"]


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An elementwise op. Operands reach it with one dtype and one shape (the builder casts and broadcasts).

    name: of the op; arity: number of operands; kinds: dtype kinds that it takes, of "biufc".
    result: "same" as the operands, "bool", "real" (complex gives its parts' dtype), "complex" (of the parts' dtype).
    to_float: integers and bool are taken to the default float first (sin, exp, true_divide).
    reference(*arrays): NumPy's meaning on arrays of the row's dtype, the oracle of every test.
    expand(s, dtype, *values): the meaning in primitives of `Scalars`; complex values are (re, im) pairs of values.
    mixed: operands whose dtype is not promoted with the rest (where's condition, shift counts): their positions.
    commutative, associative: exact over every dtype that `kinds` names (float add is not associative).
    identity: the value that leaves the other operand as it is, exactly, or None.
    cost: about how many machine operations, for the planner's choice between recomputing and storing.
    sample: the domain tests draw from: (low, high) for real numbers.
    doc: one line for people.
    """

    name: str
    arity: int
    kinds: str
    reference: Callable[..., Any]
    expand: Callable[..., Any]
    doc: str
    result: Literal["same", "bool", "real", "complex"] = "same"
    to_float: bool = False
    mixed: tuple[int, ...] = ()
    commutative: bool = False
    associative: bool = False
    identity: float | bool | None = None
    cost: int = 1
    sample: tuple[float, float] = (-4.0, 4.0)

    def result_dtype(self, dtype: DType) -> DType:
        if self.result == "same":
            return dtype
        return {"bool": bool_, "real": real_of(dtype), "complex": complex_of(dtype)}[self.result]


@dataclass(frozen=True, slots=True)
class Structural:
    """An op that is not elementwise. `reference(node, *arrays)` is NumPy's meaning; types are made by ir/functions and held to
    by ir/verify."""

    name: str
    family: Family
    reference: Callable[..., Any]
    doc: str
