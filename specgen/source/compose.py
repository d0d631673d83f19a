"""`Composer`: makes nodes of the events of the YAML parser."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import yaml

from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules.expressions import TAG_REFUSED
from specgen.diagnostics.rules.yaml import (
    ALIAS,
    DOCUMENTS,
    DUPLICATE_KEY,
    FLOW_TEXT,
    KEY,
    NULL,
    TOO_DEEP,
)
from specgen.look_alikes import plain
from specgen.source.brackets import balance, end_of_expression, looks_cut
from specgen.source.characters import refused, refused_in
from specgen.source.commas import with_whole_entries, with_whole_items
from specgen.source.nodes import Mapping, Node, Origin, Scalar, Sequence, Style
from specgen.source.resolve import NONE, is_null, resolve
from specgen.source.syntax import comment_after, cut_by_comment
from specgen.source.text import FileText
from specgen.values import dataclass

DEEPEST = 64
"""How deep mappings and lists may be nested; real declarations stay below ten."""

_STYLES: dict[str, Style] = {"'": "single", '"': "double", "|": "literal", ">": "folded"}

# The C parser is about ten times as fast; the two give the same events and positions.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooDeep(Exception):  # noqa: N818 - a signal between this module and parse.py, no error of the user
    """Nesting went below `DEEPEST`; it is reported already."""


@dataclass
class Composed:
    """What one pass over a file found; `last` is the scalar read last."""

    root: Node | None = None
    last: Scalar | None = None


@dataclass
class _Open:
    """A mapping or list that is being read."""

    is_map: bool
    flow: bool
    start: int
    nodes: list[Node | None] = field(default_factory=list)
    broken: bool = False


class Composer:
    """Reads one document; mistakes that leave the structure readable go to `sink`."""

    def __init__(self, source: FileText, text: str, sink: Sink, loader: Any = None) -> None:
        self._source = source
        self._text = text
        self._sink = sink
        self._loader = loader or _LOADER
        self._open: list[_Open] = []
        self.result = Composed()

    @property
    def innermost_flow(self) -> int | None:
        """The offset of the innermost `[` or `{` that is still open."""
        return next((opened.start for opened in reversed(self._open) if opened.flow), None)

    def run(self) -> None:
        """Read the document; the parser's errors (`yaml.MarkedYAMLError`) pass through."""
        loader = self._loader(self._text)
        try:
            documents = 0
            for event in iter(loader.get_event, None):
                if event.__class__ is yaml.DocumentStartEvent:
                    documents += 1
                    if documents == 2:
                        at = self._offset(event.start_mark)
                        span = self._source.span(at, at + 3)
                        help = "put the second document into a file of its own"
                        self._sink.add(DOCUMENTS.at(span, "a second document starts here", help=help))
                        return
                else:
                    self._event(event)
        finally:
            loader.dispose()

    def _event(self, event: Any) -> None:
        kind = event.__class__
        if kind is yaml.ScalarEvent:
            self._refuse_decoration(event)
            self._put(self._scalar(event))
        elif kind is yaml.AliasEvent:
            span = self._span(event)
            self._sink.add(
                ALIAS.at(
                    span,
                    f"alias `*{event.anchor}` is not allowed",
                    help="give the declaration a name and use the name; a text that starts with `*` needs quotes",
                )
            )
            self._put(None)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._refuse_decoration(event)
            if len(self._open) == DEEPEST:
                span = self._span(event)
                self._sink.add(TOO_DEEP.at(span, f"nested more than {DEEPEST} deep"))
                raise TooDeep
            is_map = kind is yaml.MappingStartEvent
            self._open.append(_Open(is_map, bool(event.flow_style), self._offset(event.start_mark)))
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._put(self._close(self._open.pop(), self._offset(event.end_mark)))

    def _put(self, node: Node | None) -> None:
        if self._open:
            self._open[-1].nodes.append(node)
        else:
            self.result.root = node

    def _scalar(self, event: Any) -> Scalar:
        style: Style = _STYLES.get(event.style or "", "plain")
        start, end = event.start_mark.index, event.end_mark.index
        shown = end
        if style in ("literal", "folded"):  # the parser counts the line breaks behind it to it
            shown = start + len(self._text[start:end].rstrip())
        span = self._source.span(start, shown)
        text: str = event.value
        if not text and (event.anchor is not None or event.tag is not None):
            style = "single"  # the anchor or tag is reported; that nothing follows it is no second mistake
        value = resolve(text) if style == "plain" else text
        scalar = Scalar(text, style, value, span, Origin(self._source, start, end))
        if style == "double" and (bad := refused_in(text)):
            at = scalar.span_of(bad.start(), bad.end())
            self._sink.add(refused(bad.group()[0], at, "is not allowed, written as an escape either"))
        self.result.last = scalar
        return scalar

    def _keeps(self, opened: _Open) -> bool:
        """Whether what is empty stays: an expression that fell apart was no list, and no mapping."""
        return not (opened.broken and self._open)

    def _close(self, opened: _Open, end: int) -> Node | None:
        if not opened.is_map:
            nodes = with_whole_items(opened.nodes, self._sink) if opened.flow else opened.nodes
            items = [self._value(node, opened, None) for node in nodes]
            found = tuple(item for item in items if item is not None)
            return Sequence(found, self._collection(opened, end)) if found or self._keeps(opened) else None
        entries: list[tuple[Scalar, Node]] = []
        seen: dict[str, Scalar] = {}
        lost: set[str] = set()
        pairs = list(zip(opened.nodes[::2], opened.nodes[1::2], strict=True))
        for key, value in with_whole_entries(pairs, self._sink) if opened.flow else pairs:
            name = self._key(key, value, opened)
            kept = self._value(value, opened, name)
            if name is None:
                continue
            if kept is None:
                lost.add(name.text)
                seen.setdefault(name.text, name)
                continue
            if name.text in seen:
                first = seen[name.text]
                lost.add(name.text)
                notes = [Note("first given here", first.span)]
                message = f"key '{name.text}' is given twice"
                self._sink.add(DUPLICATE_KEY.at(name.span, message, notes=notes, help="keep one of them"))
                if any(one.text == name.text for one, _ in entries):
                    continue
            seen[name.text] = name
            entries.append((name, kept))
        if not entries and not lost and not self._keeps(opened):
            return None
        return Mapping(tuple(entries), self._collection(opened, end), frozenset(lost))

    def _collection(self, opened: _Open, end: int) -> Span:
        # A block ends, for the parser, where the next one starts; its text ends before that.
        end = end if opened.flow else opened.start + len(self._text[opened.start : end].rstrip())
        return self._source.span(opened.start, end)

    def _key(self, key: Node | None, value: Node | None, opened: _Open) -> Scalar | None:
        if not isinstance(key, Scalar):
            if key is not None:
                help = "`{{name}}` is written `{name}` in a schema" if opened.flow else None
                self._sink.add(KEY.at(key.span, "a key must be a text", help=help))
            return None
        if key.style == "plain" and key.text == "<<":
            self._sink.add(
                ALIAS.at(key.span, "merge keys (`<<`) are not allowed", help="write the entries themselves")
            )
            return None
        if opened.flow and key.style == "plain" and self._fell_apart(key, opened, None):
            return None
        if key.style == "plain" and is_null(key.text):
            if not opened.broken:
                self._sink.add(KEY.at(key.span, "a key must be a text; this one is empty or null"))
            return None
        return key

    def _value(self, node: Node | None, opened: _Open, key: Scalar | None) -> Node | None:
        if not isinstance(node, Scalar) or node.style != "plain":
            return node
        documentation = key is not None and key.text == "doc"
        if opened.flow and not documentation and self._fell_apart(node, opened, key):
            return None
        if is_null(node.text) or (node.text == NONE and not documentation):
            if not opened.broken:
                self._null(node, key, opened)
            return None
        if not documentation and node.origin is not None:
            comment = comment_after(self._source, node.origin.end)
            if comment is not None and looks_cut(node.text):
                self._sink.add(cut_by_comment(node, comment, self._source))
                return None
        return node

    def _null(self, node: Scalar, key: Scalar | None, opened: _Open) -> None:
        at = node.span if key is None else key.span
        what = "an item" if key is None else f"'{key.text}'"
        how = "has no value" if node.text == "" else f"is `{node.text}`, which YAML reads as null"
        if node.text == NONE:
            how = "is `None`, Python's word for what is not there"
        help = "write its value, or `{}` for an empty mapping"
        if node.text and key is not None:
            help = f"write its value, or leave `{key.text}` out if it has none"
        if node.text == "" and not opened.flow and node is not opened.nodes[-1]:
            help += "; what belongs to it is indented below it"
        if node.text == "" and node.origin is not None and comment_after(self._source, node.origin.end):
            help = "everything after ` #` is a comment; " + help
        self._sink.add(NULL.at(at, f"{what} {how}", help=help))

    def _fell_apart(self, scalar: Scalar, opened: _Open, key: Scalar | None) -> bool:
        """Whether a plain scalar is a piece of an expression that a comma tore apart."""
        closed, left = balance(scalar.text)
        if not closed and not left:
            return False
        if opened.broken or scalar.origin is None:
            return True
        opened.broken = True
        start = scalar.origin.start
        whole = end_of_expression(self._text, start)
        shown = self._text[start:whole]
        meant = plain(shown)
        if meant != shown and (meant[0], meant[-1]) in (('"', '"'), ("'", "'")):
            help = f"write {meant}: quotes of text processors are none here"
        else:
            help = f'write "{shown}"' if '"' not in shown else "put it into single quotes"
        place = self._place(key)
        if len(place) > 3 and place[2] == "params" and (len(place) == 4 or place[4:] == ("default",)):
            help = "write a number: a default is not computed"
            if place[0] == "envs" and len(place) == 4 and '"' not in shown:
                help = f'write {{draw: "{shown}"}}, or a number, the same for all environments'
        self._sink.add(
            FLOW_TEXT.at(
                self._source.span(start, whole),
                f"`{shown}` falls apart at its commas: inside `{{…}}` and `[…]` it needs quotes",
                help=help,
            )
        )
        return True

    def _place(self, key: Scalar | None) -> tuple[str, ...]:
        """Where a key stands of the mapping that is closed: `envs`, `Point`, `params`, `mass`."""
        keys = [opened.nodes[-1] if opened.is_map and opened.nodes else None for opened in self._open]
        return tuple(one.text if isinstance(one, Scalar) else "" for one in (*keys, key))

    def _refuse_decoration(self, event: Any) -> None:
        if event.tag is None and event.anchor is None:
            return
        at = self._offset(event.start_mark)
        line = self._source.position(at)[0]
        if event.tag is not None:
            span = self._source.span(at, at + _length(self._text, at))
            message = f"YAML tags are not allowed (line {line})"
            help = "write the value without the tag"
            if isinstance(event, yaml.ScalarEvent) and not event.tag.startswith("tag:"):
                rest = f" {event.value}" if event.value else ""
                help = f"for the opposite write `not {event.tag.lstrip('!')}{rest}`, else leave the tag out"
            self._sink.add(TAG_REFUSED.at(span, message, help=help))
        if event.anchor is not None:
            span = self._source.span(at, at + len(event.anchor) + 1)
            self._sink.add(
                ALIAS.at(
                    span,
                    f"anchor `&{event.anchor}` is not allowed",
                    help="give the declaration a name; a text that starts with `&` needs quotes",
                )
            )

    def _span(self, event: Any) -> Span:
        return self._source.span(self._offset(event.start_mark), self._offset(event.end_mark))

    def _offset(self, mark: Any) -> int:
        at: int = mark.index
        return at


def _length(text: str, at: int) -> int:
    return max(1, len(text[at:].split(maxsplit=1)[0]) if text[at:].strip() else 1)
