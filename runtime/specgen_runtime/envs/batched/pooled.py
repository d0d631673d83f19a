"""`PooledEnv`: the environments that a batch consists of: their specs as one, starting, closing, attributes."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tensordict import LazyStackedTensorDict

from specgen_runtime.envs.base import D, EnvBase
from specgen_runtime.envs.batched.arguments import (
    EnvFunction,
    as_functions,
    as_kwargs,
    checked_env,
    refuse_deprecated,
)
from specgen_runtime.envs.batched.attributes import look_up
from specgen_runtime.envs.batched.description import Description, common_device, joined
from specgen_runtime.envs.batched.pool import Pool
from specgen_runtime.envs.batched.rows import LastOutputs, Memo, stack_rows
from specgen_runtime.envs.spec_groups import SPEC_GROUPS
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["PooledEnv"]


class PooledEnv(EnvBase[D]):
    """The part of `BatchedEnv` that holds its environments."""

    def __init__(
        self,
        num_workers: int,
        create_env_fn: EnvFunction[D] | Sequence[EnvFunction[D]],
        *,
        create_env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
        pin_memory: bool,
        share_individual_td: bool | None,
        policy_proof: Callable[..., Any] | None,
        device: DEVICE_TYPING | None,
        allow_step_when_done: bool,
        non_blocking: bool,
    ) -> None:
        functions = as_functions(num_workers, create_env_fn)
        refuse_deprecated(pin_memory, allow_step_when_done, policy_proof)
        super().__init__(device=device)
        self.num_workers = num_workers
        self.create_env_fn = list(functions)
        self.create_env_kwargs = as_kwargs(num_workers, create_env_kwargs)
        self.share_individual_td = share_individual_td
        self.non_blocking = bool(non_blocking)
        self._wanted_lazy = share_individual_td
        self._own_device = device is not None
        self._pool: Pool | None = None
        self._stale = False
        self._last = LastOutputs()

    # what a subclass writes

    @abstractmethod
    def _open(self) -> Pool:
        """Make the environments."""

    def _probe(self) -> dict[int, EnvBase[Any]]:
        """Make one environment for each different function and kwargs, by place."""
        made: dict[int, EnvBase[Any]] = {}
        for place, (function, kwargs) in enumerate(
            zip(self.create_env_fn, self.create_env_kwargs, strict=True)
        ):
            if self._same_as(place, made) is None:
                made[place] = checked_env(function(**kwargs), place)
        return made

    def _same_as(self, place: int, places: Mapping[int, Any]) -> int | None:
        """The one of some places that has the same function and kwargs, if there is one."""
        for other in places:
            if self.create_env_fn[other] is self.create_env_fn[place]:
                with contextlib.suppress(Exception):  # arrays have no truth
                    if bool(self.create_env_kwargs[other] == self.create_env_kwargs[place]):
                        return other
        return None

    def _describe(self, made: Mapping[int, Description]) -> None:
        """Take on the specs of the environments, of which some stand for others."""
        found: list[Description] = []
        for place in range(self.num_workers):
            same = place if place in made else self._same_as(place, made)
            assert same is not None
            found.append(made[same])
        self._take_specs(found)

    def _take_specs(self, descriptions: Sequence[Description]) -> None:
        """Take on the specs of the environments, all of which are given.

        Raises:
            ValueError: they can't be one batch.
        """
        device = self._device if self._own_device else common_device(descriptions)
        specs = joined(descriptions, device)
        ragged = len({each.layout() for each in descriptions}) > 1
        if ragged and self._wanted_lazy is False:
            raise ValueError(
                "share_individual_td=False, but the environments' data differ in keys, shapes or dtypes: they can"
                " only be stacked lazily"
            )
        self._descriptions = tuple(descriptions)
        self._device = device
        self._batch_size = torch.Size((self.num_workers, *descriptions[0].batch_size))
        self._groups = {}
        self._known_layout = None
        for name in SPEC_GROUPS:
            self._set_group(name, specs[name])
        if not self._done_sets:
            raise ValueError(
                "the environments' done flags have no key in common: a batch of them would never end"
            )
        self._ragged = ragged
        self.share_individual_td = ragged or bool(self._wanted_lazy)
        self._allow_done_after_reset = any(each.allow_done_after_reset for each in descriptions)
        self._resets_itself = any(each.resets_itself for each in descriptions)
        masks = {each.action_masks for each in descriptions}
        self._action_masks = masks.pop() if len(masks) == 1 else ()

    # starting and closing

    @property
    def is_closed(self) -> bool:
        """Whether the environments are not there: before the first use, and after `close`."""
        return self._pool is None

    @is_closed.setter
    def is_closed(self, value: bool) -> None:
        raise RuntimeError("is_closed follows from start() and close()")

    def start(self) -> None:
        """Make the environments; otherwise the first use does.

        Raises:
            RuntimeError: they are there already.
        """
        if self._pool is not None:
            raise RuntimeError(f"{type(self).__name__} has started already")
        self._live()

    def _live(self) -> Pool:
        if self._pool is None:
            self._pool = self._open()
            self._last.take()
        return self._pool

    def _refuse_if_closed(self) -> None:
        self._live()

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environments. The next use makes new ones.

        Raises:
            RuntimeError: there are none, and `raise_if_closed`.
        """
        pool = self._pool
        self._forget_pool()
        if pool is not None:
            pool.close(self._close_timeout())
        elif raise_if_closed:
            raise RuntimeError(f"{type(self).__name__} is closed already, or was never used")

    def _forget_pool(self) -> None:
        """The environments are gone."""
        self._pool = None
        self.__dict__["_begun"] = False
        self._last.take()

    def _close_timeout(self) -> float:
        return 10.0

    def update_kwargs(self, kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Change the keyword arguments with which environments are made, from the next start on.

        Args:
            kwargs: what to add or replace, for all environments or for each.

        Raises:
            TypeError: neither a mapping nor a sequence of mappings.
            RuntimeError: there are more or fewer mappings than environments.
        """
        for own, new in zip(
            self.create_env_kwargs, as_kwargs(self.num_workers, kwargs, "kwargs"), strict=True
        ):
            own.update(new)
        self._stale = True

    # rows and batches

    def _run(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Give a command to some environments; if the pool closed over it, so has this."""
        pool = self._live()
        try:
            return pool.run(command, arguments)
        except BaseException:
            self._forget_after_error()
            raise

    def _forget_after_error(self) -> None:
        """After an error: forget a pool that is gone."""
        self._last.take()
        if self._pool is not None and self._pool.closed:
            self._forget_pool()

    def _every(self, command: str, argument: Any = None) -> list[Any]:
        """Give the same command to all environments."""
        return list(self._run(command, dict.fromkeys(range(self.num_workers), argument)).values())

    def _stack(self, rows: Sequence[Any], memo: Memo | None = None) -> Any:
        """The batch of what the environments answered, on this environment's device."""
        if self.share_individual_td:
            rows = [self._moved(row) for row in rows]
            return LazyStackedTensorDict.lazy_stack(list(rows), 0)
        if self._own_device and len({row.device for row in rows}) > 1:
            rows = [self._moved(row) for row in rows]
        return self._moved(stack_rows(rows, memo))

    def _moved(self, tensordict: Any) -> Any:
        if tensordict.device == self._device:
            return tensordict
        if self._device is None:
            return tensordict.clear_device_()
        moved = tensordict.to(self._device, non_blocking=self.non_blocking)
        if self.non_blocking and self._device.type == "cpu" and torch.cuda.is_available():
            torch.cuda.synchronize()  # what is copied to the CPU without waiting may not be there yet
        return moved

    def __getattr__(self, name: str) -> Any:  # type: ignore[override]  # of nn.Module, which has one, too
        if name.startswith("_") or hasattr(type(self), name) or "_descriptions" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        try:
            return look_up(self._live(), (name,))
        except AttributeError as error:
            raise AttributeError(
                f"neither {type(self).__name__} nor its environments have an attribute {name!r}: {error}"
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        # The environments stay: a copy makes its own.
        return {**self.__dict__, "_pool": None, "_last": LastOutputs()}

    def __repr__(self) -> str:
        names = dict.fromkeys(each.name for each in self._descriptions)
        return f"{type(self).__name__}({', '.join(names)}, batch_size={list(self.batch_size)}, device={self.device})"
