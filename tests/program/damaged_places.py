"""Where damage is planted: the statements of a program and of its regions, and the nodes of their expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from specgen.expr import Symbol, Type, Typed
from specgen.program.program import Assign, Program, Region, Statement
from specgen.program.walk import reads, reads_symbol, with_parts

Damage = Iterator[Program]


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


def changed_targets(
    program: Program, change: Callable[[Type], Type], *, tensors: bool = False, rows: bool = False
) -> Damage:
    for body, put in bodies(program):
        for at, statement in enumerate(body):
            if not isinstance(statement, Assign):
                continue
            kind = statement.target.type
            if (tensors and kind.python) or (rows and kind.level != "batch") or kind.open:
                continue
            other = replace(statement, target=replace(statement.target, type=change(kind)))
            yield put([*body[:at], other, *body[at + 1 :]])


def changed_reads(program: Program, change: Callable[[Typed], Typed]) -> Damage:
    yield from changed_nodes(program, lambda node: change(node) if reads_symbol(node) else None)


def changed_nodes(
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
