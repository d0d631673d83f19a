"""Spec objects as literal code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from specgen.code import Code, needs_math
from specgen.expr import SpecType, Type
from specgen.expr.symbols import Key
from specgen.literals import literal
from specgen.plan.short_texts import TORCH_DTYPES
from specgen.values import dataclass

_COMPOSITE_KEYWORDS = frozenset({"batch_size", "data_cls", "names", "step_mdp_static"})
"""Keywords of `Composite` that are no keys: a key of such a name is written in a dict."""


@dataclass(frozen=True)
class SpecCode(Code):
    """A spec object as code: the constructor call, and its class `cls`."""

    cls: str = ""


@dataclass(frozen=True)
class CompositeCode:
    """A composite as code.

    Attributes:
        entries: its specs and groups by name.
        shape: its dimensions: the agents of a group.
        in_dict: whether a name is a keyword of the constructor, so that they are given in a dict.
    """

    entries: tuple[tuple[str, SpecCode | CompositeCode], ...]
    shape: tuple[int, ...] = ()
    in_dict: bool = False

    @property
    def leaves(self) -> Iterable[SpecCode]:
        """The specs in it and in its groups."""
        for _, entry in self.entries:
            if isinstance(entry, CompositeCode):
                yield from entry.leaves
            else:
                yield entry


def spec_code(spec: SpecType, *, col: bool = False, device: str | None = None) -> SpecCode:
    """The constructor call that builds a spec, without batch dimensions.

    Args:
        spec: the spec.
        col: whether it is stored with a trailing 1.
        device: the expression of the device; none is named without one.
    """
    if spec.kind == "object":
        return _made("NonTensor")
    dims = spec.dims or ()
    shape = (*dims, 1) if col else dims
    rest = f"shape={literal(shape)}, dtype={TORCH_DTYPES[spec.dtype]}"
    rest += "" if device is None else f", device={device}"
    match spec.kind:
        case "bounded":
            bounds = f"low={number_text(spec.low)}, high={number_text(spec.high)}"
            infinite = needs_math((spec.low, spec.high))
            return _made("Bounded", bounds, rest, uses=("math",) if infinite else ())
        case "categorical":
            return _made("Categorical", f"{spec.classes}", rest)
        case "onehot":
            return _made("OneHot", f"{spec.classes}", rest)
        case "multi_categorical":
            return _made("MultiCategorical", literal(list(spec.counts)), rest)
        case "multi_onehot":
            return _made("MultiOneHot", literal(list(spec.counts)), rest)
        case "binary" | "unbounded" if spec.dtype == "bool" and (col or not shape):
            return _made("Categorical", "2", rest)  # one truth value, as done flags are
        case "binary":
            return _made("Binary", rest)
        case _ if spec.dtype == "bool":
            return _made("Binary", rest)
        case _:
            return _made("Unbounded", rest)


def flag_code(type: Type) -> SpecCode:
    """The spec of a done flag."""
    return _made("Categorical", "2", f"shape={literal((*(type.dims or ()), 1))}", "dtype=torch.bool")


def _made(cls: str, *arguments: str, uses: Iterable[str] = ()) -> SpecCode:
    return SpecCode(f"{cls}({', '.join(arguments)})", frozenset((cls, "torch", *uses)), cls=cls)


def composite_code(
    entries: Iterable[tuple[Key, SpecCode]], agents: Mapping[str, int] | None = None
) -> CompositeCode:
    """Leaves by key as a nested composite; a group of `agents` has a dimension for them."""
    return _composite(nested(entries), (), agents or {})


def _composite(tree: Mapping[str, Any], shape: tuple[int, ...], agents: Mapping[str, int]) -> CompositeCode:
    entries = tuple(
        (name, _composite(value, (*shape, *((agents[name],) if name in agents else ())), {}))
        if isinstance(value, dict)
        else (name, value)
        for name, value in tree.items()
    )
    return CompositeCode(entries, shape, bool(tree.keys() & _COMPOSITE_KEYWORDS))


def nested(entries: Iterable[tuple[Key, Any]]) -> dict[str, Any]:
    """Values by key as nested dicts."""
    tree: dict[str, Any] = {}
    for key, value in entries:
        place = tree
        for part in key[:-1]:
            place = place.setdefault(part, {})
        place[key[-1]] = value
    return tree


def key_text(key: Key) -> str:
    """A key as the argument of `tensordict.get`."""
    return literal(key[0] if len(key) == 1 else key)


def number_text(value: Any) -> str:
    """A number or nested list of numbers as code; infinities as `math.inf`."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(number_text, value))}]"
    if value == float("inf"):
        return "math.inf"
    if value == float("-inf"):
        return "-math.inf"
    if value in _LIMITS:
        return _LIMITS[value]
    return literal(value)


_LIMITS = {2**63 - 1: "2**63 - 1", -(2**63): "-(2**63)"}
"""Numbers that nobody knows by their digits."""
