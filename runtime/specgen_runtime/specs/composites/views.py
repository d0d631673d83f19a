"""Views of a composite's entries: what `keys`, `items` and `values` return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Set
from functools import partial
from typing import Any, Generic, TypedDict, TypeVar

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.keys import as_path, is_key
from specgen_runtime.typing import NestedKey

__all__ = ["SpecItems", "SpecKeys", "SpecValues", "ViewOptions"]

_Key = TypeVar("_Key", bound=NestedKey, covariant=True)


class ViewOptions(TypedDict, total=False):
    """Further arguments of `Composite.keys` and its like."""

    is_leaf: Callable[[type], bool] | None
    step_mdp_static_only: bool


def walk(
    spec: Any,
    include_nested: bool,
    leaves_only: bool,
    is_leaf: Callable[[type], bool] | None = None,
    step_mdp_static_only: bool = False,
) -> Iterator[tuple[Any, TensorSpec]]:
    """Visit the keys and entries of a composite; the arguments are those of `Composite.keys`."""
    if step_mdp_static_only and spec.step_mdp_static:
        return
    name: str
    entry: Any  # None for entries without a spec, which the views show as they are
    for name, entry in spec._specs.items():
        nested = entry is not None and entry._specs is not None
        if nested and include_nested:
            for key, below in walk(entry, True, leaves_only, is_leaf, step_mdp_static_only):
                yield (name, *as_path(key)), below
        leaf = not nested if is_leaf is None else is_leaf(type(entry))
        if leaf or not leaves_only or (step_mdp_static_only and nested and entry.step_mdp_static):
            yield name, entry


class _View:
    """A view follows the composite: it shows the entries that are there when it is looked at."""

    def __init__(
        self,
        spec: TensorSpec,
        include_nested: bool,
        leaves_only: bool,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> None:
        self._walk = partial(walk, spec, include_nested, leaves_only, is_leaf, step_mdp_static_only)

    def __len__(self) -> int:
        return sum(1 for _ in self._walk())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"  # type: ignore[call-overload]  # subclasses iterate


class SpecKeys(_View, Set[_Key], Generic[_Key]):
    """Keys of a composite: strings, and tuples of strings for nested entries. They work like a set."""

    def __iter__(self) -> Iterator[_Key]:
        return (key for key, _ in self._walk())

    def __contains__(self, key: object) -> bool:
        if not is_key(key):
            return False
        path = as_path(key)
        name = path[0] if len(path) == 1 else path
        return any(name == known for known, _ in self._walk())

    @classmethod
    def _from_iterable(cls, keys: Iterable[Any]) -> Any:
        return set(keys)


class SpecItems(_View, Collection[tuple[_Key, TensorSpec]], Generic[_Key]):
    """Keys and specs of a composite, in pairs. The spec is None for an entry without one."""

    def __iter__(self) -> Iterator[tuple[_Key, TensorSpec]]:
        return self._walk()

    def __contains__(self, item: object) -> bool:
        return any(item == known for known in self._walk())


class SpecValues(_View, Collection[TensorSpec]):
    """Specs of a composite; None for an entry without one."""

    def __iter__(self) -> Iterator[TensorSpec]:
        return (spec for _, spec in self._walk())

    def __contains__(self, spec: object) -> bool:
        return any(spec == known for known in self)
