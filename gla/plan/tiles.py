"""Which matrix products get a kernel of their own on a GPU, and in what tiles: the rule that ships with gla.

A product in a kernel of its own has other bits than the library's, and a tile says in what order products are added: so the
rule looks at shapes and dtype alone, never at the device or at a clock. It is fitted to figures of an H200 (benchmarks/README.md):
an estimate of cycles from a tile's reads, its multiplications and what starting a block costs. The planner asks
`generated`, lowering asks `tile`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from gla import dtypes
from gla.ir.node import Node


@dataclass(frozen=True, slots=True)
class Tile:
    """How a block computes a part of a matrix product: `rows` x `columns` elements, `depth` products of each at a time; a thread
    has `down` x `right` elements, and the products are shared out over the threads that have the same ones. `blocks`: how many
    blocks a multiprocessor should hold at once. Powers of two."""

    rows: int
    columns: int
    depth: int
    down: int
    right: int
    threads: int = 256
    blocks: int = 1

    @property
    def group(self) -> int:
        """Threads that hold one copy of the tile."""
        return (self.rows // self.down) * (self.columns // self.right)

    @property
    def slices(self) -> int:
        """Copies, each of which takes every slices-th product."""
        return self.threads // self.group


TILES = (
    Tile(64, 64, 16, 4, 4, blocks=4),
    Tile(32, 32, 64, 4, 4, blocks=2),
    Tile(16, 16, 128, 4, 4, blocks=2),
    Tile(8, 16, 128, 2, 4, blocks=2),
    Tile(16, 8, 128, 4, 2, blocks=2),
    Tile(2, 16, 256, 2, 4, blocks=2),
    Tile(16, 2, 256, 4, 2, blocks=2),
    Tile(8, 1, 256, 1, 1, blocks=2),
    Tile(1, 32, 256, 1, 4, blocks=2),
)
WIDE_TILES = tuple(replace(t, depth=max(t.depth // 2, t.threads // min(t.rows, t.columns))) for t in TILES)
"""For float64, whose tiles take twice the shared memory."""

UNITS = 132  # blocks that run at once; a number of the rule, not the device's
STARTING = 1500  # cycles of a block before its first and after its last multiplication
CLOCK = 1750 / 1.8  # estimated cycles that pass in a microsecond, as measured
LIBRARY = 4.3  # microseconds of a library call and of the kernel after it that a fused one saves
LIBRARY_RATE = 16e6  # multiplications in a microsecond, of the library on products of this size
MOST_WIDE = 1 << 22  # multiplications of float64, which the library does in matrix units


def generated(node: Node) -> bool:
    """Whether the matmul node gets a kernel of its own."""
    if node.dtype not in (dtypes.float32, dtypes.float64) or 0 in node.shape:
        return False
    *batch, m, n = node.shape
    depth = node.operands[0].shape[-1]
    multiplications = prod(node.shape) * depth
    if node.dtype is dtypes.float64 and multiplications > MOST_WIDE:
        return False
    return cycles(tile(node), prod(batch), m, n, depth) / CLOCK <= LIBRARY + multiplications / LIBRARY_RATE


def base(operand: Node) -> Node:
    """What must be stored for an operand: what it is a view of. Its kernel reads through any of these."""
    while operand.op in ("transpose", "slice", "broadcast", "reshape"):
        operand = operand.operands[0]
    return operand


def tile(node: Node) -> Tile:
    """The tile of a matmul node: the one with the fewest cycles, the larger one of equals."""
    *batch, m, n = node.shape
    depth = node.operands[0].shape[-1]
    choice = TILES if node.dtype is dtypes.float32 else WIDE_TILES
    return min(choice, key=lambda t: cycles(t, prod(batch), m, n, depth))


def cycles(t: Tile, batch: int, m: int, n: int, depth: int) -> float:
    """About how long the product takes in these tiles."""
    tiles = batch * -(-m // t.rows) * -(-n // t.columns)
    reading = (t.rows + t.columns) / 12  # elements that reach a multiprocessor in a cycle, their addresses counted
    shared = t.threads * (t.down + t.right) / (t.down * t.right) / 32 * (t.rows * t.columns) / t.threads / 2
    multiplying = max(t.rows * t.columns / 128, shared)
    steps = -(-depth // t.depth) * t.depth
    return -(-tiles // UNITS) * steps * (reading + multiplying) + STARTING * -(-tiles // (UNITS * t.blocks))
