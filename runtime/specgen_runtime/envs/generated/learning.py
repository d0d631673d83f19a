"""Chains whose transforms learn: the statistics that their functions read and update, and who may change them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

from specgen_runtime.envs.base import D, S
from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.envs.traced import is_traced
from specgen_runtime.row_networks import RowNetwork
from specgen_runtime.transforms.new_rows import NewRows, reset_mask
from specgen_runtime.transforms.statistics import LearningTransform
from specgen_runtime.typing import NestedKey

__all__ = ["LearnedStatistics", "LearningChain"]

T = TypeVar("T")


class LearnedStatistics:
    """What a transform of a chain has learned, as the chain's functions read and update it.

    Args:
        transform: the transform, which knows its keys.
        columns: those of its entries whose rows have a trailing 1 that the functions don't count.
        new_rows: gives the rows that the present step or reset is about.

    Attributes:
        transform: the transform.
        new_rows: the rows that the present step or reset is about.
    """

    def __init__(
        self,
        transform: LearningTransform[Any, Any],
        columns: Collection[NestedKey],
        new_rows: Callable[[], NewRows],
    ) -> None:
        self.transform = transform
        self.new_rows = new_rows
        self._columns = columns
        self._common: dict[str, Tensor] = {}

    def update(self, key: NestedKey, *seen: Tensor, again: bool = False) -> tuple[Tensor, ...]:
        """Learn from the rows that are new, unless the transform is frozen.

        Args:
            key: an entry that the transform works on.
            seen: what its update reads of this moment.
            again: whether another entry has taught it at this moment, also what is one for all entries.

        Returns:
            Its statistics behind that, in the order of their declaration.

        Raises:
            RuntimeError: torch traces the call, so that nothing can be learned.
        """
        with self.transform._statistics.locked():
            self._learn(key, seen, again)
            return self.now(key)

    def read_and_update(self, key: NestedKey, *seen: Tensor, again: bool = False) -> tuple[Tensor, ...]:
        """Learn as `update` does, and return the statistics as they were before, also before other entries taught them."""
        with self.transform._statistics.locked():
            before = self.now(key)
            if again and not self.transform.frozen:
                specs = self.transform._buffer_specs()
                pairs = zip(specs, before, strict=True)
                before = tuple([self._common.get(spec.name, value) for spec, value in pairs])
            self._learn(key, seen, again)
            return before

    def _learn(self, key: NestedKey, seen: Sequence[Tensor], again: bool) -> None:
        transform = self.transform
        if transform.frozen:
            return
        if is_traced():
            raise RuntimeError(
                f"{type(transform).__name__} learns, which torch.compile and torch.vmap can't follow: freeze it first"
            )
        with torch.no_grad():
            row, common = transform._row_of(key), self._common if again else None
            seen = transform._as_read(row, seen)
            self._common = transform._learn_row(row, self.new_rows(), seen, common)

    def now(self, key: NestedKey) -> tuple[Tensor, ...]:
        """The statistics of an entry as they are, in the order of their declaration.

        Raises:
            RuntimeError: one has no value yet.
        """
        held, squeezed = self.transform._held(key), self.squeezed(key)
        return tuple(value.squeeze(-1) if name in squeezed else value for name, value in held.items())

    def squeezed(self, key: NestedKey) -> Collection[str]:
        """The names of the statistics of an entry that are kept with a trailing 1 which the functions don't count."""
        if key not in self._columns or key in self.transform._columns.read:
            return ()
        return {spec.name for spec in self.transform._buffer_specs() if spec.shaped}


class LearningChain(GeneratedEnv[D, S]):
    """A chain with transforms that learn.

    Their statistics are in its state dict, under the names that `TransformedEnv(env, Compose(...))` has for them.

    Attributes:
        transforms: the transforms that learn, by their position in the chain.
    """

    transforms: nn.ModuleDict

    _new_rows: NewRows | None = None
    """The rows that the present step or reset is about; None for all."""

    _followed: Mapping[str, Mapping[str, str]] = {}
    """The parameters that transforms read, by their positions and their own names for them."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "params":
            for position, follows in self._followed.items():
                for own, param in follows.items():
                    setattr(self.transforms[position], own, getattr(self.params, param))

    def _learner(
        self,
        position: int,
        transform: LearningTransform[Any, Any],
        entries: Mapping[str, Any],
        columns: Collection[NestedKey] = (),
        networks: Mapping[str, RowNetwork] | None = None,
        follows: Mapping[str, str] | None = None,
    ) -> LearnedStatistics:
        """The statistics of a transform.

        Args:
            position: its index in the chain.
            transform: as it is constructed.
            entries: the entries that it works on, as one row has them.
            columns: those of them that are stored with a trailing 1.
            networks: the chain's networks that it calls, by its own names for them.
            follows: the chain's parameters that it reads, by its own names for them.
        """
        if "transforms" not in self._modules:
            self.transforms = nn.ModuleDict()
        bound = transform._bound_to(TensorDict(dict(entries), [], device=self.device))
        bound._bind_values()
        for name, network in (networks or {}).items():  # it calls the chain's, which holds their parameters
            bound._networks[name] = network
            del bound._modules[name]
        self.transforms[str(position)] = bound
        self._followed = {**self._followed, str(position): dict(follows or {})}
        return LearnedStatistics(bound, columns, self._rows_of_now)

    def _rows_of_now(self) -> NewRows:
        return self._new_rows or NewRows(self.batch_size, None, self.device)

    def _with_rows(self, mask: Tensor | None, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a method for the rows of a mask, bool of the batch size; None for all."""
        if mask is None:
            return call(*args, **kwargs)
        self.__dict__["_new_rows"] = NewRows(self.batch_size, mask, self.device)
        try:
            return call(*args, **kwargs)
        finally:
            self.__dict__["_new_rows"] = None

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        mask = None if tensordict is None else reset_mask(tensordict)
        return self._with_rows(mask, super()._reset, tensordict, **kwargs)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._with_rows(tensordict.get("_step", None), super()._step, tensordict)

    def _following(self, root: Any, next_: Any) -> Any:
        rows = next_.done.reshape(*self.batch_size, -1).any(-1)
        return self._with_rows(rows, super()._following, root, next_)

    # who may change them

    def _learning(self) -> list[LearningTransform[Any, Any]]:
        return list(self.transforms.values())  # type: ignore[arg-type]

    @property
    def frozen(self) -> bool:
        """Whether all statistics stay as they are."""
        return all(transform.frozen for transform in self._learning())

    def freeze(self) -> Self:
        """Let all statistics stay as they are; returns this environment."""
        for transform in self._learning():
            transform.freeze()
        return self

    def unfreeze(self) -> Self:
        """Learn again; returns this environment."""
        for transform in self._learning():
            transform.unfreeze()
        return self

    def frozen_copy(self) -> Self:
        """A copy of this environment with statistics of its own, which stay as they are now."""
        return copy.deepcopy(self).freeze()

    def share_memory(self) -> Self:
        """Put all statistics where processes share them: what one learns, all know.

        Copies in other processes, such as the environments of a `ParallelEnv`, share them if they are made behind this
        call.
        """
        for transform in self._learning():
            transform.share_memory()
        return self
