"""The hot loop over a Gymnasium environment: nothing but Gymnasium, with tensors made once an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.records import carried

if TYPE_CHECKING:
    from specgen_runtime.envs.generated_gym import GeneratedGymEnv

__all__ = ["run_lifted"]


def run_lifted(
    env: GeneratedGymEnv[Any], root: Any, actions: Tensor, any_stops: bool
) -> tuple[Any, Any, int]:
    """Take the given actions in a Gymnasium environment, episode by episode.

    Args:
        env: has the hooks `_gym_stop` and `_gym_lift`, and one observation in a Box.
        root: the Root record to start from.
        actions: `(T, ...)`.
        any_stops: whether to stop at the first end of an episode.

    Returns:
        The Root and the Next records with time in front, and how many steps were taken.
    """
    choices = env._decode_all(actions)
    total = len(choices)
    slab = np.empty((total, *env._slab_shape), dtype=env._slab_dtype)
    roots: list[Any] = []
    nexts: list[Any] = []
    at = 0
    while True:
        stop = env._gym_stop(root)
        until = total if stop is None else min(total, at + stop)
        end, rewards, ended, cut = _episode(env._gym.step, choices, slab, at, until)
        next_ = env._gym_lift(
            root,
            env._on_device(torch.from_numpy(slab[at:end])),
            env._on_device(torch.from_numpy(rewards)),
            env._on_device(torch.from_numpy(ended)),
            env._on_device(torch.from_numpy(cut)),
        )
        roots.append(root)
        nexts.append(next_)
        at = end
        if at == total or any_stops:
            break
        root = env._fresh()
    return _joined_roots(roots, nexts), _joined(nexts), at


def _episode(
    step: Any, choices: list[Any], slab: np.ndarray[Any, Any], at: int, until: int
) -> tuple[int, Any, Any, Any]:
    """Step until the episode ends or `until` is reached; observations go into the slab."""
    shape = slab.shape[1:]
    gains: list[Any] = []
    terminated = truncated = False
    end = at
    for choice in choices[at:until]:
        observation, reward, terminated, truncated, _info = step(choice)
        if np.shape(observation) != shape:
            raise ValueError(
                f"Gymnasium gave an observation of shape {list(np.shape(observation))},"
                f" its space says {list(shape)}"
            )
        slab[end] = observation
        gains.append(reward)
        end += 1
        if terminated or truncated:
            break
    ended = np.zeros((end - at, 1), dtype=np.bool_)
    cut = np.zeros((end - at, 1), dtype=np.bool_)
    ended[-1], cut[-1] = bool(terminated), bool(truncated)
    return end, np.array(gains, dtype=np.float32).reshape(-1, 1), ended, cut


def _joined(nexts: list[Any]) -> Any:
    if len(nexts) == 1:
        return nexts[0]
    return type(nexts[0])._make([torch.cat(column) for column in zip(*nexts, strict=True)])


def _joined_roots(roots: list[Any], nexts: list[Any]) -> Any:
    """Each step's Root: the first of an episode, then what each Next carries on."""
    pieces: list[Any] = []
    for root, next_ in zip(roots, nexts, strict=True):
        pieces.append([field.unsqueeze(0) for field in root])
        pieces.append([field[:-1] for field in carried(root, next_)])
    return type(roots[0])._make([torch.cat(column) for column in zip(*pieces, strict=True)])
