"""Names that can't be names, and the expressions that read them: one mistake, reported where it is declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from specgen.diagnostics import Diagnostic
from specgen.diagnostics.diagnostic import Rule
from specgen.diagnostics.rules import expressions, schema
from specgen.look_alikes import plain
from specgen.source import Mapping, Node, Scalar
from specgen.source import Sequence as SequenceNode

_FOLLOWING = frozenset(rule.code for rule in vars(expressions).values() if isinstance(rule, Rule))


def without_reads_of_refused(items: Sequence[Diagnostic], root: Mapping) -> tuple[Diagnostic, ...]:
    """The diagnostics but for those of expressions that read a name which is refused in the same declaration.

    Args:
        items: the diagnostics of a file.
        root: its nodes.
    """
    places = {item.span for item in items if item.rule is schema.NAME_REFUSED}
    if not places:
        return tuple(items)
    follow = set[Diagnostic]()
    for declaration in _declarations(root):
        names = {key.text for key in _keys(declaration) if key.span in places and key.text}
        if not names:
            continue
        meant = {one for name in names for one in (name, plain(name))}
        read = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in sorted(meant)))
        texts = [one for one in _scalars(declaration) if read.search(one.text)]
        follow |= {
            item
            for item in items
            if item.code in _FOLLOWING and any(item.span.begins_in(one.span) for one in texts)
        }
    return tuple(item for item in items if item not in follow)


def _declarations(root: Mapping) -> Iterator[Node]:
    for _, section in root.entries:
        if isinstance(section, Mapping):
            yield from (one for _, one in section.entries)


def _keys(node: Node) -> Iterator[Scalar]:
    for key, value in _entries(node):
        yield key
        yield from _keys(value)


def _scalars(node: Node) -> Iterator[Scalar]:
    if isinstance(node, Scalar):
        yield node
    for one in _parts(node):
        yield from _scalars(one)


def _parts(node: Node) -> Iterable[Node]:
    return node.items if isinstance(node, SequenceNode) else [value for _, value in _entries(node)]


def _entries(node: Node) -> Iterable[tuple[Scalar, Node]]:
    return node.entries if isinstance(node, Mapping) else ()
