"""`step_mdp`."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.envs import step_mdp
from specgen_runtime.envs.utils import step_mdp as same
from tensordict import TensorDict

from tests.envs.counting import Counting, Grid


def transition() -> TensorDict:
    env = Counting()
    td = env.reset()
    td["other"] = torch.ones(1)
    return env.rand_step(td)


def test_next_becomes_the_root() -> None:
    td = transition()
    root = step_mdp(td)
    assert same is step_mdp
    assert set(root.keys()) == {"count", "observation", "done", "terminated", "truncated", "other"}
    assert root["count"].item() == 1
    assert root["count"] is td["next", "count"]
    assert td["count"].item() == 0


def test_flags() -> None:
    td = transition()
    assert set(step_mdp(td, keep_other=False).keys()) == {
        "count",
        "observation",
        "done",
        "terminated",
        "truncated",
    }
    assert step_mdp(td, exclude_reward=False)["reward"] is td["next", "reward"]
    assert step_mdp(td, exclude_action=False)["action"] is td["action"]
    kept = step_mdp(td, keep_other=False, exclude_action=False)
    assert "action" in kept.keys(True)
    assert "other" not in kept.keys(True)


def test_exclude_done_leaves_no_flag() -> None:
    # TorchRL keeps terminated (E32).
    root = step_mdp(transition(), exclude_done=True)
    assert set(root.keys()) == {"count", "observation", "other"}


def test_without_next() -> None:
    # TorchRL: AttributeError (E19).
    with pytest.raises(KeyError, match="needs a 'next' entry"):
        step_mdp(TensorDict({"observation": torch.zeros(1)}))
    with pytest.raises(TypeError, match="found dict"):
        step_mdp({"next": {}})


def test_a_given_tensordict_is_written_to() -> None:
    target = TensorDict({"mine": torch.zeros(1)})
    assert step_mdp(transition(), target) is target
    assert target["count"].item() == 1
    assert "mine" in target.keys(True)


def test_nested_keys() -> None:
    env = Grid(batch_size=(3,))
    td = env.reset()
    td["agents", "other"] = torch.ones(3)
    env.rand_step(td)
    keys = {"reward_keys": env.reward_keys, "action_keys": env.action_keys, "done_keys": env.done_keys}
    root = step_mdp(td, **keys)
    assert ("agents", "other") in root.keys(True)
    assert ("agents", "reward") not in root.keys(True)
    assert ("agents", "action") not in root.keys(True)
    assert ("agents", "observation") in root.keys(True)
    root["agents", "observation"] = torch.full((3, 2, 4), -1.0)
    assert (td["next", "agents", "observation"] >= 0).all()
    assert ("agents", "action") in td.keys(True)
    assert ("agents", "action") in env.step_mdp(td).keys(True)


def test_locked_input() -> None:
    td = transition().lock_()
    assert not step_mdp(td).is_locked
