"""Prints a `March` as CUDA C++: a warp marches down the rows of a strip of columns, all trips of the pass at once.

A lane holds `lanes` neighbouring columns. At row s the warp loads row s of the old carries and computes row s - k * radius of trip
k from the 2 * radius + 1 last rows of trip k - 1, which stay in registers: their slots go round, and the loop over rows is unrolled
so that a slot is a register. Neighbours in a row come by shuffle; the outer lanes are halo, and what they compute beyond it is not
used. No shared memory but for numbers that change with the trip, and no barrier after the first. A grid of any size gives the
same bits: it says into how many bands the rows are cut. Cells near a border run the `border` statements, by a branch of the whole warp.
"""

from __future__ import annotations

from gla.codegen.cuda import Printer
from gla.codegen.cuda_scalars import TYPEDEFS, name
from gla.codegen.kernel import Kernel, Store
from gla.codegen.march import Cell, March
from gla.codegen.rare import uses
from gla.device.base import Geometry, Properties

WARP = 32
THREADS = 128
SHARES = 3  # warps that share a band of an outer strip
ALL = "0xffffffffu"
HELPERS = """\
__device__ __forceinline__ i32 wrapped(i32 i, i32 n) { i %= n; return i < 0 ? i + n : i; }
__device__ __forceinline__ i32 clamped(i32 i, i32 n) { return i < 0 ? 0 : i < n ? i : n - 1; }"""


def print_march(march: March) -> str:
    """The kernel's CUDA C++ source, ending in a newline. Equal marches give equal text."""
    return _March(march).run()


def march_geometry(march: March, extent: tuple[int, int, int], properties: Properties) -> Geometry:
    """A warp for each strip of each band of rows; as many bands as fill the device once."""
    _, rows, columns = extent
    strips = -(-columns // strip(march))
    line = strips + (2 * (shares(march) - 1) if strips > 2 else 0)
    least = max(1, 2 * march.steps * march.radius[0])  # rows of a band: no less than its halo
    bands = max(1, min(max(properties.multiprocessors, 1) * resident(march) // line, -(-rows // least)))
    blocks = -(-line * bands * WARP // THREADS)
    return Geometry((blocks, 1, 1), (THREADS, 1, 1), 0, rows * columns)


def resident(march: March) -> int:
    """Warps of a multiprocessor that the registers are to leave room for. Measured: a few spilled registers cost less than a quarter of the
    warps, unless there are statements for borders too."""
    return 16 if march.inner is None else 12


def shares(march: March) -> int:
    """How many warps share a band of an outer strip."""
    return SHARES if march.inner is not None and march.margin[1] else 1


def halo(march: March) -> int:
    """Columns on either side of a strip that are not its own: whole lanes."""
    return -(-march.steps * march.radius[1] // march.lanes) * march.lanes


def strip(march: March) -> int:
    return WARP * march.lanes - 2 * halo(march)


class _March:
    def __init__(self, march: March) -> None:
        self.march = march
        body = [*march.common]
        for cell in march.cells:
            body += [*cell.uniform, *cell.body]
            body += [Store(k, march.column, result) for k, result in zip(march.outputs, cell.results)]
        inner = Kernel(march.name, march.parameters, march.column, march.columns, tuple(body), doc=march.doc)
        self.printer = Printer(inner)
        self.text = self.printer.text
        self.printer.natural |= {march.row.id, march.column.id}
        self.kinds = [march.parameters[k].dtype.short for k in range(march.carries)]
        self.rows = "1" if march.rows is None else name(march.rows)
        self.columns = name(march.columns)

    def run(self) -> str:
        march, text = self.march, self.text
        self.printer.comments()
        text.lines.extend(TYPEDEFS.splitlines())
        text.lines.extend(HELPERS.splitlines())
        for k, kind in enumerate(self.kinds):
            text.line(
                f"struct __align__({march.parameters[k].dtype.itemsize * march.lanes}) Pack{k} {{ {kind} e[{march.lanes}]; }};"
            )
        text.line("")
        start = len(text.lines)
        head = f'extern "C" __global__ void __launch_bounds__({THREADS}, {resident(march) * WARP // THREADS}) {march.name}({self.printer.parameters()})'
        with text.block(head):
            self._numbers()
            self.printer.statements(march.common)
            self._uniform()
            self._strip()
            with text.block("if (packed)"):
                self._rows(packed=True)
            with text.block("else"):
                self._rows(packed=False)
        text.lines[start:start] = self.printer.outlined.lines
        return text.source()

    def _numbers(self) -> None:
        march = self.march
        (ry, rx), steps = march.radius, march.steps
        numbers = {
            "T": steps, "C": march.lanes, "RY": ry, "RX": rx, "P": 2 * ry + 1, "HX": halo(march), "HY": steps * ry,
            "V": strip(march), "MY": march.margin[0], "MX": march.margin[1], "S": SHARES,
        }  # fmt: skip
        self.text.line(f"constexpr int {', '.join(f'{k} = {v}' for k, v in numbers.items())};")

    def _uniform(self) -> None:
        """What changes with the trip alone: once a block, into shared memory."""
        march, text = self.march, self.text
        values = list(dict.fromkeys(u for cell in march.cells for u in cell.levels))
        if not values:
            return
        for value in values:  # volatile: read when they are needed, rather than kept in registers for all trips
            text.line(f"__shared__ volatile {value.dtype.short} level{value.id}[T];")
        with text.block("if (threadIdx.x < T)"):
            text.line(f"const i64 {name(march.trip)} = {name(march.first)} + (i64)threadIdx.x;")
            for cell in march.cells:
                with text.block(""):
                    self.printer.statements(cell.uniform)
                    for value in cell.levels:
                        text.line(f"level{value.id}[threadIdx.x] = {name(value)};")
        text.line("__syncthreads();")

    def _strip(self) -> None:
        """The warp's band of rows and strip of columns, and what its lanes read and write there."""
        march, text, rows, columns = self.march, self.text, self.rows, self.columns
        # By shuffle, so that the compiler knows: all of a warp takes the same way.
        text.line(f"const i32 lane = (i32)(threadIdx.x & 31u), number = __shfl_sync({ALL}, (i32)(threadIdx.x >> 5), 0);")
        text.line(f"const i32 warp = (i32)blockIdx.x * {THREADS // WARP} + number;")
        text.line(f"const i32 strips = ({columns} + V - 1) / V, warps = (i32)gridDim.x * {THREADS // WARP};")
        if shares(march) == 1:
            text.line("const i32 line = strips, parts = 1, part = 0, strip = warp % line;")
        else:
            # The outer strips run the slow statements all the way down: several warps share a band of them.
            text.line("const i32 line = strips + (strips > 2 ? 2 * (S - 1) : 0), turn = warp % line;")
            text.line("const i32 parts = strips > 2 && turn < 2 * S ? S : 1, part = turn % parts;")
            text.line("const i32 strip = strips <= 2 ? turn : turn < S ? 0 : turn < 2 * S ? strips - 1 : turn - 2 * S + 1;")
        text.line("const i32 bands = max(1, warps / line);")
        text.line(f"const i32 band = ({rows} + bands - 1) / bands, share = (band + parts - 1) / parts;")
        text.line("if (warp / line >= bands) return;")
        text.line(f"const i32 top = warp / line * band + part * share, stop = min((warp / line + 1) * band, {rows});")
        text.line("const i32 bottom = min(top + share, stop);")
        text.line("if (top >= bottom) return;")
        text.line("const i32 left = strip * V - HX, own = left + lane * C;")
        text.line(f"const bool keeps = lane * C >= HX && lane * C < HX + V && own < {columns};")
        pointers = " | ".join(f"(u64)p{k}" for k in (*range(march.carries), *march.outputs))
        size = max(march.parameters[k].dtype.itemsize for k in range(march.carries)) * march.lanes
        text.line(f"const bool packed = {columns} % C == 0 && (({pointers}) & {size - 1}u) == 0;")
        text.line("i32 at[C];")
        text.line("#pragma unroll")
        place = "wrapped" if march.wraps[1] else "clamped"
        text.line(f"for (int c = 0; c < C; ++c) at[c] = {place}(own + c, {columns});")
        if march.inner is not None and march.margin[1]:
            text.line(f"const bool middle = left >= MX && left + {WARP} * C <= {columns} - MX;")
        for k, kind in enumerate(self.kinds):
            text.line(f"{kind} w{k}[T][P][C] = {{}};")

    def _rows(self, packed: bool) -> None:
        """The march, for rows whose lanes are aligned to 16 bytes and lie within a row, or for any."""
        march, text, rows = self.march, self.text, self.rows
        place = "wrapped" if march.wraps[0] else "clamped"
        text.line(f"i32 source = {place}(top - HY, {rows});")
        self._load("0", packed)
        with text.block("for (i32 s = top - HY; s < bottom + HY;)"):
            text.line("#pragma unroll")
            with text.block("for (int p = 0; p < P; ++p, ++s)"):
                if march.wraps[0]:
                    text.line(f"if (++source == {rows}) source = 0;")
                else:
                    text.line(f"source = clamped(s + 1, {rows});")
                if march.inner is None:
                    self._levels(march.border, packed)
                    return
                inside = ["middle"] if march.margin[1] else []
                inside += [f"s - HY >= MY && s - RY < {rows} - MY"] if march.margin[0] else []
                with text.block(f"if ({' && '.join(inside)})"):
                    self._levels(march.inner, packed)
                with text.block("else"):
                    self._levels(march.border, packed)

    def _load(self, slot: str, packed: bool) -> None:
        """Row `source` of the old carries."""
        text, march = self.text, self.march
        if packed:
            # A lane's columns wrap together; those that lie beyond a grid that does not wrap are never used.
            text.line(f"const i32 from = source * {self.columns} + at[0] / C * C;")
        for k in range(march.carries):
            if packed:
                text.line(f"const Pack{k} pack{k} = *(const Pack{k}*)(p{k} + from);")
            text.line("#pragma unroll")
            element = f"pack{k}.e[c]" if packed else f"p{k}[source * {self.columns} + at[c]]"
            text.line(f"for (int c = 0; c < C; ++c) w{k}[0][{slot}][c] = {element};")

    # --- trips

    def _levels(self, cell: Cell, packed: bool) -> None:
        march, text = self.march, self.text
        used = uses(cell.body)
        text.line("#pragma unroll")
        with text.block("for (int l = 1; l <= T; ++l)"):
            if used[march.row.id]:
                place = "wrapped" if march.wraps[0] else "clamped"
                text.line(f"const i32 {name(march.row)} = {place}(s - l * RY, {self.rows});")
            for value in cell.levels:
                text.line(f"const {value.dtype.short} {name(value)} = level{value.id}[l - 1];")
            self._neighbours(cell)
            for k, kind in enumerate(self.kinds):
                text.line(f"{kind} n{k}[C];")
            text.line("#pragma unroll")
            with text.block("for (int c = 0; c < C; ++c)"):
                if used[march.column.id]:
                    text.line(f"const i32 {name(march.column)} = at[c];")
                for tap in cell.taps:
                    kind = self.kinds[tap.carry]
                    text.line(f"const {kind} {name(tap.value)} = {self._row(tap.carry, tap.down)}[RX + c + {tap.right}];")
                self.printer.statements(cell.body)
                for k, result in enumerate(cell.results):
                    text.line(f"n{k}[c] = {name(result)};")
            with text.block("if (l == 1)"):  # the oldest row of the old carries is done with: the next one takes its slot
                self._load("(p + 1) % P", packed)
            with text.block("if (l < T)"):
                text.line("#pragma unroll")
                with text.block("for (int c = 0; c < C; ++c)"):
                    for k in range(march.carries):
                        text.line(f"w{k}[l < T ? l : 0][p][c] = n{k}[c];")
            with text.block("else if (keeps && s - HY >= top && s - HY < bottom)"):
                self._store(packed)

    def _row(self, carry: int, down: int) -> str:
        return f"r{carry}_{down + self.march.radius[0]}"

    def _neighbours(self, cell: Cell) -> None:
        """The rows that the taps are in, with what neighbouring lanes hold on either side."""
        text = self.text
        rows: dict[tuple[int, int], list[int]] = {}
        for tap in cell.taps:
            rows.setdefault((tap.carry, tap.down), []).append(tap.right)
        for (carry, down), rights in rows.items():
            row = self._row(carry, down)
            text.line(f"{self.kinds[carry]} {row}[C + 2 * RX];")
            text.line("#pragma unroll")
            text.line(f"for (int c = 0; c < C; ++c) {row}[RX + c] = w{carry}[l - 1][(p + P - RY + {down}) % P][c];")
            for j in range(1, -min(rights) + 1):
                text.line(f"{row}[RX - {j}] = __shfl_up_sync({ALL}, {row}[RX + C - {j}], 1);")
            for j in range(1, max(rights) + 1):
                text.line(f"{row}[RX + C - 1 + {j}] = __shfl_down_sync({ALL}, {row}[RX + {j} - 1], 1);")

    def _store(self, packed: bool) -> None:
        """A row of the last trip."""
        text, march = self.text, self.march
        text.line(f"const i32 to = (s - HY) * {self.columns} + own;")
        for k, output in enumerate(march.outputs):
            if packed:
                text.line(f"Pack{k} pack{k};")
                text.line("#pragma unroll")
                text.line(f"for (int c = 0; c < C; ++c) pack{k}.e[c] = n{k}[c];")
                text.line(f"*(Pack{k}*)(p{output} + to) = pack{k};")
            else:
                text.line("#pragma unroll")
                text.line(f"for (int c = 0; c < C; ++c) if (own + c < {self.columns}) p{output}[to + c] = n{k}[c];")
