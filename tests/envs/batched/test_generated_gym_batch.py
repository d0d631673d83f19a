"""Batches of generated Gymnasium environments are stepped side by side, and give what they give row by row."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import SerialEnv
from specgen_runtime.envs.batched.generated_gym_batch import GeneratedGymBatch
from specgen_std.chains.cartpole import CartPoleGymTrain
from specgen_std.chains.pendulum import PendulumGymTrain
from specgen_std.envs.pendulum import PendulumGym
from tensordict.nn import TensorDictModule

KINDS = (PendulumGym, PendulumGymTrain, CartPoleGymTrain)


def two(kind: type[Any], device: str | None = None) -> list[Any]:
    """A batch that steps side by side, and one that does not."""
    batches = [SerialEnv(3, kind, device=device) for _ in range(2)]
    batches[1].__dict__["_generated_path"] = lambda envs: None
    for batch in batches:
        batch.set_seed(5)
    return batches


def acting(kind: type[Any]) -> TensorDictModule:
    """A policy that writes more than the action."""

    def act(observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pushed = observation[..., -2:-1].sin()
        if kind is CartPoleGymTrain:
            return pushed, (pushed[..., 0] > 0).long()
        return pushed, pushed

    return TensorDictModule(act, in_keys=["observation"], out_keys=["pushed", "action"])


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_rollout_is_that_of_single_rows(kind: type[Any], device: str | None) -> None:
    side, rows = two(kind, device)
    assert isinstance(side._fast_path(), GeneratedGymBatch)
    assert rows._fast_path() is None
    found = [env.rollout(210, acting(kind), break_when_any_done=False) for env in (side, rows)]
    keys = [set(each.keys(True, True)) for each in found]
    assert keys[0] == keys[1]
    assert found[0]["next", "done"].any()
    for key in keys[0]:
        mine, theirs = found[0][key], found[1][key]
        assert mine.dtype == theirs.dtype, key
        assert torch.equal(mine, theirs), key
    assert found[0].names == found[1].names
    assert found[0].device == found[1].device


@pytest.mark.parametrize("kind", KINDS)
def test_steps_resets_and_what_stays_in_a_partial_reset(kind: type[Any]) -> None:
    found = []
    for env in two(kind):
        policy = acting(kind)
        root = policy(env.reset())
        step = env.step(root)
        following = env.step_mdp(step)
        following.set("_reset", torch.tensor([[True], [False], [True]]))
        kept = env.reset(following.select("_reset"))
        found.append((step, kept))
    for mine, theirs in zip(*found, strict=True):
        assert (mine == theirs).all()


def test_changed_data_are_read() -> None:
    """A root that is another one than the batch gave."""
    found = []
    for env in two(PendulumGymTrain):
        policy = acting(PendulumGymTrain)
        root = policy(env.reset())
        root["step_count"] = root["step_count"] + 7
        root["episode_reward"] += 1.0
        found.append(env.step(root))
    assert (found[0] == found[1]).all()
    assert (found[0]["next", "step_count"] == 8).all()


@pytest.mark.parametrize(
    "action", [torch.full((3, 1), 2.5), torch.zeros(3), torch.zeros(3, 1, dtype=torch.float64)]
)
def test_actions_that_do_not_fit_meet_the_same_end(action: torch.Tensor) -> None:
    said = []
    for env in two(PendulumGym):
        root = env.reset().set("action", action.clone())
        try:
            said.append(str(env.step(root)["next", "reward"].tolist()))
        except (RuntimeError, ValueError) as error:
            said.append(f"{type(error).__name__}: {error}")
    assert said[0] == said[1]


def test_a_closed_environment_is_noticed() -> None:
    for env in two(PendulumGym):
        root = env.reset().set("action", torch.zeros(3, 1))
        env.envs[1].close()
        with pytest.raises(RuntimeError, match="closed"):
            env.step(root)
