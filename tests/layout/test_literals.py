"""What a schema says reaches generated code through `specgen.literals` alone.

The rooms that print (`expr/`, `plan/`, `emit/`) put no quotes, no `repr` and no `#` around a value themselves.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

SPECGEN = Path(__file__).resolve().parents[2] / "specgen"
MANUAL = SPECGEN / "expr" / "docs.py"  # prints a page of the manual, about the compiler's own table
PRINTING = sorted(
    path for room in ("expr", "plan", "emit") for path in (SPECGEN / room).rglob("*.py") if path != MANUAL
)
TEMPLATES = sorted((SPECGEN / "emit" / "templates").glob("*.j2"))
QUOTES = ("'", '"')
# A quote beside what a template prints, or a `#` before it; a comment may follow code.
IN_TEMPLATE = re.compile(r"""["']\s*\{\{|#[^\n]*\{\{|\}\}\s*["']""")


def made_by_hand(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a module that make a literal or a comment of a value themselves, and how."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="repr" | "ascii" | "chr"):
                yield node.lineno, f"{node.id}()"
            case ast.Attribute(attr="dumps" | "encode" | "__repr__"):
                yield node.lineno, f".{node.attr}"
            case ast.FormattedValue(conversion=97 | 114):
                yield node.lineno, "!r"
            case ast.JoinedStr(values=parts):
                yield from _beside_values(parts)
            case ast.BinOp(op=ast.Add() | ast.Mod()):
                for side in (node.left, node.right):
                    if isinstance(side, ast.Constant) and isinstance(side.value, str) and _opens(side.value):
                        yield side.lineno, "a quote before or after a value"
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(made)), attr="join" | "format")):
                if any(quote in made for quote in QUOTES) or "#" in made:
                    yield node.lineno, "a quote around values"
            case ast.Call(func=ast.Attribute(attr="replace"), args=[_, ast.Constant(value=str(made))]):
                if any(quote in made for quote in QUOTES) or "\\" in made:
                    yield node.lineno, "escapes by hand"
            case _:
                pass


def _opens(text: str) -> bool:
    return text.startswith(QUOTES) or text.endswith(QUOTES) or "#" in text


def _beside_values(parts: list[ast.expr]) -> Iterator[tuple[int, str]]:
    for part, other in pairwise(parts):
        before, after = (
            part.value if isinstance(part, ast.Constant) else "",
            other.value if isinstance(other, ast.Constant) else "",
        )
        if str(before).endswith(QUOTES) or str(after).startswith(QUOTES):
            yield part.lineno, "a quote beside a value"
        if "#" in str(before):
            yield part.lineno, "a comment of a value"


@pytest.mark.parametrize("path", PRINTING, ids=lambda path: path.relative_to(SPECGEN).as_posix())
def test_no_literal_is_made_by_hand(path: Path) -> None:
    assert list(made_by_hand(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_print_finished_literals(path: Path) -> None:
    assert IN_TEMPLATE.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "repr(x)",
        "map(repr, xs)",
        "f'{x!r}'",
        "f'a = \"{x}\"'",
        'f"{x}\'"',
        "'\"' + x + '\"'",
        "'\"%s\"' % x",
        "'\"{}\"'.format(x)",
        "'\", \"'.join(xs)",
        "json.dumps(x)",
        "f'# {x}'",
        "'# ' + x",
        "x.replace('\"', '\\\\\"')",
    ],
)
def test_the_walk_sees_what_it_looks_for(text: str) -> None:
    assert list(made_by_hand(text))


@pytest.mark.parametrize("text", ['"{{ name }}"', "# {{ source }}", '"""{{ doc }}"""', "# by {{ x }}"])
def test_the_walk_sees_templates(text: str) -> None:
    assert IN_TEMPLATE.search(text)
