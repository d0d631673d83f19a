"""Numbers that the constructor of a loss is given: how it reads each, or refuses what is none."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.losses.coefficients import AUTO
from specgen.check.losses.model import CheckedLoss
from specgen.check.losses.numbers import Coefficient
from specgen.check.model import Parameter
from specgen.code import Code, using, value_code
from specgen.literals import literal
from specgen.plan.per_env import LIMITS

_READERS = {"float": "float_param", "int": "int_param"}
"""What reads a number."""


def number_read(param: Parameter, kept: Coefficient | None) -> Code | str:
    """How the constructor reads a number, or whole numbers in a tuple; empty for what is no number."""
    name = literal(param.name)
    if param.kind == "ints":
        return using(f"as_ints({param.name}, {name})", "as_ints")
    if param.kind not in _READERS:
        return ""
    if kept is not None and kept.parts:
        low, high = (_narrowest(part.range) for part in kept.parts)
        uses = {use for bounds in (low, high) for bound in bounds.values() for use in bound.uses}
        return using(f"pair_param({name}, {param.name}, {_dict(low)}, {_dict(high)})", "pair_param", *uses)
    reader, limits = _READERS[param.kind], _narrowest(param.range)
    if kept is not None and kept.by_part:
        reader = "part_weights"
    given = "".join(f", {keyword}={bound}" for keyword, bound in limits.items())
    uses = {use for bound in limits.values() for use in bound.uses}
    return using(f"{reader}({name}, {param.name}{given})", reader, *uses)


def read_where(loss: CheckedLoss, param: Parameter) -> str:
    """Where a number is given: neither a word that stands for one, nor None; empty for always."""
    if param.default == AUTO:
        return f"not isinstance({param.name}, str)"
    return f"{param.name} is not None" if param.optional and not stands_for_none(loss, param) else ""


def ranges(loss: CheckedLoss) -> Code | None:
    """The numbers that are attributes of the loss, with their limits, as a mapping; those of a pair by their own names.

    None where there are none and no loss above has any.
    """
    found: dict[str, dict[str, Code]] = {}
    for param in (one for one in loss.params if one.kind in _READERS):
        kept = loss.coefficients.get(param.name)
        parts = kept.parts if kept is not None else ()
        found[param.name] = _narrowest([*param.range, *(one for part in parts for one in part.range)])
        if param.optional and (kept is None or not kept.filled):
            found[param.name]["optional"] = Code("True")
        found |= {part.symbol.name: _narrowest(part.range) for part in parts}
    if not found and not loss.parent:
        return None
    uses = {use for given in found.values() for bound in given.values() for use in bound.uses}
    text = ", ".join(f"{literal(name)}: {_dict(given)}" for name, given in found.items())
    return using(f"{{{text}}}", *uses)


def stands_for_none(loss: CheckedLoss, param: Parameter) -> bool:
    """Whether a number stands for None wherever a parameter is None."""
    kept = loss.coefficients.get(param.name)
    return kept is not None and kept.auto is not None and kept.auto_when is None and param.default != AUTO


def _narrowest(limits: Iterable[tuple[str, float]]) -> dict[str, Code]:
    """The limits that hold all of these, by the keywords of what reads numbers."""
    found: dict[str, float] = {}
    for sign, bound in limits:
        narrower = max if sign in (">=", ">") else min
        found[LIMITS[sign]] = narrower(bound, found.get(LIMITS[sign], bound))
    return {keyword: value_code(bound) for keyword, bound in found.items()}


def _dict(limits: dict[str, Code]) -> str:
    return f"{{{', '.join(f'{literal(keyword)}: {bound}' for keyword, bound in limits.items())}}}"
