"""The verifier finds damage of every kind, wherever it is planted in the programs of the library and of the cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import pytest

from specgen.expr import Type
from specgen.program.program import Assign, Call, Program, Region
from specgen.program.verify import BrokenProgramError, same_effects, verify
from specgen.program.walk import expressions
from tests.program import hand_built
from tests.program.corpus import compiled_programs, parts
from tests.program.damage import DAMAGES, Damage, stored_without_a_witness
from tests.program.damaged_places import bodies
from tests.sizes import THOROUGH, each_time_or_thorough

LEAST = each_time_or_thorough(12_000, 20_000)
"""So many places at least are damaged."""


@cache
def programs() -> tuple[Program, ...]:
    """The programs that the passes take or give while the library and the cases are compiled, and the hand-built.

    Thoroughly all of them; otherwise the shortest that together have every kind of place that any of them has.
    """
    found = (*compiled_programs(), *hand_written())
    return found if THOROUGH else covering(found)


def covering(programs: Sequence[Program]) -> tuple[Program, ...]:
    """Of the shorter programs first those that have a kind of place which none before has."""
    seen: set[tuple[object, ...]] = set()
    kept = []
    for program in sorted(programs, key=size):
        new = {*kinds_of_places(program)} - seen
        if new:
            kept.append(program)
            seen |= new
    return tuple(kept)


def size(program: Program) -> int:
    return sum(1 for body, _ in bodies(program) for _ in body)


def kinds_of_places(program: Program) -> Iterator[tuple[object, ...]]:
    """What the verifier and the damages tell apart: inputs, outputs, statements, and expressions with their types."""
    for one in program.inputs:
        draw = one.draw.kind if one.draw is not None else ""
        yield "input", one.kind, bool(one.group), draw, *shown(one.symbol.type)
    for output in program.outputs:
        yield "output", output.role, *shown(output.symbol.type)
    for body, _ in bodies(program):
        inside = body is not program.body
        for statement in body:
            match statement:
                case Assign():
                    yield "assign", inside, statement.value.op, *shown(statement.target.type)
                case Call(callee=callee):
                    known = callee.program is not None
                    yield "call", inside, callee.effect, known, bool(statement.fields), bool(statement.named)
                    yield "call", known, callee.receiver is None, len(statement.targets) > 1
                case Region():
                    carried = [one.result is None for one in statement.carried]
                    yield (
                        "region",
                        inside,
                        statement.kind,
                        statement.backward,
                        statement.mask is None,
                        *carried,
                    )
            for expr in expressions(statement):
                for node in expr.nodes:
                    yield "expression", inside, node.op, node.type.level, node.type.col
                    yield "expression", node.op == "name", *shown(node.type)


def shown(type: Type) -> tuple[object, ...]:
    return type.dtype.rstrip("0123456789"), type.level, type.col, type.python, type.open, bool(type.dims)


def hand_written() -> tuple[Program, ...]:
    env = parts("CartPole")
    assert env.reward is not None
    state = [one.symbol for one in env.advance.inputs if one.kind == "state"]
    skip = hand_built.frame_skip(env.advance, env.reward, state, 4)
    return (
        skip,
        hand_built.clip_ppo(),
        hand_built.sac(),
        hand_built.gae(),
        *hand_built.vec_norm(6),
    )


found: Counter[str] = Counter()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_found(damage: Callable[[Program], Damage]) -> None:
    for program in programs():
        for broken in damage(program):
            with pytest.raises(BrokenProgramError, match=program.name.split("[")[0]):
                verify(broken, witnesses=damage is stored_without_a_witness)
            found[damage.__name__] += 1
    assert found[damage.__name__], f"{damage.__name__} was planted nowhere"


def test_so_much_was_planted() -> None:
    if len(found) == len(DAMAGES):  # all of them ran here
        assert found.total() >= LEAST


def test_calls_with_effects_stay() -> None:
    program = hand_built.sac()
    draws = [
        at for at, one in enumerate(program.body) if isinstance(one, Call) and one.callee.effect == "draws"
    ]
    first, second = (program.body[at] for at in draws)
    dropped = replace(program, body=tuple(one for one in program.body if one is not first))
    with pytest.raises(BrokenProgramError, match="sac_loss: calls with effects"):
        same_effects(program, dropped)
    same_effects(program, dropped, fewer=True)
    again = replace(program, body=(*program.body, second))
    with pytest.raises(BrokenProgramError):
        same_effects(program, again, fewer=True)


def test_messages_name_the_program_the_statement_and_the_symbol() -> None:
    program = hand_built.gae()
    broken = replace(program, body=program.body[1:])
    with pytest.raises(
        BrokenProgramError, match=r"gae: %estimators\.GAE\.advantage = scan: %estimators\.GAE\.delta"
    ):
        verify(broken)
