"""Routes library calls past a changing boundary: they work on staging buffers, and copy nodes, which can be retargeted, move
the bytes.

A library call's nodes are fixed when it is captured, so a binding with one at its boundary serves one tuple of addresses.
Where addresses keep changing, staging is the cheapest way (measured on the host, three products of 64 x 64: 216 us to
instantiate anew, 132 us to launch node by node, 60 us as a graph, 3 us for a copy); only operands whose address did change
are staged, so that weights which stay are not copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gla.runtime.program import CopyNode, FillNode, KernelNode, MatmulNode, Node, Piece


def routed(piece: Piece, sizes: Mapping[int, int], inputs: Mapping[int, int], outputs: Mapping[int, int]) -> Piece:
    """`piece` with the input and output buffers renamed to their staging buffers where library calls touch them.

    `inputs`, `outputs`: buffer -> staging buffer. An input must not be written by the piece. An output is computed in its
    staging buffer and copied when nothing touches that any more.
    """
    nodes: list[Node] = [CopyNode(staging, buffer, sizes[buffer], ()) for buffer, staging in inputs.items()]
    copied = {buffer: k for k, buffer in enumerate(inputs)}
    moved = len(nodes)
    for node in piece.nodes:
        after = tuple(k + moved for k in node.after)
        names: dict[int, int] = dict(outputs)
        if isinstance(node, MatmulNode):
            names |= inputs
            after += tuple(copied[b] for b in dict.fromkeys(node.buffers) if b in inputs)
        nodes.append(renamed(node, names, after))
    for buffer, staging in outputs.items():
        users = tuple(k for k, node in enumerate(nodes) if staging in node.buffers)
        nodes.append(CopyNode(buffer, staging, sizes[buffer], users))
    return Piece(tuple(nodes))


def renamed(node: Node, names: Mapping[int, int], after: tuple[int, ...]) -> Node:
    """The node with other buffers and dependencies."""
    if isinstance(node, KernelNode):
        return replace(node, pointers=tuple((slot, names.get(b, b)) for slot, b in node.pointers), after=after)
    if isinstance(node, CopyNode):
        return replace(
            node, target=names.get(node.target, node.target), source=names.get(node.source, node.source), after=after
        )
    if isinstance(node, FillNode):
        return replace(node, target=names.get(node.target, node.target), after=after)
    a, b, c, workspace = (names.get(buffer, buffer) for buffer in node.buffers)
    return replace(node, a=a, b=b, c=c, workspace=workspace, after=after)
