"""`StepWindows`: transitions over several steps, of data in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import TRAJECTORY_KEY, leaf_name
from specgen_runtime.transforms.keys import as_tuple, sibling
from specgen_runtime.typing import NestedKey


@dataclass(frozen=True)
class StepWindows:
    """Replaces each transition by the one over as many steps; time is the last batch dimension."""

    n_steps: int
    gamma: float
    reward_keys: Sequence[NestedKey]
    done_key: NestedKey
    mask_key: NestedKey
    reader: str
    """What is called, for messages."""

    def breaks(self, data: TensorDictBase) -> Tensor:
        """Behind which moments something else follows, `[*batch, time]`."""
        numbers, mask = data.get(TRAJECTORY_KEY, None), data.get(self.mask_key, None)
        device = next((one.device for one in (numbers, mask) if one is not None), data.device)
        breaks = torch.zeros(data.batch_size, dtype=torch.bool, device=device)
        if numbers is not None:
            breaks[..., :-1] = _per_moment(numbers[..., :-1] != numbers[..., 1:], data.ndim)
        if mask is not None:
            breaks[..., :-1] |= ~_per_moment(mask, data.ndim)[..., 1:]
        return breaks

    def over(self, data: TensorDictBase, breaks: Tensor) -> TensorDictBase:
        """The transitions over several steps, of which none reaches over a break; new containers."""
        following = data.get("next", None)
        if following is None:
            raise KeyError(f"{self.reader} reads 'next', which is not in the data")
        data, following = data.copy(), following.copy()
        done = self._found(following, self.done_key)
        flag = _per_moment(done, data.ndim)
        time = data.ndim - 1
        last = flag | breaks.to(flag.device)
        last[..., -1] = True
        inside = torch.ones_like(flag)  # the moment `k` behind this one is in its window
        steps = torch.zeros(data.batch_size, dtype=torch.int64, device=flag.device)
        totals = {key: torch.zeros_like(self._found(following, key)) for key in self.reward_keys}
        for k in range(self.n_steps):
            steps += inside
            for key, total in totals.items():
                later = _later(following.get(key), k, time)
                part = _fit(inside, later)
                totals[key] = total + torch.where(part, self.gamma**k * later, 0)
            inside = inside & ~_later(last, k, time)
        index = torch.arange(data.shape[-1], device=flag.device).expand(data.batch_size) + steps - 1
        moved = following.exclude(*self.reward_keys).gather(-1, index)
        for key, total in totals.items():
            original = f"original_{leaf_name(key)}" if len(totals) > 1 else "original_reward"
            moved.set(sibling(key, original), following.get(key))
            moved.set(key, total)
        terminal = (
            flag if (mask := data.get(self.mask_key, None)) is None else flag | ~_per_moment(mask, data.ndim)
        )
        data.set("next", moved)
        data.set("steps_to_next_obs", steps)
        data.set("gamma", self.gamma**steps)
        data.set("nonterminal", ~terminal)
        return data

    def _found(self, following: TensorDictBase, key: NestedKey) -> Tensor:
        value: Tensor | None = following.get(key, None)
        if value is None:
            raise KeyError(f"{self.reader} reads {('next', *as_tuple(key))!r}, which is not in the data")
        return value


def checked_steps(steps: object) -> int:
    """The number of steps of a window. Raises ValueError if it is no positive integer."""
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ValueError(f"n_steps is a positive integer, got {steps!r}")
    return steps


def _later(values: Tensor, steps: int, time: int) -> Tensor:
    """The values `steps` moments later; the last one stands for those behind the end."""
    index = torch.arange(values.shape[time], device=values.device) + steps
    return values.index_select(time, index.clamp_max(values.shape[time] - 1))


def _fit(mask: Tensor, values: Tensor) -> Tensor:
    return mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim))


def _per_moment(flags: Tensor, ndim: int) -> Tensor:
    """Whether any of the flags of a moment is set, `[*batch, time]`."""
    return flags.reshape(*flags.shape[:ndim], -1).any(-1)
