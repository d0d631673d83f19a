"""Finds unbalanced brackets, the end of an expression, and expressions that were cut off."""

from __future__ import annotations

import re

_PAIRS = {")": "(", "]": "[", "}": "{"}
_BRACKET = re.compile(r"[][(){}]")
# What an expression can never end with: an operator that still wants its right side.
_DANGLING = re.compile(r"([-+*/%,=<>(]|\b(and|or|not|in))$")
_EXPRESSION = re.compile(r"[\w\s.,:+\-*/%=<>()\[\]{}'\"!|&^~@]*")


def balance(text: str) -> tuple[str, str]:
    """The brackets without a partner: those that close too early and those left open.

    >>> balance("b)")
    (')', '')
    >>> balance("min(a")
    ('', '(')
    """
    opened: list[str] = []
    closed: list[str] = []
    for char in _BRACKET.findall(text):
        if char not in _PAIRS:
            opened.append(char)
        elif opened and opened[-1] == _PAIRS[char]:
            opened.pop()
        else:
            closed.append(char)
    return "".join(closed), "".join(opened)


def looks_cut(text: str) -> bool:
    """Whether a text looks like an expression whose end is missing."""
    if not _EXPRESSION.fullmatch(text):
        return False
    return bool(balance(text)[1]) or _DANGLING.search(text) is not None


def end_of_expression(text: str, start: int) -> int:
    """Where the expression that starts at `start` ends, inside `{...}` or `[...]`.

    Its own brackets are closed by then; it ends before the comma or bracket that is not its own, and
    with its line.
    """
    depth = 0
    for at in range(start, len(text)):
        char = text[at]
        if char == "\n" or (depth == 0 and char in ",}]"):
            return start + len(text[start:at].rstrip())
        depth += (char in "([{") - (char in ")]}")
        if depth < 0:
            return at + 1
    return len(text)
