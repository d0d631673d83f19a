"""The verifier finds damage of every kind, wherever it is planted in the programs of the library and of the cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from specgen.expr import DrawSite, Symbol, Type, Typed
from specgen.expr.dtypes import is_abstract
from specgen.program.program import Assign, Call, Carried, Program, Region, Statement
from specgen.program.verify import BrokenProgramError, same_effects, verify
from specgen.program.walk import read, reads, reads_symbol, targets, with_parts
from tests.program import hand_built
from tests.program.corpus import compiled_programs, parts

Damage = Iterator[Program]
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


def bodies(program: Program) -> Iterator[tuple[tuple[Statement, ...], Callable[[list[Statement]], Program]]]:
    """The statements of a program, and of each region in it, with what puts others in their place."""
    yield program.body, lambda body: replace(program, body=tuple(body))
    for at, statement in enumerate(program.body):
        if isinstance(statement, Region):
            yield statement.body, _within(program, at, statement)


def _within(program: Program, at: int, region: Region) -> Callable[[list[Statement]], Program]:
    def put(body: list[Statement]) -> Program:
        made = replace(region, body=tuple(body))
        return replace(program, body=(*program.body[:at], made, *program.body[at + 1 :]))

    return put


def needed(program: Program) -> set[Symbol]:
    """The values that something reads, or that are returned or handed on."""
    found = {output.symbol for output in program.outputs}
    for body, _ in bodies(program):
        for statement in body:
            found.update(reads(statement))
            if isinstance(statement, Region):
                found.update(one.after for one in statement.carried)
                found.update(inner for _, inner in statement.results)
    return found


# statements --------------------------------------------------------------------------------------


def statement_dropped(program: Program) -> Damage:
    used = needed(program)
    for body, put in bodies(program):
        for at, statement in enumerate(body):
            if used.intersection(targets(statement)):
                yield put([*body[:at], *body[at + 1 :]])


def statement_twice(program: Program) -> Damage:
    for body, put in bodies(program):
        for at, statement in enumerate(body):
            if targets(statement):
                yield put([*body[: at + 1], statement, *body[at + 1 :]])


def moved_before_what_it_reads(program: Program) -> Damage:
    for body, put in bodies(program):
        for at, statement in enumerate(body):
            earlier = {target for one in body[:at] for target in targets(one)}
            if earlier.intersection(reads(statement)):
                yield put([statement, *body[:at], *body[at + 1 :]])


def read_outside_its_region(program: Program) -> Damage:
    for at, statement in enumerate(program.body):
        if isinstance(statement, Region):
            inner = targets(statement.body[0])[0]
            stray = Assign(Symbol("stray", "stray", inner.type), read(inner))
            yield replace(program, body=(*program.body[: at + 1], stray, *program.body[at + 1 :]))


def unknown_symbol_read(program: Program) -> Damage:
    yield from _changed_reads(program, lambda leaf: read(Symbol("nowhere", "nowhere", leaf.type)))


# types -------------------------------------------------------------------------------------------


def target_of_another_dtype(program: Program) -> Damage:
    yield from _changed_targets(program, lambda type: replace(type, dtype="int8"))


def target_of_another_layout(program: Program) -> Damage:
    yield from _changed_targets(program, lambda type: replace(type, col=not type.col), tensors=True)


def target_of_another_shape(program: Program) -> Damage:
    yield from _changed_targets(program, lambda type: replace(type, dims=(*(type.dims or ()), 17)))


def target_without_rows(program: Program) -> Damage:
    yield from _changed_targets(program, lambda type: replace(type, level="const"), rows=True)


def read_as_another_type(program: Program) -> Damage:
    yield from _changed_reads(program, lambda leaf: replace(leaf, type=replace(leaf.type, dtype="int8")))


def read_as_another_layout(program: Program) -> Damage:
    yield from _changed_reads(
        program, lambda leaf: replace(leaf, type=replace(leaf.type, col=not leaf.type.col))
    )


def operand_of_another_dtype(program: Program) -> Damage:
    def cast(node: Typed) -> Typed | None:
        wanted = str(node.options.get("operand_dtype", "any"))
        if is_abstract(wanted) or node.op == "where":
            return None
        for at, arg in enumerate(node.args):
            if not arg.type.python:
                other = Typed("cast", replace(arg.type, dtype="uint8"), arg.interval, (arg,))
                return replace(node, args=(*node.args[:at], other, *node.args[at + 1 :]))
        return None

    yield from _changed_nodes(program, cast)


def operand_missing(program: Program) -> Damage:
    def shorter(node: Typed) -> Typed | None:
        operator = node.builtin is not None and node.builtin.family == "operator"
        return replace(node, args=node.args[1:]) if operator else None

    yield from _changed_nodes(program, shorter)


def flag_that_is_none(program: Program) -> Damage:
    def number(node: Typed) -> Typed | None:
        if node.op not in ("and", "or", "not", "any", "all"):
            return None
        first = node.args[0]
        other = Typed("cast", replace(first.type, dtype="int64"), first.interval, (first,))
        return replace(node, args=(other, *node.args[1:]))

    yield from _changed_nodes(program, number)


def layout_that_is_not_the_operands(program: Program) -> Damage:
    def flipped(node: Typed) -> Typed | None:
        known = "operand_dtype" in node.options and node.type.level == "batch" and node.type.dims is not None
        drawn = node.builtin is not None and node.builtin.family == "draw"
        if not known or drawn or (node.op == "where" and node.args[0].static is not None):
            return None
        return replace(node, type=replace(node.type, col=not node.type.col))

    yield from _changed_nodes(program, flipped, below=True)


def stored_in_another_shape(program: Program) -> Damage:
    def wider(node: Typed) -> Typed | None:
        if node.op != "store" or not node.args[0].type.dims:
            return None
        return replace(node, type=replace(node.type, dims=(*(node.type.dims or ()), 17)))

    yield from _changed_nodes(program, wider)


def stored_without_a_witness(program: Program) -> Damage:
    """Found once witnesses are given."""

    def bare(node: Typed) -> Typed | None:
        rows = any(one.type.level == "batch" for one in node.args[0].nodes()) if node.args else True
        if node.op != "store" or rows or node.type.dims is None or node.type.level != "batch":
            return None
        return replace(node, args=node.args[:1])

    if any(one.symbol.type.level == "batch" for one in program.inputs):
        yield from _changed_nodes(program, bare)


# inputs and outputs ------------------------------------------------------------------------------


def input_missing(program: Program) -> Damage:
    used = needed(program)
    for at, one in enumerate(program.inputs):
        if one.symbol in used:
            yield replace(program, inputs=(*program.inputs[:at], *program.inputs[at + 1 :]))


def input_twice(program: Program) -> Damage:
    for one in program.inputs[-1:]:
        yield replace(program, inputs=(*program.inputs, one))


def input_that_is_computed(program: Program) -> Damage:
    for at, statement in enumerate(program.body):
        if isinstance(statement, Assign) and program.inputs and not program.inputs[-1].group:
            other = replace(statement, target=program.inputs[-1].symbol)
            yield replace(program, body=(*program.body[:at], other, *program.body[at + 1 :]))


def record_behind_other_arguments(program: Program) -> Damage:
    if program.inputs and program.inputs[0].group and not program.inputs[-1].group:
        yield replace(program, inputs=(*program.inputs[1:], program.inputs[0]))


def draw_that_is_not_drawn(program: Program) -> Damage:
    for at, one in enumerate(program.inputs):
        if one.kind == "draw":
            yield replace(
                program,
                inputs=(*program.inputs[:at], replace(one, kind="data"), *program.inputs[at + 1 :]),
            )


def draw_of_another_shape(program: Program) -> Damage:
    for at, one in enumerate(program.inputs):
        if isinstance(one.draw, DrawSite):
            other = replace(one, draw=replace(one.draw, dims=(*one.draw.dims, 17)))
            yield replace(program, inputs=(*program.inputs[:at], other, *program.inputs[at + 1 :]))


def output_that_nothing_defines(program: Program) -> Damage:
    for at, output in enumerate(program.outputs):
        other = replace(output, symbol=Symbol("nowhere", "nowhere", output.symbol.type))
        yield replace(program, outputs=(*program.outputs[:at], other, *program.outputs[at + 1 :]))


def output_twice(program: Program) -> Damage:
    for output in program.outputs[:1]:
        yield replace(program, outputs=(*program.outputs, output))


# calls -------------------------------------------------------------------------------------------


def _calls(program: Program, change: Callable[[Call], Call | None]) -> Damage:
    for body, put in bodies(program):
        for at, statement in enumerate(body):
            made = change(statement) if isinstance(statement, Call) else None
            if made is not None:
                yield put([*body[:at], made, *body[at + 1 :]])


def argument_missing(program: Program) -> Damage:
    yield from _calls(
        program,
        lambda call: replace(call, args=call.args[1:]) if call.callee.program and call.args else None,
    )


def arguments_of_other_types(program: Program) -> Damage:
    def rotated(call: Call) -> Call | None:
        if call.callee.program is None or len({(arg.type, arg.type.level) for arg in call.args}) < 2:
            return None
        return replace(call, args=(*call.args[1:], call.args[0]))

    yield from _calls(program, rotated)


def record_in_pieces(program: Program) -> Damage:
    """Two parameters of one type change places: the record would be handed over as if they had not."""

    def swapped(call: Call) -> Call | None:
        if call.callee.program is None:
            return None
        groups = [at for at, one in enumerate(call.callee.program.inputs) if one.group]
        for one, other in pairwise(groups):
            if call.args[one].type == call.args[other].type:
                args = list(call.args)
                args[one], args[other] = args[other], args[one]
                return replace(call, args=tuple(args))
        return None

    yield from _calls(program, swapped)


def value_of_a_call_missing(program: Program) -> Damage:
    def fewer(call: Call) -> Call | None:
        if call.callee.program is None or len(call.targets) < 2:
            return None
        return replace(call, targets=call.targets[:-1], fields=call.fields[:-1])

    yield from _calls(program, fewer)


def field_of_another_name(program: Program) -> Damage:
    def renamed(call: Call) -> Call | None:
        known = call.callee.program is not None and call.fields
        return replace(call, fields=("nothing", *call.fields[1:])) if known else None

    yield from _calls(program, renamed)


def value_of_a_call_of_another_type(program: Program) -> Damage:
    def other(call: Call) -> Call | None:
        if call.callee.program is None or call.targets[0].type.dtype == "record":
            return None
        first = replace(call.targets[0], type=Type("int8", (17,)))
        return replace(call, targets=(first, *call.targets[1:]))

    yield from _calls(program, other)


# regions -----------------------------------------------------------------------------------------


def _regions(program: Program, change: Callable[[Region], Region | None]) -> Damage:
    for at, statement in enumerate(program.body):
        made = change(statement) if isinstance(statement, Region) else None
        if made is not None:
            yield replace(program, body=(*program.body[:at], made, *program.body[at + 1 :]))


def region_that_ends_with_what_is_outside(program: Program) -> Damage:
    def ended(region: Region) -> Region | None:
        outside = Symbol("outside", "outside", Type("float32", ()))
        if region.carried:
            return replace(region, carried=(replace(region.carried[0], after=outside), *region.carried[1:]))
        return replace(region, results=((region.results[0][0], outside),)) if region.results else None

    yield from _regions(program, ended)


def carried_in_another_type(program: Program) -> Damage:
    def other(region: Region) -> Region | None:
        if not region.carried:
            return None
        first = region.carried[0]
        cast = Typed("cast", replace(first.init.type, dtype="int8"), first.init.interval, (first.init,))
        made = Carried(first.inner, cast, first.after, first.result)
        return replace(region, carried=(made, *region.carried[1:]))

    yield from _regions(program, other)


def mask_that_can_fall(program: Program) -> Damage:
    def fallen(region: Region) -> Region | None:
        if region.mask is None:
            return None
        ends = {one.after for one in region.carried if one.inner == region.mask}
        body = [
            replace(one, value=one.value.args[1]) if isinstance(one, Assign) and one.target in ends else one
            for one in region.body
        ]
        return replace(region, body=tuple(body))

    yield from _regions(program, fallen)


def mask_that_is_not_carried(program: Program) -> Damage:
    yield from _regions(
        program,
        lambda region: replace(region, mask=Symbol("m", "m", Type("bool", ()))) if region.count else None,
    )


def region_of_another_kind(program: Program) -> Damage:
    yield from _regions(
        program, lambda region: replace(region, kind="scan" if region.kind != "scan" else "repeat")
    )


DAMAGES = (
    statement_dropped,
    statement_twice,
    moved_before_what_it_reads,
    read_outside_its_region,
    unknown_symbol_read,
    target_of_another_dtype,
    target_of_another_layout,
    target_of_another_shape,
    target_without_rows,
    read_as_another_type,
    read_as_another_layout,
    operand_of_another_dtype,
    operand_missing,
    flag_that_is_none,
    layout_that_is_not_the_operands,
    stored_in_another_shape,
    stored_without_a_witness,
    input_missing,
    input_twice,
    input_that_is_computed,
    record_behind_other_arguments,
    draw_that_is_not_drawn,
    draw_of_another_shape,
    output_that_nothing_defines,
    output_twice,
    argument_missing,
    arguments_of_other_types,
    record_in_pieces,
    value_of_a_call_missing,
    field_of_another_name,
    value_of_a_call_of_another_type,
    region_that_ends_with_what_is_outside,
    carried_in_another_type,
    mask_that_can_fall,
    mask_that_is_not_carried,
    region_of_another_kind,
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


# how the damage is planted -----------------------------------------------------------------------


def _changed_targets(
    program: Program, change: Callable[[Type], Type], *, tensors: bool = False, rows: bool = False
) -> Damage:
    for body, put in bodies(program):
        for at, statement in enumerate(body):
            if not isinstance(statement, Assign):
                continue
            kind = statement.target.type
            if (tensors and kind.python) or (rows and kind.level != "batch") or kind.dims is None:
                continue
            other = replace(statement, target=replace(statement.target, type=change(kind)))
            yield put([*body[:at], other, *body[at + 1 :]])


def _changed_reads(program: Program, change: Callable[[Typed], Typed]) -> Damage:
    yield from _changed_nodes(program, lambda node: change(node) if reads_symbol(node) else None)


def _changed_nodes(
    program: Program, change: Callable[[Typed], Typed | None], *, below: bool = False
) -> Damage:
    """A program for each assignment with one node changed; `below`: not the topmost, whose type its target checks."""
    for body, put in bodies(program):
        for at, statement in enumerate(body):
            if not isinstance(statement, Assign):
                continue
            value = _first_changed(statement.value, change, below)
            if value is not None:
                yield put([*body[:at], replace(statement, value=value), *body[at + 1 :]])


def _first_changed(expr: Typed, change: Callable[[Typed], Typed | None], below: bool) -> Typed | None:
    if not below and (made := change(expr)) is not None:
        return made
    done = False

    def visit(part: Typed) -> Typed:
        nonlocal done
        made = None if done else _first_changed(part, change, False)
        done = done or made is not None
        return part if made is None else made

    changed = with_parts(expr, visit)
    return changed if done else None
