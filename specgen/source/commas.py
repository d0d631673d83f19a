"""Numbers and texts of `doc` with commas inside `{…}` and `[…]`, where a comma ends a value: reported, and read as meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

from specgen.diagnostics import Sink
from specgen.diagnostics.rules.yaml import FLOW_TEXT
from specgen.source.nodes import Node, Scalar
from specgen.source.resolve import resolve
from specgen.values import replace

Pair: TypeAlias = tuple[Node | None, Node | None]

_EMPTY = re.compile("")
_ANY = re.compile(".+", re.DOTALL)
_DOC = re.compile("doc")
_DIGITS = re.compile(r"\d+", re.ASCII)
_THREE_DIGITS = re.compile(r"0\d\d", re.ASCII)
"""Behind a comma: what begins with another digit is a number of its own."""
_NUMBER = re.compile(r"[-+]?\d+(,\d+)*", re.ASCII)
_FRONT = re.compile(r"[-+]?[1-9]\d{0,2}(,\d+)*", re.ASCII)
"""What groups of three digits may follow."""
_WITH_COMMAS = re.compile(r"[-+]?\d+(,\d+)+", re.ASCII)


def with_whole_entries(pairs: Sequence[Pair], sink: Sink) -> list[Pair]:
    """The entries of a mapping; what stands behind a comma without a value belongs to the number or `doc` before it."""
    whole: list[Pair] = []
    torn: list[Scalar] = []
    for key, value in pairs:
        name, before = whole[-1] if whole else (None, None)
        if _is_plain(value, _EMPTY) and _is_plain(key, _DIGITS) and _is_plain(before, _NUMBER):
            whole[-1] = (name, _joined(before, key))
        elif _stands_alone(key, value) and _is_plain(name, _DOC) and _is_plain(before, _ANY):
            text = _joined(before, key, " ")
            whole[-1] = (name, text)
            torn = [*(one for one in torn if one is not before), text]
        else:
            whole.append((key, value))
    for text in torn:
        message = "a text falls apart at its commas: inside `{…}` it needs quotes"
        help = f'write "{text.text}"' if '"' not in text.text else "put it into single quotes"
        sink.add(FLOW_TEXT.at(text.span, message, help=help))
    return [(key, _read(value, sink)) for key, value in whole]


def with_whole_items(nodes: Sequence[Node | None], sink: Sink) -> list[Node | None]:
    """The items of a list; three digits that begin with 0 belong to the number right before them."""
    whole: list[Node | None] = []
    for node in nodes:
        before = whole[-1] if whole else None
        if (
            _is_plain(node, _THREE_DIGITS)
            and _is_plain(before, _FRONT)
            and before.origin is not None
            and node.origin is not None
            and node.origin.start == before.origin.end + 1
        ):
            whole[-1] = _joined(before, node)
        else:
            whole.append(node)
    return [_read(node, sink) for node in whole]


def _joined(before: Scalar, rest: Scalar, space: str = "") -> Scalar:
    # the place of the last piece says what stands right behind it; `_read` makes one number of digits
    text = f"{before.text},{space}{rest.text}"
    return replace(before, text=text, value=text, span=before.span.to(rest.span), origin=rest.origin)


def _read(node: Node | None, sink: Sink) -> Node | None:
    """The number that digits with commas between them stand for; any other node as it is."""
    if not _is_plain(node, _WITH_COMMAS):
        return node
    first, *groups = node.text.split(",")
    grouped = re.fullmatch(r"[-+]?[1-9]\d{0,2}", first) and all(len(one) == 3 for one in groups)
    meant = ".".join([first, groups[0]]) if len(groups) == 1 and not grouped else "".join([first, *groups])
    message = f"`{node.text}` falls apart at its commas: inside `{{…}}` and `[…]` they end a value"
    sink.add(FLOW_TEXT.at(node.span, message, help=f"write {meant}"))
    return replace(node, text=meant, value=resolve(meant), origin=None)


def _stands_alone(key: Node | None, value: Node | None) -> TypeGuard[Scalar]:
    """Whether a key has no value and no colon."""
    return (
        _is_plain(key, _ANY)
        and _is_plain(value, _EMPTY)
        and key.origin is not None
        and value.origin is not None
        and value.origin.start == key.origin.end
    )


def _is_plain(node: Node | None, pattern: re.Pattern[str]) -> TypeGuard[Scalar]:
    """Whether a node is a text without quotes that matches a pattern."""
    return isinstance(node, Scalar) and node.style == "plain" and pattern.fullmatch(node.text) is not None
