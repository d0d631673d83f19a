"""Groups of agents of environments that are converted to TorchRL and back."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs.batched import SerialEnv
from specgen_runtime.interop import from_torchrl, to_torchrl
from specgen_runtime.transforms import TransformedEnv
from specgen_std.chains import SimpleTagTrain
from specgen_std.envs import CartPole, SimpleTag
from specgen_std.transforms import StepCounter

from tests.envs.counting import Counting

pytestmark = pytest.mark.peers

theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
collectors = pytest.importorskip("torchrl.collectors", reason="the extra `peers`")
mocks = pytest.importorskip("torchrl.testing.mocking_classes", reason="the extra `peers`")
check_env_specs = pytest.importorskip("torchrl.envs.utils").check_env_specs

GROUPS = {"adversary": ["adversary_0", "adversary_1", "adversary_2"], "agent": ["agent_0"]}

DECLARED: dict[str, Any] = {
    "environment": partial(SimpleTag, batch_size=(3,)),
    "chain": SimpleTagTrain,
    "transformed": lambda: TransformedEnv(SimpleTag(), StepCounter()),
    "batch": lambda: SerialEnv(2, SimpleTag),
}


@pytest.mark.parametrize("name", DECLARED)
def test_group_map_is_converted(name: str) -> None:
    env = to_torchrl(DECLARED[name]())
    assert env.group_map == GROUPS
    assert theirs.TransformedEnv(env, theirs.StepCounter(step_count_key="steps")).group_map == GROUPS
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert twin.group_map == GROUPS
    check_env_specs(env)


def test_group_map_comes_back() -> None:
    env = from_torchrl(theirs.TransformedEnv(to_torchrl(SimpleTag()), theirs.StepCounter()))
    assert env.group_map == GROUPS
    assert TransformedEnv(env, StepCounter(step_count_key="steps")).group_map == GROUPS
    mock = partial(mocks.MultiAgentCountingEnv, n_agents=3)
    one = theirs.MarlGroupMapType.ALL_IN_ONE_GROUP
    each = theirs.MarlGroupMapType.ONE_GROUP_PER_AGENT
    assert from_torchrl(mock(group_map=one)).group_map == {"agents": ["agent_0", "agent_1", "agent_2"]}
    assert list(from_torchrl(mock(group_map=each)).group_map) == ["agent_0", "agent_1", "agent_2"]
    serial = from_torchrl(theirs.SerialEnv(2, partial(mock, group_map=one)))
    serial.reset()  # TorchRL's batches have no attributes before
    assert serial.group_map == {"agents": ["agent_0", "agent_1", "agent_2"]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: to_torchrl(CartPole()),
        lambda: to_torchrl(Counting()),
        lambda: from_torchrl(mocks.CountingEnv()),
    ],
)
def test_without_groups_there_is_no_map(make: Any) -> None:
    assert not hasattr(make(), "group_map")


def test_returns_attribute_of_each_group_in_a_collector() -> None:
    """As the tutorials write it for environments of TorchRL's own."""
    base = to_torchrl(SimpleTag(batch_size=(3,)))
    sums = [(group, "episode_reward") for group in base.group_map]
    env = theirs.TransformedEnv(
        base,
        theirs.Compose(
            theirs.StepCounter(max_steps=5),
            theirs.RewardSum(in_keys=base.reward_keys, out_keys=sums, reset_keys=["_reset"] * len(sums)),
        ),
    )
    check_env_specs(env)
    collector = collectors.Collector(env, policy=None, frames_per_batch=60, total_frames=120)
    batches = list(collector)
    collector.shutdown()
    assert [data.shape for data in batches] == [(3, 20)] * 2
    for data in batches:
        for group, agents in base.group_map.items():
            reward = data["next", group, "reward"]
            assert reward.shape == (3, 20, len(agents), 1)
            expected = reward.unflatten(1, (4, 5)).cumsum(2).flatten(1, 2)
            torch.testing.assert_close(data["next", group, "episode_reward"], expected)


def test_policies_attribute_of_each_group() -> None:
    modules = pytest.importorskip("torchrl.modules")
    nn = pytest.importorskip("tensordict.nn")
    env = to_torchrl(SimpleTag(batch_size=(2,)))
    parts = []
    for group, agents in env.group_map.items():
        net = modules.MultiAgentMLP(
            n_agent_inputs=env.observation_spec[group, "observation"].shape[-1],
            n_agent_outputs=5,
            n_agents=len(agents),
            centralized=False,
            share_params=True,
            depth=1,
            num_cells=8,
        )
        parts.append(nn.TensorDictModule(net, [(group, "observation")], [(group, "values")]))
        parts.append(
            nn.TensorDictModule(lambda values: values.argmax(-1), [(group, "values")], [(group, "action")])
        )
    data = env.rollout(6, nn.TensorDictSequential(*parts))
    assert torch.equal(data["adversary", "action"], data["adversary", "values"].argmax(-1))
    assert data["adversary"].batch_size == (2, 6, 3)
