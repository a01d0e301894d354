"""How a kernel's threads lie in blocks, and how many blocks a launch takes. Read by the CUDA printer and by whoever launches.

No choice here changes a bit of any result: a thread serves its items one after another, whatever the grid, and partial
sums belong to members of a team, not to blocks. Blocks in y and z end at 65,535: kernels go on from there.
"""

from __future__ import annotations

from gla.codegen.kernel import Compute, Constant, Kernel, Load, Statement, Store
from gla.device.base import Geometry, Properties
from gla.errors import InternalError

THREADS = 256  # the most threads of a block, except across
LANES = 32  # items side by side in a block, across
UNROLL = 4  # items whose loads a thread has in flight together, see `unrolls`
BATCHES = 2  # of UNROLL neighbouring rows each, that a thread goes down its column: what a stencil reads twice is near then
MAX_ACROSS = 32
MOST_DOWN = 65_535
MAX_TEAM = 1024


def check_team(kernel: Kernel) -> None:
    """Raise InternalError for a team that no block can hold."""
    limit = MAX_ACROSS if kernel.across else MAX_TEAM
    team = kernel.team
    if team < 1 or team & (team - 1) or team > limit:
        raise InternalError(
            "GLA9960", f"kernel '{kernel.name}' has a team of {team}: a power of two up to {limit} can be laid out"
        )


def max_threads(kernel: Kernel) -> int:
    """The most threads that a block of this kernel has: its launch bound."""
    if kernel.across and kernel.team > 1:
        return LANES * kernel.team
    return kernel.team if kernel.team > LANES else THREADS


def unrolls(body: tuple[Statement, ...]) -> bool:
    """Whether a thread loads for several indices before it stores for any: in straight short bodies that end with stores.

    Without it a thread waits for each index's loads, since a store may change what a later load reads as far as the
    compiler knows; a plain copy then reaches about half of the memory's bandwidth.
    """
    stored = False
    for statement in body:
        if isinstance(statement, Store):
            stored = True
        elif stored or not isinstance(statement, Constant | Compute | Load):
            return False
    return stored and _count(body, "") <= 96 and _count(body, "call") <= 4


def _count(body: tuple[Statement, ...], op: str) -> int:
    return sum(not op or (isinstance(s, Compute) and s.op == op) for s in body)


def geometry(kernel: Kernel, items: int, properties: Properties, columns: int = 0, row: int = 0) -> Geometry:
    """Grid and block for `items` items, which rows.py divides into rows of `columns`; `row`: bytes that
    hold.py holds of an item's row. Few items are spread over all
    multiprocessors in small blocks."""
    check_team(kernel)
    team, wanted = kernel.team, max(properties.multiprocessors, 1)
    if columns > 0 and items > 0:
        return _rows(kernel, items, columns, wanted)
    if kernel.across and team > 1:
        block, served = (LANES, team, 1), LANES
    elif team > LANES:
        block, served = (team, 1, 1), 1
    else:
        threads = THREADS
        while threads > LANES and -(-items * team // threads) < wanted:
            threads //= 2
        served = threads // team
        block = (threads, 1, 1) if team == 1 else (team, served, 1)
    blocks = max(1, -(-items // served))
    if team == 1 and unrolls(kernel.body) and blocks > 8 * wanted:
        blocks = -(-blocks // UNROLL)
    # A 32-bit item number must not wrap when the grid's width is added to it.
    most = (1 << 31) - 1 if kernel.wide else max(1, (1 << 29) // served)
    return Geometry((min(blocks, most), 1, 1), block, served * row, items)


def _rows(kernel: Kernel, items: int, columns: int, wanted: int) -> Geometry:
    """Blocks as wide as a row where they can be, with several rows where rows are short. The last row may be short."""
    rows = -(-items // columns)
    across = min((THREADS, 128, 64, 32), key=lambda width: (-(-columns // width) * width, -width))
    if columns < LANES:
        across = 1 << (columns - 1).bit_length()
    group = BATCHES * UNROLL if unrolls(kernel.body) else 1
    down = THREADS // across

    def blocks() -> tuple[int, int]:
        return -(-columns // across), -(-rows // (down * group))

    while across * down > LANES and blocks()[0] * blocks()[1] < wanted:
        if down > 1:
            down //= 2
        else:
            across //= 2
    return Geometry((blocks()[0], min(blocks()[1], MOST_DOWN), 1), (across, down, 1), 0, items)
