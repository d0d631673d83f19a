"""What the YAML reader refused in a declaration: what is missing because of it is no second mistake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specgen.diagnostics import Diagnostic, Note, Sink
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.diagnostics.rules import schema as rules
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping
from specgen.values import replace

_DECLARING = (
    *("dims", "groups", "params", "consts", "functions", "state", "action", "observation"),
    *("in", "buffers", "keys", "learnable"),
)
"""The sections whose keys are names that expressions may read."""

_SHOWN = 4
"""So many other lines that read an undefined name are listed."""

_FOLLOWING = frozenset({expression_rules.UNDEFINED, rules.WRONG_TARGET, rules.UNREAD})
"""What is found where such a section is missing."""


def damaged(file: SchemaFile, name: str, sink: Sink) -> bool:
    """Whether a mistake of YAML has cost the declaration entries, so that it can't be said what is missing."""
    here = file.span("envs", name)
    return any(
        item.span.file == here.file and here.line <= item.span.line <= here.end_line for item in sink.items
    )


def lost_names(file: SchemaFile, path: tuple[str, ...]) -> frozenset[str]:
    """Names that the declaration at `path` has, without a value that can be used, or with parts of one."""
    found = [find(file.root, (*path, section)) for section in _DECLARING]
    nodes = [node for node in found if isinstance(node, Mapping)]
    torn = (key.text for node in nodes for key, one in node.entries if isinstance(one, Mapping) and one.lost)
    return frozenset(torn).union(*(node.lost for node in nodes))


def hand_over(mine: Sink, file: SchemaFile, path: tuple[str, ...], sink: Sink) -> None:
    """Add to `sink` what was found in the declaration at `path`; not what follows from a section that is missing."""
    node = find(file.root, path)
    lost = isinstance(node, Mapping) and not node.lost.isdisjoint(_DECLARING)
    sink.extend(_merged_by_name([item for item in mine.items if not (lost and item.rule in _FOLLOWING)]))


def _merged_by_name(items: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The same, but one diagnostic for a name that is undefined in several places: it was most likely renamed."""
    items = tuple(items)
    lines: dict[tuple[str, str | None], list[int]] = {}
    for item in items:
        if item.rule is expression_rules.UNDEFINED:
            lines.setdefault((item.message, item.help), []).append(item.span.line)
    for item in items:
        if item.rule is not expression_rules.UNDEFINED:
            yield item
        elif (read := lines.pop((item.message, item.help), None)) is not None:
            yield replace(item, notes=(*item.notes, *_further_lines(read[1:])))


def _further_lines(lines: list[int]) -> Iterator[Note]:
    numbers = [str(line) for line in dict.fromkeys(lines)]
    if numbers:
        shown = [*numbers[:_SHOWN], *([f"{len(numbers) - _SHOWN} more"] if len(numbers) > _SHOWN else [])]
        listed = " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
        yield Note(f"it is read in line{'s' if len(numbers) > 1 else ''} {listed}, too")
