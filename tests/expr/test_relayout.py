"""Layouts follow what is read: of the same expression over other layouts they are those that inference finds there."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest

from specgen.expr import Binding, Typed
from specgen.expr.relayout import relayout
from specgen.program.walk import with_parts
from tests.expr.generate import Generator
from tests.expr.leaves import DIMS, FUNCTIONS, names
from tests.expr.makers import MAKERS
from tests.expr.texts import mistakes, typed

MIXED = names()


def scope(*, col: bool) -> dict[str, Binding]:
    """The names, all with a trailing 1 or all without one."""
    return {
        name: replace(binding, type=replace(binding.type, col=col and binding.type.level == "batch"))
        for name, binding in MIXED.items()
    }


def read_in(node: Typed, scope: dict[str, Binding]) -> Typed:
    found = {binding.symbol: binding for binding in scope.values()}
    if node.symbol in found:
        return replace(node, type=found[node.symbol].type)
    return with_parts(node, lambda part: read_in(part, scope))


@pytest.mark.parametrize("seed", range(40))
def test_layouts_of_random_expressions(seed: int) -> None:
    rng = random.Random(seed)
    generator = Generator(rng, MAKERS)
    text = ""
    while not text or mistakes(text, MIXED, FUNCTIONS):
        text = generator.expression(rng.choice("fib"), rng.choice(DIMS), 3, exact=False)
    found = [(one, typed(text, one, FUNCTIONS)) for one in (MIXED, scope(col=False), scope(col=True))]
    for (_, tree), (other, expected) in permutations(found, 2):
        assert relayout(read_in(tree, other)) == expected, text
