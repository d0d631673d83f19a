"""`ActionChunkTransform`: the next actions of each moment, as training targets."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import next_key
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import normal_key
from specgen_runtime.typing import NestedKey

__all__ = ["ActionChunkTransform"]


class ActionChunkTransform(Transform):
    """Writes the next `chunk_size` actions of each moment of recorded sequences; nothing in environments.

    Where the sequence or an episode ends, the last action is repeated, and the flags of padding say so.

    Args:
        chunk_size: how many actions, the moment's own first.
        action_key: the actions, `[*batch, time, size]`.
        chunk_key: where chunks go, `[*batch, time, chunk_size, size]`.
        pad_key: where flags of padding go, `bool[*batch, time, chunk_size]`.
        time_dim: of the actions' dimensions; the one before the last.
        done_key: below ``"next"``: the flag after which an episode ends, `[*batch, time]` or `[*batch, time, 1]`; without
            such an entry a sequence is one episode. None: it always is.

    Raises:
        ValueError: `chunk_size` is not positive; at a call: shapes that do not fit.
        KeyError: at a call: there are no actions.
    """

    def __init__(
        self,
        chunk_size: int,
        *,
        action_key: NestedKey = "action",
        chunk_key: NestedKey = ("vla_action", "chunk"),
        pad_key: NestedKey = "action_is_pad",
        time_dim: int = -2,
        done_key: NestedKey | None = "done",
    ) -> None:
        if chunk_size < 1:
            raise ValueError(f"chunk_size is at least 1, got {chunk_size}")
        super().__init__()
        self.chunk_size = int(chunk_size)
        self.action_key = normal_key(action_key)
        self.chunk_key = normal_key(chunk_key)
        self.pad_key = normal_key(pad_key)
        self.time_dim = time_dim
        self.done_key = None if done_key is None else normal_key(done_key)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = self._read(tensordict, self.action_key, self._missing_tolerance)
        if action is None:
            return tensordict
        time = self.time_dim + action.ndim if self.time_dim < 0 else self.time_dim
        if action.ndim < 2 or time != action.ndim - 2:
            raise ValueError(
                f"ActionChunkTransform needs actions [*batch, time, size], got {list(action.shape)} with"
                f" time_dim={self.time_dim}"
            )
        steps = action.shape[time]
        moments = torch.arange(steps, device=action.device)
        last = self._last_of_episodes(tensordict, action.shape[:-1], moments).unsqueeze(-1)
        wanted = (moments.unsqueeze(-1) + torch.arange(self.chunk_size, device=action.device)).expand(
            *action.shape[:-1], self.chunk_size
        )
        index = wanted.minimum(last)
        flat = index.flatten(-2).unsqueeze(-1).expand(*action.shape[:-2], -1, action.shape[-1])
        chunks = action.gather(-2, flat).reshape(*index.shape, action.shape[-1])
        tensordict.set(self.chunk_key, chunks)
        tensordict.set(self.pad_key, wanted > last)
        return tensordict

    def _last_of_episodes(self, tensordict: TensorDictBase, size: torch.Size, moments: Tensor) -> Tensor:
        """The last moment of the episode of each moment, `[*batch, time]`."""
        end = moments[-1].expand(size)
        done = None
        if self.done_key is not None:
            done = tensordict.get(next_key(self.done_key), None)
        if done is None:
            return end
        if done.shape == (*size, 1):
            done = done.squeeze(-1)
        if done.shape != size:
            raise ValueError(
                f"ActionChunkTransform: ('next', {self.done_key!r}) is {list(done.shape)}, and the actions are"
                f" {list(size)} of them; give done_key=None to take each sequence for one episode"
            )
        ends = torch.where(done, moments.expand(size), end)
        return ends.flip(-1).cummin(-1).values.flip(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(chunk_size={self.chunk_size})"
