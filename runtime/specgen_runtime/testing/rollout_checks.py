"""Checks of rollouts: exactly what stepping gives, and the rules of done flags at every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.done import any_done
from specgen_runtime.envs.keys import show_key
from specgen_runtime.testing.identical import assert_identical
from specgen_runtime.testing.running import (
    Env,
    Make,
    acting_alike,
    closing,
    joined,
    made,
    seeded_rollout,
    table_policy,
    torch_seeded,
)
from specgen_runtime.testing.spec_checks import check_values

__all__ = ["check_done_rules", "check_rollout_is_stepping", "check_step_and_maybe_reset", "step_by_step"]

_MODES = {
    "break_when_any_done=True": (True, False),
    "break_when_any_done=False": (False, False),
    "break_when_all_done=True": (False, True),
}


def check_rollout_is_stepping(make: Make, *, seed: int = 0, steps: int = 40) -> None:
    """Check that a rollout gives, bit by bit, what stepping gives: data, and random numbers used.

    All three ways to treat the end of an episode are tried, with random actions and with a policy.

    Raises:
        AssertionError: naming the key, the place and the two values.
    """
    with closing(made(make)) as rolled, closing(made(make)) as stepped:
        for mode, (any_stops, all_stops) in _MODES.items():
            for name in ("random actions", "a policy"):
                policy = table_policy(rolled) if name == "a policy" else None
                with torch_seeded(seed):
                    rolled.set_seed(seed)
                    found = rolled.rollout(
                        steps, policy, break_when_any_done=any_stops, break_when_all_done=all_stops
                    )
                    left = torch.rand(3)
                    reset = rolled.reset()
                with torch_seeded(seed):
                    stepped.set_seed(seed)
                    expected = step_by_step(stepped, steps, policy, any_stops=any_stops, all_stops=all_stops)
                    left_by_steps = torch.rand(3)
                    reset_by_steps = stepped.reset()
                what = f"rollout with {name}, {mode}"
                assert_identical(found, expected, what)
                assert found.names[-1] == "time", (
                    f"{what}: the last dimension is {found.names[-1]!r}, not 'time'"
                )
                assert torch.equal(left, left_by_steps), f"{what}: another count of torch's random numbers"
                assert_identical(reset, reset_by_steps, f"the reset after a {what}")


def step_by_step(
    env: Env,
    steps: int,
    policy: Callable[[Any], Any] | None,
    *,
    any_stops: bool,
    all_stops: bool = False,
) -> TensorDictBase:
    """What `rollout` promises to equal: reset, then act and step, one after the other."""
    root = env.reset()
    records: list[TensorDictBase] = []
    finished = torch.zeros(env.batch_size, dtype=torch.bool, device=env.device)
    for step in range(steps):
        if bool(finished.any()) and env._steps_rows():
            root.set("_step", ~finished)
        root = env.rand_action(root) if policy is None else policy(root)
        if any_stops or all_stops or step == steps - 1:
            transition = env.step(root)
            root = env.step_mdp(transition)
        else:
            transition, root = env.step_and_maybe_reset(root)
        record = transition.clone()
        if all_stops and records and bool(finished.any()):
            record = torch.where(finished, records[-1], record)
        records.append(record)
        if any_stops and any_done(record.get("next"), env._done_sets):
            break
        if all_stops:
            finished = finished | _done_rows(env, record.get("next"))
            if bool(finished.all()):
                break
    return joined(records, env.ndim)


def _done_rows(env: Env, following: TensorDictBase) -> Tensor:
    """Which environments of the batch are done in all of their root-most sets."""
    flags = [following.get(s.done).flatten(env.ndim).all(-1) for s in env._env_layout.root_sets]
    return torch.stack(flags).all(0)


def check_step_and_maybe_reset(make: Make, *, seed: int = 0, steps: int = 40) -> None:
    """Check that `step_and_maybe_reset` is `step`, `step_mdp`, `maybe_reset`, bit by bit.

    Raises:
        AssertionError: naming the step, the key, the place and the two values.
    """
    with closing(made(make)) as one, closing(made(make)) as other, torch_seeded(seed):
        for env in (one, other):
            env.set_seed(seed)
        with acting_alike(one, seed):
            left = one.reset()
        with acting_alike(other, seed):
            right = other.reset()
        for step in range(steps):
            left = one.rand_action(left)
            right = right.update(left.select(*one.action_keys).clone())
            given = left
            with acting_alike(one, seed + step):
                transition, left = one.step_and_maybe_reset(left)
            assert transition is given, "step_and_maybe_reset must return the tensordict that it was given"
            expected = other.step(right)
            with acting_alike(other, seed + step):
                right = other.maybe_reset(other.step_mdp(expected))
            what = f"step_and_maybe_reset at step {step}"
            assert_identical(transition, expected, f"{what}, the transition")
            assert_identical(left, right, f"{what}, the next root")


def check_done_rules(make: Make, *, seed: int = 0, steps: int = 40) -> None:
    """Check the data of a long rollout: domains, done flags, and that each root follows from the one before.

    At each step every entry must be in its spec, `done` must be `terminated | truncated` (and flags of other
    names) in each done set, no root may be done, and the root after a step must be its `"next"` wherever no
    episode ended.

    Raises:
        AssertionError: naming the key and the step.
    """
    with closing(made(make)) as env:
        data = seeded_rollout(env, seed, steps)
        check_values(env, data)
        _check_flags(env, data, "the root")
        _check_flags(env, data.get("next"), "'next'")
        if not env._allow_done_after_reset:
            for s in env._env_layout.root_sets:
                done: Any = data.get(s.done)
                where = _first_step(env, done)
                assert not bool(done.any()), f"{show_key(s.done)} is True in the root{where}"
        frames = data.unbind(env.ndim)
        for t, (frame, after) in enumerate(itertools.pairwise(frames)):
            if not any_done(frame.get("next"), env._done_sets):
                observed = [*env.observation_keys, *env.done_keys]
                assert_identical(
                    after.select(*observed, strict=False),
                    frame.get("next").select(*observed, strict=False),
                    f"the root at step {t + 1} against 'next' at step {t}",
                )


def _check_flags(env: Env, data: TensorDictBase, where: str) -> None:
    for s in env._done_sets:
        keys = [s.terminated, *([] if s.truncated is None else [s.truncated]), *s.others]
        done: Any = data.get(s.done)
        reasons: Any = [data.get(key) for key in keys]
        expected = torch.stack(reasons).any(0)
        # an episode may be cut off by a limit that is not declared
        wrong = expected & ~done if s.truncated is None else expected != done
        rule = " | ".join(show_key(key) for key in keys)
        assert not bool(wrong.any()), f"{show_key(s.done)} in {where} is not {rule}{_first_step(env, wrong)}"


def _first_step(env: Env, wrong: Tensor) -> str:
    """The first step with a True in it, for messages."""
    steps = wrong.movedim(env.ndim, 0).flatten(1).any(-1).nonzero().flatten().tolist()
    return f", at step {steps[0]}" if steps else ""
