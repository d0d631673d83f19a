"""Observations that are tensor classes, in environments: they are taken apart as nested tensordicts are."""

from __future__ import annotations

from typing import Any

import torch
from specgen_runtime.envs import EnvBase, check_env_specs, step_mdp
from specgen_runtime.specs import Bounded, Composite, Unbounded
from tensordict import TensorClass, TensorDict, TensorDictBase
from torch import Tensor


class Motion(TensorClass, nocast=True):  # type: ignore[misc,call-arg]
    x: Tensor
    v: Tensor


class Runner(EnvBase):
    """Runs until its place is above 1.5; a partial reset keeps the place of the other rows."""

    def __init__(self) -> None:
        super().__init__(batch_size=torch.Size([3]))
        one = Unbounded((3, 1))
        self.observation_spec = Composite(
            motion=Composite(x=one, v=one.clone(), shape=(3,), data_cls=Motion), shape=(3,)
        )
        self.action_spec = Bounded(-1, 1, (3, 1))
        self.reward_spec = one.clone()
        self.x = torch.zeros(3, 1)

    def _motion(self, v: Tensor) -> Any:
        return Motion(x=self.x.clone(), v=v, batch_size=[3])

    def _reset(self, tensordict: TensorDictBase | None, **_: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        begins = torch.rand(3, 1)
        self.x = begins if mask is None else torch.where(mask, begins, self.x)
        return TensorDict({"motion": self._motion(torch.zeros(3, 1))}, [3])

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.x = self.x + tensordict["action"]
        over = self.x > 1.5
        motion = self._motion(tensordict["action"].clone())
        return TensorDict({"motion": motion, "reward": self.x, "done": over, "terminated": over}, [3])

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(seed or 0)


def test_the_next_root_is_no_part_of_the_step_before() -> None:
    env = Runner()
    transition = env.rand_step(env.reset())
    before = transition["next", "motion"].x.clone()
    root = step_mdp(transition)
    assert isinstance(root["motion"], Motion)
    root["motion"].set("x", torch.full((3, 1), 9.0))
    assert torch.equal(transition["next", "motion"].x, before)


def test_resets_of_some_rows_leave_what_was_recorded() -> None:
    env = Runner()
    check_env_specs(env)
    env.set_seed(0)
    data = env.rollout(60, break_when_any_done=False)
    ended = data["next", "done"][..., 0]
    assert ended.any()
    assert isinstance(data["motion"], Motion)
    torch.testing.assert_close(data["next", "motion"].x, data["motion"].x + data["action"])
    after, recorded = data["motion"].x[:, 1:], data["next", "motion"].x[:, :-1]
    assert torch.equal(after[~ended[:, :-1]], recorded[~ended[:, :-1]])
    assert bool((after[ended[:, :-1]] <= 1).all())
