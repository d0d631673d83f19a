"""Random rollouts of several Gymnasium environments side by side: nothing but Gymnasium in the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from specgen_runtime.envs.batched.lean_rows import FLAGS, LeanRows
from specgen_runtime.envs.done import mark_truncated
from specgen_runtime.envs.gym.values import rewards_tensor
from specgen_runtime.envs.packing import entries_of, fast_td
from specgen_runtime.envs.rollout import (
    check_rollout_arguments,
    check_truncation,
    finish_rollout,
    start,
    step_through,
)

if TYPE_CHECKING:
    from specgen_runtime.envs.batched.base import BatchedEnv

__all__ = ["random_rollout"]

_FIRST_DRAW = 64


def random_rollout(
    env: BatchedEnv[Any],
    ways: LeanRows,
    max_steps: int,
    *,
    auto_reset: bool = True,
    break_when_any_done: bool | None = None,
    return_contiguous: bool | None = None,
    tensordict: Any = None,
    set_truncated: bool = False,
    trust_policy: bool = False,
) -> Any:
    """Run a batch of Gymnasium environments; see `EnvBase.rollout` for the arguments and errors."""
    del trust_policy
    any_stops = break_when_any_done is not False
    max_steps = check_rollout_arguments(max_steps, any_stops, False)
    if set_truncated:
        check_truncation(env._done_sets)
    begin = start(env, auto_reset, tensordict)
    drawn = env._env_layout.action.spec
    if (
        list(drawn.keys()) == ["action"]
        and ways.fits_action(drawn["action"])
        and not any(source.draws_torch for source in ways.sources)
        and _only_root(ways, begin)
    ):
        result: Any = env._by(_roll, ways, drawn["action"], max_steps, begin, any_stops)
    else:
        steps = step_through(env, max_steps, env.rand_action, begin, any_stops=any_stops)
        result = finish_rollout(steps, env.ndim, contiguous=return_contiguous)
    if set_truncated:
        mark_truncated(result, env._done_sets)
    return result


def _only_root(ways: LeanRows, begin: Any) -> bool:
    """Whether a root holds nothing that the environments do not: more entries would have to be repeated."""
    if type(begin) is not TensorDict or begin.device != ways.device:
        return False
    fits = {key: (torch.Size((ways.count, *shape)), dtype) for key, (shape, dtype) in ways.fits.items()}
    held = entries_of(begin)
    return (
        fits.keys() <= held.keys() <= {*fits, "action"}
        and all(type(value) is Tensor and not value.requires_grad for value in held.values())
        and all((held[key].shape, held[key].dtype) == fit for key, fit in fits.items())
    )


def _roll(ways: LeanRows, spec: Any, max_steps: int, begin: TensorDict, any_stops: bool) -> TensorDict:
    """Random steps, drawn in blocks, exactly as they would be drawn and taken one by one.

    Args:
        ways: the environments; they have been reset.
        spec: of the batch's action.
        max_steps: the most steps.
        begin: the root to start from; see `_only_root`.
        any_stops: whether to stop when an episode of any environment ends.
    """
    run = _Run(ways, max_steps, resets=not any_stops)
    actions: list[Tensor] = []
    while True:
        wanted = max_steps - run.steps
        if any_stops:
            wanted = min(wanted, max(_FIRST_DRAW, 2 * run.steps))
        before, at = torch.get_rng_state(), run.steps
        drawn = spec.rand_sequence(wanted)
        after = torch.get_rng_state()
        run.go(ways.decode_all(drawn.flatten(0, 1)))
        taken = run.steps - at
        if not torch.equal(torch.get_rng_state(), after):
            # An environment draws from it too, and what it drew must not be drawn again.
            for source in ways.sources:
                source.draws_torch = True
        elif taken < wanted:
            torch.set_rng_state(before)
            spec._skip_draws(taken)
        actions.append(drawn[:taken])
        if run.steps == max_steps or (any_stops and run.over):
            return _packed(run, actions[0] if len(actions) == 1 else torch.cat(actions), begin)


@dataclass
class _Course:
    """One environment's way through its episode.

    Attributes:
        source: the environment.
        step: takes an action, past a time limit that is counted here.
        left: how many steps the time limit allows; None if it is not counted here.
        taken: how many of them were taken.
    """

    source: Any
    step: Any
    left: int | None
    taken: int = 0

    @classmethod
    def of(cls, source: Any) -> _Course:
        return cls(source, *source.inner_stepper())

    def settle(self) -> None:
        """Tell the time limit what was counted here."""
        if self.left is not None:
            self.source.count(self.taken)
            self.left, self.taken = self.left - self.taken, 0


class _Run:
    """What the steps of a rollout gave, so far.

    Attributes:
        steps: how many were taken.
        over: whether an episode ended with the last one.
        rows: the observations, as the slab plan keeps them, `(room, environments, ...)`.
        rewards: as Gymnasium gave them, step by step.
        ended: the flags `terminated`, `(max_steps, environments, 1)`.
        cut: likewise `truncated`.
        firsts: the first observations of episodes that began with step t in an environment, with both.
    """

    def __init__(self, ways: LeanRows, max_steps: int, *, resets: bool) -> None:
        self.ways, self.plan = ways, ways.plan
        self.max_steps, self.resets = max_steps, resets
        self.steps, self.over = 0, False
        self.rows = self._room(min(max_steps, max(1, ways.plan.first_rows // ways.count)))
        self.rewards: list[Any] = []
        self.ended = np.zeros((max_steps, ways.count, 1), dtype=np.bool_)
        self.cut = np.zeros((max_steps, ways.count, 1), dtype=np.bool_)
        self.firsts: list[tuple[int, int, Any]] = []

    def _room(self, steps: int) -> Any:
        return np.empty((steps, self.ways.count, *self.plan.shape), dtype=self.plan.dtype)

    def go(self, choices: Sequence[Any]) -> None:
        """Take the given actions, those of all environments for each step, until an episode ends if none is reset."""
        courses = [_Course.of(source) for source in self.ways.sources]
        count = len(courses)
        try:
            for at in range(0, len(choices), count):
                self._step(courses, choices[at : at + count])
                if self.over and not self.resets:
                    break
        finally:
            for course in courses:
                course.settle()

    def _step(self, courses: list[_Course], choices: Sequence[Any]) -> None:
        t, ways, plan = self.steps, self.ways, self.plan
        shape, fits, admit = plan.shape, plan.fits, plan.admit
        array, keep = np.ndarray, self.rewards.append
        if t == len(self.rows):
            rows = self._room(min(self.max_steps, 2 * t))
            rows[:t] = self.rows
            self.rows = rows
        row = self.rows[t]
        self.over = False
        place = 0
        try:
            for place, choice in enumerate(choices):
                course = courses[place]
                observation, reward, terminated, truncated, _info = course.step(choice)
                course.taken += 1
                if (
                    type(observation) is not array
                    or observation.dtype is not fits
                    or observation.shape != shape
                ):
                    observation = admit(observation)
                row[place] = observation
                keep(reward)
                late = course.taken == course.left
                if terminated or truncated or late:
                    self.ended[t, place], self.cut[t, place] = bool(terminated), bool(truncated) or late
                    self.over = True
                    if self.resets and t + 1 < self.max_steps:
                        course.settle()
                        self.firsts.append((t + 1, place, np.array(ways.begin(place))))
                        courses[place] = _Course.of(course.source)
        except Exception as error:
            error.add_note(f"in environment {place} of {ways.count}")
            raise
        self.steps += 1


def _packed(run: _Run, action: Tensor, begin: TensorDict) -> TensorDict:
    """The tensordict of a rollout."""
    ways, steps = run.ways, run.steps
    count, plan = ways.count, run.plan
    size = torch.Size((count, steps))
    names: list[str | None] = [None, "time"]

    def turned(array: Any) -> Any:
        """Time behind the environments."""
        return np.ascontiguousarray(np.moveaxis(array[:steps], 0, 1))

    def finished(rows: Any) -> Tensor:
        tensor = plan.finish(rows.reshape(-1, *plan.shape))
        return tensor.view(count, steps, *tensor.shape[1:])

    rows = turned(run.rows)
    roots = np.empty_like(rows)
    roots[:, 1:] = rows[:, :-1]
    roots[:, 0] = 0  # replaced below, but what `finish` reads must be in the space
    for t, place, row in run.firsts:
        roots[place, t] = row
    ended, cut = turned(run.ended), turned(run.cut)
    new = torch.from_numpy
    following = {
        ways.key: finished(rows),
        "reward": rewards_tensor(run.rewards).view(steps, count, 1).transpose(0, 1).contiguous(),
        "done": new(ended | cut),
        "terminated": new(ended),
        "truncated": new(cut),
    }
    entries = {
        ways.key: finished(roots),
        **{flag: new(np.zeros((count, steps, 1), dtype=np.bool_)) for flag in FLAGS},
    }
    for name, column in entries.items():
        column[:, 0] = begin.get(name)
    ways.keep({name: following[name][:, -1].clone() for name in entries})
    entries["action"] = action.transpose(0, 1).contiguous()
    entries["next"] = fast_td(following, size, ways.device, names)
    return fast_td(entries, size, ways.device, names)
