"""Prints a `Product` as CUDA C++: a block computes a tile, its operands in shared memory, its threads' elements in registers.

The operands of the next step are fetched while the present one is multiplied. Threads that hold the same elements share out
the products: thread slice s takes the products s, s + slices, ... of a step in order, with fused multiply-adds, starting from +0;
then slices within a warp are joined by halves, warps in order. Every block of any grid computes a tile in the same way.
The epilogue runs on neighbouring elements of a row, so that its loads and stores are coalesced. Refuses what cuda.py refuses.
"""

from __future__ import annotations

from gla.codegen.cuda import Printer
from gla.codegen.cuda_scalars import TYPEDEFS, name
from gla.codegen.cuda_text import Text, declare
from gla.codegen.kernel import Compute, Constant, Kernel, Load, Product, Statement, Value
from gla.device.base import Geometry

WARP = 32
MOST_YZ = 65_535


def print_product(product: Product) -> str:
    """The kernel's CUDA C++ source, ending in a newline. Equal products give equal text."""
    return _Product(product).run()


def product_geometry(product: Product, extent: tuple[int, int, int]) -> Geometry:
    """A block a tile, as far as a grid goes; blocks go on to further tiles."""
    batches, rows, columns = extent
    tile = product.tile
    grid = (-(-rows // tile.rows), min(-(-columns // tile.columns), MOST_YZ), min(batches, MOST_YZ))
    return Geometry(grid, (tile.threads, 1, 1), 0, batches * rows * columns)


class _Product:
    def __init__(self, product: Product) -> None:
        self.product, self.tile = product, product.tile
        statements = (*product.common, *product.left, *product.right, *product.body)
        inner = Kernel(product.name, product.parameters, product.row, product.rows, statements, product.wide, doc=product.doc)
        self.printer = Printer(inner)
        self.text: Text = self.printer.text
        self.printer.natural |= {v.id for v in (product.batch, product.row, product.column, product.depth)}
        self.kind = product.total.dtype.short
        self.index = product.row.dtype.short
        self.fma = "__fmaf_rn" if product.total.dtype.itemsize == 4 else "__fma_rn"
        # A row of a staged operand: padded where threads store down the columns, so that they hit different banks.
        self.left_pitch = self.tile.rows + (4 if product.left_deep and self.tile.rows >= 8 else 0)
        self.right_pitch = self.tile.columns + (4 if product.right_deep and self.tile.columns >= 8 else 0)

    @property
    def copies(self) -> int:
        """Sums of a tile that come together in shared memory."""
        tile = self.tile
        return tile.slices if tile.group >= WARP else tile.threads // WARP

    def run(self) -> str:
        product, text, tile = self.product, self.text, self.tile
        self.printer.comments()
        text.lines.extend(TYPEDEFS.splitlines())
        start = len(text.lines)
        text.line("")
        bounds = f"{tile.threads}, {tile.blocks}" if tile.blocks > 1 else str(tile.threads)
        head = f'extern "C" __global__ void __launch_bounds__({bounds}) {product.name}({self.printer.parameters()})'
        staged = tile.depth * (self.left_pitch + self.right_pitch)
        with text.block(head):
            text.line(f"__shared__ __align__(16) {self.kind} memory[{max(staged, self.copies * tile.rows * tile.columns)}];")
            text.line(f"{self.kind}* const left = memory;")
            text.line(f"{self.kind}* const right = memory + {tile.depth * self.left_pitch};")
            self.printer.statements(product.common)
            text.line("const u32 thread = threadIdx.x;")
            text.line(f"const u32 slice = thread / {tile.group}u;")
            text.line(f"const u32 down = thread % {tile.group}u / {tile.columns // tile.right}u * {tile.down}u;")
            text.line(f"const u32 across = thread % {tile.columns // tile.right}u * {tile.right}u;")
            with (
                self._over(product.batch, product.batches, "blockIdx.z", "gridDim.z"),
                self._tiles("row", product.rows, "x", tile.rows),
                self._tiles("column", product.columns, "y", tile.columns),
            ):
                self._tile()
        text.lines[start:start] = self.printer.outlined.lines
        return text.source()

    # --- loops over tiles

    def _over(self, value: Value, count: Value, start: str, step: str):  # type: ignore[no-untyped-def]
        v = name(value)
        return self.text.block(f"for ({self.index} {v} = {start}; {v} < {name(count)}; {v} += {step})")

    def _tiles(self, what: str, count: Value, axis: str, size: int):  # type: ignore[no-untyped-def]
        start, step = f"({self.index})blockIdx.{axis} * {size}", f"({self.index})gridDim.{axis} * {size}"
        return self.text.block(f"for ({self.index} {what}0 = {start}; {what}0 < {name(count)}; {what}0 += {step})")

    def _tile(self) -> None:
        product, text, tile = self.product, self.text, self.tile
        depths = name(product.depths)
        text.line(f"{self.kind} sum[{tile.down}][{tile.right}] = {{}};")
        text.line(f"{self.kind} next_left[{tile.rows * tile.depth // tile.threads}];")
        text.line(f"{self.kind} next_right[{tile.depth * tile.columns // tile.threads}];")
        text.line(f"{self.index} depth0 = 0;")
        body = self._ahead()
        self._fetch()
        with text.block("while (true)"):
            self._stage()
            text.line("__syncthreads();")
            text.line(f"depth0 += {tile.depth};")
            text.line(f"const bool more = depth0 < {depths};")
            with text.block("if (more)"):
                self._fetch()
            self._multiply()
            text.line("__syncthreads();")
            text.line("if (!more) break;")
        self._join()
        self._epilogue(body)
        text.line("__syncthreads();")

    # --- operands

    def _fetch(self) -> None:
        """The next step's elements of both operands into registers; zero outside of the matrices."""
        product = self.product
        self._elements("left", product.row, product.rows, product.left, product.left_value, self.tile.rows, product.left_deep)
        self._elements(
            "right", product.column, product.columns, product.right, product.right_value, self.tile.columns, product.right_deep
        )

    def _elements(
        self, side: str, along: Value, count: Value, body: tuple[Statement, ...], value: Value, length: int, deep: bool
    ) -> None:
        text, product, tile = self.text, self.product, self.tile
        depth = product.depth
        what = "row" if side == "left" else "column"
        text.line("#pragma unroll")
        with text.block(f"for (u32 u = 0; u < {length * tile.depth // tile.threads}u; ++u)"):
            place, deeper = self._place(length, deep)
            text.line(f"const u32 e = u * {tile.threads}u + thread;")
            text.line(f"const {self.index} {name(along)} = {what}0 + ({self.index})({place});")
            text.line(f"const {self.index} {name(depth)} = depth0 + ({self.index})({deeper});")
            text.line(f"next_{side}[u] = 0;")
            with text.block(f"if ({name(along)} < {name(count)} && {name(depth)} < {name(product.depths)})"):
                self.printer.statements(body)
                text.line(f"next_{side}[u] = {name(value)};")

    def _place(self, length: int, deep: bool) -> tuple[str, str]:
        """(place along the tile's side, place in depth) of element e of a staged operand: neighbouring threads read neighbouring
        elements, eight or more of them, and store to different banks."""
        depth = self.tile.depth
        if not deep:
            return f"e % {length}u", f"e / {length}u"
        if length < 4:
            return f"e / {depth}u", f"e % {depth}u"
        return f"e / {4 * depth}u * 4u + e / 8u % 4u", f"e / 32u % {depth // 8}u * 8u + e % 8u"

    def _stage(self) -> None:
        tile, product, text = self.tile, self.product, self.text
        for side, length, deep, pitch in (
            ("left", tile.rows, product.left_deep, self.left_pitch),
            ("right", tile.columns, product.right_deep, self.right_pitch),
        ):
            place, deeper = self._place(length, deep)
            text.line("#pragma unroll")
            with text.block(f"for (u32 u = 0; u < {length * tile.depth // tile.threads}u; ++u)"):
                text.line(f"const u32 e = u * {tile.threads}u + thread;")
                text.line(f"{side}[({deeper}) * {pitch}u + ({place})] = next_{side}[u];")

    def _multiply(self) -> None:
        tile, text = self.tile, self.text
        trips = tile.depth // tile.slices
        text.line(f"#pragma unroll {min(8, trips)}")
        with text.block(f"for (u32 t = 0; t < {trips}u; ++t)"):
            text.line(f"const u32 d = t * {tile.slices}u + slice;")
            self._vector("a", f"left + d * {self.left_pitch}u + down", tile.down)
            self._vector("b", f"right + d * {self.right_pitch}u + across", tile.right)
            for i in range(tile.down):
                for j in range(tile.right):
                    text.line(f"sum[{i}][{j}] = {self.fma}(a{i}, b{j}, sum[{i}][{j}]);")

    def _vector(self, into: str, address: str, count: int) -> None:
        """`count` neighbouring elements of shared memory, 16 bytes at a time at most."""
        text, wide = self.text, 4 if self.kind == "f32" else 2
        for first in range(0, count, wide):
            n = min(wide, count - first)
            where = f"{address} + {first}" if first else address
            if n == 1:
                text.line(f"const {self.kind} {into}{first} = *({where});")
                continue
            vector = f"{'float' if self.kind == 'f32' else 'double'}{n}"
            text.line(f"const {vector} {into}_{first} = *(const {vector}*)({where});")
            for k in range(n):
                text.line(f"const {self.kind} {into}{first + k} = {into}_{first}.{'xyzw'[k]};")

    # --- joining slices, and what follows

    def _join(self) -> None:
        """Sums of all slices to shared memory: one copy a slice, or a warp."""
        tile, text = self.tile, self.text
        size = tile.rows * tile.columns
        head = ""
        if tile.group < WARP:
            text.line("#pragma unroll")
            with text.block(f"for (u32 s = {WARP // 2}u; s >= {tile.group}u; s >>= 1)"):
                for i in range(tile.down):
                    for j in range(tile.right):
                        text.line(f"sum[{i}][{j}] += __shfl_down_sync(0xffffffffu, sum[{i}][{j}], s, {WARP});")
            head = f"if (thread % {WARP}u < {tile.group}u)"
        copy = "slice" if tile.group >= WARP else f"thread / {WARP}u"
        with text.block(head):
            text.line(f"{self.kind}* const mine = memory + {copy} * {size}u + down * {tile.columns}u + across;")
            for i in range(tile.down):
                for j in range(tile.right):
                    text.line(f"mine[{i * tile.columns + j}] = sum[{i}][{j}];")
        text.line("__syncthreads();")

    def _ahead(self) -> tuple[Statement, ...]:
        """Where a thread has one element at most, what follows the product loads its operands before it: gives what is left. Threads
        without an element load what the last one does."""
        product, tile, text = self.product, self.tile, self.text
        if tile.rows * tile.columns > tile.threads:
            return product.body
        last = tile.rows * tile.columns - 1
        text.line(f"const u32 e = thread < {last}u ? thread : {last}u;")
        for value, count, what, place in (
            (product.row, product.rows, "row", f"e / {tile.columns}u"),
            (product.column, product.columns, "column", f"e % {tile.columns}u"),
        ):
            text.line(f"const {self.index} own_{what} = {what}0 + ({self.index})({place});")
            text.line(declare(value, f"own_{what} < {name(count)} ? own_{what} : {name(count)} - 1"))
        early, late = _independent(product.body, product.total)
        self.printer.statements(early)
        return late

    def _epilogue(self, body: tuple[Statement, ...]) -> None:
        product, tile, text = self.product, self.tile, self.text
        if body is not product.body:
            with text.block(f"if (thread == e && own_row < {name(product.rows)} && own_column < {name(product.columns)})"):
                self._joined()
                self.printer.statements(body)
            return
        size, row, column = tile.rows * tile.columns, name(product.row), name(product.column)
        unrolled = min(4, size // tile.threads)
        if unrolled > 1:
            text.line(f"#pragma unroll {unrolled}")
        with text.block(f"for (u32 e = thread; e < {size}u; e += {tile.threads}u)"):
            text.line(f"const {self.index} {row} = row0 + ({self.index})(e / {tile.columns}u);")
            text.line(f"const {self.index} {column} = column0 + ({self.index})(e % {tile.columns}u);")
            with text.block(f"if ({row} < {name(product.rows)} && {column} < {name(product.columns)})"):
                self._joined()
                self.printer.statements(body)

    def _joined(self) -> None:
        """Element e of the product, from its copies in order."""
        text, size = self.text, self.tile.rows * self.tile.columns
        text.line(f"{self.kind} joined = memory[e];")
        for k in range(1, self.copies):
            text.line(f"joined += memory[e + {k * size}u];")
        text.line(declare(self.product.total, "joined"))


def _independent(body: tuple[Statement, ...], total: Value) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """(what does not need the product, the rest)."""
    needing, early, late = {total.id}, [], []
    for s in body:
        if isinstance(s, Constant | Compute | Load) and needing.isdisjoint(_arguments(s)):
            early.append(s)
        else:
            late.append(s)
            needing.update(_results(s))
    return tuple(early), tuple(late)


def _arguments(s: Constant | Compute | Load) -> set[int]:
    return {a.id for a in s.args} if isinstance(s, Compute) else {s.index.id} if isinstance(s, Load) else set()


def _results(s: Statement) -> set[int]:
    values = (s.result,) if isinstance(s, Constant | Compute | Load) else getattr(s, "results", ())
    return {v.id for v in values}
