"""The hot loop over a Gymnasium environment: nothing but Gymnasium, with tensors made once for all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.generated.records import carried, stacked
from specgen_runtime.envs.gym.slabs import SlabPlan
from specgen_runtime.envs.gym.source import GymSource
from specgen_runtime.envs.gym.values import rewards_tensor

if TYPE_CHECKING:
    from specgen_runtime.envs.gym.generated import GeneratedGymEnv

__all__ = ["Stretch", "run_lifted", "run_steps"]


class Stretch(NamedTuple):
    """What a run of steps gave; arrays have a row a step.

    Attributes:
        rows: the observations, as the slab plan keeps them.
        rewards: as Gymnasium gave them.
        ended: bool `(T, 1)`, the flag `terminated`.
        cut: bool `(T, 1)`, the flag `truncated`.
        over: whether the last step ended an episode.
    """

    rows: Any
    rewards: list[Any]
    ended: Any
    cut: Any
    over: bool


def run_steps(
    source: GymSource,
    choices: Sequence[Any],
    plan: SlabPlan,
    begin: Callable[[int], int | None],
    any_stops: bool,
) -> Stretch:
    """Take the given actions in a Gymnasium environment, episode after episode.

    Args:
        source: the environment.
        choices: Gymnasium's actions.
        plan: how observations are kept.
        begin: called with the number of steps so far when an episode begins (but not after the last step): it
            resets the environment unless there are none yet, and returns after how many steps the episode is
            stopped; None is never.
        any_stops: whether to stop at the first end of an episode.

    Raises:
        ValueError: an observation is not in its space.
    """
    total = len(choices)
    rows = plan.rows(total)
    shape, fits, admit = plan.shape, plan.fits, plan.admit
    array = np.ndarray
    ended = np.zeros((total, 1), dtype=np.bool_)
    cut = np.zeros((total, 1), dtype=np.bool_)
    rewards: list[Any] = []
    keep = rewards.append
    queue = iter(choices)
    at = 0
    while True:
        stop = begin(at)
        until = total if stop is None else min(total, at + stop)
        step, left = source.inner_stepper()
        cuts = left is not None and at + left <= until
        if left is not None and cuts:
            until = at + left
        start, over = at, False
        try:
            while at < until and not over:
                if at == len(rows):
                    rows = plan.more(rows, total)
                for choice in islice(queue, min(until, len(rows)) - at):
                    observation, reward, terminated, truncated, _info = step(choice)
                    if (
                        type(observation) is not array
                        or observation.dtype is not fits
                        or observation.shape != shape
                    ):
                        observation = admit(observation)
                    rows[at] = observation
                    keep(reward)
                    at += 1
                    if terminated or truncated:
                        ended[at - 1], cut[at - 1] = bool(terminated), bool(truncated)
                        over = True
                        break
        finally:
            if left is not None:
                source.count(at - start)
        if cuts and at == until:
            cut[at - 1] = over = True
        if at == total or any_stops:
            return Stretch(rows[:at], rewards, ended[:at], cut[:at], over)


def run_lifted(
    env: GeneratedGymEnv[Any], root: Any, actions: Tensor, any_stops: bool
) -> tuple[Any, Any, int]:
    """Take the given actions in a generated environment, episode after episode.

    Args:
        env: has the hooks `_gym_stop` and `_gym_lift`, and a slab plan.
        root: the Root record to start from.
        actions: `(T, ...)`.
        any_stops: whether to stop at the first end of an episode.

    Returns:
        The Root and the Next records with time in front, and how many steps were taken.

    Raises:
        ValueError: an observation is not in its space.
    """
    plan = env._slab_plan
    assert plan is not None
    firsts, starts = [root], [0]

    def begin(at: int) -> int | None:
        if at:
            firsts.append(env._fresh())
            starts.append(at)
        return env._gym_stop(firsts[-1])

    taken = run_steps(env._gym_source, env._decode_all(actions), plan, begin, any_stops)
    steps = len(taken.rewards)
    lengths = np.diff([*starts, steps]).tolist()
    records = stacked(firsts, 0)
    next_ = env._gym_lift(
        records,
        lengths,
        plan.finish(taken.rows),
        env._on_device(rewards_tensor(taken.rewards)),
        env._on_device(torch.from_numpy(taken.ended)),
        env._on_device(torch.from_numpy(taken.cut)),
    )
    return _roots(records, starts, next_), next_, steps


def _roots(records: Any, starts: list[int], next_: Any) -> Any:
    """Each step's Root: the first of its episode, or what the step before carries on."""
    places = torch.tensor(starts)
    fields = []
    for start, following in zip(records, carried(records, next_), strict=True):
        field = torch.empty_like(following)
        field[1:] = following[:-1]
        field[places] = start
        fields.append(field)
    return type(records)._make(fields)
