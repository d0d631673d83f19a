"""Lifting over time: each rule against the loop, bit by bit; what has no closed form stays in the loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from specgen.expr import Symbol, Type, Typed
from specgen.program.interpret import run
from specgen.program.lift import Lift, Lifted, lift
from specgen.program.program import Assign, Cell, Component, Output, Program
from tests.program.builder import BOOL, FLOAT, Builder

WHOLE = Type("int64", ())
STEPS = 50

CELLS = {
    "n": (WHOLE, "n + 1"),
    "by3": (WHOLE, "3 + by3"),
    "down": (WHOLE, "down - 2"),
    "total": (FLOAT, "total + r"),
    "spent": (FLOAT, "spent - 0.5 * r"),
    "best": (FLOAT, "max(best, r)"),
    "worst": (FLOAT, "min(r, worst)"),
    "ever": (BOOL, "ever or hit"),
    "always": (BOOL, "always and hit"),
    "ema": (FLOAT, "0.9 * ema + 0.1 * r"),
    "minus": (FLOAT, "minus * u - r"),
    "disc": (FLOAT, "disc * 0.99"),
    "weighted": (FLOAT, "weighted + total * r"),
    "last": (FLOAT, "r"),
    "older": (FLOAT, "last"),
    "held": (FLOAT, "held"),
    "wild": (FLOAT, "sin(wild) + r"),
    "after": (FLOAT, "after + wild"),
    "chosen": (FLOAT, "where(hit, chosen, r)"),
    "wide": (FLOAT, "float64(wide) + 0.1"),
    "noisy": (FLOAT, "noisy + uniform(0.0, 1.0)"),
}
RULES = {
    "n": "count",
    "by3": "count",
    "down": "count",
    "total": "sum",
    "spent": "sum",
    "best": "max",
    "worst": "min",
    "ever": "any",
    "always": "all",
    "ema": "affine",
    "minus": "affine",
    "disc": "affine",
    "weighted": "sum",
    "last": "shifted",
    "older": "shifted",
    "held": "kept",
}


def component(cells: Mapping[str, tuple[Type, str]]) -> Component:
    """A component that carries cells by name: their types, and their next values. The world returns r, u and hit."""
    builder = Builder("lifted")
    for name, kind in (("r", FLOAT), ("u", FLOAT), ("hit", BOOL)):
        builder.input(name, kind, "given")
    now = {name: builder.input(name, kind, "state") for name, (kind, _) in cells.items()}
    after = {name: builder.let(f"next.{name}", text, kind) for name, (kind, text) in cells.items()}
    outputs = tuple(Output(name, symbol, "cell") for name, symbol in after.items())
    step = Program("lifted_step", tuple(builder.inputs), tuple(builder.statements), outputs)
    return Component("lifted", {"step": step}, tuple(Cell(n, now[n], None, after[n]) for n in cells))


def test_what_has_a_closed_form_is_found_and_equals_the_loop() -> None:
    made = component(CELLS)
    found = lift(made)
    assert {one.cell.name: one.rule for one in found.solved} == RULES
    assert {cell.name for cell in found.loop} == CELLS.keys() - RULES.keys()
    step = made.phases["step"]
    given = world(step)
    first = {cell.now: first_value(cell) for cell in made.cells}
    rows = loop(made, step, given, first)
    solved = closed(found, step, given, first)
    for cell in made.cells:
        if cell.name in RULES:
            expected = np.asarray(rows[cell.now])
            assert solved[cell.now].dtype == expected.dtype, cell.name
            assert np.array_equal(solved[cell.now], expected), cell.name


def world(step: Program) -> dict[Symbol, Any]:
    """What the world returns at each step."""
    random = np.random.default_rng(0)
    made: dict[Symbol, Any] = {}
    for one in step.inputs:
        if one.kind in ("given", "draw"):
            values = random.normal(size=STEPS)
            made[one.symbol] = values < -1 if one.symbol.type.dtype == "bool" else values.astype("float32")
    return made


def first_value(cell: Cell) -> Any:
    kind = cell.now.type.dtype
    return np.asarray({"int64": 3, "bool": cell.name == "always"}.get(kind, 0.3), kind)


def loop(
    made: Component, step: Program, given: dict[Symbol, Any], first: dict[Symbol, Any]
) -> dict[Symbol, list[Any]]:
    """The cells before each step, step after step."""
    rows: dict[Symbol, list[Any]] = {cell.now: [] for cell in made.cells}
    state = dict(first)
    for time in range(STEPS):
        for symbol, value in state.items():
            rows[symbol].append(value)
        after = run(step, {**state, **{symbol: values[time] for symbol, values in given.items()}})
        state = {cell.now: after[cell.name] for cell in made.cells}
    return rows


def closed(
    found: Lift, step: Program, given: dict[Symbol, Any], first: dict[Symbol, Any]
) -> dict[Symbol, Any]:
    """The solved cells before each step, by their closed forms."""
    known = dict(given)
    for one in found.solved:
        terms = {}
        for what, expr in (("term", one.term), ("factor", one.factor)):
            terms[what] = None if expr is None else values_of(expr, step, known, first, one)
        known[one.cell.now] = FORMS[one.rule](first[one.cell.now], one, **terms)
    return {one.cell.now: known[one.cell.now] for one in found.solved}


def values_of(
    expr: Typed, step: Program, known: dict[Symbol, Any], first: dict[Symbol, Any], one: Lifted
) -> Any:
    """An expression of the step at each time; cells that are not known yet are not what it reads."""
    target = Symbol("value", "value", expr.type)
    body = (*step.body, Assign(target, expr))
    program = Program("term", step.inputs, body, (Output("value", target),))
    rows = []
    for time in range(STEPS):
        row = {**first, **{symbol: values[time] for symbol, values in known.items()}}
        rows.append(np.asarray(run(program, row)["value"], one.cell.now.type.dtype))
    return np.stack(rows)


def before(ufunc: Any, first: Any, term: Any) -> Any:
    return ufunc.accumulate(np.concatenate([[first], term]))[:-1]


def affine(first: Any, one: Lifted, term: Any, factor: Any) -> Any:
    rows, value = [], first
    for time in range(STEPS):
        rows.append(value)
        value = factor[time] * value + (0 if term is None else term[time])
    return np.asarray(rows, first.dtype)


FORMS: dict[str, Any] = {
    "kept": lambda first, one, term, factor: np.full(STEPS, first),
    "shifted": lambda first, one, term, factor: np.concatenate([[first], term[:-1]]),
    "count": lambda first, one, term, factor: first + one.by * np.arange(STEPS),
    "sum": lambda first, one, term, factor: before(np.add, first, term),
    "max": lambda first, one, term, factor: before(np.maximum, first, term),
    "min": lambda first, one, term, factor: before(np.minimum, first, term),
    "any": lambda first, one, term, factor: before(np.logical_or, first, term),
    "all": lambda first, one, term, factor: before(np.logical_and, first, term),
    "affine": affine,
}


@pytest.mark.parametrize(
    ("count", "flag", "first", "steps"),
    [
        ("n + 1", "hit or next.n >= 10", 0, 10),
        ("n + 1", "hit or next.n > 10", 0, 11),
        ("n + 1", "10 <= next.n", 4, 6),
        ("n + 1", "n >= 10", 0, 11),
        ("n + 3", "next.n >= 10", 0, 4),
        ("n + 3", "next.n >= 9", 0, 3),
        ("n + 1", "next.n >= 10", 30, 1),
        ("n - 1", "next.n <= 0", 5, 5),
        ("n - 2", "next.n < 0", 5, 3),
        ("n - 1", "next.n >= 10", 0, None),
        ("n + 1", "next.n <= -3", 0, None),
        ("n + 0", "next.n >= 3", 0, None),
    ],
)
def test_when_an_episode_must_stop(count: str, flag: str, first: int, steps: int | None) -> None:
    found = lift(component({"n": (WHOLE, count), "truncated": (BOOL, flag)}))
    (limit,) = found.limits
    assert limit.flag.name == "truncated"
    assert not found.undecided
    assert limit.steps(first) == steps
    by = limit.counter.by
    text = flag.removeprefix("hit or ").replace("next.n", "after")
    names = [{"n": first + by * step, "after": first + by * (step + 1)} for step in range(100)]
    raised = [step + 1 for step, values in enumerate(names) if eval(text, {}, values)]
    assert (raised[0] if raised else None) == steps


def test_a_flag_that_something_else_raises_is_undecided() -> None:
    found = lift(component({"n": (WHOLE, "n + 1"), "truncated": (BOOL, "hit or next.n >= 5 or r > 1.0")}))
    assert [cell.name for cell in found.undecided] == ["truncated"]
    assert len(found.limits) == 1
