"""`_step` masks in batches: environments that are left out are not asked at all."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import GymEnv
from specgen_runtime.transforms import TransformedEnv
from specgen_std.transforms import StepCounter
from tensordict import TensorDict

from tests.envs.batched.conftest import Make
from tests.envs.counting import Counting, Grid, Stateful

SOME = torch.tensor([True, False, True])


class Tally(Stateful):
    """Tells how often it was stepped; it keeps that itself."""

    def __init__(self) -> None:
        super().__init__(batch_size=())


def masked(env: Any, mask: Any = SOME) -> Any:
    return env.rand_action(env.reset()).set("_step", mask)


def test_only_those_are_asked(batch: Make) -> None:
    env = batch(3, Tally)
    for _ in range(2):
        root = masked(env)
        after = env.step(root)
        assert after is root
        assert "_step" not in root.keys()  # noqa: SIM118
        assert after["next", "observation"].flatten().tolist() == [1, 0, 1]
        after, following = env.step_and_maybe_reset(env.rand_action(env.step_mdp(after)))
        assert after["next", "observation"].flatten().tolist() == [2, 1, 2]
        root = env.rand_action(following).set("_step", ~SOME[:, None])
        after, following = env.step_and_maybe_reset(root)
        assert after["next", "observation"].flatten().tolist() == [2, 2, 2]
        assert "_step" not in following.keys()  # noqa: SIM118
        assert env.step(env.rand_action(following))["next", "observation"].flatten().tolist() == [3, 3, 3]


def test_rewards_of_the_others_are_zero(batch: Make) -> None:
    env = batch(3, partial(GymEnv, "CartPole-v1"))
    root = masked(env)
    after = env.step(root)["next"]
    assert after["reward"].flatten().tolist() == [1, 0, 1]
    assert torch.equal(after["observation"][1], root["observation"][1])
    assert after["observation"][1].data_ptr() != root["observation"][1].data_ptr()
    nothing = env.step(env.rand_action(env.step_mdp(root)).set("_step", torch.zeros(3, dtype=torch.bool)))
    assert torch.equal(nothing["next", "observation"], nothing["observation"])
    assert not nothing["next", "reward"].any()


def test_entries_that_are_left_out_are_those_last_given(batch: Make) -> None:
    env = batch(3, Tally)
    env.rollout(4)
    after = env.step(TensorDict({"action": torch.zeros(3, 1), "_step": SOME}, (3,)))
    assert after["next", "observation"].flatten().tolist() == [5, 4, 5]
    env.close()
    with pytest.raises(KeyError, match="leaves out environment 1, but the tensordict has no 'observation'"):
        env.step(TensorDict({"action": torch.zeros(3, 1), "_step": SOME}, (3,)))


def test_batches_of_batches(batch: Make) -> None:
    env = batch(2, partial(Counting, batch_size=(3,)))
    mask = torch.stack([SOME, torch.zeros(3, dtype=torch.bool)])
    after = env.step(masked(env, mask))
    assert after["next", "count"].squeeze(-1).tolist() == [[1, 0, 1], [0, 0, 0]]
    careless = batch(2, partial(Stateful, batch_size=(3,)))
    with pytest.raises(
        NotImplementedError, match="rows of environment 0, but Stateful can only step them all"
    ):
        careless.step(masked(careless, mask))
    mask = torch.tensor([[True] * 3, [False] * 3])
    after = careless.step(masked(careless, mask))
    assert after["next", "observation"].squeeze(-1).tolist() == [[1, 1, 1], [0, 0, 0]]


def test_different_environments(batch: Make) -> None:
    env = batch(2, [Counting, Grid])
    root = masked(env, torch.tensor([False, True]))
    after = env.step(root)["next"]
    assert after[0]["count"] == 0
    assert after[0]["reward"] == 0
    assert after[1]["time"] == 1
    following = env.step_mdp(root)
    after = env.step(env.rand_action(following).set("_step", torch.tensor([True, False])))["next"]
    assert after[0]["count"] == 1
    assert after[1]["time"] == 1
    assert not after[1]["agents", "reward"].any()


def test_wrong_masks(batch: Make) -> None:
    env = batch(3, Tally)
    for mask in (torch.ones(3), torch.ones(3, 2, dtype=torch.bool)):
        with pytest.raises(RuntimeError, match=r"'_step' must be torch.bool \[3\]"):
            env.step(masked(env, mask))


def test_rollouts_leave_out_what_is_done(batch: Make) -> None:
    limits = [{"limit": 2}, {"limit": 4}, {"limit": 3}]
    env = TransformedEnv(batch(3, Counting, create_env_kwargs=limits), StepCounter())
    data = env.rollout(10, break_when_all_done=True)
    expected = [[1, 2, 2, 2], [1, 2, 3, 4], [1, 2, 3, 3]]
    assert data["next", "count"].squeeze(-1).tolist() == expected
    assert data["next", "step_count"].squeeze(-1).tolist() == expected


def test_rollouts_do_not_step_what_is_done(batch: Make) -> None:
    class Short(Tally):
        def __init__(self, limit: int) -> None:
            super().__init__()
            self.limit = limit

        def _step(self, tensordict: Any) -> TensorDict:
            after = super()._step(tensordict)
            assert after["observation"] <= self.limit, "stepped past its end"
            return after.set("terminated", after["observation"] >= self.limit)

    env = batch(3, Short, create_env_kwargs=[{"limit": 2}, {"limit": 4}, {"limit": 3}])
    assert env.rollout(10, break_when_all_done=True).batch_size == (3, 4)
    assert env.rollout(10, break_when_all_done=True).batch_size == (3, 4)


def test_random_steps_after_closing_begin_anew(batch: Make) -> None:
    env = batch(3, Tally)
    env.rollout(4)
    assert env.rand_step()["next", "observation"].flatten().tolist() == [5, 5, 5]
    env.close()
    assert env.rand_step()["next", "observation"].flatten().tolist() == [1, 1, 1]
