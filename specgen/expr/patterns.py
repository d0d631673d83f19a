"""Patterns: what a role of a transform is typed as, and whether the spec of a key matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from specgen.expr.dtypes import CONCRETE, FLOAT_RANGES
from specgen.expr.sizes import Dim, Dims, Rest, Sym, replaced
from specgen.expr.spec_types import SpecType, flatten
from specgen.expr.symbols import Symbol
from specgen.expr.types import Level, Type
from specgen.values import dataclass

MATCHED_DTYPES: Final[dict[str, tuple[str, ...]]] = {
    "float": tuple(FLOAT_RANGES),
    "number": tuple(dtype for dtype in CONCRETE if dtype != "bool"),
    "any": CONCRETE,
}
"""The dtypes that the dtype of a pattern stands for; any other stands for itself."""

_ONE_HOT: Final = ("onehot", "multi_onehot")
_KINDS: Final = ("categorical", "multi_categorical", *_ONE_HOT)


@dataclass(frozen=True)
class Match:
    """What the names of a pattern are for a key.

    Attributes:
        sizes: The named sizes, those known before among them.
        rest: The dimensions that `...` stands for.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    rest: tuple[int, ...] = ()


@dataclass(frozen=True)
class NoMatch:
    """Why the spec of a key does not match a pattern.

    Attributes:
        reason: The rest of a sentence about the key: `is bool, not float`.
        size: The named size that is another number for another key.
        numbers: What it was before, and what it is for this key.
    """

    reason: str
    size: str = ""
    numbers: tuple[int, int] | None = None


def role_type(
    pattern: SpecType, role: str, rank: Symbol | None = None, others: Mapping[str, Type] | None = None
) -> Type:
    """The type of what `role` stands for, whatever key that is.

    Args:
        pattern: Its pattern.
        role: Its name: its `...` are dimensions of its own.
        rank: The argument that says how many dimensions the key has, for axes that are counted from the front.
        others: The types of the roles that `[...x]` can name.

    Raises:
        KeyError: When `[...x]` names another one.
    """
    named = sum(not isinstance(size, Rest) for size in pattern.dims)
    return Type(
        pattern.dtype, shaped(pattern.dims, role, (Rest(role, rank=rank, named=named),), others or {})
    )


def output_type(
    pattern: SpecType,
    output: str,
    role: Type,
    others: Mapping[str, Type] | None = None,
    level: Level = "batch",
) -> Type:
    """The type of what is computed for each key of a role: `...` are the dimensions that it stands for there.

    Raises:
        KeyError: When `[...x]` names no type of `others`.
    """
    rest = () if role.rest is None else (role.rest,)
    return Type(pattern.dtype, shaped(pattern.dims, output, rest, others or {}), level)


def shaped(dims: Dims, owner: str, rest: Dims, others: Mapping[str, Type]) -> Dims:
    """`dims` with other dimensions in place of `...` and `...x`, and with a size of its own for each `_`."""
    made: list[Dim | Rest] = []
    for place, size in enumerate(dims):
        if isinstance(size, Rest):
            made += others[size.of].dims if size.of else rest
        elif isinstance(size, Sym) and size.name == "_":
            made.append(Sym.named(f"size({owner}, {place - len(dims)})"))
        else:
            made.append(size)
    return tuple(made)


def match(
    pattern: SpecType,
    found: SpecType,
    sizes: Mapping[str, int] | None = None,
    others: Mapping[str, tuple[int, ...]] | None = None,
) -> Match | NoMatch:
    """What the names of `pattern` are where it is matched by the spec `found`, or why it is not.

    Args:
        pattern: The pattern.
        found: The spec of a key, all of whose sizes are numbers.
        sizes: Named sizes that are known already: they stay what they are.
        others: The dimensions of the keys that `[...x]` can name.

    Raises:
        KeyError: When `[...x]` names another role.
    """
    reason = _kind(pattern, found)
    if reason is not None:
        return NoMatch(reason)
    known = dict(sizes or {})
    pairs: list[tuple[Dim, int]] = []
    if pattern.kind in _KINDS:
        counts, given = ((pattern.n,), (found.n,)) if pattern.n is not None else (pattern.nvec, found.nvec)
        if len(counts) == 1 and pattern.nvec:
            counts = counts * len(given)
        if len(counts) != len(given):
            return NoMatch(f"is {_said(found)}, not {_said(pattern)}")
        pairs += [
            (want, have) for want, have in zip(counts, given, strict=True) if want and isinstance(have, int)
        ]
    # A pattern of numbers sees the classes of a one-hot as an axis.
    shape, actual = pattern.shape, found.sizes if pattern.kind in _KINDS else found.type().shape
    rest: tuple[int, ...] = ()
    if shape and isinstance(shape[0], Rest):
        count = len(actual) - len(shape) + 1
        if count < 0:
            return NoMatch(f"is {_said(found)}: `{_said(pattern)}` has {len(shape) - 1} dimensions or more")
        rest, actual, of, shape = actual[:count], actual[count:], shape[0].of, shape[1:]
        if of and (others or {})[of] != rest:
            return NoMatch(f"is {_said(found)}: its first dimensions are not those of `{of}`")
    if len(shape) != len(actual):
        many = f"{len(shape)} dimension{'s' if len(shape) != 1 else ''}"
        return NoMatch(f"is {_said(found)}: `{_said(pattern)}` has {many}")
    pairs += [(size, have) for size, have in zip(shape, actual, strict=True) if not isinstance(size, Rest)]
    for size, have in pairs:
        if (wrong := _unified(size, have, known)) is not None:
            if isinstance(size, Sym) and size.name:
                return NoMatch(f"is {_said(found)}: `{size}` is {wrong}", size.name, (wrong, have))
            return NoMatch(f"is {_said(found)}, not {_said(pattern)}")
    return Match(known, rest)


def _unified(size: Dim, have: int, known: dict[str, int]) -> int | None:
    """The other number that a size is, or None; a name that is not known yet is what the key has."""
    if isinstance(size, Sym) and size.name == "_":
        return None
    if isinstance(size, Sym) and size.name and size.name not in known:
        known[size.name] = have
        return None
    number = replaced(size, known)
    return None if number == have else number if isinstance(number, int) else 0


def _kind(pattern: SpecType, found: SpecType) -> str | None:
    dtypes = MATCHED_DTYPES.get(pattern.dtype, (pattern.dtype,))
    if pattern.kind in _KINDS and pattern.kind != found.kind:
        return f"is {_said(found)}, not {_said(pattern)}"
    if pattern.dtype == "number" and found.kind in _ONE_HOT:
        return f"is {_said(found)}, no number but a one-hot vector"
    if found.dtype not in dtypes:
        return f"is {found.dtype}, not {pattern.dtype if pattern.dtype in MATCHED_DTYPES else ' or '.join(dtypes)}"
    if pattern.bounded and not _is_bounded(found):
        return f"is {_said(found)}, without finite bounds on both sides"
    return None


def _is_bounded(spec: SpecType) -> bool:
    if spec.kind != "bounded" or spec.low is None or spec.high is None:
        return False
    return all(abs(end) != float("inf") for bound in (spec.low, spec.high) for end in flatten(bound))


def _said(spec: SpecType) -> str:
    if spec.kind not in _KINDS:
        return str(spec)
    counts = spec.nvec or (spec.n,)
    shape = f"[{', '.join(map(str, spec.shape))}]" if spec.shape else ""
    return f"{spec.kind}({', '.join(map(str, counts))}){shape}"
