"""Literals, docstrings and comments stay what they are, whatever text they are made of."""

from __future__ import annotations

import ast
import math
import tokenize
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specgen.literals import comment, docstring, formatted, listed, literal

HOSTILE = [
    '"',
    "'",
    '"""',
    "\\",
    "\n",
    "\r",
    "\t",
    "{",
    "}",
    "{{",
    "{%",
    "\0",
    "\u2028",
    "\u202e",
    "\x85",
    "\ud800",
]
TEXTS = st.lists(st.sampled_from([*HOSTILE, "a", " ", "#", "é", "N{DASH}", "\N{GRINNING FACE}"])).map("".join)
SCALARS = TEXTS | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(TEXTS, inner),
    max_leaves=8,
)


@given(VALUES)
def test_a_literal_is_the_value(value: object) -> None:
    text = literal(value)
    assert eval(text, {"math": math}) == value
    assert text.isprintable()


@given(TEXTS)
def test_an_f_string_is_the_text_and_the_value(text: str) -> None:
    assert eval(formatted(text, "value!r"), {"value": "v"}) == f"{text}'v'"


@given(st.lists(TEXTS, max_size=4), st.integers(0, 2))
def test_a_docstring_is_one_statement(lines: list[str], depth: int) -> None:
    nesting = "".join(f"{'    ' * level}if True:\n" for level in range(depth))
    source = f"{nesting}{'    ' * depth}{docstring(lines, depth)}\n"
    (statement,) = ast.parse(source).body
    for _ in range(depth):
        assert isinstance(statement, ast.If)
        (statement,) = statement.body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Constant)
    said = str(statement.value.value)
    shown = [part.rstrip() for line in lines for part in line.split("\n")]
    assert [line.strip() for line in said.strip().split("\n")] == [
        line.strip() for line in "\n".join(shown).strip().split("\n")
    ]


@given(TEXTS)
def test_a_comment_is_one_line(text: str) -> None:
    assert ast.dump(ast.parse(f"{comment(text)}\nx = 1\n")) == ast.dump(ast.parse("x = 1"))
    assert comment(text).isprintable()


@pytest.mark.parametrize(
    "text", ["coding: utf-7", "-*- coding:latin-1 -*-", "encoding=utf-16", "vim: coding =x"]
)
def test_a_comment_declares_no_encoding(text: str) -> None:
    source = f"{comment(text)}\nx = 1\n".encode()
    assert tokenize.detect_encoding(BytesIO(source).readline)[0] == "utf-8"


def test_numbers_without_digits() -> None:
    assert literal([math.inf, -math.inf, math.nan]) == "[math.inf, -math.inf, math.nan]"


def test_what_has_no_literal() -> None:
    with pytest.raises(TypeError, match="object has no literal"):
        literal(object())


def test_words_of_a_message() -> None:
    assert listed(["l1", "l2"]) == "'l1', 'l2'"
