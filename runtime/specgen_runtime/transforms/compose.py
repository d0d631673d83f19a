"""Several transforms in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import indent
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload

import torch
from tensordict import TensorDictBase
from torch import nn

from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.columns import following_each_other
from specgen_runtime.transforms.function import TransformLike, as_transform
from specgen_runtime.transforms.given_data import reset_moment, step_moment
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.specs import Composite

__all__ = ["Compose", "leaves"]

T = TypeVar("T")


class Compose(Transform):
    """Transforms applied one after the other; on the way in, from the last to the first.

    Chains inside chains are flattened, so that every transform has one index.

    Args:
        steps: transforms or functions of a tensordict, or one list of them.
        transforms: such a list instead.

    Raises:
        TypeError: if both are given.

    Example:
        >>> chain = Compose(InitTracker(), StepCounter(max_steps=10))
        >>> chain.append(RewardSum())
        >>> len(chain), chain[-1]
        (3, RewardSum(keys=[]))
    """

    def __init__(
        self,
        *steps: TransformLike | Sequence[TransformLike],
        transforms: Sequence[TransformLike] | None = None,
    ) -> None:
        super().__init__()
        if steps and transforms is not None:
            raise TypeError("Compose takes transforms one after another, or as `transforms=[…]`, not both")
        given: Iterable[object] = steps if transforms is None else transforms
        if len(steps) == 1 and isinstance(steps[0], (list, tuple)):
            given = steps[0]
        self.transforms = nn.ModuleList()
        for entry in given:
            self.append(cast("TransformLike", entry))

    # ------------------------------------------------------------ the sequence

    def __iter__(self) -> Iterator[Transform]:
        return cast("Iterator[Transform]", iter(self.transforms))

    def __len__(self) -> int:
        return len(self.transforms)

    @overload
    def __getitem__(self, index: int) -> Transform: ...
    @overload
    def __getitem__(self, index: slice) -> Compose: ...
    def __getitem__(self, index: int | slice) -> Transform:
        """The transform at `index`; for a slice, a new chain of copies that share buffers."""
        if isinstance(index, slice):
            return Compose(*(entry.clone() for entry in list(self)[index]))
        return list(self)[index]

    def __setitem__(self, index: int, value: TransformLike) -> None:
        position = self._position(index)
        self.pop(position)
        self.insert(position, value)

    def __delitem__(self, index: int) -> None:
        self.pop(index)

    def append(self, transform: TransformLike) -> None:
        """Add a transform at the end."""
        self.insert(len(self), transform)

    def insert(self, index: int, transform: TransformLike) -> None:
        """Add a transform before the one at `index`.

        Raises:
            ValueError: if `index` is not within the chain or at its end.
        """
        if not -len(self) <= index <= len(self):
            raise ValueError(f"index {index} is out of range for a chain of {len(self)} transforms")
        position = index + len(self) if index < 0 else index
        entry = as_transform(transform)
        # Exactly Compose: a subclass may do more than pass things on, so it stays whole.
        entries = list(entry) if type(entry) is Compose else [entry]
        for offset, each in enumerate(entries):
            if type(entry) is Compose:
                each.reset_parent()
            each.set_container(self)
            each.train(self.training)
            self.transforms.insert(position + offset, each)
        self._changed()

    def pop(self, index: int = -1) -> Transform:
        """Take out the transform at `index` (default: the last) and return it."""
        taken = list(self)[self._position(index)]
        del self.transforms[self._position(index)]
        taken.reset_parent()
        self._changed()
        return taken

    def _position(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for a chain of {len(self)} transforms")
        return index % len(self)

    def _changed(self) -> None:
        container = self.container
        if container is not None:
            container.empty_cache()
        else:
            self.empty_cache()

    # -------------------------------------------------------------------- keys

    @property  # type: ignore[misc]  # they follow from the transforms
    def in_keys(self) -> list[NestedKey]:
        """The entries that are read from outside: before a transform of this chain writes them."""
        return _from_outside([(entry.in_keys, entry.out_keys) for entry in self])

    @property  # type: ignore[misc]  # they follow from the transforms
    def out_keys(self) -> list[NestedKey]:
        """The entries that are written by one of the transforms."""
        return list(dict.fromkeys(key for entry in self for key in entry.out_keys))

    @property  # type: ignore[misc]  # they follow from the transforms
    def in_keys_inv(self) -> list[NestedKey]:
        """The entries that are written on the way in."""
        return list(dict.fromkeys(key for entry in reversed(list(self)) for key in entry.in_keys_inv))

    @property  # type: ignore[misc]  # they follow from the transforms
    def out_keys_inv(self) -> list[NestedKey]:
        """The entries that are read on the way in: before a later transform of this chain writes them."""
        return _from_outside([(entry.out_keys_inv, entry.in_keys_inv) for entry in reversed(list(self))])

    # ----------------------------------------------------------------- moments

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return following_each_other(self, next_tensordict, lambda entry, after: entry._call(after))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        return following_each_other(
            self,
            next_tensordict,
            lambda entry, after: entry._step(tensordict, after),
            lambda after: step_moment(tensordict, after),
        )

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return following_each_other(
            self,
            tensordict_reset,
            lambda entry, fresh: entry._reset(tensordict, fresh),
            lambda fresh: reset_moment(tensordict, fresh),
        )

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        for entry in reversed(list(self)):
            tensordict = entry._reset_env_preprocess(tensordict)
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for entry in reversed(list(self)):
            tensordict = entry._inv_call(tensordict)
        return tensordict

    def _inv_recorded(self, tensordict: TensorDictBase) -> TensorDictBase:
        for entry in reversed(list(self)):
            tensordict = entry._inv_recorded(tensordict)
            if tensordict is None:  # a transform of a replay buffer holds everything back
                break
        return tensordict

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return following_each_other(self, tensordict, lambda entry, data: entry(data))

    def init(self, tensordict: TensorDictBase) -> None:
        """Prepare each transform for data like `tensordict`."""
        for entry in self:
            entry.init(tensordict)

    def close(self) -> None:
        """Release what the transforms hold."""
        for entry in self:
            entry.close()

    def dump(self, **kwargs: Any) -> None:
        """Write out what each transform has recorded."""
        for entry in self:
            entry.dump(**kwargs)

    # ------------------------------------------------------------------- specs

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs of what the environment returns, after every transform."""
        return self._through(output_spec, lambda entry: entry.transform_output_spec)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """The specs of what the environment is given, as the user sees them."""
        # From the first to the last: each tells what the one outside it may be given.
        return self._through(input_spec, lambda entry: entry.transform_input_spec)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs after every transform."""
        return self._through(observation_spec, lambda entry: entry.transform_observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """The reward specs after every transform."""
        return self._through(reward_spec, lambda entry: entry.transform_reward_spec)

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """The done specs after every transform."""
        return self._through(done_spec, lambda entry: entry.transform_done_spec)

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """The action specs after every transform."""
        return self._through(action_spec, lambda entry: entry.transform_action_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """The state specs after every transform."""
        return self._through(state_spec, lambda entry: entry.transform_state_spec)

    def transform_fake_tensordict(self, fake_tensordict: TensorDictBase) -> TensorDictBase:
        """What `fake_tensordict` of an environment gives behind every transform."""
        return self._through(fake_tensordict, lambda entry: entry.transform_fake_tensordict)

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """The device after every transform."""
        return self._through(device, lambda entry: entry.transform_env_device)

    def transform_env_batch_size(self, batch_size: torch.Size) -> torch.Size:
        """The batch size after every transform."""
        return self._through(batch_size, lambda entry: entry.transform_env_batch_size)

    def _through(self, value: T, change: Callable[[Transform], Callable[[T], T]]) -> T:
        for entry in self:
            value = change(entry)(value)
        return value

    # --------------------------------------------------------------- container

    def set_container(self, container: Any) -> None:
        """Say which environment or chain holds this chain; see `Transform.set_container`."""
        super().set_container(container)
        for entry in self:
            entry.empty_cache()

    def empty_cache(self) -> None:
        """Forget everything derived from the environment, in each transform too."""
        super().empty_cache()
        # nn.Module.__init__ has run, but `transforms` is set after it.
        for entry in cast("Iterable[Transform]", self._modules.get("transforms") or ()):
            entry.empty_cache()

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Set the tolerance of each transform; see `Transform.set_missing_tolerance`."""
        super().set_missing_tolerance(mode)
        for entry in self:
            entry.set_missing_tolerance(mode)

    def clone(self) -> Self:
        """A copy that is part of no environment; parameters and buffers are shared."""
        twin = super().clone()
        twin.transforms = nn.ModuleList()
        for entry in self:
            copied = entry.clone()
            copied.set_container(twin)
            twin.transforms.append(copied)
        return twin

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers of each transform; see `torch.nn.Module.to`."""
        for entry in self:
            entry.to(*args, **kwargs)
        return super().to(*args, **kwargs)

    def share_memory(self) -> Self:
        """Put the statistics, parameters and buffers of each transform where processes share them.

        Raises:
            RuntimeError: one of them keeps statistics of keys that are not known yet.
        """
        for entry in self:
            entry.share_memory()
        return self

    def __repr__(self) -> str:
        inside = ",\n".join(indent(repr(entry), "    ") for entry in self)
        return f"{type(self).__name__}(\n{inside})" if inside else f"{type(self).__name__}()"


def leaves(transform: Transform) -> tuple[Transform, ...]:
    """The transforms of a chain in order; any other transform is its own only leaf."""
    return tuple(transform) if type(transform) is Compose else (transform,)


def _from_outside(steps: Iterable[tuple[list[NestedKey], list[NestedKey]]]) -> list[NestedKey]:
    """What steps in a row read, as pairs of the keys that each reads and writes, before one of them has written it."""
    found: dict[NestedKey, None] = {}
    written: set[NestedKey] = set()
    for reads, writes in steps:
        found.update(dict.fromkeys(key for key in reads if key not in written))
        written.update(writes)
    return list(found)
