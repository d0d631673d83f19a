"""Values that nothing reads: a misspelt key looks like one, and would be left out without a word."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache

from specgen.diagnostics import Sink, Span, as_question, did_you_mean
from specgen.diagnostics.rules import schema as rules
from specgen.expr import parse
from specgen.expr.tree import names_read_or_called
from specgen.schema.env import time_limit_help
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar


def all_reads(nodes: Iterable[Node | None]) -> frozenset[str] | None:
    """What the expressions of some sections read or call; `a.b` is a read of `a`, too.

    ``None`` if one of them can't be read, so that it can't be said.
    """
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, MappingNode) and node.lost:
            return None
        for value in [value for _, value in node.entries] if isinstance(node, MappingNode) else [node]:
            source = expression_of(value) if value is not None else None
            if source is None:
                continue
            read = _reads_of(source.text)
            if read is None:
                return None
            found |= read
    return frozenset(found)


def expression_of(node: Node) -> Scalar | None:
    """The text of an expression, which stands alone or is said in full, `{value: …}`; None where there is none."""
    if isinstance(node, MappingNode):
        node = node.get("each") or node.get("by_part") or node.get("value") or node
    return node if isinstance(node, Scalar) else None


class _PlacelessText:
    """A text whose places nobody asks for."""

    def __init__(self, text: str) -> None:
        self.text = text

    def span_of(self, start: int, end: int) -> Span:
        """A place in no file."""
        return Span("", 1, start + 1, 1, end + 1)


@lru_cache(maxsize=4096)
def _reads_of(text: str) -> frozenset[str] | None:
    """What an expression reads or calls; None if it can't be read. Sections are read again and again."""
    expr = parse(_PlacelessText(text), Sink())
    if expr is None:
        return None
    paths = (name.path.split(".") for name in names_read_or_called(expr))
    return frozenset(".".join(parts[:end]) for parts in paths for end in range(1, len(parts) + 1))


def report_unread(
    node: MappingNode,
    found: Iterable[str],
    reads: Collection[str] | None,
    known: Collection[str],
    sink: Sink,
    *,
    meant: Iterable[str] = (),
    expected: str = "",
) -> None:
    """Report the values of a section that nothing reads.

    Args:
        node: the section.
        found: the values that it names: what it assigns besides declared keys.
        reads: what is read anywhere; ``None`` if that is not known.
        known: all that may be read. A value that one of the other reads may mean is left alone: that read is
            reported as undefined.
        sink: takes what is found.
        meant: the declared keys that it may assign.
        expected: the same in words.
    """
    if reads is None:
        return
    found = list(found)
    strange = [name for name in reads if name not in known and name not in found]
    excused = {did_you_mean(name, found) for name in strange}
    keys = {key.removeprefix("next."): key for key in meant}
    missing = {last: key for last, key in keys.items() if node.key(key) is None}
    for name in found:
        key = node.key(name)
        if key is None or name in reads or name in excused:
            continue
        last = name.removeprefix("next.")
        near = did_you_mean(last, missing) or did_you_mean(last, keys)
        if (limit := time_limit_help(name)) is not None:
            message, help = f"nothing reads `{name}`", limit
        elif not keys:
            message, help = f"nothing reads `{name}`", "read it where it was meant, or leave it out"
        else:
            message = f"`{name}` is no declared key, and nothing reads it"
            help = as_question(keys[near]) if near else f"here one may assign {expected}; or leave it out"
        sink.add(rules.UNREAD.at(key.span, message, help=help))
