"""Transforms that step the environment before them several times, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.packing import peek
from specgen_runtime.specs import Bounded, Composite, TensorSpec, Unbounded
from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.generated import GeneratedTransform
from specgen_runtime.transforms.given_specs import from_given_specs
from specgen_runtime.transforms.keys import each_key, subspec
from specgen_runtime.transforms.like import unbounded_like
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.transforms.parts import InnerEnv

__all__ = ["AroundTransform", "RepeatTransform", "SkipTransform", "refuse_rows", "summed_like"]


class AroundTransform(GeneratedTransform[Row, InverseRow]):
    """Steps the environment before it as often as it likes: in place of a step, or after a reset.

    A subclass writes `_around_step`, `_around_reset` or both, and says so with `_steps_inner_env`.
    """

    _sequential = True
    _around = True
    _steps_inner_env = False

    @property
    def _acts_in_resets(self) -> bool:
        """Whether it draws random actions when the environment is reset."""
        return False

    def _around_step(self, tensordict: TensorDictBase, inner: InnerEnv) -> TensorDictBase:
        """Step the environment before this transform, as often and with what actions it likes.

        Args:
            tensordict: the root at this position of the chain. Not to be modified.
            inner: the base environment with the transforms before this one.

        Returns:
            What becomes `"next"`.
        """
        return self._step(tensordict, inner.step(tensordict))

    def _around_reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase, inner: InnerEnv
    ) -> TensorDictBase:
        """Step the environment before this transform after its reset and before `_reset`.

        Args:
            tensordict: what `reset` was given.
            tensordict_reset: fresh entries for all rows. Modified and returned.
            inner: the base environment with the transforms before this one.
        """
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self._fields(self._recalls_inputs):
            self._stash(next_tensordict, key)
        return self._dropped(self._map(next_tensordict, self._missing_tolerance))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self._fields(self._recalls_inputs):
            self._stash(tensordict_reset, key)
        return self._without_rewards(self._dropped(self._map(tensordict_reset, tolerant=True)))

    def forward(self, tensordict: TensorDictBase | None = None, **tensors: Tensor) -> NoReturn:
        """What is recorded can't be stepped again. Raises NotImplementedError."""
        raise NotImplementedError(
            f"{type(self).__name__} steps the environment before it, so recorded data can't be transformed by it: "
            "put it in a TransformedEnv"
        )


class RepeatTransform(AroundTransform[Row, InverseRow]):
    """Takes several steps of the environment before it as one.

    A row whose root-most done flag is set, or of which `_until` says so, has stopped: it keeps every entry.
    Environments whose state is in the tensordict compute all repetitions, so that random numbers don't depend on
    what happens; others are given a `_step` mask of the rows that go on, and are left when all have stopped.
    A row that a transform before leaves out takes none of them: nothing is folded, collected or counted of it then.

    A subclass writes `_repetitions` and those of the other hooks that it needs. Each of them runs over the records
    of keys.

    Attributes:
        _sums: those of its folded inputs that are added up, so that bounds follow.
        _extremes: those of them that are the largest or the smallest, so that bounds stay.
        _collects: the fields of a record that get the values of all repetitions, along a new front dimension.
        _stacks: those of them that stand for several keys, which are collected as they are, with the field of these.
        _taken: the fields of a record that get the number of repetitions.
    """

    _steps_inner_env = True
    _sums: tuple[str, ...] = ()
    _extremes: tuple[str, ...] = ()
    _collects: tuple[str, ...] = ()
    _stacks: ClassVar[Mapping[str, str]] = {}
    _taken: tuple[str, ...] = ()

    def _repetitions(self) -> int:
        """How many steps are taken."""
        raise NotImplementedError(
            f"{type(self).__name__} does not say how often it steps: write `_repetitions`"
        )

    def _count(self) -> int:
        count = self._repetitions()
        if count < 1:
            raise ValueError(f"{type(self).__name__} needs at least 1 repetition, got {count}")
        return count

    def _act(self, tensordict: TensorDictBase, root: TensorDictBase, nth: int, tolerant: bool) -> None:
        """Write the actions of a repetition into its root; without that they are held.

        Args:
            tensordict: what the policy wrote.
            root: what the environment is given.
            nth: the number of the repetition.
            tolerant: whether actions that the policy did not write are left out.
        """

    def _inwards(self, outer: TensorDictBase) -> TensorDictBase:
        if type(self)._act is RepeatTransform._act:
            return super()._inwards(outer)
        root = outer.copy()
        self._act(outer, root, 0, True)
        return root

    def _until(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, nth: int
    ) -> Iterator[Tensor]:
        """Where rows stop after a repetition, for each record of keys."""
        yield from ()

    def _fold(
        self,
        tensordict: TensorDictBase,
        next_tensordict: TensorDictBase,
        acc: TensorDictBase,
        folded: TensorDictBase,
        nth: int,
    ) -> None:
        """Combine what the repetitions before gave (`acc`, not to be modified) with another one, into `folded`."""

    def _collect(
        self,
        tensordict: TensorDictBase,
        next_tensordict: TensorDictBase,
        collected: TensorDictBase,
        nth: int,
    ) -> None:
        """Write what is collected of a repetition into `collected`."""

    # ----------------------------------------------------------------- moments

    def _around_step(self, tensordict: TensorDictBase, inner: InnerEnv) -> TensorDictBase:
        count = self._count()
        folds, collects = self._fields(self._folds), self._fields(self._collects)
        given: Tensor | None = peek(tensordict, "_step")
        root = tensordict.copy()
        self._act(tensordict, root, 0, False)
        following, moved = inner.step_rows(root)
        folded = following.select(*folds)
        going = ~(inner.done_rows(following) | self._stops(tensordict, following, 0))
        taken = (torch.ones_like(going) if moved is None else moved).to(torch.int64)
        collected = [self._collected(tensordict, following, moved, 0)] if collects else []
        for nth in range(1, count):
            root = inner.next_root(root, following)
            self._act(tensordict, root, nth, False)
            if not inner.computes and not self._choose_rows(root, going, given, inner):
                break
            latest, moved = inner.step_rows(root)
            stepped = going if moved is None else going & moved
            combined = latest.select(*folds)
            combined.update(folded)
            self._fold(tensordict, latest, folded, combined, nth)
            if moved is not None:
                _write_rows(combined, latest, taken == 0)  # a fold begins where a row steps first
            _write_rows(folded, combined, stepped)
            if collects:
                collected.append(self._collected(tensordict, latest, stepped, nth))
            inner.write_rows(following, latest, stepped)
            taken = taken + stepped
            going = going & ~(inner.done_rows(following) | self._stops(tensordict, latest, nth))
        return self._completed(tensordict, following, folded, collected, taken)

    def _stops(self, tensordict: TensorDictBase, following: TensorDictBase, nth: int) -> Tensor:
        rows = torch.zeros(following.batch_size, dtype=torch.bool, device=following.device)
        for flag in self._until(tensordict, following, nth):
            rows = rows | flag.reshape(*following.batch_size, -1).any(-1)
        return rows

    def _choose_rows(
        self, root: TensorDictBase, going: Tensor, given: Tensor | None, inner: InnerEnv
    ) -> bool:
        """Say in a root which rows step, to an environment that keeps its state; false where none does."""
        rows = going if given is None else going & given.reshape(going.shape)
        if not bool(rows.any()):
            return False
        if bool(rows.all()):
            return True
        refuse_rows(self, inner, rows)
        root.set("_step", rows)
        return True

    def _collected(
        self, tensordict: TensorDictBase, following: TensorDictBase, stepped: Tensor | None, nth: int
    ) -> TensorDictBase:
        made = following.empty()
        self._collect(tensordict, following, made, nth)
        for key, place in self._stacked_keys():
            made.set(place, self._require(following, key))
        if stepped is not None:
            _write_rows(made, made.apply(torch.zeros_like), ~stepped)
        return made

    def _stacked_keys(self) -> Iterator[tuple[NestedKey, NestedKey]]:
        """The keys that are collected as they are, each with where that is written."""
        for field, role in self._stacks.items():
            if field in self._collects:
                yield from zip(self._fields((role,)), self._fields((field,)), strict=True)

    def _completed(
        self,
        tensordict: TensorDictBase,
        following: TensorDictBase,
        folded: TensorDictBase,
        collected: Sequence[TensorDictBase],
        taken: Tensor,
    ) -> TensorDictBase:
        for key in self._fields(self._recalls_inputs):
            self._stash(following, key)  # as it arrives, not what is folded
        following.update(folded)
        rows = following.batch_dims
        for key in self._fields(self._collects):
            values = [each.get(key) for each in collected]
            values += [torch.zeros_like(values[0])] * (self._count() - len(values))
            following.set(key, torch.stack(values, rows))
        for key in self._fields(self._taken):
            shape = self._added[key].shape
            column = taken.reshape((*taken.shape, *(1,) * (len(shape) - rows)))
            following.set(key, column.expand(shape).clone())
        return self._dropped(self._map(following, self._missing_tolerance))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> NoReturn:
        raise RuntimeError(
            f"{type(self).__name__} steps the environment before it: it has to stand in the chain of a TransformedEnv "
            "itself, not inside of another transform"
        )

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self._fields((*self._collects, *self._taken)):
            self._write(tensordict_reset, key, self._blank(key))
        return super()._reset(tensordict, tensordict_reset)

    # ------------------------------------------------------------------- specs

    @property
    def _declared(self) -> dict[NestedKey, TensorSpec]:
        if self._declared_cache is None:
            declared, count = self._added_specs(), self._count()
            for key, place in self._stacked_keys():
                declared[place] = unbounded_like(self._spec(key))
            for key in self._fields(self._collects):
                declared[key] = _stacked(declared[key], len(self._batch()), count)
            self._declared_cache = declared
        return self._declared_cache

    def _batch(self) -> torch.Size:
        env = self.parent
        return torch.Size() if env is None else env.batch_size

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Add what is collected; widen the bounds of what is folded."""
        output_spec = super().transform_output_spec(output_spec)
        for name in ("full_observation_spec", "full_reward_spec"):
            output_spec[name] = self._with_folded(subspec(output_spec, name))
        return output_spec

    @from_given_specs
    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """As `transform_observation_spec`, with the bounds of what is folded."""
        return self._with_folded(super().transform_state_spec(state_spec))

    def _with_folded(self, group: Composite) -> Composite:
        for row in self.keys:
            for field in self._folds:
                for key in each_key(getattr(row, field)):
                    if key in group.keys(True, True) and key not in self._added:
                        group[key] = self._folded_spec(field, group[key])
        return group

    def _mapped_spec(self, key: NestedKey) -> TensorSpec:
        spec = super()._mapped_spec(key)
        folds = [field for row in self.keys for field in self._folds if getattr(row, field) == key]
        return self._folded_spec(folds[0], spec) if folds else spec

    def _folded_spec(self, field: str, spec: TensorSpec) -> TensorSpec:
        if field in self._extremes:
            return spec
        if field in self._sums:
            return summed_like(spec, self._count())
        return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)


class SkipTransform(AroundTransform[Row, InverseRow]):
    """Leaves out steps: rows of which `_skips` says so keep every entry, and their reward is 0.

    That holds for the whole environment: what transforms before and after count or sum stays as it is, too. Several
    of them are joined by `or`. A subclass writes `_skips`.
    """

    def _skips(self, tensordict: TensorDictBase) -> Iterator[Tensor]:
        """Which rows don't step, for each record of keys; read from the root."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it skips: write `_skips`")

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        size = tensordict.batch_size
        rows = torch.ones(size, dtype=torch.bool, device=tensordict.device)
        given: Tensor | None = peek(tensordict, "_step")
        if given is not None:
            rows = given.reshape(size)
        for flag in self._skips(tensordict):
            rows = rows & ~flag.reshape(*size, -1).any(-1)
        return tensordict.set("_step", rows)


def summed_like(spec: TensorSpec, count: int) -> TensorSpec:
    """A spec of the sum of 1 to `count` values of a spec: its bounds are the hull of all of these."""
    if not isinstance(spec, Bounded):
        return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)
    low, high = torch.as_tensor(spec.low), torch.as_tensor(spec.high)
    return Bounded(
        low=torch.minimum(low, low * count),
        high=torch.maximum(high, high * count),
        shape=spec.shape,
        dtype=spec.dtype,
        device=spec.device,
    )


def _stacked(spec: TensorSpec, dim: int, count: int) -> TensorSpec:
    """The spec of `count` values of a spec, along a new dimension."""
    return spec.unsqueeze(dim).expand(*spec.shape[:dim], count, *spec.shape[dim:]).clone()


def refuse_rows(transform: AroundTransform[Any, Any], inner: InnerEnv, rows: Tensor) -> None:
    """Refuse an environment that would go on in rows which stay."""
    if not inner.env._steps_rows():
        left_out = torch.nonzero(~rows).squeeze(-1).tolist()
        raise NotImplementedError(
            f"{type(transform).__name__}: the environments {left_out} stay where they are while others step, but the"
            f" state of {type(inner.env.base_env).__name__} is not in the tensordict, so that they would go on unseen;"
            " if its `_step` reads the mask '_step', set `_supports_partial_steps = True` in the class"
        )


def _write_rows(tensordict: TensorDictBase, other: Any, rows: Tensor) -> None:
    """Write `other` into a tensordict, in place, in some rows."""
    for key in list(tensordict.keys(True, True)):
        value, old = other.get(key), tensordict.get(key)
        mask = rows.reshape((*rows.shape, *(1,) * (value.ndim - rows.ndim)))
        tensordict.set(key, torch.where(mask, value, old))
