"""`BoundTransform`: a transform whose keys are chosen by its user or found in the environment."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from typing_extensions import TypeVar

from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.key_finding import KeyFindingTransform
from specgen_runtime.transforms.keys import each_key, hidden_key, private_key
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.specs import TensorSpec
    from specgen_runtime.transforms.columns import Columns

__all__ = ["BoundTransform", "InverseRow", "Row"]

Row = TypeVar("Row", bound=tuple[Any, ...])
InverseRow = TypeVar("InverseRow", bound=tuple[Any, ...], default=tuple[NestedKey, ...])


class BoundTransform(KeyFindingTransform, Generic[Row, InverseRow]):
    """A transform that finds its keys when they are first needed, as records: one for each entry that it works on.

    A subclass writes `_bind`, which makes one record for each repetition, and says what its fields are for.

    Attributes:
        _reads: the fields of a record that make up `in_keys`.
        _writes: the fields of a record that make up `out_keys`.
        _recalls: the outputs of a record whose value before the step is read.
        _recalls_inputs: the inputs of a record whose value before the step is read.
        _carries: the fields of a record that are outputs and read again by the next step (part of `_recalls`).
        _flags: the fields of a record that are ``terminated`` or ``truncated`` flags.
        _drops, _drops_inverse: the inputs of a record that nobody sees behind this transform, or in front of it.
        _masks: fields of its records: an action as the policy writes it, and what is allowed of it.
        _renamed_inverse: fields of its inverse records: what the environment is given, and the same as the policy wrote it.
        _folds: the inputs of a record whose value is combined over several steps (part of `_writes`).
        _gives, _takes: the fields of an inverse record that make up `in_keys_inv`, and `out_keys_inv`.
        _out_keys_of_each, _out_keys_inv_of_each: how many `out_keys` there are for each of `in_keys`, and likewise of the
            inverse; None if the other arguments decide it, or they are no pairs.
    """

    _reads: tuple[str, ...] = ()
    _writes: tuple[str, ...] = ()
    _recalls: tuple[str, ...] = ()
    _carries: tuple[str, ...] = ()
    _flags: tuple[str, ...] = ()
    _recalls_inputs: tuple[str, ...] = ()
    _drops: tuple[str, ...] = ()
    _drops_inverse: tuple[str, ...] = ()
    _masks: tuple[tuple[str, str], ...] = ()
    _renamed_inverse: tuple[tuple[str, str], ...] = ()
    _folds: tuple[str, ...] = ()
    _gives: tuple[str, ...] = ()
    _takes: tuple[str, ...] = ()
    _out_keys_of_each: ClassVar[int | None] = 1
    _out_keys_inv_of_each: ClassVar[int | None] = 1

    _bound: list[Row] | None
    _bound_inv: list[InverseRow] | None
    _private: Mapping[NestedKey, NestedKey]
    _private_inputs: Mapping[NestedKey, NestedKey]
    _ranks: dict[NestedKey, int]
    _declared_cache: dict[NestedKey, TensorSpec] | None
    _added_cache: dict[NestedKey, TensorSpec] | None
    _column_cache: Columns | None
    _known_pairs: list[tuple[NestedKey, NestedKey]] | None
    _known_drops: list[NestedKey] | None
    _overwrites: bool | None  # whether maps read what they write

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        if in_keys is not None and in_keys_inv is None and not (self._recorded or self._masks):
            in_keys_inv = []  # who chooses keys wants no others
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self._refuse_unequal("keys", self._in_keys, self._out_keys, self._out_keys_of_each)
        self._refuse_unequal("keys_inv", self._in_keys_inv, self._out_keys_inv, self._out_keys_inv_of_each)
        self.__dict__.update(_nothing_bound())

    def _refuse_unequal(
        self, what: str, given: list[NestedKey] | None, made: list[NestedKey] | None, of_each: int | None
    ) -> None:
        """Compare the lists of a constructor, where both are given.

        Raises:
            ValueError: there is another number of `out_keys` than `in_keys` want.
        """
        if given is None or made is None or of_each is None or len(made) == len(given) * of_each:
            return
        each = "one" if of_each == 1 else str(of_each)
        raise ValueError(
            f"{type(self).__name__} needs {each} of out_{what} for each of in_{what}, got out_{what}={made} for "
            f"in_{what}={given}"
        )

    # ------------------------------------------------------------------ keys

    def _bind(self, env: EnvBase | None) -> list[Row]:
        """The keys of each repetition, chosen by the user or taken from `env`, the environment before this."""
        return []

    def _bind_inv(self, env: EnvBase | None) -> list[InverseRow]:
        """As `_bind`, of the inverse."""
        return []

    @property
    def keys(self) -> list[Row]:
        """The keys of each repetition."""
        if self._bound is None:
            self._bound = self._bind(self.parent)
        return self._bound

    @property
    def keys_inv(self) -> list[InverseRow]:
        """The keys of each repetition of the inverse."""
        if self._bound_inv is None:
            self._bound_inv = self._bind_inv(self.parent)
        return self._bound_inv

    @property
    def in_keys(self) -> list[NestedKey]:
        """The entries that are read."""
        return self._fields(self._reads)

    @in_keys.setter
    def in_keys(self, value: Sequence[NestedKey] | None) -> None:
        Transform.in_keys.fset(self, value)  # type: ignore[attr-defined]
        self._rebind()

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries that are written."""
        return self._fields(self._writes)

    @out_keys.setter
    def out_keys(self, value: Sequence[NestedKey] | None) -> None:
        Transform.out_keys.fset(self, value)  # type: ignore[attr-defined]
        self._rebind()

    @property
    def in_keys_inv(self) -> list[NestedKey]:
        """The entries that the environment is given."""
        return self._fields(self._gives, self.keys_inv)

    @in_keys_inv.setter
    def in_keys_inv(self, value: Sequence[NestedKey] | None) -> None:
        Transform.in_keys_inv.fset(self, value)  # type: ignore[attr-defined]
        self._rebind()

    @property
    def out_keys_inv(self) -> list[NestedKey]:
        """The entries that the policy writes in their place."""
        return self._fields(self._takes, self.keys_inv)

    @out_keys_inv.setter
    def out_keys_inv(self, value: Sequence[NestedKey] | None) -> None:
        Transform.out_keys_inv.fset(self, value)  # type: ignore[attr-defined]
        self._rebind()

    @property
    def carry_keys(self) -> list[NestedKey]:
        """The entries whose value before the step is read by the step."""
        return self._fields((*self._recalls, *self._recalls_inputs))

    @property
    def dropped_keys(self) -> list[NestedKey]:
        """The entries that nobody sees behind this transform; what it writes itself stays."""
        if not self._drops:
            return []
        if (known := self._known_drops) is None:
            written = set(self.out_keys)
            known = [key for key in self._fields(self._drops) if key not in written]
            self.__dict__["_known_drops"] = known
        return known

    def _fields(self, names: tuple[str, ...], rows: Sequence[Any] | None = None) -> list[NestedKey]:
        found: list[NestedKey] = []
        for row in self.keys if rows is None else rows:
            found += [key for name in names for key in each_key(getattr(row, name))]
        return list(dict.fromkeys(found))

    def _columns_behind(self, columns: frozenset[NestedKey]) -> frozenset[NestedKey]:
        """The entries with a trailing 1 that is no dimension of theirs, from those before this transform."""
        return columns

    # ------------------------------------------------------------- container

    def _set_private(self, index: int, rewritten: Collection[NestedKey]) -> bool:
        """Give a private place to the recalled entries that a later transform rewrites; whether that changed any."""
        owner = f"t{index}"
        own = {*self.out_keys, *self.dropped_keys}
        private = {key: private_key(key, owner) for key in self._fields(self._recalls) if key in rewritten}
        inputs = {
            key: hidden_key(key, owner, "before") if key in own else private_key(key, owner)
            for key in self._fields(self._recalls_inputs)
            if key in rewritten or key in own
        }
        changed = (private, inputs) != (self._private, self._private_inputs)
        self._private, self._private_inputs = private, inputs
        return changed

    def _adopt(self, original: BoundTransform[Row, InverseRow]) -> None:
        """Take over the keys that `original`, of which this is a copy, has bound."""
        self.__dict__.update({name: original.__dict__[name] for name in _nothing_bound()})

    def _rebind(self) -> None:
        if (container := self.container) is not None:
            container.empty_cache()
        self.empty_cache()

    def empty_cache(self) -> None:
        """Forget everything derived from the environment."""
        super().empty_cache()
        self.__dict__.update(_nothing_bound())

    def clone(self) -> Self:
        """A copy that is part of no environment; parameters and buffers are shared."""
        twin = super().clone()
        twin.empty_cache()
        return twin

    def __repr__(self) -> str:
        try:
            return f"{type(self).__name__}(keys={self.in_keys or self.in_keys_inv or self.out_keys})"
        except (RuntimeError, KeyError, TypeError, ValueError):  # keys that cannot be chosen, yet or at all
            return f"{type(self).__name__}()"


def _nothing_bound() -> dict[str, Any]:
    """What a transform knows of its environment before it has asked for anything."""
    return {**dict.fromkeys(_FOUND_LATER), "_private": {}, "_private_inputs": {}, "_ranks": {}}


_FOUND_LATER = (
    *("_bound", "_bound_inv", "_data", "_declared_cache", "_added_cache", "_column_cache"),
    *("_known_pairs", "_known_drops", "_overwrites"),
)
