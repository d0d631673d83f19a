"""Random programs: every pass, and every order of passes, keeps every value of the interpreter bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from specgen.expr import Symbol
from specgen.program.common import common
from specgen.program.cut import live
from specgen.program.fold import fold
from specgen.program.hoist import GROUP, hoist
from specgen.program.inline import inline
from specgen.program.interpret import run
from specgen.program.program import Input, Program
from specgen.program.share import share
from specgen.program.stored import copies, laid_out, stored_where_made
from specgen.program.verify import verify
from specgen.program.views import parts_first
from tests.program.random_programs import Sample

PASSES: tuple[Callable[[Program], Program], ...] = (
    inline,
    common,
    share,
    fold,
    copies,
    stored_where_made,
    live,
    laid_out,
    parts_first,
)
EXAMPLES = 100 if settings.default.derandomize else 3000
SEEDS = st.integers(0, 2**32 - 1)


def value_of(one: Input, random: np.random.Generator) -> Any:
    kind = one.symbol.type
    if kind.python:
        return {"p": 0.7, "q": -0.3}[one.symbol.name]
    shape = tuple(map(int, kind.dims or ()))
    if kind.dtype == "bool":
        return np.asarray(random.random(shape) < 0.3)
    if kind.dtype == "int64":
        return np.asarray(random.integers(0, 6, shape))
    return random.normal(size=shape).astype(kind.dtype)


def inputs_of(program: Program, seed: int) -> dict[Symbol, Any]:
    random = np.random.default_rng(seed)
    return {one.symbol: value_of(one, random) for one in program.inputs}


def assert_same(found: Mapping[str, Any], expected: Mapping[str, Any], what: str) -> None:
    assert found.keys() == expected.keys(), what
    for name, value in expected.items():
        other = found[name]
        assert np.asarray(other).dtype == np.asarray(value).dtype, (what, name)
        assert np.array_equal(other, value, equal_nan=np.asarray(value).dtype.kind == "f"), (what, name)


examples = settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a seed can't be shrunk
    suppress_health_check=list(HealthCheck),
)


@examples
@given(SEEDS)
def test_every_pass_and_every_order_keeps_the_values(seed: int) -> None:
    random = Random(seed)
    program = Sample(random, f"random{seed}").program()
    if program is None:
        return
    verify(program)
    given_values = inputs_of(program, seed)
    expected = run(program, given_values)
    for change in PASSES:
        assert_same(run(verify(change(program)), given_values), expected, change.__name__)
    for _ in range(2):
        order = [random.choice(PASSES) for _ in range(6)]
        changed = program
        for change in order:
            changed = verify(change(changed))
        assert_same(run(changed, given_values), expected, " then ".join(one.__name__ for one in order))


@examples
@given(SEEDS)
def test_what_is_computed_once_is_given_to_the_rest(seed: int) -> None:
    program = Sample(Random(seed), f"random{seed}").program()
    if program is None:
        return
    given_values = inputs_of(program, seed)
    expected = run(program, given_values)
    once, (each,) = hoist("random_constants", "Constants", [verify(inline(program))], ("param", "const"))
    made = {} if once is None else run(verify(once), given_values)
    verify(each)
    constants = {one.symbol: made[one.symbol.name] for one in each.inputs if one.group == GROUP}
    assert_same(run(each, {**given_values, **constants}), expected, "hoist")
