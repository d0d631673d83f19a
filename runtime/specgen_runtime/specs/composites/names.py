"""`NamedDims`: names of the batch dimensions of a `Composite`, as tensordicts have them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType
from typing import Self

from tensordict import TensorDict

from specgen_runtime.specs.arguments import as_index
from specgen_runtime.specs.shapes import Shaped
from specgen_runtime.specs.variable import drawn_size
from specgen_runtime.typing import IndexLike

__all__ = ["NamedDims", "Names", "as_names"]

Names = tuple[str | None, ...]


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
    return given if chosen else None


class NamedDims(Shaped):
    """Something whose leading dimensions may have names, which it shares with the parts it contains.

    Names follow their dimensions through `expand`, `squeeze`, `unsqueeze`, `unbind` and indexing; `reshape`,
    `flatten` and `unflatten` drop them.
    """

    _names: Names | None = None

    @abstractmethod
    def _parts(self) -> Iterator[NamedDims]:
        """The direct parts, whose leading dimensions are these."""

    @property
    def names(self) -> list[str | None]:
        """The name of each batch dimension, None if it has none. Assigning names the nested parts along.

        Raises:
            TypeError: if a name is neither a string nor None.
            ValueError: if there are more or fewer names than dimensions, or a name comes twice.
        """
        return list(self._names or (None,) * self.ndim)

    @names.setter
    def names(self, names: Sequence[str | None] | None) -> None:
        self._name_leading(as_names(names, self.ndim) or (None,) * self.ndim)

    def refine_names(self, *names: str | EllipsisType | None) -> Self:
        """Name dimensions that have no name yet, in place.

        Args:
            names: one for each dimension; `...` stands for those left out, which keep theirs.

        Raises:
            RuntimeError: if a dimension has another name already.
            ValueError: if there are more or fewer names than dimensions, or more than one `...`.
        """
        given = list(names)
        if given.count(...) > 1:
            raise ValueError(f"refine_names takes at most one '...', got {given}")
        if ... in given:
            place = given.index(...)
            given[place : place + 1] = self.names[place : place + self.ndim - len(given) + 1]
        refined = as_names(given, self.ndim) or (None,) * self.ndim  # type: ignore[arg-type]  # checked there
        for dim, (old, new) in enumerate(zip(self.names, refined, strict=True)):
            if old not in (None, new):
                raise RuntimeError(
                    f"refine_names: dimension {dim} is named {old!r} and cannot become {new!r}"
                )
        self._name_leading(refined)
        return self

    def _name_leading(self, names: Names) -> None:
        """Give names to the first dimensions, here and in the parts; later ones keep theirs."""
        whole = names + tuple(self.names[len(names) :])
        self._names = whole if any(whole) else None
        for part in self._parts():
            part._name_leading(names)

    def expand(self, *shape: int | Sequence[int]) -> Self:  # noqa: D102  # documented where it is defined
        new = super().expand(*shape)
        added: Names = (None,) * (new.ndim - self.ndim)
        return new._with_names_of(self, lambda names: added + names)

    def unsqueeze(self, dim: int) -> Self:  # noqa: D102
        new = super().unsqueeze(dim)
        position = dim + new.ndim if dim < 0 else dim
        return new._with_names_of(self, lambda names: (*names[:position], None, *names[position:]))

    def squeeze(self, dim: int | None = None) -> Self:  # noqa: D102
        new = super().squeeze(dim)
        if new is self:
            return self
        dims = range(self.ndim) if dim is None else [dim % self.ndim]
        gone = {place for place in dims if self.shape[place] == 1}
        return new._with_names_of(
            self, lambda names: tuple(name for place, name in enumerate(names) if place not in gone)
        )

    def _indexed(self, index: IndexLike) -> Self:
        full = as_index(index, self.shape, self._text())
        batch = drawn_size(self.shape)
        return (
            super()
            ._indexed(index)
            ._with_names_of(
                self, lambda names: tuple(TensorDict(batch_size=batch, names=list(names))[full].names)
            )
        )

    def _with_names_of(self, source: NamedDims, change: Callable[[Names], Names]) -> Self:
        """Take over the names of the spec that this one was made from, whose dimensions changed."""
        self._take_names(source, change, source.ndim)
        return self

    def _take_names(self, source: NamedDims, change: Callable[[Names], Names], count: int) -> None:
        if type(self) is not type(source):
            return  # a stack became a plain spec
        if source._names is not None:
            names = change(source._names[:count]) + source._names[count:]
            self._names = names if any(names) else None
        for part, origin in zip(self._parts(), source._parts(), strict=True):
            part._take_names(origin, change, count)
