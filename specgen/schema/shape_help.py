"""What is said of a list where a mapping stands, and the other way round."""

from __future__ import annotations

from collections.abc import Collection

from specgen.source import Mapping, Node, Scalar, Sequence

NAMING = ("name", "id", "class")
"""Fields that people write in front of the name of an environment."""


def shape_help(loc: tuple[str | int, ...], found: Node | None, expected: Collection[str]) -> str | None:
    """The remedy for a value of another shape than the language has at its place; None if nothing better is known.

    Args:
        loc: the place.
        found: what stands there.
        expected: what may stand there, in words.
    """
    if loc[0] == "chains" and loc[2:3] == ("transforms",):
        if len(loc) == 3 and isinstance(found, Mapping):
            return "write a list, with `- ` in front of each transform"
        if len(loc) == 5 and str(loc[4])[:1].islower():
            return f"indent `{loc[4]}` further than the name of the transform whose argument it is"
        if len(loc) == 5:
            return f"name its arguments: `{{{loc[4]}: {{argument: value}}}}`"
    if loc[0] == "pipelines" and loc[2:3] == ("env",):
        return _arguments_help(loc, found)
    if loc[0] == "pipelines" and loc[4:] == ("mixer",) and isinstance(found, Scalar):
        return "write `mixer: {qmix: 32}`, or `mixer: vdn`, the sum of the values"
    if loc[0] == "envs" and loc[2:3] == ("groups",) and not isinstance(found, Mapping):
        return _groups_help(loc, found)
    if (
        loc[0] == "envs"
        and isinstance(found, Scalar)
        and len(loc) == 3
        and loc[2] in ("state", "action", "observation")
    ):
        return f'name the key: `{loc[2]}: {{{loc[2]}: "{found.text}"}}`'
    if loc[0] == "envs" and len(loc) == 4 and loc[2] in ("reset", "step", "observe"):
        return _expression_help(loc, found)
    if not isinstance(found, Sequence):
        return None
    if loc[0] == "envs" and loc[2:3] in (("state",), ("action",), ("observation",)) and len(loc) == 4:
        return "a spec is one text, `float32[2] in [-1, 1]`"
    if "a mapping" in expected and found.items and all(isinstance(one, Mapping) for one in found.items):
        return "leave out the `- ` in front of its names"
    return None


def _arguments_help(loc: tuple[str | int, ...], found: Node | None) -> str | None:
    """For arguments of an environment that do not stand below its name: how they are written."""
    if len(loc) == 3:
        first = found.items[0] if isinstance(found, Sequence) and found.items else None
        name = first.text if isinstance(first, Scalar) else "MyEnv"
    elif len(loc) == 4 and isinstance(found, Scalar):
        name = found.text if loc[3] in NAMING else "MyEnv"
    else:
        return None
    return f"its arguments stand below the name of the environment: `env: {{{name}: {{argument: value}}}}`"


def _groups_help(loc: tuple[str | int, ...], found: Node | None) -> str | None:
    """For groups of agents in a list, or a number or names in the place of a group: how they are written."""
    if len(loc) == 3:
        return "name each group, and its agents: `groups: {robot: {agents: 3}}`"
    if len(loc) == 4 and isinstance(found, Scalar) and isinstance(found.value, int):
        return f"write `{{agents: {found.text}}}`"
    if len(loc) == 4 and isinstance(found, Sequence) and all(isinstance(one, Scalar) for one in found.items):
        names = ", ".join(one.text for one in found.items if isinstance(one, Scalar))
        return f"write `{{agents: [{names}]}}`"
    return None


def _expression_help(loc: tuple[str | int, ...], found: Node | None) -> str | None:
    """For nested entries, or numbers in a list, in the place of an expression: how they are written."""
    if isinstance(found, Mapping) and found.entries:
        return f"join the names by a dot: `{loc[3]}.{found.entries[0][0].text}: …`"
    if isinstance(found, Sequence) and found.items and all(isinstance(one, Scalar) for one in found.items):
        return f"write `stack({', '.join(one.text for one in found.items if isinstance(one, Scalar))})`"
    return None
