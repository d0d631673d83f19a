"""A replay buffer of goals in hindsight, `HERReplayBuffer`, in the place of a printed training's."""

from __future__ import annotations

from pathlib import Path

import torch
from specgen_runtime.data import HERReplayBuffer, LazyTensorStorage
from tensordict import TensorDictBase
from torch import Tensor

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import: [specgen_std/losses/dqn, specgen_std/transforms/step_counter]
envs:
  BitFlip:
    doc: Flip bits until they are those of the goal; the name of each episode goes along.
    dims: {n: 4}
    state: {bits: "bool[n]", goal: "bool[n]", name: "float32"}
    action: {action: categorical(n)}
    observation: {observation: "float32[n]", achieved_goal: "float32[n + 1]", desired_goal: "float32[n + 1]"}
    reset:
      bits: bernoulli(0.5, shape=n)
      goal: bernoulli(0.5, shape=n)
      name: uniform(0, 1)
    step:
      next.bits: bits != bool(one_hot(action, n))
      terminated: all(next.bits == goal)
      reward: where(terminated, 0.0, -1.0)
    observe:
      observation: float32(bits)
      achieved_goal: concat(float32(bits), stack(name))
      desired_goal: concat(float32(goal), stack(name))
chains:
  BitFlipTrain: {env: BitFlip, transforms: [{StepCounter: {max_steps: 7}}]}
pipelines:
  DQNBitFlip:
    env: BitFlipTrain
    networks: {value_network: {mlp: [8], in: [observation, desired_goal]}}
    policy: {explore: {epsilon_greedy: {eps: 0.5}}}
    loss: {DQNLoss: {double_dqn: true}}
    value_estimator: {td0: {gamma: 0.98}}
    data: {replay: {num_envs: 4, num_steps: 10, capacity: 1_000, batch_size: 64, warm_up_frames: 80, updates: 10}}
    target_updater: {soft: {tau: 0.02}}
    optimizer: {adam: {lr: 1.0e-3}}
    evaluate: {episodes: 4}
    stop: {frames: 200}
"""


def reward(step: TensorDictBase) -> Tensor:
    reached: Tensor = (step["next", "achieved_goal"] == step["desired_goal"]).all(-1)
    return reached.float() - 1


def test_goals_are_of_the_same_episode(tmp_path: Path) -> None:
    with imported(generate({"flip.yaml": SCHEMA}, "with_goals"), "with_goals", tmp_path):
        from with_goals.flip import (  # type: ignore[import-not-found]
            DQNBitFlip,
            DQNBitFlipConfig,
            train,
        )

        class InHindsight(DQNBitFlip):  # type: ignore[misc]
            stored = (*DQNBitFlip.stored, ("next", "achieved_goal"), ("collector", "traj_ids"))

            def __init__(self, config: DQNBitFlipConfig) -> None:
                super().__init__(config)
                storage = LazyTensorStorage(config.capacity)
                self.buffer = HERReplayBuffer(reward, her_ratio=0.8, storage=storage, batch_size=500)

        parts = train(DQNBitFlipConfig(), parts_class=InHindsight, folder=tmp_path / "run")
        stored, sample = parts.buffer[:], parts.buffer.sample()
        names = stored["desired_goal"][sample["index"], -1]
        assert len(stored) == 200
        assert (
            sample["desired_goal"][:, -1] == names
        ).all()  # no goal of another episode, of another environment's
        changed = (sample["desired_goal"] != stored["desired_goal"][sample["index"]]).any(-1)
        assert changed.float().mean() > 0.3
        torch.testing.assert_close(sample["next", "reward"][changed].squeeze(-1), reward(sample[changed]))
