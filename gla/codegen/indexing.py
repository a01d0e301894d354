"""Views as index maps: handlers that turn an index of a node into indices of its operands.

No read leaves memory, whatever branch is taken: an index that may lie outside is replaced by a safe one before it is used.
Divisions are avoided: a wrapped index is at most one length beyond its axis, since offsets are reduced when arguments are made.
Empty operands are never read. Called by `Lowering` through the table in loops.py.
"""

from __future__ import annotations

from gla.codegen.affine import ONE, START, ZERO, Affine, Index, Poly, number, strides
from gla.codegen.context import Env, Lowering, Steps, Truth
from gla.codegen.extents import is_whole, reshape_groups
from gla.dtypes import int64
from gla.errors import InternalError
from gla.ir.node import Node


def broadcast(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    operand = node.operands[0]
    inner = index[len(index) - len(operand.shape) :]
    return (yield operand, tuple(START if n == 1 else form for n, form in zip(operand.shape, inner)), env)


def reshape(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    operand = node.operands[0]
    out = [START] * len(operand.shape)
    extents = low.extents.of(operand)
    shape = low.extents.of(node)
    for left, right in reshape_groups(operand.shape, node.shape) or ():
        linear = low.indices.dot((index[a] for a in right), strides(tuple(shape[a] for a in right)))
        for axis, form in zip(left, low.indices.unravel(linear, tuple(extents[a] for a in left))):
            out[axis] = form
    return (yield operand, tuple(out), env)


def transpose(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    axes = node.attr("axes")
    out = [START] * len(axes)
    for form, source in zip(index, axes):
        out[source] = form
    return (yield node.operands[0], tuple(out), env)


def slice_(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    operand = node.operands[0]
    out = []
    for axis, (start, step, form) in enumerate(zip(node.attr("starts"), node.attr("steps"), index)):
        of = low.extents.extent(operand, axis, operand.shape[axis])
        stepped = form if node.shape[axis] == 1 else low.indices.scale(form, low.extents.step(step, of))
        out.append(low.indices.shifted(stepped, low.extents.near(start, operand.shape[axis], of)))
    return (yield operand, tuple(out), env)


# --- shifts


def shift(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    inside: Truth = True
    out = []
    for axis, (offset, mode) in enumerate(zip(node.attr("offsets"), node.attr("modes"))):
        form = index[axis]
        if offset != 0:
            if mode == "constant":
                truth, form = _shift_constant(low, node, axis, offset, form)
                inside = low.both(inside, truth)
            else:
                form = _MODES[mode](low, node, axis, offset, form)
        out.append(form)
    value = yield node.operands[0], tuple(out), env
    return value if inside is True else low.choose(inside, value, low.literal(node.attr("fill"), node.dtype))


def _offset(low: Lowering, node: Node, axis: int, offset: int, period: int, mode: str) -> Poly:
    """The offset, reduced to 0 <= offset < period when arguments are made; the text knows no more than that it is an offset."""
    extent = low.extents.extent(node, axis, node.shape[axis])
    if extent.constant is not None:
        return number(offset % period)
    return low.extents.symbol(offset % period, (mode, extent, offset))


def _wrap(low: Lowering, form: Affine, period: Poly) -> Affine:
    """form modulo period, for form < 2 period."""
    return low.choose_index(low.below(form, period), form, low.indices.shifted(form, ZERO - period), period)


def _shift_periodic(low: Lowering, node: Node, axis: int, offset: int, form: Affine) -> Affine:
    n = node.shape[axis]
    if n == 1:
        return START
    extent = low.extents.extent(node, axis, n)
    return _wrap(low, low.indices.shifted(form, _offset(low, node, axis, offset, n, "periodic")), extent)


def _shift_edge(low: Lowering, node: Node, axis: int, offset: int, form: Affine) -> Affine:
    n = node.shape[axis]
    if n == 1:
        return START
    extent = low.extents.extent(node, axis, n)
    offset = max(-n, min(n, offset))
    by = low.extents.near(abs(offset), n, extent)
    if offset > 0:
        moved = low.indices.shifted(form, by)
        return low.choose_index(low.below(moved, extent), moved, Affine(extent - ONE), extent)
    return low.choose_index(low.below(form, by), START, low.indices.shifted(form, ZERO - by), extent)


def _shift_reflect(low: Lowering, node: Node, axis: int, offset: int, form: Affine) -> Affine:
    """Mirrored at the first and last element, which are not repeated: period 2 (n - 1)."""
    n = node.shape[axis]
    if n == 1:
        return START
    extent = low.extents.extent(node, axis, n)
    period = (extent - ONE) * number(2)
    moved = low.indices.shifted(form, _offset(low, node, axis, offset, 2 * (n - 1), "reflect"))
    return _mirror(low, _wrap(low, moved, period), extent, period)


def _shift_symmetric(low: Lowering, node: Node, axis: int, offset: int, form: Affine) -> Affine:
    """Mirrored between the first element and a repetition of it: period 2 n."""
    n = node.shape[axis]
    if n == 1:
        return START
    extent = low.extents.extent(node, axis, n)
    period = extent * number(2)
    moved = low.indices.shifted(form, _offset(low, node, axis, offset, 2 * n, "symmetric"))
    return _mirror(low, _wrap(low, moved, period), extent, period - ONE)


def _mirror(low: Lowering, form: Affine, extent: Poly, top: Poly) -> Affine:
    """form where it is below the extent, else top - form."""
    turned = low.indices.shifted(low.indices.scale(form, number(-1)), top)
    return low.choose_index(low.below(form, extent), form, turned, extent)


def _shift_constant(low: Lowering, node: Node, axis: int, offset: int, form: Affine) -> tuple[Truth, Affine]:
    """Whether form + offset is an element, and its index, or `form` where it is none."""
    n = node.shape[axis]
    if abs(offset) >= n:
        return False, form
    extent = low.extents.extent(node, axis, n)
    by = low.extents.near(abs(offset), n, extent)
    moved = low.indices.shifted(form, by if offset > 0 else ZERO - by)
    truth = low.below(moved, extent) if offset > 0 else _not_below(low, form, by)
    return truth, low.choose_index(truth, moved, form, extent)


def _not_below(low: Lowering, form: Affine, limit: Poly) -> Truth:
    truth = low.below(form, limit)
    return not truth if isinstance(truth, bool) else low.emitter.ge(low.index_value(form), low.extent(limit))


_MODES = {"periodic": _shift_periodic, "edge": _shift_edge, "reflect": _shift_reflect, "symmetric": _shift_symmetric}


# --- pieces


def pad(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    operand = node.operands[0]
    fill = low.literal(node.attr("fill"), node.dtype)
    if 0 in operand.shape:
        return fill
    inside: Truth = True
    out = []
    for axis, (before, after) in enumerate(zip(node.attr("before"), node.attr("after"))):
        form, n = index[axis], operand.shape[axis]
        extent = low.extents.extent(operand, axis, n)
        truth: Truth = True
        if before:
            by = low.extents.near(before, node.shape[axis], low.extents.extent(node, axis, node.shape[axis]))
            truth = _not_below(low, form, by)
            form = low.indices.shifted(form, ZERO - by)
        if after:
            truth = low.both(truth, low.below(form, extent))
        inside = low.both(inside, truth)
        out.append(START if n == 1 else low.choose_index(truth, form, START, extent))
    if inside is False:
        return fill
    value = yield operand, tuple(out), env
    return low.choose(inside, value, fill)


def concat(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    """Each operand at its own index, where that is inside it, else at 0; then one selection for each seam."""
    along = node.attr("axis")
    form, start = index[along], ZERO
    pieces: list[tuple[Truth, Node, Affine]] = []  # (index < the piece's end, piece, its index)
    for operand in node.operands:
        n = operand.shape[along]
        if 0 in operand.shape:
            continue
        extent = low.extents.extent(operand, along, n)
        end = start + extent
        local = low.indices.shifted(form, ZERO - start)
        if not pieces:
            first = low.below(local, extent)
            safe = low.choose_index(first, local, START, extent)
        else:
            inside = low.both(_not_below(low, form, start), low.below(form, end))
            safe = low.choose_index(inside, local, START, extent)
        pieces.append((low.below(form, end), operand, START if n == 1 else safe))
        start = end
    pieces[-1] = (True, *pieces[-1][1:])
    values = []
    for truth, operand, safe in pieces:
        if truth is False:
            continue
        values.append((truth, (yield operand, (*index[:along], safe, *index[along + 1 :]), env)))
        if truth is True:
            break
    result = values[-1][1]
    for truth, value in reversed(values[:-1]):
        result = low.choose(truth, value, result)
    return result


def update(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    base, value = node.operands
    if 0 in value.shape:
        return (yield base, index, env)
    inside: Truth = True
    out = []
    for axis, (start, step) in enumerate(zip(node.attr("starts"), node.attr("steps"))):
        truth, form = _member(low, node, axis, start, step, index[axis])
        inside = low.both(inside, truth)
        out.append(form)
    if inside is False:
        return (yield base, index, env)
    new = yield value, tuple(out), env
    return new if inside is True else low.choose(inside, new, (yield base, index, env))


def _member(low: Lowering, node: Node, axis: int, start: int, step: int, form: Affine) -> tuple[Truth, Affine]:
    """Whether an index of the base lies in the region along one axis, and which element of the value it is there (or 0)."""
    extent, n = node.shape[axis], node.operands[1].shape[axis]
    if is_whole(start, step, n, extent):
        return True, form
    of = low.extents.extent(node, axis, extent)
    first = low.extents.near(start, extent, of)
    length = low.extents.extent(node.operands[1], axis, n)
    if n == 1:
        return _equal(low, form, first), START
    if step > 0:
        truth, distance = _not_below(low, form, first), low.indices.shifted(form, ZERO - first)
    else:
        truth = low.below(form, first + ONE)
        distance = low.indices.shifted(low.indices.scale(form, number(-1)), first)
    if abs(step) != 1:
        distance = low.choose_index(truth, distance, START, None)
        by = low.extents.step(abs(step), of)
        whole, rest = low.indices.div(distance, by), low.indices.mod(distance, by)
        truth, distance = low.both(truth, _equal(low, rest, ZERO)), whole
    truth = low.both(truth, low.below(distance, length))
    return truth, low.choose_index(truth, distance, START, length)


def _equal(low: Lowering, form: Affine, other: Poly) -> Truth:
    if form.constant is not None and other.constant is not None:
        return form.constant == other.constant
    return low.emitter.eq(low.index_value(form), low.extent(other))


def gather(low: Lowering, node: Node, index: Index, env: Env) -> Steps:
    x, *positions = node.operands
    axes = node.attr("axes")
    lead = len(positions[0].shape)
    out: list[Affine | None] = [None] * len(x.shape)
    if 0 in x.shape:
        raise InternalError("GLA9912", f"a gather reads the empty array {x.type}")
    for axis, position in zip(axes, positions):
        value = yield position, index[:lead], env
        out[axis] = START if x.shape[axis] == 1 else _clamped(low, value, low.extents.extent(x, axis, x.shape[axis]))
    rest = iter(index[lead:])
    return (yield x, tuple(next(rest) if form is None else form for form in out), env)


def _clamped(low: Lowering, value: object, extent: Poly) -> Affine:
    """An int64 value as an index below `extent`."""
    s = low.emitter
    zero, top = s.const(0, int64), s.convert(low.extent(extent - ONE), int64)
    value = s.select(s.lt(value, zero), zero, value)  # type: ignore[arg-type]
    position = s.convert(s.select(s.gt(value, top), top, value), low.index_dtype)
    known = s.constant(position)
    return Affine(number(known)) if known is not None else low.indices.value(position, extent)
