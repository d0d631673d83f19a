"""The hot loop over a Gymnasium environment: nothing but Gymnasium, with tensors made once for all steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.generated.records import carried, stacked

if TYPE_CHECKING:
    from specgen_runtime.envs.gym.generated import GeneratedGymEnv

__all__ = ["run_lifted"]


def run_lifted(
    env: GeneratedGymEnv[Any], root: Any, actions: Tensor, any_stops: bool
) -> tuple[Any, Any, int]:
    """Take the given actions in a Gymnasium environment, episode after episode.

    Args:
        env: has the hooks `_gym_stop` and `_gym_lift`, and one observation in a Box.
        root: the Root record to start from.
        actions: `(T, ...)`.
        any_stops: whether to stop at the first end of an episode.

    Returns:
        The Root and the Next records with time in front, and how many steps were taken.

    Raises:
        ValueError: an observation has another shape than its space.
    """
    choices = env._decode_all(actions)
    total = len(choices)
    slab = np.empty((total, *env._slab_shape), dtype=env._slab_dtype)
    shape = slab.shape[1:]
    ended = np.zeros((total, 1), dtype=np.bool_)
    cut = np.zeros((total, 1), dtype=np.bool_)
    gains: list[Any] = []
    firsts, lengths = [root], []
    step = env._gym.step
    at = 0
    while True:
        stop = env._gym_stop(firsts[-1])
        begin, until = at, total if stop is None else min(total, at + stop)
        terminated = truncated = False
        for choice in choices[at:until]:
            observation, reward, terminated, truncated, _info = step(choice)
            if getattr(observation, "shape", None) != shape and np.shape(observation) != shape:
                raise ValueError(
                    f"Gymnasium gave an observation of shape {list(np.shape(observation))},"
                    f" its space says {list(shape)}"
                )
            slab[at] = observation
            gains.append(reward)
            at += 1
            if terminated or truncated:
                break
        ended[at - 1], cut[at - 1] = bool(terminated), bool(truncated)
        lengths.append(at - begin)
        if at == total or any_stops:
            break
        firsts.append(env._fresh())
    starts = stacked(firsts, 0)
    next_ = env._gym_lift(
        starts,
        lengths,
        env._on_device(torch.from_numpy(slab[:at])),
        env._on_device(torch.from_numpy(np.array(gains, dtype=np.float32).reshape(-1, 1))),
        env._on_device(torch.from_numpy(ended[:at])),
        env._on_device(torch.from_numpy(cut[:at])),
    )
    return _roots(starts, lengths, next_), next_, at


def _roots(starts: Any, lengths: list[int], next_: Any) -> Any:
    """Each step's Root: the first of its episode, or what the step before carries on."""
    places = torch.tensor([0, *lengths[:-1]]).cumsum(0)
    fields = []
    for start, following in zip(starts, carried(starts, next_), strict=True):
        field = torch.empty_like(following)
        field[1:] = following[:-1]
        field[places] = start
        fields.append(field)
    return type(starts)._make(fields)
