"""The generated `DiscreteIQLLoss` and `DiscreteCQLLoss`: against TorchRL's, and by their formulas."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_std.losses.cql import DiscreteCQLLoss
from specgen_std.losses.iql import DiscreteIQLLoss
from tensordict import TensorDict
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import nn

from tests.objectives.peers import N_OBS, assert_equal, batch, state_value, with_equal_parameters

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

ACTIONS = 5
IQL_OUTPUTS = ("loss_actor", "loss_qvalue", "loss_value", "entropy")
CQL_OUTPUTS = ("loss_qvalue", "loss_cql", "pred_value", "target_value")


def layers(dtype: torch.dtype) -> nn.Sequential:
    return nn.Sequential(nn.Linear(N_OBS, 8, dtype=dtype), nn.Tanh(), nn.Linear(8, ACTIONS, dtype=dtype))


def policy(space: str, dtype: torch.dtype = torch.float32) -> ProbabilisticTensorDictSequential:
    """A policy over `ACTIONS` actions."""
    kinds = {"one-hot": torch.distributions.OneHotCategorical, "categorical": torch.distributions.Categorical}
    return ProbabilisticTensorDictSequential(
        TensorDictModule(layers(dtype), in_keys=["observation"], out_keys=["logits"]),
        ProbabilisticTensorDictModule(
            in_keys=["logits"], out_keys=["action"], distribution_class=kinds[space], return_log_prob=True
        ),
    )


def action_values(dtype: torch.dtype = torch.float32) -> TensorDictModule:
    """One value for each action, `state_action_value`."""
    return TensorDictModule(layers(dtype), in_keys=["observation"], out_keys=["state_action_value"])


def steps(space: str, *shape: int, dtype: torch.dtype = torch.float32) -> TensorDict:
    """Steps with discrete actions, stored as `space` says."""
    data = batch(*shape, dtype=dtype).exclude("priority_weight")
    index = torch.randint(ACTIONS, shape, generator=torch.Generator().manual_seed(4))
    data["action"] = torch.nn.functional.one_hot(index, ACTIONS) if space == "one-hot" else index
    return data


def iql(space: str, dtype: torch.dtype, **given: Any) -> tuple[DiscreteIQLLoss, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    mine, theirs = (
        cls(policy(space, dtype), action_values(dtype), state_value(dtype), action_space=space, **given)
        for cls in (DiscreteIQLLoss, objectives.DiscreteIQLLoss)
    )
    with_equal_parameters(mine, theirs)
    return mine, theirs


def cql(space: str, dtype: torch.dtype, **given: Any) -> tuple[DiscreteCQLLoss, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    mine, theirs = (
        cls(layers(dtype), action_space=space, **given)
        for cls in (DiscreteCQLLoss, objectives.DiscreteCQLLoss)
    )
    with_equal_parameters(mine, theirs)
    return mine, theirs


@pytest.mark.peers
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss_function": "l2"},
        {"loss_function": "l1", "num_qvalue_nets": 3},
        {"temperature": 3.0, "expectile": 0.75},
        {"separate_losses": True},
        {"reduction": "sum"},
    ],
    ids=str,
)
@pytest.mark.parametrize("space", ["one-hot", "categorical"])
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_iql_equals_torchrl(
    options: dict[str, Any], space: str, shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    mine, theirs = iql(space, dtype, **options)

    def data() -> TensorDict:
        return steps(space, *shape, dtype=dtype)

    assert_equal(mine, theirs, data, outputs=IQL_OUTPUTS, terms=IQL_OUTPUTS[:3], tolerance=tolerance)


@pytest.mark.peers
@pytest.mark.parametrize("options", [{}, {"loss_function": "l1"}, {"loss_function": "smooth_l1"}], ids=str)
@pytest.mark.parametrize("space", ["one-hot", "categorical"])
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_cql_equals_torchrl(
    options: dict[str, Any], space: str, shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    mine, theirs = cql(space, dtype, delay_value=False, **options)

    def data() -> TensorDict:
        return steps(space, *shape, dtype=dtype)

    assert_equal(mine, theirs, data, outputs=CQL_OUTPUTS, terms=CQL_OUTPUTS[:2], tolerance=tolerance)
    wanted = theirs(data())["td_error"].mean()  # the peer averages over the first dimension of the batch
    torch.testing.assert_close(mine(data())["td_error"], wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.peers
def test_cql_bootstraps_from_the_target_parameters() -> None:
    """TorchRL drops the target parameters that it passes, and bootstraps from the trained network."""
    mine, theirs = cql("one-hot", torch.float64)
    data = steps("one-hot", 32, dtype=torch.float64)

    def target(parameters: Any) -> torch.Tensor:
        network = mine.get_stateful_net("value_network")
        with parameters.to_module(network):
            best = network(data["next"].select("observation"))["action_value"].amax(-1, keepdim=True)
        alive = ~data["next", "terminated"]
        return (data["next", "reward"] + 0.99 * alive * best).mean().detach()

    torch.testing.assert_close(mine(data.clone())["target_value"], target(mine.target_value_network_params))
    torch.testing.assert_close(
        theirs(data.clone())["target_value"], target(mine.value_network_params), rtol=1e-6, atol=1e-6
    )
    assert abs(target(mine.target_value_network_params) - target(mine.value_network_params)) > 1e-2


def test_the_formula_of_cql() -> None:
    """Kumar et al. 2020, eq. 4 with a weight of 1: log-sum-exp of the values less the value in the data."""
    loss, data = DiscreteCQLLoss(layers(torch.float32), action_space="categorical"), steps("categorical", 9)
    loss.make_value_estimator("TD0", gamma=0.9)
    out = loss(data)
    values = loss.get_stateful_net("value_network")(data.select("observation"))["action_value"]
    chosen = values[torch.arange(9), data["action"]]
    torch.testing.assert_close(out["loss_cql"], (values.exp().sum(-1).log() - chosen).mean())
    after = loss.get_stateful_net("value_network")(data["next"].select("observation"))["action_value"]
    alive = ~data["next", "terminated"].squeeze(-1)
    goal = (data["next", "reward"].squeeze(-1) + 0.9 * alive * after.amax(-1)).detach()
    torch.testing.assert_close(out["loss_qvalue"], 0.5 * ((chosen - goal) ** 2).mean())


def test_the_formula_of_iql() -> None:
    """Kostrikov et al. 2021, eq. 5 and 7: the expectile of the values of the actions, and weighted imitation."""
    torch.manual_seed(0)
    loss = DiscreteIQLLoss(
        policy("categorical"), action_values(), state_value(),
        action_space="categorical", num_qvalue_nets=1, expectile=0.8, temperature=2.0,
    )  # fmt: skip
    data = steps("categorical", 9)
    out = loss(data)
    with loss.target_qvalue_network_params[0].to_module(network := action_values()):
        q = network(data.select("observation"))["state_action_value"][torch.arange(9), data["action"]]
    value = loss.get_stateful_net("value_network")(data.select("observation"))["state_value"].squeeze(-1)
    weight = torch.where(q > value, 0.8, 0.2)
    torch.testing.assert_close(out["loss_value"], (weight * (q - value) ** 2).mean())
    dist = loss.get_stateful_net("actor_network").get_dist(data)
    gain = (2.0 * (q - value)).exp().clamp_max(100).detach()
    torch.testing.assert_close(out["loss_actor"], -(gain * dist.log_prob(data["action"])).mean())
