"""Several keys that the environment is given, each computed of what the policy writes in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from specgen.check.model import Statement
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.names import NTH
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import transforms_policy as rules
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform


def several_given(roles: Iterable[Role]) -> Role | None:
    """The inverse role of several keys, if there is one."""
    return next((role for role in roles if role.several_given), None)


def in_place_of_none(name: str) -> tuple[str, str]:
    """What is said of an output in place of several keys where no role stands for such, and what helps."""
    message = f"`{name}` would stand in place of several keys, and no inverse role has `all:`"
    return (
        message,
        "declare it: `parts: {all: [], inverse: true}`; in place of one key stands an output with `each:`",
    )


def check_several_given(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    roles: Sequence[Role],
    outputs: Sequence[Output],
    sink: Sink,
) -> None:
    """Report what an inverse role of several keys can't be, and outputs that would take the place of none."""
    role = several_given(roles)
    if role is None:
        for output in outputs:
            if output.inverse and output.each is None:
                message, help = in_place_of_none(output.name)
                sink.add(rules.SEVERAL_GIVEN.at(file.key_span(*path, "out", output.name), message, help=help))
        return
    for place, message, advice in _mistakes(transform, role, roles):
        sink.add(rules.SEVERAL_GIVEN.at(file.key_span(*path, *place), message, help=advice))


def _mistakes(
    transform: Transform, role: Role, roles: Sequence[Role]
) -> Iterator[tuple[tuple[str, ...], str, str | None]]:
    """What is wrong: where, what, and what to do."""
    here, name = ("in", role.name), role.name
    other = next((one for one in roles if one.inverse and one is not role), None)
    if other is not None:
        yield (
            ("in", other.name),
            f"`{other.name}` is given beside the keys of `{name}`",
            "declare another transform for it",
        )
    if role.spec.bounded or role.spec.kind != "pattern":
        yield here, f"`{name}` stands for several keys, whose bounds and kinds no expression reads", None
    for field in ("but", "varargs", "sorted"):
        if getattr(transform.in_[name], field):
            yield (
                (*here, field),
                f"the keys of `{name}` are those that users name, in their order",
                "leave it out",
            )
    for field, why in (
        ("masks", "a mask is of one action"),
        ("around", "a repetition acts by one key after another"),
        ("python", "a class gives one value for each role"),
    ):
        if getattr(transform, field):
            yield (field,), f"`{name}` stands for several keys: {why}", None
    if not any(one.inverse or one.each == name for one in transform.out.values()):
        yield (
            here,
            f"nothing is written in place of the keys of `{name}`",
            f'declare it: `joined: {{key: joined, inverse: true, type: "like(stack(*{name}, axis=-1))"}}`',
        )


def check_numbered(roles: Iterable[Role], statements: Iterable[Statement], sink: Sink) -> list[Statement]:
    """Report draws of what is computed for several keys, and values of one key in those of all; the other statements.

    Args:
        roles: those of the transform.
        statements: those of `inverse`.
        sink: takes every mistake.
    """
    if (role := several_given(roles)) is None:
        return list(statements)
    fine = []
    for statement in statements:
        if statement.draws:
            message = f"a draw in the inverse of `{role.name}`, which is computed for one key after another"
        elif statement.target != role.name and statement.reads & {NTH, role.name}:
            message = (
                f"`{statement.target}` is one value for all keys of `{role.name}`, and reads those of one"
            )
        else:
            fine.append(statement)
            continue
        sink.add(
            rules.READ_FOR_SEVERAL.at(
                statement.source.span_of(0, len(statement.source.text)),
                message,
                help=f"write it where `{role.name}` is assigned" if not statement.draws else None,
            )
        )
    return fine
