"""Which values are stored in memory, the others being computed where they are used, and why.

`choose` goes over a graph once, operands first. What must be stored (results, operands of library calls) is given by the
planner; here the rest is decided: reductions and loops, what is read through several index maps and dear to compute
again, and where a region would grow over LIMIT nodes. Reasons are kept for `explain`.
"""

from __future__ import annotations

from collections.abc import Container
from math import prod

from gla.ir.access import CONTROL
from gla.ir.node import Node
from gla.plan.fuse.cost import CHEAP, Costs, is_large_reduction, is_view

LIMIT = 1024  # nodes of a region; a longer straight line is cut, with equal bits
TRIVIAL = 3  # costs of a value that a cut does not store: scalars spread over an axis
SCALAR_CHEAP = 64  # a 0-d value is computed again for each item up to this cost, rather than by a launch of its own


def choose(
    order: list[Node], given: Container[Node], required: dict[Node, str], *, fuse: bool
) -> tuple[dict[Node, str], Costs]:
    """(the values to store with the reason for each, costs). `given`: stand in memory already. `fuse=False` stores every value
    but views, which are no work."""
    users: dict[Node, list[Node]] = {}
    for node in order:
        if node not in given:
            for operand in node.operands:
                users.setdefault(operand, []).append(node)
    reasons: dict[Node, str] = {}
    costs = Costs()
    last_use = {operand: k for k, node in enumerate(order) if node not in given for operand in node.operands}
    for k, node in enumerate(order):
        if node in given:
            costs.add(node, True)
            continue
        costs.add(node, False)
        if node.op in CONTROL:
            continue
        reason = required.get(node) or _reason(node, users, costs, fuse)
        if reason:
            reasons[node] = reason
            costs.store(node)
        elif costs.size(node) > LIMIT:
            for member in costs.members(node):
                used = member is not node and last_use.get(member, -1) >= k
                if used and member.op not in CONTROL and costs.cost(member) > TRIVIAL:
                    reasons[member] = f"the region is cut at {LIMIT} nodes"
                    costs.store(member)
            reasons[node] = f"the region is cut at {LIMIT} nodes"
            costs.store(node)
    return reasons, costs


def _reason(node: Node, users: dict[Node, list[Node]], costs: Costs, fuse: bool) -> str:
    if node.op in ("constant", "input"):
        return ""
    if not fuse:
        return "" if is_view(node) else "fusion is off"
    if node.op == "matmul":
        return "the matrix library computes it"
    if node.op == "scan":
        return "a scan has a kernel of its own"
    if node.op == "item":
        return "a loop leaves it"
    if is_large_reduction(node):
        return "a reduction"
    if is_view(node):
        return ""
    limit = CHEAP if node.shape else SCALAR_CHEAP
    if _evaluations(node, users) > 1.5 and costs.cost(node) > limit:
        return f"read through several index maps and dear to compute again (cost {costs.cost(node)})"
    return ""


def _evaluations(node: Node, users: dict[Node, list[Node]]) -> float:
    """How often an element of `node` is computed when nothing is stored: once for all readers at its own index, and once
    more for each element that a chain of views makes of it."""
    size = max(prod(node.shape), 1)
    total, work, seen = 0, [node], {node}
    while work:
        value = work.pop()
        plain = False
        for user in users.get(value, ()):
            if not is_view(user) or user.op == "concat" or (user.op == "gather" and value in user.operands[1:]):
                plain = True  # concat reads each element once; a gather reads its indices at its own index
            elif user not in seen:
                seen.add(user)
                work.append(user)
        if plain or not users.get(value):
            total += prod(value.shape)
    return total / size
