"""Pipelines that learn the values of each choice of an action that makes several, `MultiDiscrete` to Gymnasium."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specgen_runtime.modules import QValueActor
from specgen_runtime.training import read_log
from tensordict import TensorDict

from tests.pipelines.small import small_config
from tests.pipelines.test_several_choices import MASKS, made, schema

KINDS = {
    "sizes that differ": ("multi_categorical", (3, 2, 4), (3,)),
    "sizes alike": ("multi_categorical", (3, 3, 3), (3,)),
    "one-hot vectors in a row": ("mult_one_hot", (3, 2, 4), (9,)),
    "one-hot rows": ("mult_one_hot", (3, 3, 3), (3, 3)),
}
"""Actions: how the policy stores them, how many values their choices have, and their shape."""

PIPELINE = """\
    networks: {value_network: {mlp: [32], activation: tanh}}
    policy: {explore: {epsilon_greedy: {eps: "linear(1.0, 0.05, over=2_000)"}}}
    loss: BranchingDQNLoss
    value_estimator: {td0: {gamma: 0.9}}
    target_updater: {soft: {tau: 0.05}}
    data:
      replay: {num_envs: 16, num_steps: 4, capacity: 5_000, batch_size: 64, warm_up_frames: 256, updates: 8}
    optimizer: {adam: {lr: 3.0e-3}}
    evaluate: {every: 4_096, episodes: 20}
    stop: {frames: 4_096}
"""


def of_values(kind: str, mask: tuple[str, str] = ("", "")) -> str:
    """The schema of `test_several_choices`, with values in the place of a policy."""
    text = schema(kind, mask=mask).replace("losses/ppo", "losses/dqn")
    return text[: text.index("    networks:")] + PIPELINE


def classes(action: torch.Tensor, kind: str) -> torch.Tensor:
    """The class of each choice, ``[*batch, 3]``."""
    if kind == "one-hot rows":
        return action.argmax(-1)
    if kind == "one-hot vectors in a row":
        return torch.stack([part.argmax(-1) for part in torch.split(action, [3, 2, 4], -1)], -1)
    return action


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_each_choice(kind: str, tmp_path: Path) -> None:
    """Random choices are right in one of three, and all of an episode give at most 4."""
    space, nums, shape = KINDS[kind]
    with made(of_values(kind), tmp_path) as module:
        parts = module.train(module.TrainingConfig(), folder=tmp_path / "run")
        assert read_log(tmp_path / "run" / "log.csv")[-1]["evaluation"] > 3.8
        policy = parts.value_network
        assert isinstance(policy, QValueActor)
        assert (policy.action_space, policy.var_nums) == (space, nums)
        seen = torch.tensor([[1.0, -1, 1], [-1, 1, 1]])
        action = policy(TensorDict({"observation": seen}, [2]))["action"]
        assert action.shape == (2, *shape)
        assert classes(action.long(), kind).tolist() == [[1, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize("kind", MASKS)
def test_no_choice_is_made_that_is_not_allowed(kind: str, tmp_path: Path) -> None:
    """Neither by the greedy policy, nor by the random one."""
    shape, shown = MASKS[kind]
    with made(of_values(kind, (shape, f", allowed: '{shown}'")), tmp_path) as module:
        config = small_config(module, num_envs=16, num_steps=8, eps=0.5)
        parts = module.Training(config)
        batch = next(iter(parts.collector))
        chosen = classes(batch["action"].long(), kind)
        assert (chosen < 3).all()
        assert (2 * chosen[..., 0] - 1 <= batch["observation"][..., 0]).all()
        module.train(small_config(module), folder=tmp_path / "run")


@pytest.mark.parametrize("kind", ["sizes that differ", "one-hot rows"])
def test_what_is_trained_goes_on_from_a_checkpoint(kind: str, tmp_path: Path) -> None:
    with made(of_values(kind), tmp_path) as module:
        whole = module.train(small_config(module), folder=tmp_path / "whole")
        module.train(small_config(module, total_frames=24), folder=tmp_path / "parts")
        parts = module.train(small_config(module), folder=tmp_path / "parts", resume=True)
        for key, value in whole.value_network.state_dict().items():
            torch.testing.assert_close(parts.value_network.state_dict()[key], value, rtol=0, atol=0)
