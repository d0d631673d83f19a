"""The generated `TD3Loss` and `TD3BCLoss`: against TorchRL's on the same noise, by their formulas, and their contracts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.specs import Bounded
from specgen_std.losses.td3 import TD3BCLoss, TD3Loss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.objectives.peers import (
    N_ACT,
    N_OBS,
    action_value,
    assert_equal,
    batch,
    gradients,
    with_equal_parameters,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

TERMS = ("loss_actor", "loss_qvalue")
OUTPUTS = (*TERMS, "pred_value", "state_action_value_actor", "next_state_value", "target_value")
OF = {TD3Loss: OUTPUTS, TD3BCLoss: (*OUTPUTS, "bc_loss", "lmbd")}


def actor(dtype: torch.dtype = torch.float32, seed: int = 0) -> TensorDictModule:
    """A policy that gives an action in (-1, 1)."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(N_OBS, N_ACT, dtype=dtype), nn.Tanh())
    return TensorDictModule(net, in_keys=["observation"], out_keys=["action"])


def pair(cls: type[Any], dtype: torch.dtype, **given: Any) -> tuple[Any, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    given = {"bounds": (-1.0, 1.0), **given}
    mine = cls(actor(dtype), action_value(dtype), **given)
    theirs = getattr(objectives, cls.__name__)(actor(dtype), action_value(dtype), **given)
    with_equal_parameters(mine, theirs)
    return mine, theirs


def loss_of(cls: type[Any] = TD3Loss, **given: Any) -> Any:
    return cls(actor(), action_value(), **{"bounds": (-1.0, 1.0), **given})


OPTIONS: list[dict[str, Any]] = [
    {},
    {"policy_noise": 2.0, "noise_clip": 0.3},
    {"policy_noise": 0.0},
    {"noise_clip": 0.0},
    {"bounds": (-0.2, 0.4)},
    {"bounds": (torch.tensor([-0.2, -0.1]), torch.tensor([0.1, 0.3]))},
    {"loss_function": "l2"},
    {"loss_function": "l1", "delay_qvalue": False},
    {"delay_actor": False},
    {"num_qvalue_nets": 1},
    {"num_qvalue_nets": 3},
    {"separate_losses": True},
]


def names(one: dict[str, Any]) -> str:
    return "-".join(one) or "default"


@pytest.mark.peers
@pytest.mark.parametrize("cls", OF)
@pytest.mark.parametrize("options", OPTIONS, ids=names)
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    cls: type[Any], options: dict[str, Any], shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    mine, theirs = pair(cls, dtype, **options)

    def data() -> TensorDict:
        return batch(*shape, dtype=dtype).exclude("priority_weight")

    assert_equal(mine, theirs, data, outputs=OF[cls], terms=TERMS, tolerance=tolerance)


@pytest.mark.peers
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_equal_torchrl(reduction: str) -> None:
    mine, theirs = pair(TD3Loss, torch.float64, reduction=reduction)
    assert_equal(
        mine,
        theirs,
        lambda: batch(9, dtype=torch.float64),
        outputs=OUTPUTS,
        terms=TERMS,
        tolerance=1e-10,
    )


@pytest.mark.peers
@pytest.mark.parametrize("cls", OF)
@pytest.mark.parametrize(
    ("name", "given"), [("TD0", {"gamma": 0.9}), ("TD1", {"gamma": 0.9}), ("TDLambda", {"lmbda": 0.7})]
)
def test_estimators_equal_torchrl(cls: type[Any], name: str, given: dict[str, float]) -> None:
    mine, theirs = pair(cls, torch.float64)
    objectives = pytest.importorskip("torchrl.objectives")
    mine.make_value_estimator(name, **given)
    theirs.make_value_estimator(getattr(objectives.ValueEstimators, name), **given)

    def data() -> TensorDict:
        made = batch(4, 6, dtype=torch.float64).exclude("priority_weight")
        made.names = [None, "time"]
        return made

    # the peer computes its targets with float32 discounts
    assert_equal(mine, theirs, data, outputs=OF[cls], terms=TERMS, tolerance=1e-6)


@pytest.mark.peers
def test_the_bounds_of_a_spec_equal_torchrl() -> None:
    data = pytest.importorskip("torchrl.data")
    objectives = pytest.importorskip("torchrl.objectives")
    low, high = torch.tensor([-0.2, -0.4]), torch.tensor([0.3, 0.1])
    mine = TD3Loss(actor(), action_value(), action_spec=Bounded(low, high, (N_ACT,)))
    theirs = objectives.TD3Loss(actor(), action_value(), action_spec=data.Bounded(low, high, (N_ACT,)))
    with_equal_parameters(mine, theirs)
    assert_equal(mine, theirs, lambda: batch(8), outputs=OUTPUTS, terms=TERMS, tolerance=1e-5)


@pytest.mark.peers
def test_imitation_is_per_sample_and_the_peers_is_not() -> None:
    """The peer's distance to the actions is one mean over the batch: weights and sums do not reach it."""
    mine, theirs = pair(TD3BCLoss, torch.float64, alpha=0.0)
    results = []
    for loss in (mine, theirs):
        loss.reduction = "sum"
        results.append(loss(batch(5, dtype=torch.float64).exclude("priority_weight")))
    torch.testing.assert_close(results[0]["loss_actor"], results[1]["loss_actor"])  # five times the mean
    weighted = []
    for loss in (mine, theirs):
        loss.reduction = "mean"
        weighted.append(loss(batch(5, dtype=torch.float64))["loss_actor"])
    data = batch(5, dtype=torch.float64)
    weight = data["priority_weight"]
    error = ((mine.get_stateful_net("actor_network")(data.clone())["action"] - data["action"]) ** 2).mean(-1)
    torch.testing.assert_close(weighted[0], (weight * error).sum() / weight.sum())
    torch.testing.assert_close(weighted[1], error.mean())
    assert (weighted[0] - weighted[1]).abs() > 1e-3


def test_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fujimoto et al. 2018: eq. 14 with clipped noise, the smaller of two targets; the policy by the first value."""
    loss, data = loss_of(bounds=(-0.5, 0.6), policy_noise=0.7, noise_clip=0.4, loss_function="l2"), batch(9)
    data = data.exclude("priority_weight")
    loss.make_value_estimator("TD0", gamma=0.9)
    torch.manual_seed(5)
    out = loss(data)
    torch.manual_seed(5)
    noise = (0.7 * torch.randn(9, N_ACT)).clamp(-0.4, 0.4)
    critic, policy = action_value(), loss.get_stateful_net("actor_network")

    def value(params: Any, record: Any, action: Tensor) -> Tensor:
        found = []
        for member in range(2):
            with params[member].to_module(critic):
                found.append(critic.module(record["observation"], action).squeeze(-1))
        return torch.stack(found)

    with loss.target_actor_network_params.to_module(policy):
        following = policy(data["next"].select("observation"))["action"]
    next_action = (following + noise).clamp(-0.5, 0.6)
    best = value(loss.target_qvalue_network_params, data["next"], next_action).amin(0)
    alive = (~data["next", "terminated"]).squeeze(-1)
    goal = (data["next", "reward"].squeeze(-1) + 0.9 * alive * best).detach()
    errors = (value(loss.qvalue_network_params, data, data["action"]) - goal) ** 2
    torch.testing.assert_close(out["loss_qvalue"], errors.sum(0).mean())
    own = policy(data.select("observation"))["action"]
    torch.testing.assert_close(out["loss_actor"], -value(loss.qvalue_network_params, data, own)[0].mean())
    torch.testing.assert_close(data["td_error"], errors.amax(0).unsqueeze(-1))


def test_noise_comes_from_the_generator() -> None:
    loss = loss_of()
    loss.generator = torch.Generator().manual_seed(3)
    state = torch.get_rng_state()
    first = loss(batch(6))
    assert torch.equal(torch.get_rng_state(), state)
    second = loss(batch(6))
    loss.generator.manual_seed(3)
    third = loss(batch(6))
    assert not torch.equal(first["next_state_value"], second["next_state_value"])
    assert torch.equal(first["next_state_value"], third["next_state_value"])


def test_each_term_trains_its_network() -> None:
    loss = loss_of()
    for term, network in (("loss_actor", "actor_network"), ("loss_qvalue", "qvalue_network")):
        found = gradients(loss, loss(batch(6))[term])
        assert found
        assert all(name.startswith(f"{network}_params.") for name in found)
        assert loss.trained[term] == (network,)


@pytest.mark.parametrize("given", [{}, {"bounds": (-1.0, 1.0), "action_spec": Bounded(-1.0, 1.0, (N_ACT,))}])
def test_one_of_two_keywords_says_the_bounds(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="TD3Loss takes one of action_spec and bounds"):
        TD3Loss(actor(), action_value(), **given)


@pytest.mark.parametrize("keyword", ["policy_noise", "noise_clip"])
def test_noise_is_not_negative(keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        loss_of(**{keyword: -0.1})


def test_td3_bc_is_a_td3() -> None:
    assert issubclass(TD3BCLoss, TD3Loss)
    out = loss_of(TD3BCLoss)(batch(6).exclude("priority_weight"))
    assert set(out.keys()) == {*OUTPUTS, "bc_loss", "lmbd"}
    torch.testing.assert_close(
        out["loss_actor"], out["bc_loss"] - out["lmbd"] * out["state_action_value_actor"].mean()
    )
    torch.testing.assert_close(out["lmbd"], 2.5 / out["state_action_value_actor"].abs().mean())


@pytest.mark.parametrize("cls", [TD3Loss, TD3BCLoss])
def test_a_mask_may_have_a_1_behind_the_batch(cls: type[Any]) -> None:
    """Also where statistics over the batch are part of a term, and beside another mask without it."""
    loss = cls(actor(), action_value(), bounds=(-1, 1), policy_noise=0.0)
    data = batch(8).reshape(2, 4)
    mask = torch.arange(8).reshape(2, 4) % 3 > 0
    flat = loss(data.clone().set(("collector", "mask"), mask))
    column = loss(data.clone().set(("collector", "mask"), mask.unsqueeze(-1)))
    both = data.clone().set(("collector", "mask"), mask.unsqueeze(-1))
    both = loss(both.set("shifted_valid", torch.ones_like(mask)))
    alone = loss(data[mask])
    for term in TERMS:
        torch.testing.assert_close(flat[term], alone[term])
        torch.testing.assert_close(column[term], alone[term])
        torch.testing.assert_close(both[term], alone[term])
