"""State keys that `reset` and `step` assign and nothing declares: misspelt there, or renamed where they are declared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from specgen.check.model import dotted
from specgen.check.unread import all_reads
from specgen.diagnostics import Note, Sink, as_question, did_you_mean
from specgen.diagnostics.rules import schema as rules
from specgen.expr.symbols import Key
from specgen.program.program import DONE_FLAGS
from specgen.schema.env import Env
from specgen.schema.load import SchemaFile, find

_STEP_RESULTS = (*DONE_FLAGS, "reward")
"""What `next.` is often put in front of in a `step`; that has a message of its own."""


def undeclared_state(
    file: SchemaFile,
    path: tuple[str, ...],
    env: Env,
    state: Collection[str],
    rewards: Iterable[Key],
    passed: Collection[str],
    sink: Sink,
) -> frozenset[str]:
    """Report what is assigned as a state key is and declared nowhere, each with all that follows from it.

    Args:
        file: where the environment is declared.
        path: its declaration path.
        env: its declaration.
        state: the state keys.
        rewards: the reward keys.
        passed: names whose mistakes have been reported.
        sink: takes what is found.

    Returns:
        The names that the mistakes are about: what reads or assigns them is no second mistake.
    """
    known = {*state, *env.state, *env.observation, *env.action, *env.params, *map(dotted, rewards), *passed}
    broken: set[str] = set()
    for name, section in _undeclared_names(file, path, env, known):
        target = f"next.{name}" if section == "step" else name
        prefix = target.removesuffix(name)
        unassigned = [key for key in state if key not in env.reset and f"next.{key}" not in env.step]
        if name in env.reset:
            # what `reset` assigns as well is another key
            meant = did_you_mean(name, unassigned) or (unassigned[0] if len(unassigned) == 1 else None)
        else:
            meant = did_you_mean(name, [key for key in state if f"next.{key}" not in env.step])
            meant = meant or did_you_mean(name, state)
        if meant is None and section == "reset":
            if name in (all_reads([find(file.root, (*path, "reset"))]) or (name,)):
                continue  # a local value: each place that reads it is a mistake of its own
            help = f"declare `{name}` under `state`: what `reset` assigns besides state keys is not known elsewhere"
        elif meant is None:
            help = (
                f"declare `{name}` under `state`; `step` assigns `next.` state keys, rewards and done flags"
            )
        elif meant in unassigned and name in env.reset:
            help = (
                f"{as_question(prefix + meant)} `{meant}` is declared under `state`, and nothing assigns it"
            )
        else:
            help = as_question(prefix + meant)
        twice = section == "step" and name in env.reset
        notes = [Note(f"`reset` assigns `{name}`, too", file.key_span(*path, "reset", name))] if twice else []
        span = file.key_span(*path, section, target)
        sink.add(rules.WRONG_TARGET.at(span, f"`{target}` is no declared key", notes=notes, help=help))
        broken |= {name, f"next.{name}", *([f"next.{meant}"] if meant else ())}
    return frozenset(broken)


def _undeclared_names(
    file: SchemaFile, path: tuple[str, ...], env: Env, known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Names that are assigned as state keys are, and where: as `next.`, or under `reset` to be read elsewhere."""
    stepped = [target.removeprefix("next.") for target in env.step if target.startswith("next.")]
    for name in stepped:
        if name not in known and name.rsplit(".", 1)[-1] not in _STEP_RESULTS:
            yield name, "step"
    read = all_reads(find(file.root, (*path, section)) for section in ("step", "observe")) or ()
    for name in env.reset:
        if (
            name not in known
            and name in read
            and name not in {*stepped, *env.step, *env.observe}
            and "." not in name
        ):
            yield name, "reset"
