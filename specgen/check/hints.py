"""What to say of names that stand where they can't be read or assigned."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from specgen.check.model import Entry, dotted
from specgen.expr.sizes import Dims
from specgen.expr.symbols import Key
from specgen.program.program import DONE_FLAGS, ENDING_FLAGS
from specgen.schema.env import Env
from specgen.source import Node, Scalar

_LONG = 60
"""Expressions are repeated up to that length."""


def not_yet(state: Iterable[Entry], *, python: bool) -> dict[str, str]:
    """What to say of a parameter's draw that reads the state, where a `python` class says it or `reset` does."""
    help = "parameters are drawn before the state: " + (
        "have the class's `reset` return what depends on it, as a state key"
        if python
        else "assign what depends on it under `reset`, to a state key"
    )
    return {entry.dotted: help for entry in state}


def absent(
    section: str,
    env: Env,
    observation: Iterable[Entry] = (),
    action: Iterable[Entry] = (),
    state: Iterable[Entry] = (),
) -> dict[str, str]:
    """What to say about names of a declaration that a section can't read."""
    others = {"reset": env.reset, "step": env.step, "observe": env.observe}
    if env.render is not None:
        others["render"] = env.render.let
    names = {
        name: f"`{name}` is a local value of `{other}`; compute it again under `{section}`"
        for other, statements in others.items()
        if other != section
        for name in statements
        if "." not in name
    }
    when = _not_there(section, "at a reset there is no action yet")
    for entry in observation:
        why = "observations are computed from the state, under `observe`; read the state"
        names |= {entry.dotted: why, f"next.{entry.dotted}": why}
    names |= {entry.dotted: f"{when}: keep what is needed in a state key" for entry in action}
    names |= {
        f"next.{entry.dotted}": f"under `{section}` the state is the new one, written bare: `{entry.dotted}`"
        for entry in state
    }
    return names


def unassigned(
    section: str,
    env: Env,
    state: Iterable[Entry],
    rewards: Iterable[Key],
    done: Iterable[Key],
    action: Iterable[Entry],
) -> dict[str, str]:
    """What to say of keys that a section could read if it, or another one, had assigned them."""
    names: dict[str, str] = {}
    flags = [dotted((*prefix, flag)) for prefix in done for flag in DONE_FLAGS]
    made = [*flags, *map(dotted, rewards)]
    if section != "step":
        why = _not_there(section, "there is no step yet at a reset")
        names |= dict.fromkeys(made, f"`step` assigns it, and {why}: keep what is needed in a state key")
        names |= {
            entry.dotted: f"nothing under `reset` assigns `{entry.dotted}`: do so above this line"
            for entry in state
            if section == "reset" and entry.dotted not in env.reset
        }
        return names
    for name in made:
        prefix, _, last = name.rpartition(".")
        if last == "done" and name in flags:
            both = " or ".join(
                dotted((*prefix.split("."), flag) if prefix else (flag,)) for flag in ENDING_FLAGS
            )
            why = f"it is derived when all is assigned: read `{both}`, below the lines that assign them"
            names |= {name: why, f"next.{name}": why}
            continue
        names[f"next.{name}"] = f"in an environment's `step` it is written bare: `{name}`"
        if name not in env.step:
            follows = "" if name not in flags else f", so it is `{last}`" if prefix else ", so it is false"
            names[name] = f"nothing under `step` assigns `{name}`{follows}"
    for entry in state:
        if f"next.{entry.dotted}" not in env.step:
            names[f"next.{entry.dotted}"] = (
                f"nothing under `step` assigns `next.{entry.dotted}`, so `{entry.dotted}` keeps its value: "
                f"read `{entry.dotted}`, or assign `next.{entry.dotted}` above this line"
            )
    for entry in action:
        names[f"next.{entry.dotted}"] = (
            f"it is chosen behind the step; the action of this step is `{entry.dotted}`"
        )
    return names


def _not_there(section: str, at_reset: str) -> str:
    """Why a section besides `step` reads nothing of a step."""
    return at_reset if section == "reset" else f"`{section}` sees the new state only"


def wrong_reset_target(state: Iterable[Entry]) -> dict[str, str]:
    """What to say of a `reset` that assigns the state of another time."""
    return {
        f"next.{entry.dotted}": f"in `reset` a state key is written bare: `{entry.dotted}`" for entry in state
    }


def wrong_step_target(
    state: Iterable[Entry], observation: Iterable[Entry], done: Iterable[Key], rewards: Collection[str]
) -> dict[str, str]:
    """What to say of a `step` that assigns what is not its to assign."""
    wrong = {
        entry.dotted: f"`{entry.dotted}` is the value at time t; write `next.{entry.dotted}`"
        for entry in state
    }
    wrong |= {
        f"next.{entry.dotted}": f"observations are assigned under `observe`: `{entry.dotted}`"
        for entry in observation
    }
    for prefix in done:
        key = dotted((*prefix, "done"))
        wrong[key] = (
            f"`{key}` is derived: it alone can't tell a time limit from an end; "
            f"assign `{dotted((*prefix, 'terminated'))}` or `{dotted((*prefix, 'truncated'))}`"
        )
    if rewards and "reward" not in rewards:
        listed = ", ".join(sorted(rewards))
        wrong["reward"] = f"the rewards here are {listed}; for one of all together declare `reward: [reward]`"
    for key in ("next.reward", "next.terminated", "next.truncated", "next.done"):
        wrong[key] = f"in an environment's `step` this is written bare: `{key.removeprefix('next.')}`"
    return wrong


def one_number(dims: Dims, node: Node | None) -> str:
    """How one number is made of an expression that has these dimensions, which stands at a node."""
    text = node.value if isinstance(node, Scalar) else None
    if not isinstance(text, str) or len(text) > _LONG or "\n" in text:
        text = "…"
    if set(dims) == {1}:
        operand = text if text.replace(".", "_").isidentifier() else f"({text})"
        return f"take its element, `{operand}[{', '.join('0' * len(dims))}]`"
    return f"reduce it, `sum({text})`"
