"""Prints a `March` as LLVM IR: blocks of the grid that stay in the cache, marched through row by row, all trips of the pass at once.

A block is some rows of some columns with a halo around them. Its last rows of every trip stand in rings on the stack; at row s
row s of the old carries is copied there, then row s - k * radius of trip k is computed from the rows of trip k - 1. A row is computed by a
function that is printed like any kernel over its cells, once for cells near a border and once for the others, so that rows are vectorised as
kernels are. Called through compiler.print_kernel; the geometry counts a block as GRAIN items, which is what threads share out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from gla.codegen.kernel import Compute, Constant, Kernel, Parameter, Statement, Store, Value
from gla.codegen.kernel import Load as Read
from gla.codegen.llvm import print_llvm
from gla.codegen.llvm_text import Text, memory_type
from gla.codegen.march import Cell, March
from gla.device.base import Geometry, Properties
from gla.dtypes import DType, int32, int64

GRAIN = 32  # items of a block: what threads are handed at least
ROWS = 128  # of a block
STACK = 40 << 10  # bytes of rings: what stays in the first cache
ROOM = 32  # elements beyond a row that a vector may touch


def print_march(march: March) -> str:
    """The LLVM IR module of `march`."""
    return _March(march).module()


def march_geometry(march: March, extent: tuple[int, int, int], properties: Properties) -> Geometry:
    """GRAIN items a block; `block` says what an item costs in primitives."""
    _, rows, columns = extent
    width = block_columns(march)
    blocks = -(-rows // ROWS) * -(-columns // width)
    cost = ROWS * width * march.steps * max(len(cell.body) for cell in march.cells) // GRAIN
    return Geometry(block=(cost, 1, 1), items=blocks * GRAIN)


def block_columns(march: March) -> int:
    """Columns of a block: as many as the rings hold, a multiple of 64."""
    size = sum(p.dtype.itemsize for p in march.parameters[: march.carries])
    held = STACK // (march.steps * (2 * march.radius[0] + 1) * size) - 2 * march.steps * march.radius[1] - ROOM
    return max(64, min(4096, held // 64 * 64))


class _Rows:
    """The functions that compute a part of a row, and their parameters: those of the march, then rows to read and to write, then numbers."""

    def __init__(self, march: March) -> None:
        self.march = march
        self.reads = sorted({(tap.carry, tap.down) for cell in march.cells for tap in cell.taps})
        self._last = max(_ids(march))
        self.base, self.shift, self.items = (self._value() for _ in range(3))
        self.level = self._value(int64)
        kinds = [march.parameters[k].dtype for k in range(march.carries)]
        self.parameters = (
            *march.parameters,
            *(Parameter(f"row{k}", "pointer", kinds[carry]) for k, (carry, _) in enumerate(self.reads)),
            *(Parameter(f"next{k}", "pointer", kind, None, True) for k, kind in enumerate(kinds)),
            Parameter("row", "extent", int32, march.row),
            Parameter("base", "extent", int32, self.base),
            Parameter("shift", "extent", int32, self.shift),
            Parameter("items", "extent", int32, self.items),
            Parameter("level", "scalar", int64, self.level),
        )
        self.first = len(march.parameters)  # of the rows that are read
        self.numbers = self.first + len(self.reads) + march.carries  # row, base, shift, items, level

    def _value(self, dtype: DType = int32) -> Value:
        self._last += 1
        return Value(self._last, dtype)

    def kernel(self, cell: Cell, name: str) -> Kernel:
        march, item = self.march, self._value()
        body: list[Statement] = [*march.common, Compute(march.column, "add", (item, self.base))]
        body.append(Compute(march.trip, "add", (march.first, self.level)))
        for tap in cell.taps:
            index = item
            if tap.right:
                by, index = self._value(), self._value()
                body += [Constant(by, tap.right), Compute(index, "add", (item, by))]
            body.append(Read(tap.value, self.first + self.reads.index((tap.carry, tap.down)), index))
        place = self._value()
        body += [*cell.uniform, *cell.body, Compute(place, "add", (item, self.shift))]
        outputs = self.first + len(self.reads)
        body += [Store(outputs + k, place, result) for k, result in enumerate(cell.results)]
        return Kernel(name, self.parameters, item, self.items, tuple(body))


def _ids(thing: object) -> Iterator[int]:
    """The numbers of all values in a march."""
    if isinstance(thing, Value):
        yield thing.id
    elif isinstance(thing, tuple):
        for part in thing:
            yield from _ids(part)
    elif hasattr(thing, "__dataclass_fields__"):
        for field in thing.__dataclass_fields__:
            yield from _ids(getattr(thing, field))


class _March:
    def __init__(self, march: March) -> None:
        self.march = march
        self.rows = _Rows(march)
        self.text = Text()
        self.types = [memory_type(march.parameters[k].dtype) for k in range(march.carries)]
        self.sizes = [march.parameters[k].dtype.itemsize for k in range(march.carries)]
        (self.down, self.right), self.steps = march.radius, march.steps
        self.width, self.period = block_columns(march), 2 * self.down + 1
        self.halo = self.steps * self.right
        self.pitch = self.width + 2 * self.halo + ROOM

    def module(self) -> str:
        """The driver and the row functions as one module."""
        march = self.march
        self._driver()
        head = f'define void @"{march.name}"(ptr noalias readonly %slots, i64 %begin, i64 %end) #0 {{'
        text = self.text
        own = [*(f"; {line}" for line in march.doc), head, "entry:", *text.allocas, *text.lines, "}"]
        declared: dict[str, None] = dict(text.declarations)
        parts: list[str] = []
        metadata: list[str] = []
        last = ""
        for cell, name in zip(march.cells, self._names()):
            lines = print_llvm(self.rows.kernel(cell, name)).splitlines()
            lines = [_renumbered(line, len(metadata)) for line in lines]
            for line in lines:
                if line.startswith("declare "):
                    declared[line] = None
                elif line.startswith("attributes "):
                    last = line
                elif re.match(r"!\d+ = ", line):
                    metadata.append(line)
                else:
                    parts.append(line.replace("define void", "define internal void"))
        return "\n".join([*declared, *parts, *own, last, *metadata]) + "\n"

    def _names(self) -> list[str]:
        return [f"{self.march.name}_{part}" for part in ("border", "inner")]

    # --- small pieces of text

    def _op(self, op: str, a: str, b: str) -> str:
        return self.text.emit(f"{op} i64 {a}, {b}")

    def _least(self, a: str, b: str) -> str:
        return self.text.emit(f"select i1 {self.text.emit(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def _most(self, a: str, b: str) -> str:
        return self.text.emit(f"select i1 {self.text.emit(f'icmp sgt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def _wrapped(self, i: str, n: str) -> str:
        """i modulo n, not negative."""
        rest = self._op("srem", i, n)
        return self.text.emit(
            f"select i1 {self.text.emit(f'icmp slt i64 {rest}, 0')}, i64 {self._op('add', rest, n)}, i64 {rest}"
        )

    def _slot(self, number: int) -> str:
        return self.text.emit(f"getelementptr inbounds i64, ptr %own, i64 {number}")

    @contextmanager
    def _when(self, condition: str) -> Iterator[None]:
        text = self.text
        inside, after = text.new_label("when"), text.new_label("after")
        text.do(f"br i1 {condition}, label %{inside}, label %{after}")
        text.begin(inside)
        yield
        text.branch(after)
        text.begin(after)

    def _all(self, *conditions: str) -> str:
        result = conditions[0]
        for condition in conditions[1:]:
            result = self.text.emit(f"and i1 {result}, {condition}")
        return result

    def _is(self, how: str, a: str, b: str) -> str:
        return self.text.emit(f"icmp {how} i64 {a}, {b}")

    # --- the driver

    def _driver(self) -> None:
        text, march, rows = self.text, self.march, self.rows
        count = len(rows.parameters)
        text.allocas.append(f"  %own = alloca [{count} x i64], align 64")
        for k, kind in enumerate(self.types):
            elements = self.steps * self.period * self.pitch
            text.allocas.append(f"  %ring{k} = alloca [{elements} x {kind}], align 64")
            text.declare("void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
            text.do(f"call void @llvm.memset.p0.i64(ptr align 64 %ring{k}, i8 0, i64 {elements * self.sizes[k]}, i1 false)")
        text.declare("void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        text.do(f"call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %slots, i64 {8 * len(march.parameters)}, i1 false)")
        self.pointers = {}
        for k in (*range(march.carries), *march.outputs):
            self.pointers[k] = text.emit(f"load ptr, ptr {self._slot(k)}, align 8")
        self.columns = self._extent(march.columns)
        self.count = "1" if march.rows is None else self._extent(march.rows)
        across = self._op("sdiv", self._op("add", self.columns, str(self.width - 1)), str(self.width))
        start = self._op("sdiv", self._op("add", "%begin", str(GRAIN - 1)), str(GRAIN))
        stop = self._op("sdiv", self._op("add", "%end", str(GRAIN - 1)), str(GRAIN))
        with text.counted(stop, "i64", start=start, stem="block") as block:
            top = self._op("mul", self._op("sdiv", block.counter, across), str(ROWS))
            left = self._op("mul", self._op("srem", block.counter, across), str(self.width))
            self._block(top, left)
        text.do("ret void")

    def _extent(self, value: Value) -> str:
        """An extent parameter as i64."""
        number = next(n for n, p in enumerate(self.march.parameters) if p.value is value)
        return self.text.emit(f"sext i32 {self.text.emit(f'load i32, ptr {self._slot(number)}, align 8')} to i64")

    def _block(self, top: str, left: str) -> None:
        text, march = self.text, self.march
        bottom = self._least(self._op("add", top, str(ROWS)), self.count)
        right = self._least(self._op("add", left, str(self.width)), self.columns)
        origin = self._op("sub", left, str(self.halo))
        margin = self.steps * self.down
        begin, end = self._op("sub", top, str(margin)), self._op("add", bottom, str(margin))
        if not march.wraps[0]:
            begin = self._most(begin, "0")
        with text.counted(end, "i64", start=begin, stem="row") as row:
            s = row.counter
            if march.wraps[0]:
                self._fetch(s, origin, right)
            else:
                with self._when(self._is("slt", s, self.count)):
                    self._fetch(s, origin, right)
            with text.counted(str(self.steps + 1), "i64", start="1", stem="trip") as trip:
                level = trip.counter
                j = self._op("sub", s, self._op("mul", level, str(self.down)))
                ahead = self._op("sub", str(self.steps), level)
                beyond = self._op("mul", ahead, str(self.down))
                wanted = [self._is("sge", j, self._op("sub", top, beyond)), self._is("slt", j, self._op("add", bottom, beyond))]
                if not march.wraps[0]:
                    wanted += [self._is("sge", j, "0"), self._is("slt", j, self.count)]
                with self._when(self._all(*wanted)):
                    side = self._op("mul", ahead, str(self.right))
                    low, high = self._op("sub", left, side), self._op("add", right, side)
                    if not march.wraps[1]:
                        low, high = self._most(low, "0"), self._least(high, self.columns)
                    self._level(level, j, low, high, origin)

    def _ring(self, carry: int, level: str, row: str) -> str:
        """The address of a row in a ring."""
        bias = self.steps * self.down * self.period + self.period
        turn = self._op("urem", self._op("add", row, str(bias)), str(self.period))
        place = self._op("add", self._op("mul", level, str(self.period)), turn)
        element = self._op("mul", place, str(self.pitch))
        return self.text.emit(f"getelementptr inbounds {self.types[carry]}, ptr %ring{carry}, i64 {element}")

    @contextmanager
    def _pieces(self, low: str, high: str) -> Iterator[tuple[str, str, str]]:
        """Pieces of low..high that lie within a row: (where a piece starts, where in the row, how long it is)."""
        text = self.text
        head, body, done = text.new_label("piece"), text.new_label("piece.body"), text.new_label("piece.done")
        before, x = text.label, text.fresh()
        text.branch(head)
        text.begin(head)
        phi = text.reserve()
        text.do(f"br i1 {self._is('slt', x, high)}, label %{body}, label %{done}")
        text.begin(body)
        inside = self._wrapped(x, self.columns) if self.march.wraps[1] else x
        length = self._least(self._op("sub", high, x), self._op("sub", self.columns, inside))
        yield x, inside, length
        following = self._op("add", x, length)
        text.lines[phi] = f"  {x} = phi i64 [ {low}, %{before} ], [ {following}, %{text.label} ]"
        text.branch(head)
        text.begin(done)

    def _fetch(self, s: str, origin: str, right: str) -> None:
        """Copy row s of the old carries into the rings."""
        text, march = self.text, self.march
        source = self._wrapped(s, self.count) if march.wraps[0] else s
        low, high = origin, self._op("add", right, str(self.halo))
        if not march.wraps[1]:
            low, high = self._most(low, "0"), self._least(high, self.columns)
        line = self._op("mul", source, self.columns)
        rings = [self._ring(k, "0", s) for k in range(march.carries)]
        with self._pieces(low, high) as (x, inside, length):
            for k, kind in enumerate(self.types):
                to = text.emit(f"getelementptr inbounds {kind}, ptr {rings[k]}, i64 {self._op('sub', x, origin)}")
                here = self._op("add", line, inside)
                origin_ = text.emit(f"getelementptr inbounds {kind}, ptr {self.pointers[k]}, i64 {here}")
                nbytes = self._op("mul", length, str(self.sizes[k]))
                text.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {origin_}, i64 {nbytes}, i1 false)")

    # --- a row of a trip

    def _level(self, level: str, j: str, low: str, high: str, origin: str) -> None:
        text, march, rows = self.text, self.march, self.rows
        before = self._op("sub", level, "1")
        for number, (carry, down) in enumerate(rows.reads):
            ring = self._ring(carry, before, self._op("add", j, str(down)))
            text.do(f"store ptr {ring}, ptr {self._slot(rows.first + number)}, align 8")
        last = self._is("eq", level, str(self.steps))
        line = self._op("mul", j, self.columns)
        for k, kind in enumerate(self.types):
            held = text.emit(f"select i1 {last}, i64 0, i64 {level}")
            ring = self._ring(k, held, j)
            final = text.emit(f"getelementptr {kind}, ptr {self.pointers[march.outputs[k]]}, i64 {line}")
            place = text.emit(f"select i1 {last}, ptr {final}, ptr {ring}")
            text.do(f"store ptr {place}, ptr {self._slot(rows.first + len(rows.reads) + k)}, align 8")
        row = self._wrapped(j, self.count) if march.wraps[0] else j
        shift = text.emit(f"select i1 {last}, i64 {origin}, i64 0")
        for number, value in ((0, row), (2, shift), (4, before)):
            text.do(f"store i64 {value}, ptr {self._slot(rows.numbers + number)}, align 8")
        with self._pieces(low, high) as (x, inside, length):
            at = self._op("sub", x, origin)
            text.do(f"store i64 {self._op('sub', inside, at)}, ptr {self._slot(rows.numbers + 1)}, align 8")
            self._cells(at, inside, length, row)

    def _cells(self, at: str, inside: str, length: str, row: str) -> None:
        """The cells inside..inside + length of a row, which stand from `at` on in its ring."""
        march, text = self.march, self.text
        if march.inner is None:
            self._call(0, at, self._op("add", at, length))
            return
        (my, mx), end = march.margin, self._op("add", inside, length)
        deep = self._all(self._is("sge", row, str(my)), self._is("slt", row, self._op("sub", self.count, str(my))))
        low = self._least(self._most(inside, str(mx)), end)
        high = self._most(self._least(end, self._op("sub", self.columns, str(mx))), low)
        low = text.emit(f"select i1 {deep}, i64 {low}, i64 {end}")
        high = text.emit(f"select i1 {deep}, i64 {high}, i64 {end}")
        base = self._op("sub", at, inside)
        first, last, over = self._op("add", low, base), self._op("add", high, base), self._op("add", at, length)
        for which, start, stop in ((0, at, first), (1, first, last), (0, last, over)):
            with self._when(self._is("slt", start, stop)):
                self._call(which, start, stop)

    def _call(self, which: int, start: str, stop: str) -> None:
        self.text.do(f'call void @"{self._names()[which]}"(ptr %own, i64 {start}, i64 {stop})')


def _renumbered(line: str, by: int) -> str:
    """A line whose metadata has numbers from `by` on."""
    return re.sub(r"(?<![\w\"])!(\d+)\b", lambda m: f"!{int(m.group(1)) + by}", line)
