"""Work behind a branch as a function of its own, out of the way: `static __device__ __noinline__`.

What is seldom run should not stand between what is run always: a thread that skips it would jump over it in every place, and
wait for instructions. Equal work in several places is one function, which also compiles once. Called by the CUDA printer.
"""

from __future__ import annotations

from gla.codegen.cuda_scalars import constant, expression, name, signed
from gla.codegen.cuda_text import declare
from gla.codegen.kernel import Compute, Constant, Value
from gla.codegen.rare import Rare


class Outlined:
    """The functions of one kernel, by their text. `lines`: their definitions, to stand before the kernel."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self.lines: list[str] = []
        self._names: dict[str, str] = {}

    def call(self, rare: Rare) -> tuple[str, list[str]]:
        """(an expression that runs `rare.body`, per selection the text of the arm that it is for, with the call's value named `far`)."""
        inside = {s.result.id for s in rare.body if isinstance(s, Constant | Compute)}
        wanted = [s.args[1 if rare.when else 2] for s in rare.chosen]
        given = list(dict.fromkeys(a for s in rare.body if isinstance(s, Compute) for a in s.args if a.id not in inside))
        results = list(dict.fromkeys(v for v in wanted if v.id in inside))
        renamed = {v.id: Value(k, v.dtype) for k, v in enumerate(given)}
        body = []
        for s in rare.body:
            assert isinstance(s, Constant | Compute)
            renamed[s.result.id] = Value(len(renamed), s.result.dtype)
            body.append(_renamed(s, renamed))
        function = self._function(body, [renamed[v.id] for v in given], [renamed[v.id] for v in results])
        arms = [f"far.r{results.index(v)}" if v.id in inside else name(v) for v in wanted]
        return f"{function}({', '.join(map(name, given))})", arms

    def _function(self, body: list[Constant | Compute], given: list[Value], results: list[Value]) -> str:
        signs: dict[int, str] = {}
        lines = []
        for s in body:
            if isinstance(s, Constant):
                lines.append(declare(s.result, constant(s.value, s.result.dtype)))
                continue
            lines.append(declare(s.result, expression(s, False, signs)))
            sign = signed(s)
            if sign is not None:
                signs[s.result.id] = sign
        head = ", ".join(f"const {v.dtype.short} {name(v)}" for v in given)
        members = " ".join(f"{v.dtype.short} r{k};" for k, v in enumerate(results))
        tail = f"return {{{', '.join(map(name, results))}}};"
        key = "\n".join((head, members, *lines, tail))
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = f"{self._kernel}_far{len(self._names)}"
            self.lines += [
                "",
                f"struct {found}_results {{ {members} }};",
                f"static __device__ __noinline__ {found}_results {found}({head})",
                "{",
                *(f"  {line}" for line in (*lines, tail)),
                "}",
            ]
        return found


def _renamed(s: Constant | Compute, names: dict[int, Value]) -> Constant | Compute:
    if isinstance(s, Constant):
        return Constant(names[s.result.id], s.value)
    return Compute(names[s.result.id], s.op, tuple(names[a.id] for a in s.args), s.name)
