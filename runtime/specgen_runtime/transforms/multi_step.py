"""`MultiStepTransform`: returns of several steps, for replay buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.transforms.keys import normal_key, normal_keys
from specgen_runtime.transforms.replay import ReplayTransform
from specgen_runtime.transforms.step_windows import StepWindows, checked_steps
from specgen_runtime.typing import NestedKey

__all__ = ["MultiStepTransform"]


class MultiStepTransform(ReplayTransform):
    r"""Replaces each transition by the one over `n_steps` steps, when data come into a replay buffer.

    The reward becomes :math:`\sum_{k=0}^{m-1} \gamma^k r_{t+k}`, and everything else under ``"next"``, done flags
    included, that of the last of these moments. There are fewer of them (`m`) where an episode ends, and where data do not
    go on: where the trajectory's number (``("collector", "traj_ids")``) changes, and between what comes in and what came
    before, where the one does not begin with the entries that stand under ``"next"`` at the end of the other. Time is
    the last batch dimension.

    The last `n_steps` moments are held back until others follow, so that the result does not depend on the sizes
    in which data come: `inv` gives those that are complete, or None if none is. `flush` gives what is held back.

    Adds ``"steps_to_next_obs"`` (`m`), ``"gamma"`` (:math:`\gamma^m`), ``"nonterminal"`` (whether the moment itself
    does not end its episode) and ``("next", "original_reward")``.

    Args:
        n_steps: how many steps; can be changed at any time.
        gamma: the discount factor.
        reward_keys: which rewards. None: ``["reward"]``.
        done_key: which flag ends an episode. None: ``"done"``.
        done_keys: TorchRL leaves these flags as they are; here they move with the other entries, so that what a
            window ends in is what its flags say.
        mask_key: says which moments are data; a window ends before others. None: ``"mask"``.

    Raises:
        ValueError: `n_steps` is not positive.
        KeyError: at a call: a reward or the flag is missing.
    """

    def __init__(
        self,
        n_steps: int,
        gamma: float,
        *,
        reward_keys: Sequence[NestedKey] | None = None,
        done_key: NestedKey | None = None,
        done_keys: Sequence[NestedKey] | None = None,
        mask_key: NestedKey | None = None,
    ) -> None:
        super().__init__()
        self.n_steps = n_steps
        self.gamma = gamma
        self.reward_keys = normal_keys(["reward"] if reward_keys is None else reward_keys)
        self.done_key = normal_key("done" if done_key is None else done_key)
        self.done_keys = normal_keys(["done", "terminated", "truncated"] if done_keys is None else done_keys)
        self.mask_key = normal_key("mask" if mask_key is None else mask_key)
        self.__dict__["_buffer"] = None
        self.__dict__["_breaks"] = None

    @property
    def n_steps(self) -> int:
        """How many steps a transition spans."""
        steps: int = self.__dict__["_n_steps"]
        return steps

    @n_steps.setter
    def n_steps(self, value: int) -> None:
        self.__dict__["_n_steps"] = checked_steps(value)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        held: TensorDictBase | None = self.__dict__["_buffer"]
        windows = self._step_windows()
        breaks = windows.breaks(tensordict)
        if held is not None:
            if tensordict.device is not None and held.device != tensordict.device:  # it was saved on another
                held = held.to(tensordict.device)
            joint = self.__dict__["_breaks"].to(breaks.device, copy=True)
            joint[..., -1] |= _differs(held[..., -1], tensordict[..., 0]).to(joint.device)
            tensordict, breaks = torch.cat([held, tensordict], -1), torch.cat([joint, breaks], -1)
        self.__dict__["_buffer"] = tensordict[..., -self.n_steps :].copy()
        self.__dict__["_breaks"] = breaks[..., -self.n_steps :]
        if tensordict.shape[-1] <= self.n_steps:
            return None  # what replay buffers take for nothing
        return windows.over(tensordict, breaks)[..., : -self.n_steps]

    def flush(self) -> TensorDictBase | None:
        """The transitions that are held back, over as many steps as there are; none are held back afterwards."""
        held, breaks = self.__dict__["_buffer"], self.__dict__["_breaks"]
        self.__dict__["_buffer"] = self.__dict__["_breaks"] = None
        return None if held is None else self._step_windows().over(held, breaks)

    def get_extra_state(self) -> dict[str, Any]:
        """What is held back, for `state_dict`."""
        held: TensorDictBase | None = self.__dict__["_buffer"]
        if held is None:
            return {}
        breaks = self.__dict__["_breaks"].clone()
        return {"held": held.clone().to_dict(), "breaks": breaks}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Hold back what another transform did."""
        breaks: Tensor | None = state.get("breaks")
        self.__dict__["_breaks"] = breaks
        self.__dict__["_buffer"] = (
            None if breaks is None else TensorDict.from_dict(state["held"], batch_size=breaks.shape)
        )

    def _step_windows(self) -> StepWindows:
        return StepWindows(
            self.n_steps, self.gamma, self.reward_keys, self.done_key, self.mask_key, type(self).__name__
        )


def _differs(before: TensorDictBase, after: TensorDictBase) -> Tensor:
    """In which rows the entries that stood under ``"next"`` are not those of the moment after."""
    following = before.get("next")
    found = torch.zeros(before.batch_size, dtype=torch.bool, device=before.device)
    for key, value in following.items(True, True):
        root = after.get(key, None)
        if isinstance(root, Tensor) and isinstance(value, Tensor) and root.shape == value.shape:
            same = (root == value) | ((root != root) & (value != value))
            found = found.to(same.device) | ~same.reshape(*before.batch_size, -1).all(-1)
    return found
