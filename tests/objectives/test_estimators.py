"""The one-step return: truncation bootstraps, termination cuts."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.objectives import TD0Estimator
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

from tests.objectives.nets import batch, critic


def test_truncation_bootstraps_and_done_is_not_read() -> None:
    data = TensorDict(
        {
            "state_value": torch.tensor([[0.0], [1.0], [2.0]]),
            "next": {
                "state_value": torch.tensor([[1.0], [2.0], [3.0]]),
                "reward": torch.ones(3, 1),
                "done": torch.tensor([[False], [True], [True]]),
                "terminated": torch.tensor([[False], [False], [True]]),
            },
        },
        [3],
    )
    out = TD0Estimator(gamma=0.5)(data)
    torch.testing.assert_close(out["value_target"], torch.tensor([[1.5], [2.0], [1.0]]))
    torch.testing.assert_close(out["advantage"], torch.tensor([[1.5], [1.0], [-1.0]]))
    del data["next", "terminated"]
    with pytest.raises(KeyError, match="`done` cannot replace it"):
        TD0Estimator(gamma=0.5)(data)


def test_with_a_network() -> None:
    network, data = critic(), batch(4)
    out = TD0Estimator(gamma=0.9, value_network=network)(data.clone())
    value, after = network(data.clone())["state_value"], network(data["next"].clone())["state_value"]
    expected = data["next", "reward"] + 0.9 * ~data["next", "terminated"] * after
    torch.testing.assert_close(out["value_target"], expected.detach())
    torch.testing.assert_close(out["advantage"], (expected - value).detach())
    assert not out["value_target"].requires_grad


def test_multi_step_returns_raise_the_discount() -> None:
    data = batch(3)
    data["steps_to_next_obs"] = torch.tensor([[1], [2], [3]])
    target = TD0Estimator(gamma=0.5).value_estimate(data, next_value=torch.ones(3, 1))
    alive = ~data["next", "terminated"]
    torch.testing.assert_close(
        target, data["next", "reward"] + alive * torch.tensor([[0.5], [0.25], [0.125]])
    )


@pytest.mark.parametrize("gamma", [-0.1, 1.5, float("nan"), torch.tensor([0.5, 1.1])])
def test_gamma_is_a_discount(gamma: float) -> None:
    with pytest.raises(ValueError, match="gamma must be"):
        TD0Estimator(gamma=gamma)


def test_keys() -> None:
    estimator = TD0Estimator(gamma=0.9, value_network=critic())
    estimator.set_keys(reward="r2")
    assert ("next", "r2") in estimator.in_keys
    assert estimator.out_keys == ["advantage", "value_target"]
    with pytest.raises(ValueError, match="does not accept 'rewards'"):
        estimator.set_keys(rewards="r")


@pytest.mark.peers
@pytest.mark.parametrize("average_rewards", [False, True])
def test_equals_torchrl(average_rewards: bool) -> None:
    peer = pytest.importorskip("torchrl.objectives.value")
    network: TensorDictModule = critic()
    mine = TD0Estimator(gamma=0.97, value_network=network, average_rewards=average_rewards)(batch(9))
    theirs = peer.TD0Estimator(gamma=0.97, value_network=network, average_rewards=average_rewards)(batch(9))
    for key in ("advantage", "value_target"):
        torch.testing.assert_close(mine[key], theirs[key], rtol=0, atol=1e-6)
