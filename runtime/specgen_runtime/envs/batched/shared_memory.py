"""`SharedMemoryPath`: steps of environments in processes, through shared memory."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict
from torch import Tensor

from specgen_runtime.envs.batched.buffers import BufferLayout, pack
from specgen_runtime.envs.batched.fast_path import BatchFastPath
from specgen_runtime.envs.batched.memory import SharedMemory
from specgen_runtime.envs.batched.processes import ProcessPool
from specgen_runtime.envs.batched.rows import stack_rows
from specgen_runtime.envs.batched.worker import RESET, ROOT, STEP, STEP_AND_RESET, WITHOUT
from specgen_runtime.envs.data_checks import check_entries
from specgen_runtime.envs.mdp import following_root
from specgen_runtime.envs.packing import entries_of, peek, update_with

if TYPE_CHECKING:
    from specgen_runtime.envs.batched.base import BatchedEnv

__all__ = ["SharedMemoryPath"]


class SharedMemoryPath(BatchFastPath):
    """Hands actions to the workers of a pool and takes what they give, all in one block of shared memory.

    All entries of the specs are written at each step, observations and done flags too: an environment may look at them,
    and whether somebody changed them since they were handed out can't be known (NumPy writes into tensors unseen).
    What else the environments gave, the workers keep.

    Args:
        pool: the workers.
        buffers: of one environment; all have the same.
        env: whose batch it is.
        on_disk: see `SharedMemory`.
    """

    def __init__(
        self, pool: ProcessPool, buffers: BufferLayout, env: BatchedEnv[Any], *, on_disk: bool
    ) -> None:
        self._pool, self._buffers = pool, buffers
        self._env: weakref.ref[BatchedEnv[Any]] = weakref.ref(env)
        self._places = range(pool.count)
        nbytes = buffers.nbytes(pool.count)
        memory = SharedMemory(nbytes, on_disk=on_disk)
        try:
            pool.run("buffers", dict.fromkeys(self._places, (buffers, memory.path, pool.count)))
        finally:
            memory.unlink()
        self._inputs, self._roots, self._nexts = buffers.views(memory.block, pool.count)
        self._input_keys = [buffer.key for buffer in buffers.inputs]
        self._root_keys = [buffer.key for buffer in buffers.roots]
        self._seen = buffers.seen
        self._mask_bytes = -(-len(buffers.roots) // 8)
        self._last = env._last

    def takes(self, tensordict: TensorDict) -> bool:
        """Whether a root has all inputs, and nothing that needs to be pickled."""
        if "next" in entries_of(tensordict):
            return False
        return all(peek(tensordict, key) is not None for key in self._input_keys)

    # commands

    def reset(self) -> Any:
        """Start new episodes in all environments: the root."""
        pool = self._pool
        with pool.exclusive():
            for place in self._places:
                pool.write_command(place, RESET)
            answers = pool.read_answers(self._places)
            values = [self._out(value) for value in self._roots]
        root = self._pack(self._buffers.roots, values)
        self._last.take(batch=root)
        return self._with_extras(root.copy(), [None if data is None else data[2] for _, data in answers])

    def step(self, tensordict: TensorDict) -> Any:
        """Take a step: `"next"`."""
        with self._pool.exclusive():
            answers = self._command(tensordict, STEP)
            values = [self._out(value) for value in self._nexts]
        following = self._pack(self._buffers.nexts, values)
        self._last.take(batch=following)
        extras = [None if data is None else data[1] for _, data in answers]
        return self._with_extras(following.copy(), extras)

    def step_and_maybe_reset(self, tensordict: TensorDict) -> tuple[Any, Any]:
        """Take a step, reset what is done: `"next"` and the root."""
        with self._pool.exclusive():
            answers = self._command(tensordict, STEP_AND_RESET)
            values = [self._out(value) for value in self._nexts]
            roots = self._roots_after(answers, [values[same] for same in self._buffers.shared])
        following = self._pack(self._buffers.nexts, values)
        given = self._pack(self._buffers.roots, roots)
        self._last.take(batch=given)
        extras = [None if data is None else data[1] for _, data in answers]
        following = self._with_extras(following, extras)
        env = self._env()
        assert env is not None
        root = following_root(env._env_layout.step_plan, tensordict, given)
        return following, self._with_extras(root, [None if data is None else data[2] for _, data in answers])

    def _roots_after(self, answers: Sequence[tuple[bytes, Any]], values: list[Tensor]) -> list[Tensor]:
        """The roots that follow from `"next"`, with new episodes in the rows of those that say so."""
        fresh = [
            i for i, (answer, data) in enumerate(answers) if answer == ROOT or (data is not None and data[0])
        ]
        if not fresh:
            return values
        index = torch.tensor(fresh)
        roots = [value.clone() for value in values]
        for root, buffer in zip(roots, self._roots, strict=True):
            root[index] = self._out(buffer[index])
        return roots

    def _command(self, tensordict: TensorDict, command: bytes) -> Sequence[tuple[bytes, Any]]:
        """Write the actions and what else is new, and let all environments step."""
        env = self._env()
        assert env is not None
        check_entries(
            env._env_layout,
            tensordict,
            env._env_layout.action.entries + env._env_layout.state.entries,
            "step",
        )
        absent = 0
        for i in self._seen:
            value, buffer = peek(tensordict, self._root_keys[i]), self._roots[i]
            if isinstance(value, Tensor) and value.shape == buffer.shape and value.dtype is buffer.dtype:
                buffer.copy_(value.detach())
            else:  # not there, or another than its spec says: a transform's
                absent |= 1 << i
        for tensor, key in zip(self._inputs, self._input_keys, strict=True):
            tensor.copy_(peek(tensordict, key).detach())
        pool, mask = self._pool, None
        if absent:
            command, mask = WITHOUT[command], absent.to_bytes(self._mask_bytes, "little")
        for place in self._places:
            pool.write_command(place, command, mask)
        return pool.read_answers(self._places)

    # what is handed out

    def _out(self, value: Tensor) -> Tensor:
        """A copy of what is in a buffer, on the device of the batch."""
        env = self._env()
        assert env is not None
        device = env._device
        if device is None or device.type == "cpu":
            return value.clone()
        return value.to(device, non_blocking=env.non_blocking)

    def _pack(self, buffers: Any, values: Sequence[Tensor]) -> TensorDict:
        env = self._env()
        assert env is not None
        count = torch.Size((self._pool.count,))
        return pack(buffers, values, self._buffers.sizes, count, env._batch_size, env._device)

    def _with_extras(self, tensordict: Any, extras: Sequence[Any]) -> Any:
        """Add the entries that have no buffers."""
        if all(extra is None for extra in extras):
            return tensordict
        env = self._env()
        assert env is not None
        if all(extra is not None for extra in extras):
            return update_with(tensordict, env._moved(stack_rows(extras)))
        rows = [
            row if extra is None else update_with(row, extra)
            for row, extra in zip(tensordict.unbind(0), extras, strict=True)
        ]
        return env._stack(rows)
