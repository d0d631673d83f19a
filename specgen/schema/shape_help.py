"""What is said of a list where a mapping stands, and the other way round."""

from __future__ import annotations

from collections.abc import Collection

from specgen.source import Mapping, Node, Sequence


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
        if len(loc) == 5:
            return f"name its arguments: `{{{loc[4]}: {{argument: value}}}}`"
    if not isinstance(found, Sequence):
        return None
    if loc[0] == "envs" and loc[2:3] in (("state",), ("action",), ("observation",)) and len(loc) == 4:
        return "a spec is one text, `float32[2] in [-1, 1]`"
    if "a mapping" in expected and found.items and all(isinstance(one, Mapping) for one in found.items):
        return "leave out the `- ` in front of its names"
    return None
