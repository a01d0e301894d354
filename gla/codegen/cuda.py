"""Prints a kernel as CUDA C++: one self-contained `extern "C" __global__` function that includes nothing.

Called by the runtime when it builds a plan's kernels, and by tests. Each thread (or team) serves items in a grid-stride
loop, so every grid gives the same bits. No pointer is `__restrict__`: a plan may write a kernel's result over its input,
and then two parameters hold one address. Refuses (InternalError) primitives that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable

from gla.codegen.cuda_functions import hopeful, print_functions
from gla.codegen.cuda_geometry import BATCHES, LANES, UNROLL, check_team, max_threads, unrolls
from gla.codegen.cuda_outline import Outlined
from gla.codegen.cuda_reduce import Teams
from gla.codegen.cuda_scalars import TYPEDEFS, constant, expression, memory_type, name, signed
from gla.codegen.cuda_text import Text, declare
from gla.codegen.hold import held
from gla.codegen.kernel import Compute, Constant, ForEach, If, Kernel, Load, Loop, Reduce, Statement, Store, Value
from gla.codegen.rare import Rare, uses, with_branches
from gla.codegen.rows import Rows, rows_of
from gla.errors import InternalError


def print_cuda(kernel: Kernel) -> str:
    """The kernel's CUDA C++ source, ending in a newline. Equal kernels give equal text."""
    check_team(kernel)
    return Printer(kernel).run()


class Printer:
    """State while one kernel is printed.

    serial: inside a loop whose indices the team shares out: each thread is on its own there, and stores for itself.
    uniform: whether all threads of the block run the statement at hand equally often, so that a barrier may stand there.
    known: values that are the same in all threads of the grid.
    dirty, read: whether the team has stored, has loaded something since its last barrier. ahead: whether members share out
    work later on, so that what each of them loaded matters. See `_settle_before`.
    signed: negations and absolute values that arithmetic takes as they are. uses: how often each value is named.
    natural: values that are not negative: item numbers, counters, indices, what dividing them gives. Their divisions are
    done unsigned, which the machine does with a third fewer instructions. An extent that divides is a size.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel = held(kernel) if kernel.held is not None else kernel
        self.text = Text()
        self.teams = Teams(kernel, self.text, self.statements, self.one_thread)
        self.serial = kernel.team == 1
        self.uniform = True
        self.dirty = self.read = self.ahead = False
        self.known = {p.value.id for p in kernel.parameters if p.value is not None}
        self.uses = uses(kernel.body)
        self.outlined = Outlined(kernel.name)
        self.signed: dict[int, str] = {}
        self.way = ""
        self.natural = {kernel.item.id, *(p.value.id for p in kernel.parameters if p.value is not None and p.kind == "extent")}

    def run(self) -> str:
        kernel, text = self.kernel, self.text
        self.comments()
        text.lines.extend(TYPEDEFS.splitlines())
        start = len(text.lines)
        text.lines.extend(print_functions(kernel, self._within))
        text.line("")
        text.line(f'extern "C" __global__ void __launch_bounds__({max_threads(kernel)}) {kernel.name}({self.parameters()})')
        with text.block(""):
            shared = self.teams.shared_bytes()
            if shared:
                text.line(f"__shared__ __align__(16) u8 team_memory[{shared}];")
            if kernel.held is not None:
                count, width = kernel.held
                text.line("extern __shared__ __align__(16) u8 held_memory[];")
                text.line(f"u8* const held_row = held_memory + threadIdx.y * (u32){name(count)} * {width}u;")
            self._items()
        text.lines[start:start] = self.outlined.lines
        return text.source()

    def _within(self, kernel: Kernel) -> Printer:
        """A printer for a function of the kernel."""
        inner = Printer(kernel)
        inner.outlined = self.outlined
        return inner

    def comments(self) -> None:
        for line in self.kernel.doc:
            self.text.line(f"// {line}")
        for i, p in enumerate(self.kernel.parameters):
            if p.kind == "pointer":
                self.text.line(f"// p{i}: {p.name}{', written' if p.writable else ''}")

    def parameters(self) -> str:
        """The parameter list."""
        texts = []
        for i, p in enumerate(self.kernel.parameters):
            if p.kind == "pointer":
                texts.append(f"{'' if p.writable else 'const '}{memory_type(p.dtype)}* p{i}")
            elif p.value is not None:
                texts.append(f"const {p.value.dtype.short} {name(p.value)}")
        return ", ".join(texts)

    # --- the loop over items

    def _items(self) -> None:
        kernel = self.kernel
        rows = rows_of(kernel)
        if rows is not None:
            self._items_rows(rows)
        elif kernel.team == 1:
            self._items_single()
        elif kernel.across:
            self._items_across()
        else:
            self._items_teams()

    @property
    def _counter(self) -> str:
        return "u64" if self.kernel.wide else "u32"

    def _items_single(self) -> None:
        text, kernel, counter = self.text, self.kernel, self._counter
        text.line(f"const {counter} stride = ({counter})gridDim.x * blockDim.x;")
        text.line(f"{counter} at = ({counter})blockIdx.x * blockDim.x + threadIdx.x;")
        self._indices(kernel.item, kernel.items, "at", "stride", kernel.body)

    def _items_rows(self, rows: Rows) -> None:
        """x runs over columns, y over groups of neighbouring rows: a thread stays in its column. The last row may be short."""
        text, kernel, counter = self.text, self.kernel, self._counter
        group = UNROLL if unrolls(kernel.body) else 1
        text.line(f"const {counter} columns = ({counter}){name(rows.columns)}, items = ({counter}){name(kernel.items)};")
        text.line(f"const {counter} width = columns < items ? columns : items;")
        start, step = f"({counter})blockIdx.x * blockDim.x + threadIdx.x", f"({counter})gridDim.x * blockDim.x"
        with text.block(f"for ({counter} column = {start}; column < width; column += {step})"):
            text.line(f"const {counter} rows = (items - 1u - column) / columns + 1u;")
            if rows.column is not None:
                self.natural.add(rows.column.id)
                text.line(declare(rows.column, f"({rows.column.dtype.short})column"))
            self.natural.add(rows.row.id)
            self.statements(rows.fixed)
            start, step = f"(({counter})blockIdx.y * blockDim.y + threadIdx.y)", f"({counter})gridDim.y * blockDim.y"
            if group == 1:
                with text.block(f"for ({counter} row = {start}; row < rows; row += {step})"):
                    self._row(rows, "row")
                    self.statements(rows.moving)
                return
            deep, step = BATCHES * group, f"{step} * {BATCHES * group}u"
            with text.block(f"for ({counter} first = {start} * {deep}u; first < rows; first += {step})"):
                text.line(f"const {counter} end = rows - first < {deep}u ? rows : first + {deep}u;")
                text.line(f"{counter} row = first;")
                with text.block(f"for (; row < end && end - row >= {group}u; row += {group}u)"):
                    self._unrolled(lambda: self._row(rows, "row + u"), rows.moving)
                with text.block("for (; row < end; ++row)"):
                    self._row(rows, "row")
                    self.statements(rows.moving)

    def _row(self, rows: Rows, number: str) -> None:
        kind, item = rows.row.dtype.short, self.kernel.item
        self.text.line(declare(rows.row, f"({kind})({number})"))
        self.text.line(declare(item, f"({kind})(({number}) * columns + column)"))

    def _indices(self, index: Value, count: Value, at: str, stride: str, body: tuple[Statement, ...]) -> None:
        """`body` for index = at, at + stride, ... below count. Unsigned, so that adding the stride cannot overflow."""
        text, counter = self.text, "u64" if index.dtype.itemsize == 8 else "u32"
        end = f"({counter}){name(count)}"
        if unrolls(body) and not (body is self.kernel.body and hopeful(self.kernel)):
            with text.block(f"for (; {at} < {end} && {end} - {at} > {UNROLL - 1}u * {stride}; {at} += {UNROLL}u * {stride})"):
                self._unrolled(lambda: text.line(declare(index, f"({index.dtype.short})({at} + u * {stride})")), body)
        with text.block(f"for (; {at} < {end}; {at} += {stride})"):
            text.line(declare(index, f"({index.dtype.short}){at}"))
            if body is self.kernel.body and hopeful(self.kernel):
                self._hopefully(body)
            else:
                self.statements(body)

    def _hopefully(self, body: tuple[Statement, ...]) -> None:
        """Without rare work; and once more with it where that was needed. See cuda_functions.py."""
        text = self.text
        stores = tuple(s for s in body if isinstance(s, Store))
        rest = tuple(s for s in body if not isinstance(s, Store))
        text.line("bool rare = false;")
        self.way = "quick"
        self.statements(rest)
        self.way = ""
        with text.block("if (rare)"):
            self.statements(rest)
            self.statements(stores)
            text.line("continue;")
        self.statements(stores)

    def _unrolled(self, declare_index: Callable[[], None], body: tuple[Statement, ...]) -> None:
        """All loads of several indices, then all their stores: equal bits, more bytes in flight."""
        text = self.text
        stores = [s for s in body if isinstance(s, Store)]
        for k, store in enumerate(stores):
            text.line(f"{store.value.dtype.short} value{k}[{UNROLL}]; {store.index.dtype.short} index{k}[{UNROLL}];")
        text.line("#pragma unroll")
        with text.block(f"for (u32 u = 0; u < {UNROLL}u; ++u)"):
            declare_index()
            self.statements(tuple(s for s in body if not isinstance(s, Store)))
            for k, store in enumerate(stores):
                text.line(f"value{k}[u] = {name(store.value)}; index{k}[u] = {name(store.index)};")
        text.line("#pragma unroll")
        with text.block(f"for (u32 u = 0; u < {UNROLL}u; ++u)"):
            for k, store in enumerate(stores):
                text.line(f"p{store.pointer}[index{k}[u]] = value{k}[u];")

    def _items_teams(self) -> None:
        """A team is threadIdx.x; teams of a block are rows of threads, and lie within a warp each or are alone."""
        text, kernel, counter = self.text, self.kernel, self._counter
        count = f"({counter}){name(kernel.items)}"
        text.line("const u32 member = threadIdx.x;")
        if kernel.team < LANES:
            text.line(f"const u32 team_mask = {(1 << kernel.team) - 1:#x}u << (threadIdx.y * {kernel.team}u & 31u);")
        elif kernel.team == LANES:
            text.line("const u32 team_mask = 0xffffffffu;")
        start = f"({counter})blockIdx.x * blockDim.y + threadIdx.y"
        with text.block(f"for ({counter} at = {start}; at < {count}; at += ({counter})gridDim.x * blockDim.y)"):
            text.line(declare(kernel.item, f"({kernel.item.dtype.short})at"))
            self.statements(kernel.body)

    def _items_across(self) -> None:
        """A team is threadIdx.y; neighbours in x are neighbouring items. The whole block goes round together, since its
        barriers are the block's; where items run out, threads repeat the last item and store nothing."""
        text, kernel, counter = self.text, self.kernel, self._counter
        count = f"({counter}){name(kernel.items)}"
        text.line("const u32 member = threadIdx.y;")
        start = f"({counter})blockIdx.x * {LANES}u"
        with text.block(f"for ({counter} base = {start}; base < {count}; base += ({counter})gridDim.x * {LANES}u)"):
            text.line(f"const {counter} at = base + threadIdx.x;")
            text.line(f"const bool active = at < {count};")
            text.line(declare(kernel.item, f"({kernel.item.dtype.short})(active ? at : {count} - 1u)"))
            self.statements(kernel.body)

    # --- statements

    def statements(self, body: tuple[Statement, ...]) -> None:
        parts = with_branches(body, self.uses)
        if self.serial:
            for part in parts:
                self._statement(part)
            return
        body = parts  # type: ignore[assignment]
        shared = [k for k, statement in enumerate(body) if _shares(statement)]
        last = shared[-1] if shared else -1
        ahead = self.ahead
        for k, statement in enumerate(body):
            self.ahead = ahead or k < last
            self._settle_before(statement)
            self._statement(statement)
        self.ahead = ahead

    def _settle_before(self, statement: Statement) -> None:
        """A barrier before the team reads what a member stored; and before a member stores where a slower one may still have
        to read (a result may lie over an input), when that one's value is used for more than a store that it leaves out."""
        reads_stored = self.dirty and _loads_from(statement, self._written())
        stores = isinstance(statement, ForEach) and _stores(statement)
        if reads_stored or (self.read and (stores or (isinstance(statement, Store) and self.ahead))):
            self._settle()

    def _statement(self, statement: Statement | Rare) -> None:
        match statement:
            case Constant():
                self.known.add(statement.result.id)
                if statement.result.dtype.kind in "iu" and statement.value >= 0:
                    self.natural.add(statement.result.id)
                self.text.line(declare(statement.result, constant(statement.value, statement.result.dtype)))
            case Compute():
                self._compute(statement)
            case Load():
                element = self._element(statement)
                self.text.line(declare(statement.result, f"{element} != 0" if statement.result.dtype.kind == "b" else element))
                self.read = self.read or statement.pointer >= 0
            case Store():
                self._store(statement)
            case Rare():
                self._rare(statement)
            case If():
                with self.text.block(f"if ({name(statement.condition)})"), self._maybe(statement.condition.id in self.known):
                    self.statements(statement.body)
            case Loop():
                self._loop(statement)
            case Reduce():
                self.natural.add(statement.index.id)
                if self.serial or (self.kernel.across and not self.uniform):
                    self.teams.serial(statement)
                else:
                    self.teams.shared_out(statement)
                    self.read = False  # no member has the result before all have read
            case ForEach():
                self._for_each(statement)
            case _:
                raise InternalError("GLA9962", f"{type(statement).__name__} is not a statement of kernels")

    def _rare(self, rare: Rare) -> None:
        """The other arms first; then, where a thread needs them, the work and the arms that it is for."""
        text = self.text
        if self.way == "quick":
            for s in rare.chosen:
                text.line(declare(s.result, name(s.args[2 if rare.when else 1])))
            text.line(f"rare |= {'' if rare.when else '!'}{name(rare.condition)};")
            return
        for s in rare.chosen:
            text.line(f"{s.result.dtype.short} {name(s.result)} = {name(s.args[2 if rare.when else 1])};")
        head = f"if ({'' if rare.when else '!'}{name(rare.condition)})"
        if self.way == "called":
            with text.block(head):
                self.statements(rare.body)
                for s in rare.chosen:
                    text.line(f"{name(s.result)} = {name(s.args[1 if rare.when else 2])};")
            return
        call, arms = self.outlined.call(rare)
        with text.block(head):
            text.line(f"const auto far = {call};")
            for s, arm in zip(rare.chosen, arms):
                text.line(f"{name(s.result)} = {arm};")

    def _compute(self, statement: Compute) -> None:
        if all(v.id in self.known for v in statement.args):
            self.known.add(statement.result.id)
        natural = all(v.id in self.natural for v in statement.args)
        if natural and statement.op in ("idiv", "irem"):
            self.natural.add(statement.result.id)
        text = signed(statement)
        if text is not None:
            self.signed[statement.result.id] = text
        if statement.op == "apply" and self.way == "quick":
            given = ", ".join(name(v) for v in statement.args)
            self.text.line(declare(statement.result, f"{statement.name}_quick({given}, rare)"))
            return
        self.text.line(declare(statement.result, expression(statement, natural, self.signed)))

    def _element(self, at: Load | Store) -> str:
        """An element of an array, or of what is held of the item's row."""
        if at.pointer >= 0:
            return f"p{at.pointer}[{name(at.index)}]"
        dtype = (at.result if isinstance(at, Load) else at.value).dtype
        assert self.kernel.held is not None
        slot = -1 - at.pointer
        place = f"held_row + (u32){name(self.kernel.held[0])} * {slot * dtype.itemsize}u" if slot else "held_row"
        return f"(({dtype.short}*)({place}))[{name(at.index)}]"

    def _store(self, statement: Store) -> None:
        element = f"{self._element(statement)} = {name(statement.value)};"
        if self.serial:
            self.text.line(element)
            return
        self.dirty = True
        self.text.line(f"if (member == 0{' && active' if self.kernel.across else ''}) {element}")

    def _loop(self, loop: Loop) -> None:
        text = self.text
        for carried, init in zip(loop.carried, loop.inits):
            text.line(f"{carried.dtype.short} {name(carried)} = {name(init)};")
        counter = name(loop.counter)
        self.natural.add(loop.counter.id)
        even = loop.until is None and loop.count.id in self.known
        inside, ahead = (*loop.guard, *loop.body), self.ahead
        if not self.serial:  # an iteration follows the one before
            self.ahead = ahead or any(map(_shares, inside))
            self.read = self.read or any(_loads_from(s, None) for s in inside)
        if even and self.uniform:
            self.known.add(loop.counter.id)
        with text.block(f"for ({loop.counter.dtype.short} {counter} = 0; {counter} < {name(loop.count)}; ++{counter})"):
            with self._maybe(even):
                self.statements(loop.guard)
                if loop.until is not None:
                    text.line(f"if (!{name(loop.until)}) break;")
                self.statements(loop.body)
                if not self.serial and self.dirty and any(_loads_from(s, self._written()) for s in inside):
                    self._settle()
            self._advance(loop.carried, loop.next)
        self.ahead = ahead
        for result, carried in zip(loop.results, loop.carried):
            text.line(declare(result, name(carried)))

    def _advance(self, carried: tuple[Value, ...], following: tuple[Value, ...]) -> None:
        """All carries change at once: a carry that another one becomes is kept first."""
        moved = {c.id for c in carried}
        kept = {}
        for value in following:
            if value.id in moved and value.id not in kept:
                kept[value.id] = f"kept{value.id}"
                self.text.line(f"const {value.dtype.short} {kept[value.id]} = {name(value)};")
        for target, value in zip(carried, following):
            if target is not value:
                self.text.line(f"{name(target)} = {kept.get(value.id, name(value))};")

    def _for_each(self, loop: ForEach) -> None:
        at, shared = f"k{loop.index.id}", not self.serial
        self.natural.add(loop.index.id)
        start, stride = ("member", f"{self.kernel.team}u") if shared else ("0", "1u")
        with self.text.block("if (active)" if shared and self.kernel.across else ""), self.one_thread():
            self.text.line(f"{'u64' if loop.index.dtype.itemsize == 8 else 'u32'} {at} = {start};")
            self._indices(loop.index, loop.count, at, stride, loop.body)
        if shared and _stores(loop):
            self.dirty = True

    # --- what the team does together

    def one_thread(self) -> _Scope:
        """Inside, a thread is on its own: its reductions and stores are not the team's."""
        return _Scope(self, serial=True)

    def _maybe(self, even: bool) -> _Scope:
        return _Scope(self, uniform=self.uniform and even)

    def _written(self) -> frozenset[int]:
        return frozenset(i for i, p in enumerate(self.kernel.parameters) if p.writable)

    def _settle(self) -> None:
        """A barrier of the team."""
        if self.kernel.across and not self.uniform:
            raise InternalError(
                "GLA9960",
                f"kernel '{self.kernel.name}' reads what its team writes where no barrier can stand: give it a team of 1",
            )
        warp = not self.kernel.across and self.kernel.team <= LANES
        self.text.line("__syncwarp(team_mask);" if warp else "__syncthreads();")
        self.dirty = self.read = False


class _Scope:
    """Sets fields of a printer for the length of a `with`."""

    def __init__(self, printer: Printer, **fields: bool) -> None:
        self.printer, self.fields = printer, fields

    def __enter__(self) -> None:
        self.before = {k: getattr(self.printer, k) for k in self.fields}
        for k, v in self.fields.items():
            setattr(self.printer, k, v)

    def __exit__(self, *_: object) -> None:
        for k, v in self.before.items():
            setattr(self.printer, k, v)


def _inner(statement: Statement) -> tuple[Statement, ...]:
    """The statements inside a statement."""
    match statement:
        case If() | ForEach():
            return statement.body
        case Loop():
            return (*statement.guard, *statement.body)
        case Reduce():
            return (*statement.body, *statement.combine)
    return ()


def _loads_from(statement: Statement, pointers: frozenset[int] | None) -> bool:
    """Whether it loads from one of the pointers (None: from any)."""
    if isinstance(statement, Load):
        return statement.pointer >= 0 and (pointers is None or statement.pointer in pointers)
    return any(_loads_from(s, pointers) for s in _inner(statement))


def _shares(statement: Statement) -> bool:
    """Whether members of a team share out work in it."""
    return isinstance(statement, Reduce | ForEach) or any(_shares(s) for s in _inner(statement))


def _stores(statement: Statement) -> bool:
    return isinstance(statement, Store) or any(_stores(s) for s in _inner(statement))
