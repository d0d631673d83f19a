"""Trajectories of environments whose agents are done one by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchrl.collectors as theirs
from specgen_runtime.collectors import Collector
from specgen_runtime.envs import EnvBase
from specgen_runtime.interop import to_torchrl
from specgen_runtime.specs import Categorical, Composite, Unbounded
from specgen_runtime.training.episode_returns import EpisodeReturns
from tensordict import TensorDict


class _Leaving(EnvBase[Any, Any]):
    """Of two agents the first is done at its second step, the episode at the fourth; each step is worth 1."""

    def __init__(self, *, joint: bool = True) -> None:
        super().__init__(batch_size=(2,))
        flag = Categorical(2, (2, 2, 1), dtype=torch.bool)
        done = {"agents": Composite(done=flag, terminated=flag.clone(), shape=(2, 2))}
        ends = {"done": Categorical(2, (2, 1), dtype=torch.bool)} if joint else {}
        self.full_done_spec = Composite({**done, **ends}, shape=(2,))
        self.full_action_spec = Composite(
            agents=Composite(action=Unbounded((2, 2, 1)), shape=(2, 2)), shape=(2,)
        )
        self.full_reward_spec = Composite(
            agents=Composite(reward=Unbounded((2, 2, 1)), shape=(2, 2)), shape=(2,)
        )
        self.full_observation_spec = Composite(count=Unbounded((2, 1), dtype=torch.int64), shape=(2,))
        self.full_state_spec = self.full_observation_spec.clone()
        self.joint = joint

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        agents = TensorDict({"done": torch.zeros(2, 2, 1, dtype=torch.bool)}, (2, 2))
        return TensorDict({"count": torch.zeros(2, 1, dtype=torch.int64), "agents": agents}, (2,))

    def _step(self, tensordict: Any) -> Any:
        count = tensordict["count"] + 1
        over = count == 4
        done = torch.stack([count == 2, over], 1)
        agents = TensorDict({"terminated": done, "reward": torch.ones(2, 2, 1)}, (2, 2))
        return TensorDict(
            {"count": count, "agents": agents, **({"terminated": over} if self.joint else {})}, (2,)
        )

    def _set_seed(self, seed: int | None) -> None:
        pass


def test_an_agent_that_is_done_ends_no_trajectory_whose_episode_goes_on() -> None:
    counted = EpisodeReturns({"return": ("agents", "episode_reward")})
    collector = Collector(_Leaving(), frames_per_batch=6, total_frames=24)
    batches = [batch.clone() for batch in collector]
    for batch in batches:
        counted.add(batch)
    ids = torch.cat([batch["collector", "traj_ids"] for batch in batches], -1)
    assert ids.tolist() == [[0] * 4 + [2] * 4 + [4] * 4, [1] * 4 + [3] * 4 + [5] * 4]
    taken = counted.take()
    assert (int(taken["episodes"]), float(taken["return"])) == (6, 24.0)


def test_agents_that_are_reset_one_by_one_end_trajectories() -> None:
    ids = next(iter(Collector(_Leaving(joint=False), frames_per_batch=10)))["collector", "traj_ids"]
    assert ids.tolist() == [[0, 0, 2, 2, 4], [1, 1, 3, 3, 5]]


@pytest.mark.filterwarnings("ignore")
def test_torchrl_ends_a_trajectory_with_any_agent() -> None:
    collector = theirs.Collector(to_torchrl(_Leaving()), None, frames_per_batch=8, total_frames=8)
    ids = next(iter(collector))["collector", "traj_ids"]
    assert ids.tolist() == [[0, 0, 2, 2], [1, 1, 3, 3]]
    mine = next(iter(Collector(_Leaving(), frames_per_batch=8)))["collector", "traj_ids"]
    assert mine.tolist() == [[0] * 4, [1] * 4]
