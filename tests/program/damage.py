"""Damage to programs, of every kind that a wrong pass could do: each function gives programs with one damaged place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from specgen.expr import DrawSite, Symbol, Type, Typed
from specgen.program.program import Assign, Call, Carried, Program, Region
from tests.program.damage_to_statements import (
    flag_that_is_none,
    layout_that_is_not_the_operands,
    moved_before_what_it_reads,
    operand_missing,
    operand_of_another_dtype,
    read_as_another_layout,
    read_as_another_type,
    read_outside_its_region,
    statement_dropped,
    statement_twice,
    stored_in_another_shape,
    stored_without_a_witness,
    target_of_another_dtype,
    target_of_another_layout,
    target_of_another_shape,
    target_without_rows,
    unknown_symbol_read,
)
from tests.program.damaged_places import Damage, bodies, needed

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


def left_without_a_mask(program: Program) -> Damage:
    yield from _regions(program, lambda region: replace(region, leaves=True, mask=None))


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
    left_without_a_mask,
    region_of_another_kind,
)
