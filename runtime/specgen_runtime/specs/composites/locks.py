"""Locking a tree of composites against changes.

What is locked along with a tree can only be unlocked through the tree's root, as long as that exists: each composite
knows, by weak references in `_holders`, those that directly contain it and locked it along.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specgen_runtime.specs.composites.spec_dict import SpecDict

__all__ = ["hold_parts", "lock", "require_unlocked", "unlock"]


def lock(spec: SpecDict, recurse: bool) -> None:
    """Lock a composite, and with `recurse` all that it contains."""
    spec._locked = True
    if recurse and not spec._holds:
        spec._holds = True
        hold_parts(spec)
        for part in spec._parts():
            lock(part, recurse)


def hold_parts(spec: SpecDict) -> None:
    """Note in the parts of a composite that it locked them along."""
    for part in spec._parts():
        part._holders.append(weakref.ref(spec))


def unlock(spec: SpecDict, recurse: bool) -> None:
    """Unlock a composite, and with `recurse` all that it contains.

    Raises:
        RuntimeError: if it, or with `recurse` a part of it, is locked along with another tree; nothing is unlocked then.
    """
    if _is_held(spec) or (recurse and _shares_parts(spec)):
        raise RuntimeError(
            "cannot unlock a part of a locked Composite: unlock its root (if it is a part of several, "
            "put them under one)"
        )
    _unlock(spec, recurse)


def require_unlocked(spec: SpecDict) -> None:
    """Check that a composite may be changed.

    Raises:
        RuntimeError: if it is locked.
    """
    if spec._locked:
        raise RuntimeError("cannot change a locked Composite: call unlock_() on it or on its root first")


def _unlock(spec: SpecDict, recurse: bool) -> None:
    spec._locked = spec._holds = False
    for part in spec._parts():
        part._holders = [holder for holder in part._holders if holder() is not spec]
        if recurse:
            _unlock(part, recurse)


def _shares_parts(spec: SpecDict) -> bool:
    """Whether something outside this tree holds a part of it."""
    return any(_is_held(part, but=spec) or _shares_parts(part) for part in spec._parts())


def _is_held(spec: SpecDict, but: SpecDict | None = None) -> bool:
    living = (holder() for holder in spec._holders)
    return any(holder is not None and holder is not but for holder in living)
