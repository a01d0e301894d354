"""The CUDA printer: the text of small kernels is kept beside this file, and NVRTC takes all of it (no GPU needed)."""

from __future__ import annotations

import pytest
import snapshots
from codegen import kernels

from gla.codegen.cuda import print_cuda
from gla.codegen.cuda_geometry import geometry
from gla.device.base import Properties
from gla.dtypes import bool_, float32, float64, int8, int64, uint16
from gla.errors import InternalError

KEPT = [
    kernels.elementwise(float32),
    kernels.elementwise(float64),
    kernels.elementwise(bool_),
    kernels.elementwise(int8),
    kernels.half_bits(),
    kernels.looped(),
    kernels.row_sum(1, 32),
    kernels.row_sum(32, 256),
    kernels.row_sum(256, 256),
    kernels.row_sum(8, 32, across=True),
    kernels.arg_max(256, 256),
    kernels.softmax(256, 256),
    kernels.nested_sum(32),
]
COMPILED = [
    *KEPT,
    kernels.elementwise(int64),
    kernels.elementwise(uint16),
    kernels.row_sum(2, 32),
    kernels.row_sum(64, 256, dtype=float64),
    kernels.row_sum(4, 256, dtype=int8),
    kernels.row_sum(32, 32, across=True),
    kernels.arg_max(32, 32),
    kernels.arg_max(16, 256, across=True),
    kernels.softmax(8, 32, across=True),
    kernels.softmax(1, 1),
    kernels.write_then_read(32),
    kernels.write_then_read(8, across=True),
]


@pytest.mark.parametrize("kernel", KEPT, ids=lambda k: k.name)
def test_kernel_text_is_as_kept(kernel):
    snapshots.check(__file__, f"{kernel.name}.cu", print_cuda(kernel))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("kernel", COMPILED, ids=lambda k: k.name)
def test_nvrtc_compiles_it(kernel, architecture):
    from gla.device.cuda import nvrtc

    assert nvrtc.compile(print_cuda(kernel), kernel.name, architecture)[:4] == b"\x7fELF"


@pytest.mark.parametrize("kernel", [k for k in COMPILED if "sum" in k.name or "max" in k.name], ids=lambda k: k.name)
def test_partial_sums_stay_in_registers(kernel):
    from gla.device.cuda import nvrtc

    assert b".local" not in nvrtc.compile(print_cuda(kernel), kernel.name, "sm_999")


def test_a_number_that_is_not_negative_is_divided_unsigned():
    b = kernels.Builder()
    out, n, size = b.pointer("out", b.index, True), b.extent("n"), b.extent("size")
    signed = b.load(out, b.item)
    b.store(out, b.item, b.op("add", b.op("idiv", b.op("idiv", b.item, size), size), b.op("idiv", signed, size)))
    text = print_cuda(b.kernel("divide", n))
    assert "(i32)((u32)v4 / (u32)v2)" in text and "v3 / v2" in text


def overwriting(team, across=False, later=True):
    """total[i] = head[i] + 1, which may lie over head, and then out[i, j] = head[i] for all j by the team."""
    b = kernels.Builder()
    head, total, out = b.pointer("head", float32), b.pointer("total", float32, True), b.pointer("out", float32, True)
    items, size = b.extent("rows"), b.extent("columns")
    value = b.load(head, b.item)
    b.store(total, b.item, b.op("add", value, b.const(1.0, float32)))
    before = b.body()
    j = b.value(b.index)
    b.store(out, b.at(b.item, size, j), value)
    b.out = [*before, *([kernels.ForEach(j, size, b.body())] if later else ())]
    return b.kernel("overwriting", items, team=team, across=across)


@pytest.mark.parametrize(
    ("team", "across", "barrier"),
    [(32, False, "__syncwarp(team_mask);"), (64, False, "__syncthreads();"), (8, True, "__syncthreads();")],
)
def test_no_member_overwrites_what_another_has_still_to_read(team, across, barrier):
    text = print_cuda(overwriting(team, across))
    assert text.index("p0[v0]") < text.index(barrier) < text.index("p1[v0] =")


def test_no_barrier_stands_where_nothing_follows():
    assert "__sync" not in print_cuda(overwriting(64, later=False)) and "__sync" not in print_cuda(overwriting(1))


def test_a_team_that_does_not_divide_the_partials_is_refused():
    with pytest.raises(InternalError, match="team of 64 does not divide 32"):
        print_cuda(kernels.row_sum(64, 32))


@pytest.mark.parametrize(("team", "across"), [(3, False), (2048, False), (64, True)])
def test_a_team_that_no_block_holds_is_refused(team, across):
    with pytest.raises(InternalError, match=f"team of {team}"):
        print_cuda(kernels.row_sum(team, team, across))


def device(multiprocessors=132):
    return Properties("test", "cuda", "sm_90", (9, 0), multiprocessors)


def test_few_items_are_spread_over_the_multiprocessors():
    few = geometry(kernels.looped(), 4096, device())
    assert few.block == (32, 1, 1) and few.grid == (128, 1, 1) and few.items == 4096


def test_many_items_take_full_blocks_and_x_only():
    many = geometry(kernels.looped(), 1 << 28, device())
    assert many.block == (256, 1, 1) and many.grid == (1 << 20, 1, 1)


def test_a_short_straight_kernel_serves_four_items_a_thread():
    assert geometry(kernels.elementwise(float32), 1 << 28, device()).grid == (1 << 18, 1, 1)


def test_the_width_of_a_grid_never_wraps_a_32_bit_item_number():
    grid = geometry(kernels.looped(), (1 << 31) - 1, device())
    assert grid.grid[0] * grid.block[0] <= 1 << 29


def test_no_items_still_give_a_launchable_grid():
    assert geometry(kernels.row_sum(32, 32), 0, device()).grid == (1, 1, 1)


@pytest.mark.parametrize(
    ("kernel", "block"),
    [
        (kernels.row_sum(32, 256), (32, 8, 1)),
        (kernels.row_sum(256, 256), (256, 1, 1)),
        (kernels.row_sum(8, 32, True), (32, 8, 1)),
    ],
    ids=["warp", "block", "across"],
)
def test_a_team_lies_in_its_block(kernel, block):
    assert geometry(kernel, 1 << 20, device()).block == block
