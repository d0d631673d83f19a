"""The methods of a typed tensordict: `Literal` overloads, so that a misspelt key is a type error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specgen.plan.model import DataPlan, TypedKey

_IGNORE = "  # pyright: ignore[reportIncompatibleMethodOverride]"


def data_methods(plan: DataPlan) -> list[list[str]]:
    """The lines of `__getitem__`, `get` and `set`; keys that hold the same type share an overload."""
    groups = _grouped(plan.keys)
    getitem = _overloads(
        "__getitem__", [(f"key: {keys}", value) for keys, value in groups] + [("key: Index", "Self")]
    )
    get = _overloads(
        "get",
        [(f"key: {keys}, default: Any = ...", value) for keys, value in groups],
        implementation="key: Any, default: Any = ...",
    )
    known = " | ".join(_literals(entry.key for entry in plan.keys))
    # Too long for one line: the comment has to stay on the first, where type checkers look for it.
    setter = f"def set({_IGNORE}\n    self, key: {known}, item: Any, inplace: bool = False, *, non_blocking: bool = False) -> Self: ..."
    return [getitem, get, [setter]]


def _overloads(name: str, variants: Sequence[tuple[str, str]], implementation: str = "key: Any") -> list[str]:
    if len(variants) == 1:
        arguments, returns = variants[0]
        return [f"def {name}(self, {arguments}) -> {returns}: ...{_IGNORE}"]
    lines: list[str] = []
    for arguments, returns in variants:
        lines += ["@overload", f"def {name}(self, {arguments}) -> {returns}: ..."]
    lines.append(f"def {name}(self, {implementation}) -> Any: ...{_IGNORE}")
    return lines


def _grouped(keys: Iterable[TypedKey]) -> list[tuple[str, str]]:
    """Keys with the same prefix and type as one `Literal`, in the order of their first."""
    groups: dict[tuple[tuple[str, ...], str], list[tuple[str, ...]]] = {}
    for entry in keys:
        groups.setdefault((entry.key[:-1], entry.annotation), []).append(entry.key)
    return [(_literals(members)[0], annotation) for (_, annotation), members in groups.items()]


def _literals(keys: Iterable[tuple[str, ...]]) -> list[str]:
    """One `Literal` for each prefix."""
    by_prefix: dict[tuple[str, ...], list[str]] = {}
    for key in keys:
        by_prefix.setdefault(key[:-1], []).append(f'"{key[-1]}"')
    texts = []
    for prefix, names in by_prefix.items():
        parts = [*(f'Literal["{part}"]' for part in prefix), f"Literal[{', '.join(names)}]"]
        texts.append(parts[0] if not prefix else f"tuple[{', '.join(parts)}]")
    return texts
