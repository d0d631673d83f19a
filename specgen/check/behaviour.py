"""Where the behaviour of an environment comes from; the lines of a step below `reset` are those of a missing `step`."""

from __future__ import annotations

from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import schema as rules
from specgen.schema.env import Env
from specgen.schema.load import SchemaFile


def check_behaviour(file: SchemaFile, path: tuple[str, ...], env: Env, sink: Sink, *, damaged: bool) -> None:
    """Report an environment without an action or a `step`.

    Args:
        file: where it is declared.
        path: its place in the file.
        env: the declaration.
        sink: takes the mistakes.
        damaged: whether entries of it are lost already, so that it can't be said what is missing.
    """
    if env.step and not env.action and not damaged:
        sink.add(
            rules.MISSING_FIELD.at(
                file.key_span(*path),
                f"`{path[-1]}` needs a field `action`",
                help="say what the policy chooses, as in `action: {action: categorical(2)}`; "
                "where there is nothing to choose, declare one that no expression reads, and `allow: [SG142]`",
            )
        )
    if not env.step:
        message = f"`{path[-1]}` does not say where its behaviour comes from"
        help = (
            "give it `step` (with `state`, `reset`, `observe`), `gymnasium: {id: …}`, "
            "`python: package.module:Class`, or `chat: {source: …}`"
        )
        if (first := first_line_of_step(file, path, env)) is not None:
            message = f"`{path[-1]}` has no `step`, and below its `reset` are the lines of one"
            help = f"write `step:` above line {first.line}"
        sink.add(rules.MISSING_FIELD.at(file.key_span(*path), message, help=help))


def first_line_of_step(file: SchemaFile, path: tuple[str, ...], env: Env) -> Span | None:
    """The first of the lines below `reset` that are a step's, where `step:` itself is missing: it follows the last state key."""
    if env.step or not any(name.startswith("next.") for name in env.reset):
        return None
    names = list(env.reset)
    states = [index for index, name in enumerate(names) if name in env.state]
    follows = max(states, default=-1) + 1
    return file.key_span(*path, "reset", names[follows]) if follows < len(names) else None


def before_step(found: Sink, file: SchemaFile, path: tuple[str, ...], env: Env) -> Sink:
    """What was found, without what follows from a missing `step:`: that its lines are not those of a `reset`."""
    first = first_line_of_step(file, path, env)
    if first is None:
        return found
    lines = first.to(file.span(*path, "reset"))
    return Sink(item for item in found.items if not item.span.begins_in(lines))
