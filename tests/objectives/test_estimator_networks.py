"""How value estimators call their networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.objectives import GAE, TD0Estimator, hold_out_net
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, set_skip_existing
from torch import Tensor, nn

from tests.objectives.nets import N_OBS, critic, steps
from tests.objectives.test_estimators import estimators, every


class Counting(nn.Module):
    """Counts its calls, and the largest of them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(N_OBS, 1)
        self.sizes: list[int] = []

    def forward(self, observation: Tensor) -> Tensor:
        self.sizes.append(observation.shape[:-1].numel())
        return self.linear(observation)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [48]),
        ({"deactivate_vmap": True}, [24, 24]),
        ({"shifted": True}, [27]),
        ({"shifted": True, "shifted_budget": 2}, [30]),
        ({"value_chunk_size": 2}, [16, 8, 16, 8]),
        ({"num_chunks": 3}, [8] * 6),
        ({"time_dim": 0}, [48]),
    ],
    ids=str,
)
def test_how_often_the_network_is_called(options: dict[str, Any], sizes: list[int]) -> None:
    network = Counting()
    module = TensorDictModule(network, in_keys=["observation"], out_keys=["state_value"])
    GAE(gamma=0.9, lmbda=0.9, value_network=module, **options)(steps(3, 8))
    assert network.sizes == sizes


def test_statistics_of_batches_are_those_of_states_and_of_next_states() -> None:
    """Joined, the batch normalisation would mix them."""
    network = critic(batch_norm=True)
    data = steps(24)
    out = TD0Estimator(gamma=0.9, value_network=network)(data.reshape(24, 1).clone()[:, 0])
    value = critic(batch_norm=True)(data.clone())["state_value"]
    torch.testing.assert_close(out["state_value"], value.detach())


@every
def test_values_in_the_data_are_used_where_skipping_is_on(which: int) -> None:
    data = steps(3, 8)
    data["state_value"] = data["next", "state_value"] = torch.ones(3, 8, 1)
    estimator = estimators()[which]
    assert not (estimator(data.clone())["state_value"] == 1).all()
    with set_skip_existing(True):
        assert (estimator(data.clone())["state_value"] == 1).all()


def test_next_observations_that_a_buffer_left_out() -> None:
    """Behind a terminal state they don't count; elsewhere the value of the state itself stands for it."""
    data = steps(3, 8)
    ended = data["next", "done"].squeeze(-1)
    data["next", "observation"][ended] = torch.nan
    out = TD0Estimator(gamma=0.9, value_network=critic())(data.clone())
    value, after = out["state_value"], data["next"]
    own = after["reward"] + 0.9 * ~after["terminated"] * value
    torch.testing.assert_close(out["value_target"][ended], own[ended])
    assert out["value_target"].isfinite().all()
    assert data["next", "observation"].isnan().any()


class Remembering(nn.Module):
    """Adds up observations, from zero where an episode begins."""

    def forward(self, observation: Tensor, is_init: Tensor) -> Tensor:
        total = torch.zeros_like(observation[:, 0])
        sums = []
        for t in range(observation.shape[1]):
            total = torch.where(is_init[:, t], 0.0, total) + observation[:, t]
            sums.append(total.sum(-1, keepdim=True))
        return torch.stack(sums, 1)


def test_recurrent_networks_begin_anew_where_episodes_do() -> None:
    data = steps(2, 6)
    begins = torch.zeros(2, 6, 1, dtype=torch.bool)
    begins[:, [0, 3]] = True
    data["is_init"] = begins
    data["next", "is_init"] = torch.zeros_like(begins)
    module = TensorDictModule(Remembering(), in_keys=["observation", "is_init"], out_keys=["state_value"])
    out = GAE(gamma=0.9, lmbda=0.9, value_network=module)(data.clone())
    alone = Remembering()(data["next", "observation"][:, 3:], begins[:, 3:])
    torch.testing.assert_close(out["next", "state_value"][:, 3:], alone)
    joined = GAE(gamma=0.9, lmbda=0.9, value_network=module, shifted=True)(data.clone())
    torch.testing.assert_close(joined["state_value"][:, 0], out["state_value"][:, 0])


@every
def test_shifted_equals_unshifted_on_contiguous_data(which: int) -> None:
    data = steps(5, 12, contiguous=True)
    plain = estimators()[which](data.clone())
    shifted = estimators(shifted=True, shifted_budget=12)[which](data.clone())
    assert shifted["shifted_valid"].all()
    torch.testing.assert_close(shifted["advantage"], plain["advantage"])
    torch.testing.assert_close(shifted["value_target"], plain["value_target"])
    with pytest.raises(ValueError, match="target_params cannot be others"):
        estimators(shifted=True)[which](data.clone(), target_params=TensorDict.from_module(critic(seed=4)))


@every
def test_parameters_keep_their_gradients_and_modes(which: int) -> None:
    network = critic()
    frozen = next(network.parameters()).requires_grad_(False)
    estimator = estimators(value_network=network, differentiable=True)[which]
    data = steps(3, 8)
    data["observation"].requires_grad_()
    out = estimator(data)
    out["advantage"].sum().backward()
    assert data["observation"].grad is not None
    assert [parameter.requires_grad for parameter in network.parameters()] == [False, True, True, True]
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not frozen.requires_grad


def test_hold_out_net() -> None:
    network = critic()
    first, *others = network.parameters()
    first.requires_grad_(False)

    def fail() -> None:
        with hold_out_net(network):
            assert not any(parameter.requires_grad for parameter in network.parameters())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not first.requires_grad
    assert all(parameter.requires_grad for parameter in others)
