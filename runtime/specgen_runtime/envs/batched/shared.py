"""`Exchange`: steps of environments in processes, through shared memory."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict
from torch import Tensor

from specgen_runtime.envs.batched.memory import SharedMemory
from specgen_runtime.envs.batched.processes import ProcessPool
from specgen_runtime.envs.batched.rows import merge_rows, stack_rows
from specgen_runtime.envs.batched.slots import Slots, pack
from specgen_runtime.envs.batched.worker import RESET, ROOT, STEP, STEP_AND_RESET, WITH_INPUTS
from specgen_runtime.envs.checked import check_entries
from specgen_runtime.envs.entries import peek
from specgen_runtime.envs.packing import entries_of

if TYPE_CHECKING:
    from specgen_runtime.envs.batched.base import BatchedEnv

__all__ = ["Exchange"]


class Exchange:
    """Hands actions to the workers of a pool and takes what they give, all in one block of shared memory.

    The workers keep their roots. Actions and state are written at each step. Observations and done flags, which are no
    inputs but may be looked at, are written only if they are not the very tensors that were last handed out, unchanged:
    in a usual loop, never.

    Args:
        pool: the workers.
        slots: of one environment; all have the same.
        env: whose batch it is.
        on_disk: see `SharedMemory`.

    Attributes:
        last: what the environments last gave; None if that is not known.
    """

    def __init__(self, pool: ProcessPool, slots: Slots, env: BatchedEnv[Any], *, on_disk: bool) -> None:
        self._pool, self._slots = pool, slots
        self._env: weakref.ref[BatchedEnv[Any]] = weakref.ref(env)
        self._places = range(pool.count)
        nbytes = slots.nbytes(pool.count)
        memory = SharedMemory(nbytes, on_disk=on_disk)
        try:
            pool.exchange("slots", dict.fromkeys(self._places, (slots, memory.path, pool.count)))
        finally:
            memory.unlink()
        self._inputs, self._roots, self._nexts = slots.views(memory.block, pool.count)
        self._input_keys = [slot.key for slot in slots.inputs]
        self._root_keys = [slot.key for slot in slots.roots]
        self._reward_paths = {slot.path for slot in slots.nexts} - {slot.path for slot in slots.roots}
        inputs = {slot.path for slot in slots.inputs}
        self._seen = [i for i, slot in enumerate(slots.roots) if slot.path not in inputs]
        self._half = -(-len(slots.roots) // 8)
        self.last: TensorDict | None = None
        self.forget()

    def forget(self, *, rows: bool = True) -> None:
        """The workers' roots may be others than those that were handed out here."""
        if rows:
            self.last = None
        self._held: list[Tensor | None] = [None] * len(self._slots.roots)
        self._versions = [-1] * len(self._slots.roots)

    def takes(self, tensordict: TensorDict) -> bool:
        """Whether a root has all inputs, and nothing that needs to be pickled."""
        if "next" in entries_of(tensordict):
            return False
        return all(peek(tensordict, key) is not None for key in self._input_keys)

    # commands

    def reset(self) -> Any:
        """Start new episodes in all environments: the root."""
        pool = self._pool
        for place in self._places:
            pool.tell(place, RESET)
        answers = pool.hear(self._places)
        values = [self._out(value) for value in self._roots]
        self._hold(values)
        root = self._pack(self._slots.roots, values)
        self.last = root
        return self._with_extras(root.copy(), [None if data is None else data[2] for _, data in answers])

    def step(self, tensordict: TensorDict) -> Any:
        """Take a step: `"next"`."""
        answers = self._command(tensordict, STEP)
        values = [self._out(value) for value in self._nexts]
        self._hold([values[same] for same in self._slots.shared])
        self.last = self._pack(self._slots.nexts, values)
        return self._with_extras(self.last.copy(), [None if data is None else data[1] for _, data in answers])

    def step_and_maybe_reset(self, tensordict: TensorDict) -> tuple[Any, Any]:
        """Take a step, reset what is done: `"next"` and the root."""
        answers = self._command(tensordict, STEP_AND_RESET)
        values = [self._out(value) for value in self._nexts]
        fresh = [
            i for i, (answer, data) in enumerate(answers) if answer == ROOT or (data is not None and data[0])
        ]
        roots = [values[same] for same in self._slots.shared]
        if fresh:
            index = torch.tensor(fresh)
            for i, value in enumerate(roots):
                roots[i] = value.clone()
                roots[i][index] = self._out(self._roots[i][index])
        self._hold(roots)
        following = self._pack(self._slots.nexts, values)
        self.last = self._pack(self._slots.roots, roots)
        extras = [None if data is None else data[1] for _, data in answers]
        following = self._with_extras(following, extras)
        root = merge_rows(tensordict, self.last, self._reward_paths)
        return following, self._with_extras(root, [None if data is None else data[2] for _, data in answers])

    def _command(self, tensordict: TensorDict, command: bytes) -> Sequence[tuple[bytes, Any]]:
        """Write the actions and what else is new, and let all environments step."""
        env = self._env()
        assert env is not None
        check_entries(env, tensordict, env._expected("full_action_spec", "full_state_spec"), "step")
        written = absent = 0
        for i in self._seen:
            value, held = peek(tensordict, self._root_keys[i]), self._held[i]
            if value is held and held is not None and _unchanged(held, self._versions[i]):
                continue
            slot = self._roots[i]
            if isinstance(value, Tensor) and value.shape == slot.shape and value.dtype is slot.dtype:
                slot.copy_(value.detach())
                self._held[i], self._versions[i] = value, _version(value)
                written |= 1 << i
            else:  # not there, or another than its spec says: a transform's
                self._held[i] = None
                absent |= 1 << i
        for tensor, key in zip(self._inputs, self._input_keys, strict=True):
            tensor.copy_(peek(tensordict, key).detach())
        pool = self._pool
        if written or absent:
            masks = written.to_bytes(self._half, "little") + absent.to_bytes(self._half, "little")
            for place in self._places:
                pool.tell(place, WITH_INPUTS[command], masks)
        else:
            for place in self._places:
                pool.tell(place, command)
        return pool.hear(self._places)

    # what was handed out

    def _hold(self, values: Sequence[Tensor]) -> None:
        for i in self._seen:
            self._held[i], self._versions[i] = values[i], _version(values[i])

    def _out(self, value: Tensor) -> Tensor:
        """A copy of what is in a slot, on the device of the batch."""
        env = self._env()
        assert env is not None
        device = env._device
        if device is None or device.type == "cpu":
            return value.clone()
        return value.to(device, non_blocking=env.non_blocking)

    def _pack(self, slots: Any, values: Sequence[Tensor]) -> TensorDict:
        env = self._env()
        assert env is not None
        count = torch.Size((self._pool.count,))
        return pack(slots, values, self._slots.sizes, count, env._batch_size, env._device)

    def _with_extras(self, tensordict: Any, extras: Sequence[Any]) -> Any:
        """Add the entries that have no slots."""
        if all(extra is None for extra in extras):
            return tensordict
        env = self._env()
        assert env is not None
        if all(extra is not None for extra in extras):
            return tensordict.update(env._moved(stack_rows(extras)))
        rows = [
            row if extra is None else row.update(extra)
            for row, extra in zip(tensordict.unbind(0), extras, strict=True)
        ]
        return env._stack(rows)


def _version(value: Tensor) -> int:
    return -1 if value.is_inference() else value._version


def _unchanged(value: Tensor, version: int) -> bool:
    """Whether a tensor was not written to; unknown for inference tensors, which count as changed."""
    return version >= 0 and not value.is_inference() and value._version == version
