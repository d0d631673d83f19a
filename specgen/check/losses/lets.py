"""The `let` of a loss that extends another one: the order of its values, and which of the inherited ones are wanted."""

from __future__ import annotations

from specgen.check.unread import all_reads
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar

_WANTING = ("terms", "metrics", "writes", "update", "mask", "learnable", "params")
"""The sections whose expressions read values."""


def merged_lets(whole: MappingNode, parent: Node | None, child: Node | None) -> MappingNode:
    """A merged loss with its values in order, without inherited ones that nothing wants.

    A value that the parent has keeps its place. A new one stands before the first that reads it, else last; new ones
    at one place are in the order in which they are written. What one of the loss's own reads stands before it.

    Args:
        whole: the loss, in whose `let` the new values stand last.
        parent, child: the `let` of what it extends and its own.
    """
    let = whole.get("let")
    if not isinstance(let, MappingNode):
        return whole
    old = {key.text for key, _ in parent.entries} if isinstance(parent, MappingNode) else set()
    own = {key.text for key, _ in child.entries} if isinstance(child, MappingNode) else set()
    reads = {key.text: all_reads([node]) or frozenset() for key, node in let.entries}
    order = [key.text for key, _ in let.entries if key.text in old]
    new = [key.text for key, _ in let.entries if key.text not in old]
    for name in reversed(new):
        at = next((i for i, other in enumerate(order) if name in reads[other]), len(order))
        while at > 0 and order[at - 1] in new and order[at - 1] not in reads[name]:
            at -= 1
        order.insert(at, name)
    order = _read_first(order, own, reads)
    wanted = own | _wanted(whole)
    for name in reversed(order):
        if name in wanted:
            wanted |= reads[name]
    entries = {key.text: (key, node) for key, node in let.entries}
    kept = MappingNode(tuple(entries[name] for name in order if name in wanted), let.span, let.lost)
    return MappingNode(
        tuple((key, kept if key.text == "let" else node) for key, node in whole.entries),
        whole.span,
        whole.lost,
    )


def _read_first(order: list[str], own: set[str], reads: dict[str, frozenset[str]]) -> list[str]:
    """The values in order, where those that the values of `own` read come before these, unless they need each other."""
    placed: list[str] = []

    def needs(name: str) -> set[str]:
        found, left = set[str](), [name]
        while left:
            new = reads[left.pop()] & reads.keys() - found
            found |= new
            left += new
        return found

    for name in order:
        before = needs(name) if name in own else set[str]()
        if name not in before:
            placed += [other for other in order if other in before and other not in placed]
        if name not in placed:
            placed.append(name)
    return placed


def _wanted(whole: MappingNode) -> set[str]:
    """What the sections behind `let` read."""
    found: set[str] = set()
    for section in _WANTING:
        for node in _expressions(whole.get(section)):
            found |= all_reads([node]) or frozenset()
    estimator = whole.get("value_estimator")
    methods = whole.get("methods")
    computing = [node for _, node in methods.entries] if isinstance(methods, MappingNode) else []
    for one in (estimator, *computing):
        value = one.get("value") if isinstance(one, MappingNode) else None
        found |= {value.text} if isinstance(value, Scalar) else set()
    return found


def _expressions(node: Node | None) -> list[Scalar]:
    """Every text below a node."""
    if isinstance(node, Scalar):
        return [node]
    if isinstance(node, MappingNode):
        return [text for key, value in node.entries if key.text != "doc" for text in _expressions(value)]
    return []
