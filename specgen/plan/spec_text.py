"""Spec objects as literal code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specgen.check.model import Key
from specgen.expr import SpecType, Type
from specgen.literals import literal
from specgen.plan.writer import TORCH_DTYPES

_COMPOSITE_KEYWORDS = frozenset({"batch_size", "data_cls", "names", "step_mdp_static"})
"""Keywords of `Composite` that are no keys: a key of such a name is written in a dict."""


@dataclass(frozen=True)
class SpecCode:
    """A spec object as code.

    Attributes:
        cls: its class.
        text: the constructor call.
    """

    cls: str
    text: str


def spec_code(spec: SpecType, *, col: bool = False, device: str = "device") -> SpecCode:
    """The constructor call that builds a spec, without batch dimensions."""
    dims = spec.dims or ()
    shape = (*dims, 1) if col else dims
    rest = f"shape={literal(shape)}, dtype={TORCH_DTYPES[spec.dtype]}, device={device}"
    match spec.kind:
        case "bounded":
            return _made("Bounded", f"low={number_text(spec.low)}", f"high={number_text(spec.high)}", rest)
        case "categorical":
            return _made("Categorical", f"{spec.n}", rest)
        case "onehot":
            return _made("OneHot", f"{spec.n}", rest)
        case "multi_categorical":
            return _made("MultiCategorical", literal(list(spec.nvec)), rest)
        case "multi_onehot":
            return _made("MultiOneHot", literal(list(spec.nvec)), rest)
        case "binary" | "unbounded" if spec.dtype == "bool" and (col or not shape):
            return _made("Categorical", "2", rest)  # one truth value, as done flags are
        case "binary":
            return _made("Binary", rest)
        case _ if spec.dtype == "bool":
            return _made("Binary", rest)
        case _:
            return _made("Unbounded", rest)


def flag_code(type: Type, device: str = "device") -> SpecCode:
    """The spec of a done flag."""
    shape = literal((*(type.dims or ()), 1))
    return _made("Categorical", "2", f"shape={shape}", "dtype=torch.bool", f"device={device}")


def _made(cls: str, *arguments: str) -> SpecCode:
    return SpecCode(cls, f"{cls}({', '.join(arguments)})")


def composite_text(
    entries: Iterable[tuple[Key, SpecCode]], device: str = "device", agents: Mapping[str, int] | None = None
) -> str:
    """Leaves by key as a nested `Composite(...)`; a group of `agents` has a dimension for them."""
    tree: dict[str, Any] = {}
    for key, code in entries:
        place = tree
        for part in key[:-1]:
            place = place.setdefault(part, {})
        place[key[-1]] = code.text
    return _composite(tree, device, (), agents or {})


def _composite(
    tree: Mapping[str, Any], device: str, shape: tuple[int, ...], agents: Mapping[str, int]
) -> str:
    parts = {
        name: _composite(value, device, (*shape, *((agents[name],) if name in agents else ())), {})
        if isinstance(value, dict)
        else value
        for name, value in tree.items()
    }
    keywords = [f"shape={literal(shape)}"] if shape else []
    keywords.append(f"device={device}")
    if parts.keys() & _COMPOSITE_KEYWORDS:
        entries = ", ".join(f"{literal(name)}: {text}" for name, text in parts.items())
        return f"Composite({{{entries}}}, {', '.join(keywords)})"
    return f"Composite({', '.join([*(f'{name}={text}' for name, text in parts.items()), *keywords])})"


def nested_dict_text(entries: Iterable[tuple[Key, str]]) -> str:
    """Values by key as a nested dict display."""
    tree: dict[str, Any] = {}
    for key, text in entries:
        place = tree
        for part in key[:-1]:
            place = place.setdefault(part, {})
        place[key[-1]] = text
    return _display(tree)


def _display(tree: Mapping[str, Any]) -> str:
    parts = [
        f"{literal(name)}: {_display(value) if isinstance(value, dict) else value}"
        for name, value in tree.items()
    ]
    return "{" + ", ".join(parts) + "}"


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
