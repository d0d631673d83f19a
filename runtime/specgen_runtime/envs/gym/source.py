"""`GymSource`: a Gymnasium environment, and what has to be remembered between calls of it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

_WRAPPERS = "gymnasium.wrappers.common"

__all__ = ["GymSource", "checked_frame_skip", "repeating"]


def checked_frame_skip(frame_skip: Any) -> int:
    """How often an action is repeated, as an int.

    Raises:
        ValueError: it is not an integer of 1 or more.
    """
    try:
        skip = -1 if isinstance(frame_skip, bool) else operator.index(frame_skip)
    except TypeError:
        skip = -1
    if skip < 1:
        raise ValueError(f"frame_skip must be an integer of at least 1, found {frame_skip!r}")
    return skip


class GymSource:
    """A single Gymnasium environment: seeds for its resets, actions repeated.

    Args:
        env: a Gymnasium environment.
        frame_skip: how often an action is repeated; rewards are summed, the end of an episode ends the repetition.
    """

    def __init__(self, env: Any, frame_skip: int = 1) -> None:
        self.env = env
        self.frame_skip = frame_skip
        self.seed: int | None = None
        self.asked: dict[str, Any] = {}
        """Keyword arguments that are on their way to the next reset."""
        # What `_passable` says of this episode; None is not known yet.
        self._passed: tuple[Any, Any, Any] | None = None

    def reset(self, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Start an episode: the observation and the info.

        A seed that was set is passed on once; later resets continue from it, as Gymnasium's own do.

        Args:
            kwargs: for the environment's `reset`; its `seed` comes first.
        """
        seed = self.seed
        if seed is not None:
            self.seed = None
            if kwargs.get("seed") is None:
                kwargs = {**kwargs, "seed": seed}
        observation, info = self.env.reset(**kwargs)
        self._passed = None
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take an action: what `gymnasium.Env.step` returns, without calling what an episode needs no more.

        That is Gymnasium's own time limit, whose steps are counted here, and its checks of the order and of the first
        step: a fifth of a step of a simple environment.
        """
        if self._passed is None:
            self._passed = self._passable()
        limit, order, inner = self._passed
        if limit is not self.env or "step" in limit.__dict__ or "step" in order.__dict__:
            taken: tuple[Any, Any, Any, Any, Any] = self.stepper()(action)
            return taken
        observation, reward, terminated, truncated, info = inner.step(action)
        limit._elapsed_steps += 1
        if limit._elapsed_steps >= limit._max_episode_steps:
            truncated = True
        return observation, reward, terminated, truncated, info

    def stepper(self) -> Callable[[Any], Any]:
        """The function that takes an action: what `gymnasium.Env.step` returns."""
        step: Callable[[Any], Any] = self.env.step
        return step if self.frame_skip == 1 else repeating(step, self.frame_skip)

    def inner_stepper(self) -> tuple[Callable[[Any], Any], int | None]:
        """The function that takes an action, past Gymnasium's own time limit and order check if they are outermost.

        They cost a tenth of a step of a simple environment, and are not needed where the steps are counted. Behind them,
        the check of the first step is passed once that was taken.

        Returns:
            The function, and after how many steps the time limit would cut the episode; `count` has to be told how
            many were taken then. None if the function is `stepper()`.
        """
        limit, _, inner = self._passable()
        if limit is None:
            return self.stepper(), None
        return inner.step, limit._max_episode_steps - limit._elapsed_steps

    def _passable(self) -> tuple[Any, Any, Any]:
        """Gymnasium's time limit and order check, and what is behind them; three times None where these are not as it made them.

        What is behind them is past the check of the first step, where that has passed.
        """
        limit = self.env
        if (
            self.frame_skip == 1
            and _is_wrapper(limit, "TimeLimit")
            and _is_wrapper(limit.env, "OrderEnforcing")
        ):
            taken = getattr(limit, "_elapsed_steps", None)
            most = getattr(limit, "_max_episode_steps", None)
            if taken is not None and most is not None and taken < most and limit.env.has_reset:
                inner = limit.env.env
                checked = (
                    _is_wrapper(inner, "PassiveEnvChecker")
                    and inner.checked_step
                    and inner.checked_data_reuse
                )
                return limit, limit.env, inner.env if checked else inner
        return None, None, None

    def steps_left(self) -> int:
        """After how many steps the time limit cuts the episode; for environments with an `inner_stepper`."""
        left: int = self.env._max_episode_steps - self.env._elapsed_steps
        return left

    def count(self, steps: int) -> None:
        """Tell the time limit how many steps were taken past it."""
        self.env._elapsed_steps += steps


def _is_wrapper(env: Any, name: str) -> bool:
    """Whether an environment is a certain wrapper of Gymnasium's, and no subclass, and as it was made."""
    cls = type(env)
    return cls.__name__ == name and cls.__module__ == _WRAPPERS and "step" not in vars(env)


def repeating(step: Callable[[Any], Any], times: int) -> Callable[[Any], Any]:
    """The function that takes an action several times, or until the episode ends, and sums the rewards."""

    def repeat(action: Any) -> tuple[Any, Any, Any, Any, Any]:
        observation, total, terminated, truncated, info = step(action)
        for _ in range(times - 1):
            if terminated or truncated:
                break
            observation, reward, terminated, truncated, info = step(action)
            total = total + reward
        return observation, total, terminated, truncated, info

    return repeat
