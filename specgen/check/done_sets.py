"""The done sets of an environment: the root, and groups that end on their own."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.model import CheckedEnv, dotted
from specgen.check.names import refusal
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import devices as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Expr, Type
from specgen.expr.symbols import Key
from specgen.expr.tree import Call, Logic, Name
from specgen.program.program import ENDING_FLAGS
from specgen.schema.env import Env
from specgen.schema.load import SchemaFile


def check_done_sets(
    file: SchemaFile, path: tuple[str, ...], env: Env, sink: Sink
) -> tuple[tuple[Key, ...], frozenset[str]]:
    """Check the prefixes under `done` of the declaration at `path`.

    Returns:
        The prefixes of the done sets, the root first; and flags that may be meant by a prefix with a mistake.
    """
    here = (*path, "done")
    groups = _groups(env)
    found: list[Key] = []
    for index, text in enumerate(env.done_sets):
        span = file.span(*here, index)
        prefix = tuple(text.split(".")) if text else ()
        reason = next((reason for part in prefix if (reason := refusal(part))), None)
        if reason is not None and env.done is None:
            continue  # a group that can't be called so has been reported
        if reason is not None:
            sink.add(schema_rules.NAME_REFUSED.at(span, f"`{text}` can't be a name: {reason}"))
        elif prefix in found:
            shown = f"`{text}`" if text else 'the root, `""`,'
            sink.add(schema_rules.NAME_TAKEN.at(span, f"{shown} is listed twice", help="keep one of them"))
        elif text and text not in groups:
            help = suggestion(text, groups) or (
                f"the groups here are {', '.join(groups)}" if groups else None
            )
            sink.add(schema_rules.UNKNOWN_DECLARATION.at(span, f"no key is in a group `{text}`", help=help))
        else:
            found.append(prefix)
    if () not in found and len(found) == len(env.done_sets):
        listed = ", ".join(['""', *env.done_sets])
        sink.add(
            rules.DONE_ROOT.at(
                file.key_span(*here),
                "no done flags at the root",
                help=f"write `done: [{listed}]` and assign `terminated` under `step`",
            )
        )
    complete = len(found) == len(env.done_sets)
    flags = [f"{group}.{flag}" for group in groups for flag in ("terminated", "truncated", "done")]
    return ((), *(prefix for prefix in found if prefix)), frozenset() if complete else frozenset(flags)


def check_flag_shapes(
    file: SchemaFile, path: tuple[str, ...], done: tuple[Key, ...], types: Mapping[str, Type], sink: Sink
) -> None:
    """Check that the flags that `step` assigns of one set have one shape."""
    for prefix in done:
        terminated, truncated = (dotted((*prefix, flag)) for flag in ENDING_FLAGS)
        if terminated in types and truncated in types and types[terminated].dims != types[truncated].dims:
            shapes = [list(types[flag].dims or ()) for flag in (terminated, truncated)]
            sink.add(
                rules.DONE_SHAPE.at(
                    file.key_span(*path, "step", truncated),
                    f"`{terminated}` has shape {shapes[0]}, but `{truncated}` has shape {shapes[1]}",
                    help="the flags of one set have one shape",
                )
            )


def _groups(env: Env) -> list[str]:
    """The groups that declared keys stand in, each with those around it."""
    keys = [*env.state, *env.action, *env.observation, *env.reward_keys]
    parts = [key.split(".") for key in keys]
    return list(dict.fromkeys(".".join(each[:end]) for each in parts for end in range(1, len(each))))


def joined_flags(env: CheckedEnv) -> frozenset[str]:
    """The flags of groups that hold where `step` says so, and also wherever the root's does.

    Not among them are those that must hold where the root's does, as the root's is `all` of them.
    """
    by_target = {statement.target: statement for statement in env.step}
    return frozenset(
        name
        for prefix in env.done
        for flag in ENDING_FLAGS
        if prefix
        and (name := dotted((*prefix, flag))) in by_target
        and flag in by_target
        and not _implies(by_target[flag].expr, name)
    )


def _implies(expr: Expr, name: str) -> bool:
    """Whether an expression holds only where all of the flag `name` does, by its form."""
    match expr:
        case Name(path=path):
            return path == name
        case Call(function=Name(path="all"), args=(Name(path=path),), keywords=()):
            return path == name
        case Logic(op="and", operands=operands):
            return any(_implies(operand, name) for operand in operands)
        case _:
            return False
