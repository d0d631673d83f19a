"""Names of the batch dimensions of a `Composite`, as tensordicts have them.

Names follow their dimensions through `expand`, `squeeze`, `unsqueeze`, `unbind` and indexing; `reshape`, `flatten` and
`unflatten` drop them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

from specgen_runtime.specs.shapes import Names

__all__ = ["as_names", "known_names", "refined_names"]


def as_names(names: Sequence[str | None] | None, ndim: int) -> Names | None:
    """Read the names of `ndim` dimensions; if no dimension has one, the result is None.

    Raises:
        TypeError: if a name is neither a string nor None.
        ValueError: if there are more or fewer names than dimensions, or a name comes twice.
    """
    if names is None:
        return None
    given = tuple(names)
    if isinstance(names, str) or not all(name is None or isinstance(name, str) for name in given):
        raise TypeError(f"names must be strings or None, one for each dimension, got {names!r}")
    if len(given) != ndim:
        raise ValueError(f"names must be {ndim}, one for each batch dimension, got {list(given)}")
    chosen = [name for name in given if name is not None]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"names must differ, got {list(given)}")
    return known_names(given)


def known_names(names: Names) -> Names | None:
    """The names; None if no dimension has one."""
    return names if any(names) else None


def refined_names(old: Sequence[str | None], new: Sequence[str | EllipsisType | None]) -> Names:
    """The names of dimensions, of which those without one get a new one.

    Args:
        old: the names now.
        new: one for each dimension; `...` stands for those left out, which keep theirs.

    Raises:
        RuntimeError: if a dimension has another name already.
        ValueError: if there are more or fewer names than dimensions, or more than one `...`.
    """
    given = list(new)
    if given.count(...) > 1:
        raise ValueError(f"refine_names takes at most one '...', got {given}")
    if ... in given:
        place = given.index(...)
        given[place : place + 1] = old[place : place + len(old) - len(given) + 1]
    refined = as_names(given, len(old)) or (None,) * len(old)  # type: ignore[arg-type]  # checked there
    for dim, (before, after) in enumerate(zip(old, refined, strict=True)):
        if before not in (None, after):
            raise RuntimeError(
                f"refine_names: dimension {dim} is named {before!r} and cannot become {after!r}"
            )
    return refined
