"""`RayMCAdvantage`: groups that are filled together, in an actor of a Ray cluster."""

from __future__ import annotations

import pickle

import pytest
import torch
from specgen_runtime.llm import MCAdvantage, RayMCAdvantage

from tests.llm.test_advantage import trajectory

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]


def test_writers_fill_groups_together() -> None:
    one = RayMCAdvantage(3, prompt_key="group", trajectory_return="sum", actor_name="groups", timeout=60)
    two = RayMCAdvantage(3, prompt_key="group", trajectory_return="sum", actor_name="groups", timeout=60)
    three = pickle.loads(pickle.dumps(two))
    local = MCAdvantage(3, prompt_key="group", trajectory_return="sum")
    data = [trajectory(1, [float(index), 1.0]) for index in range(3)]
    assert one.inv(data[0]) is None
    assert two.inv(data[1]) is None
    full = three.inv(data[2])
    expected = [local.inv(each) for each in data][-1]
    torch.testing.assert_close(full["advantage"], expected["advantage"])
    assert one.get_stats() == local.get_stats()
    assert two.written_groups == 1
    assert one.is_shared
    one.inv(data[0])
    state = two.state_dict()
    three.clear_queues()
    assert one.queued_trajectories == 0
    one.load_state_dict(state)
    assert two.queued_trajectories == 1
    one.reset_stats()
    assert two.get_stats()["written_groups"] == 0
    with pytest.raises(ValueError, match=r"the actor 'groups' is another RayMCAdvantage: arguments is"):
        RayMCAdvantage(2, prompt_key="group", actor_name="groups", timeout=60)
    one.service.kill()
    with pytest.raises(RuntimeError):
        two.inv(data[0])


def test_an_actor_of_ones_own() -> None:
    alone = RayMCAdvantage(2, prompt_key="group")
    assert alone.inv(trajectory(0, [0.0])) is None
    assert alone.inv(trajectory(0, [1.0]))["advantage"].flatten().tolist() == pytest.approx(
        [-0.7071, 0.7071], abs=1e-4
    )
    alone.close()
    with pytest.raises(RuntimeError):
        alone.get_stats()


def test_arguments_are_checked_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specgen_runtime.llm.ray_advantage.RayService", None)
    with pytest.raises(ValueError, match="grpo_size >= 2"):
        RayMCAdvantage(1)
    with pytest.raises(ValueError, match="a group is in one actor"):
        RayMCAdvantage(2, replicas=2)
    with pytest.raises(TypeError, match="remote_config"):
        RayMCAdvantage(2, remote_config={"num_cpus": 1})
