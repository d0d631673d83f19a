"""`SerialEnv`: several environments as one, one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch

from specgen_runtime.envs.base import D, EnvBase
from specgen_runtime.envs.batched.arguments import EnvFunction
from specgen_runtime.envs.batched.description import describe_all, make_samples
from specgen_runtime.envs.batched.fast_path import BatchFastPath
from specgen_runtime.envs.batched.generated_gym_batch import GeneratedGymBatch, row_steps_of
from specgen_runtime.envs.batched.gym_batch import GymBatch, fast_paths
from specgen_runtime.envs.batched.pool import LocalPool, Pool
from specgen_runtime.envs.batched.views import IndexedBatch
from specgen_runtime.envs.gym.fast_path import GymFastPath
from specgen_runtime.envs.gym.rollout_steps import GymSteps
from specgen_runtime.envs.gym.rows import GymRowSteps
from specgen_runtime.envs.overrides import STEP_METHODS, overrides
from specgen_runtime.envs.rollout import RolloutOptions
from specgen_runtime.envs.rollout_steps import RolloutSteps
from specgen_runtime.specs.arguments import as_device
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["SerialEnv"]


class SerialEnv(IndexedBatch[D]):
    """Several environments as one, stepped one after the other in this process.

    Gradients flow through it. See `BatchedEnv` for what all batches do.

    Args:
        num_workers: how many.
        create_env_fn: makes an environment, or one function for each.
        create_env_kwargs: keyword arguments of the functions: a dict for all (each gets a copy), or one for each.
        pin_memory: not supported.
        share_individual_td: give lazy stacks of the environments' tensordicts. None: only where their data differ in
            keys or sizes.
        shared_memory: for `ParallelEnv`; there is nothing to share here.
        memmap: likewise.
        policy_proof: not supported.
        device: of the data. None: that of the environments.
        allow_step_when_done: not supported.
        num_threads: for `ParallelEnv`.
        num_sub_threads: likewise.
        serial_for_single: likewise.
        non_blocking: do not wait for copies between devices; data on the CPU are always complete.
        mp_start_method: for `ParallelEnv`; there are no processes here.
        use_buffers: for `ParallelEnv`; results are never written into buffers here.
        consolidate: for `ParallelEnv`.

    Raises:
        TypeError: the count is no integer; an environment is given, or something else, where a function is wanted; a
            function makes no environment; `mp_start_method` is given.
        ValueError: the count is less than 1; something that is not supported is asked for; the environments have
            different batch sizes, or devices while `device` is None.
        RuntimeError: there are more or fewer functions or dicts than environments.

    Example:
        >>> env = SerialEnv(2, [CartPole, lambda: CartPole(device="cpu")])
        >>> env.rollout(10).batch_size
        torch.Size([2, 10])
    """

    def __init__(
        self,
        num_workers: int,
        create_env_fn: EnvFunction[D] | Sequence[EnvFunction[D]],
        *,
        create_env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        pin_memory: bool = False,
        share_individual_td: bool | None = None,
        shared_memory: bool = True,
        memmap: bool = False,
        policy_proof: Callable[..., Any] | None = None,
        device: DEVICE_TYPING | None = None,
        allow_step_when_done: bool = False,
        num_threads: int | None = None,
        num_sub_threads: int = 1,
        serial_for_single: bool = False,
        non_blocking: bool = False,
        mp_start_method: str | None = None,
        use_buffers: bool | None = None,
        consolidate: bool = True,
    ) -> None:
        del shared_memory, memmap, num_threads, num_sub_threads, serial_for_single, use_buffers, consolidate
        if mp_start_method is not None:
            raise TypeError(
                f"SerialEnv starts no processes: mp_start_method={mp_start_method!r} is for ParallelEnv"
            )
        super().__init__(
            num_workers,
            create_env_fn,
            create_env_kwargs=create_env_kwargs,
            pin_memory=pin_memory,
            share_individual_td=share_individual_td,
            policy_proof=policy_proof,
            device=device,
            allow_step_when_done=allow_step_when_done,
            non_blocking=non_blocking,
        )
        self._made: dict[int, EnvBase[Any]] = {}
        self._gym_batch: tuple[list[GymFastPath], GymBatch | None] = ([], None)
        self._generated_batch: tuple[list[GymRowSteps], GeneratedGymBatch | None] = ([], None)
        self._find_specs()

    def _find_specs(self) -> None:
        # In a dict: nn.Module would register environments that are attributes as its own.
        self._made = make_samples(self.create_env_fn, self.create_env_kwargs)
        self._take_specs(describe_all(self.create_env_fn, self.create_env_kwargs, self._made))

    def _open(self) -> Pool:
        if self._stale:
            self._find_specs()
            self._stale = False
        made, self._made = self._made, {}
        return LocalPool(self.create_env_fn, self.create_env_kwargs, made)

    @property
    def envs(self) -> list[EnvBase[Any]]:
        """The environments; starts them."""
        pool = self._live()
        assert isinstance(pool, LocalPool)
        return [worker_env.env for worker_env in pool.worker_envs]

    def _forget_pool(self) -> None:
        super()._forget_pool()
        self.__dict__["_gym_batch"] = [], None
        self.__dict__["_generated_batch"] = [], None

    def _fast_path(self) -> BatchFastPath | None:
        if self.share_individual_td:
            return None
        envs = self.envs
        return self._gym_path(envs) or self._generated_path(envs)

    def _generated_path(self, envs: Sequence[EnvBase[Any]]) -> GeneratedGymBatch | None:
        """What steps generated Gymnasium environments side by side."""
        steps = row_steps_of(envs) if self._device is None or self._device.type == "cpu" else None
        if steps is None:
            return None
        known, found = self._generated_batch
        if known != steps:
            found = GeneratedGymBatch(envs, steps, self._device, self._last)  # type: ignore[arg-type]
            self.__dict__["_generated_batch"] = steps, found
        return found

    def _gym_path(self, envs: Sequence[EnvBase[Any]]) -> GymBatch | None:
        """What steps wrapped Gymnasium environments side by side."""
        paths = fast_paths(envs)
        if paths is None:
            return None
        known, found = self._gym_batch
        if known != paths:
            found = GymBatch.of(paths, self._device, self._last)
            self.__dict__["_gym_batch"] = paths, found
        return found

    def _rollout_steps(self, options: RolloutOptions) -> RolloutSteps:
        batch = None
        if options.policy is None and options.whole_only and not overrides(self, STEP_METHODS):
            batch = None if self.share_individual_td else self._gym_path(self.envs)
        if batch is not None:
            drawn = dict(self._env_layout.action.spec.items())
            if (
                list(drawn) == ["action"]
                and (drawn["action"].shape, drawn["action"].dtype) == batch.action_fits
            ):
                return GymSteps(self, options, batch.paths, batch.keep)
        return super()._rollout_steps(options)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the environments and their data."""
        before = self._device
        result = super().to(*args, **kwargs)
        if self._pool is not None and self._device is not None and self._device != before:
            self._every("to", torch.device(as_device(self._device)))
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {
            **super().__getstate__(),
            "_made": {},
            "_gym_batch": ([], None),
            "_generated_batch": ([], None),
        }
