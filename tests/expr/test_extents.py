"""Where expressions start and end in their text: what messages quote and what remedies wrap."""

from __future__ import annotations

import pytest

from specgen.diagnostics import Sink
from specgen.expr import parse, tree
from tests.expr.texts import Text
from tests.support import compile_texts

EXPRESSIONS = [
    "(a + b) * c",
    "-(a + b)",
    "a * (b + (c - 1))",
    "not (a < b) and (b < c)",
    "((a)) + ((b))",
    "(a < b) == (c < (d))",
    "(a + b)[0, 1:(2)]",
    "f((a + b) * c, (d), key=(e))",
    "(a ** (b)) ** -(c)",
    "where((a) < (b), -(a), (b)[None])",
]


def _nodes(expr: tree.Expr) -> list[tree.Expr]:
    return [expr, *(node for child in tree.children(expr) for node in _nodes(child))]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_the_text_of_each_part_is_an_expression_of_the_same_meaning(text: str) -> None:
    expr = parse(Text(text), Sink())
    assert expr is not None
    for node in _nodes(expr):
        sink = Sink()
        own = parse(Text(text[node.start : node.end]), sink)
        assert own is not None
        assert not sink.items
        assert [type(part) for part in _nodes(own)] == [type(part) for part in _nodes(node)]


def test_a_remedy_has_the_parentheses_of_what_it_wraps() -> None:
    schema = """\
specgen: 1
envs:
  Walk:
    state: {x: float64}
    action: {action: "float32[1] in [-1, 1]"}
    observation: {observation: "float32"}
    reset: {x: 0.0}
    step:
      next.x: x + action[0]
      reward: -(x + (1 - x))
    observe: {observation: float32(x)}
"""
    _, said, _ = compile_texts({"walk": schema}, "walk")
    assert "write float32(-(x + (1 - x)))" in said
