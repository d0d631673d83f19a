"""`MultiStep`: returns of several steps, of one batch."""

from __future__ import annotations

from collections.abc import Sequence

from tensordict import TensorDictBase
from torch import nn

from specgen_runtime.envs.keys import MASK_KEY
from specgen_runtime.transforms.keys import normal_key, normal_keys
from specgen_runtime.transforms.step_windows import StepWindows, checked_steps
from specgen_runtime.typing import NestedKey

__all__ = ["MultiStep"]


class MultiStep(nn.Module):
    r"""Replaces each transition of a batch by the one over `n_steps` steps, as a collector's `postproc`.

    The reward becomes :math:`\sum_{k=0}^{m-1} \gamma^k r_{t+k}`, and everything else under ``"next"``, done flags
    included, that of the last of these moments. There are fewer of them (`m`) where an episode ends, where the
    trajectory's number changes, before what the mask leaves out, and at the end of the batch: what follows in the next
    batch isn't known here. `MultiStepTransform` in a replay buffer waits for it.

    Adds ``"steps_to_next_obs"`` (`m`), ``"gamma"`` (:math:`\gamma^m`), ``"nonterminal"`` (whether the moment itself
    does not end its episode) and ``("next", "original_reward")``.

    Args:
        gamma: the discount factor, in (0, 1].
        n_steps: how many steps; positive.
        reward_keys: which rewards. None: ``["reward"]``.
        done_key: which flag ends an episode. None: ``"done"``.
        mask_key: says which moments are data. None: ``("collector", "mask")``, which `split_trajectories` writes.

    Raises:
        ValueError: `gamma` or `n_steps` is out of range; at a call: the batch has no dimension of time.
        KeyError: at a call: a reward or the flag is missing.

    Example:
        >>> batch = CartPole(batch_size=[2]).rollout(10)
        >>> MultiStep(gamma=0.99, n_steps=3)(batch)["steps_to_next_obs"][0, -3:]
        tensor([3, 2, 1])
    """

    def __init__(
        self,
        gamma: float,
        n_steps: int,
        *,
        reward_keys: Sequence[NestedKey] | None = None,
        done_key: NestedKey | None = None,
        mask_key: NestedKey | None = None,
    ) -> None:
        super().__init__()
        if not 0 < gamma <= 1:
            raise ValueError(f"gamma lies in (0, 1], got {gamma!r}")
        self.gamma = gamma
        self.n_steps = checked_steps(n_steps)
        self.reward_keys = normal_keys(["reward"] if reward_keys is None else reward_keys)
        self.done_key = normal_key("done" if done_key is None else done_key)
        self.mask_key = normal_key(MASK_KEY if mask_key is None else mask_key)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The transitions over several steps, `[*batch, time]`; what is given stays as it is."""
        if not tensordict.ndim:
            raise ValueError(
                "MultiStep takes a batch in the order of time, whose last dimension it is; got no dimension"
            )
        windows = StepWindows(
            self.n_steps, self.gamma, self.reward_keys, self.done_key, self.mask_key, type(self).__name__
        )
        return windows.over(tensordict, windows.breaks(tensordict))
