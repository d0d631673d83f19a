"""Views of a composite's entries: what `keys`, `items` and `values` return."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.keys import as_path, is_key
from specgen_runtime.typing import NestedKey

__all__ = ["SpecItems", "SpecKeys", "SpecValues", "Viewed"]

_Key = TypeVar("_Key", bound=NestedKey, covariant=True)


class _Walk(Protocol):
    """Something that visits keys and specs, each time it is called."""

    def __call__(self) -> Iterator[tuple[Any, TensorSpec]]: ...


class _View:
    """A view follows the composite: it shows the entries that are there when it is looked at."""

    def __init__(self, walk: _Walk) -> None:
        self._walk = walk

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


class Viewed:
    """Something with named specs, nested to any depth, that can be viewed like a mapping."""

    @abstractmethod
    def _walk(
        self,
        include_nested: bool,
        leaves_only: bool,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> Iterator[tuple[Any, TensorSpec]]:
        """Visit keys and specs; the arguments are those of `keys`."""

    @overload
    def keys(
        self,
        include_nested: Literal[False] = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> SpecKeys[str]: ...
    @overload
    def keys(
        self,
        include_nested: bool,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> SpecKeys[NestedKey]: ...
    def keys(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> Any:
        """A view of the keys, in the order in which they were set; nested ones come before what they are in.

        Args:
            include_nested: also those of nested composites, as tuples.
            leaves_only: without the composites themselves.
            is_leaf: which classes count as leaves, instead of all but `Composite`.
            step_mdp_static_only: list a composite that is `step_mdp_static` as a whole, not its entries:
                it counts as a leaf, and its own list is empty.
        """
        return SpecKeys(partial(self._walk, include_nested, leaves_only, is_leaf, step_mdp_static_only))

    @overload
    def items(
        self,
        include_nested: Literal[False] = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> SpecItems[str]: ...
    @overload
    def items(
        self,
        include_nested: bool,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> SpecItems[NestedKey]: ...
    def items(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> Any:
        """A view of the keys and their specs; the arguments are those of `keys`."""
        return SpecItems(partial(self._walk, include_nested, leaves_only, is_leaf, step_mdp_static_only))

    def values(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> SpecValues:
        """A view of the specs; the arguments are those of `keys`."""
        return SpecValues(partial(self._walk, include_nested, leaves_only, is_leaf, step_mdp_static_only))
