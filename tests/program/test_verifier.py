"""The verifier finds damage of every kind, wherever it is planted in the programs of the library and of the cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from specgen.program.program import Call, Program
from specgen.program.verify import BrokenProgramError, same_effects, verify
from tests.program import hand_built
from tests.program.corpus import compiled_programs, parts
from tests.program.damage import DAMAGES, Damage, stored_without_a_witness

LEAST = 20_000
"""So many places at least are damaged."""


@cache
def programs() -> tuple[Program, ...]:
    """Every program that the passes take or give while the library and the cases are compiled, and the hand-built."""
    return (*compiled_programs(), *hand_written())


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
