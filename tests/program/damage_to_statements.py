"""Damage to statements and types: each function gives programs with one damaged place."""

from __future__ import annotations

from dataclasses import replace

from specgen.expr import Symbol, Typed
from specgen.expr.dtypes import is_abstract
from specgen.program.program import Assign, Program, Region
from specgen.program.walk import read, reads, targets
from tests.program.damaged_places import Damage, bodies, changed_nodes, changed_reads, changed_targets, needed

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
    yield from changed_reads(program, lambda leaf: read(Symbol("nowhere", "nowhere", leaf.type)))


# types -------------------------------------------------------------------------------------------


def target_of_another_dtype(program: Program) -> Damage:
    yield from changed_targets(program, lambda type: replace(type, dtype="int8"))


def target_of_another_layout(program: Program) -> Damage:
    yield from changed_targets(program, lambda type: replace(type, col=not type.col), tensors=True)


def target_of_another_shape(program: Program) -> Damage:
    yield from changed_targets(program, lambda type: replace(type, dims=(*(type.dims or ()), 17)))


def target_without_rows(program: Program) -> Damage:
    yield from changed_targets(program, lambda type: replace(type, level="const"), rows=True)


def read_as_another_type(program: Program) -> Damage:
    yield from changed_reads(program, lambda leaf: replace(leaf, type=replace(leaf.type, dtype="int8")))


def read_as_another_layout(program: Program) -> Damage:
    yield from changed_reads(
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

    yield from changed_nodes(program, cast)


def operand_missing(program: Program) -> Damage:
    def shorter(node: Typed) -> Typed | None:
        operator = node.builtin is not None and node.builtin.family == "operator"
        return replace(node, args=node.args[1:]) if operator else None

    yield from changed_nodes(program, shorter)


def flag_that_is_none(program: Program) -> Damage:
    def number(node: Typed) -> Typed | None:
        if node.op not in ("and", "or", "not", "any", "all"):
            return None
        first = node.args[0]
        other = Typed("cast", replace(first.type, dtype="int64"), first.interval, (first,))
        return replace(node, args=(other, *node.args[1:]))

    yield from changed_nodes(program, number)


def layout_that_is_not_the_operands(program: Program) -> Damage:
    def flipped(node: Typed) -> Typed | None:
        known = "operand_dtype" in node.options and node.type.level == "batch" and not node.type.open
        drawn = node.builtin is not None and node.builtin.family == "draw"
        if not known or drawn or (node.op == "where" and node.args[0].static is not None):
            return None
        return replace(node, type=replace(node.type, col=not node.type.col))

    yield from changed_nodes(program, flipped, below=True)


def stored_in_another_shape(program: Program) -> Damage:
    def wider(node: Typed) -> Typed | None:
        if node.op != "store" or not node.args[0].type.dims:
            return None
        return replace(node, type=replace(node.type, dims=(*(node.type.dims or ()), 17)))

    yield from changed_nodes(program, wider)


def stored_without_a_witness(program: Program) -> Damage:
    """Found once witnesses are given."""

    def bare(node: Typed) -> Typed | None:
        rows = any(one.type.level == "batch" for one in node.args[0].nodes) if node.args else True
        if node.op != "store" or rows or node.type.open or node.type.level != "batch":
            return None
        return replace(node, args=node.args[:1])

    if any(one.symbol.type.level == "batch" for one in program.inputs):
        yield from changed_nodes(program, bare)
