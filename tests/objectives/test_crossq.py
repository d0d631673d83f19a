"""The generated `CrossQLoss`: against TorchRL's on the same draws, by its formula, and its contract."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from specgen_std.losses.crossq import CrossQLoss
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.objectives.peers import (
    N_ACT,
    N_OBS,
    action_value,
    assert_equal,
    batch,
    gradients,
    policy,
    with_equal_parameters,
)

OUTPUTS = ("loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy", "log_prob", "td_error")
TERMS = OUTPUTS[:3]

OPTIONS: list[dict[str, Any]] = [
    {},
    {"alpha_init": 0.5, "fixed_alpha": True},
    {"alpha_init": 3.0, "min_alpha": 0.5, "max_alpha": 1.0},
    {"loss_function": "l2"},
    {"loss_function": "l1", "num_qvalue_nets": 3},
    {"num_qvalue_nets": 1},
    {"separate_losses": True},
    {"reduction": "sum"},
]


class Normalised(nn.Module):
    """The value of an action in a state, with batch normalisation."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(N_OBS + N_ACT, dtype=dtype)
        self.net = nn.Sequential(
            nn.Linear(N_OBS + N_ACT, 8, dtype=dtype), nn.Tanh(), nn.Linear(8, 1, dtype=dtype)
        )

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        out: Tensor = self.net(self.norm(torch.cat([observation, action], -1)))
        return out


def normalised(dtype: torch.dtype = torch.float32) -> TensorDictModule:
    torch.manual_seed(1)
    return TensorDictModule(
        Normalised(dtype), in_keys=["observation", "action"], out_keys=["state_action_value"]
    )


def names(one: dict[str, Any]) -> str:
    return "-".join(f"{name}={value}" for name, value in one.items()) or "default"


def pair(dtype: torch.dtype, critic: Any = action_value, **given: Any) -> tuple[CrossQLoss, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    given = {"target_entropy": -1.5, **given}
    mine = CrossQLoss(policy(dtype), critic(dtype), **given)
    theirs = objectives.CrossQLoss(policy(dtype), critic(dtype), **given)
    with_equal_parameters(mine, theirs)
    return mine, theirs


def data_of(*shape: int, dtype: torch.dtype = torch.float32) -> Any:
    return batch(*shape, dtype=dtype).exclude("priority_weight")


@pytest.mark.peers
@pytest.mark.parametrize("options", OPTIONS, ids=names)
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    options: dict[str, Any], shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    mine, theirs = pair(dtype, **options)
    terms = [term for term in TERMS if term != "loss_alpha" or not options.get("fixed_alpha")]
    assert_equal(
        mine, theirs, lambda: data_of(*shape, dtype=dtype), outputs=OUTPUTS, terms=terms, tolerance=tolerance
    )


@pytest.mark.peers
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("members", [1, 2, 5])
def test_batch_normalisation_equals_torchrl(dtype: torch.dtype, tolerance: float, members: int) -> None:
    mine, theirs = pair(dtype, normalised, num_qvalue_nets=members)
    for loss in (mine, theirs):
        loss.qvalue_network_params.get(("module", "norm", "running_var")).data.abs_()
    assert_equal(
        mine, theirs, lambda: data_of(16, dtype=dtype), outputs=OUTPUTS, terms=TERMS, tolerance=tolerance
    )
    for key, value in mine.qvalue_network_params.items(True, True):
        torch.testing.assert_close(
            value.data,
            theirs.qvalue_network_params.get(key).data,
            rtol=tolerance,
            atol=tolerance,
            msg=str(key),
        )


@pytest.mark.peers
@pytest.mark.parametrize("name", ["TD0", "TD1", "TDLambda"])
def test_estimators_equal_torchrl(name: str) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    mine, theirs = pair(torch.float64)
    mine.make_value_estimator(name, gamma=0.9)
    theirs.make_value_estimator(getattr(objectives.ValueEstimators, name), gamma=0.9)

    def data() -> Any:
        made = data_of(4, 6, dtype=torch.float64)
        made.names = [None, "time"]
        return made

    # the peer computes its targets with float32 discounts
    assert_equal(mine, theirs, data, outputs=OUTPUTS, terms=TERMS, tolerance=1e-6)


def test_both_records_are_normalised_as_one_batch() -> None:
    """Bhatt et al. 2024, algorithm 1: one forward over both records; statistics move once; the policy reads them."""
    loss = CrossQLoss(policy(), normalised(), target_entropy=-1.5, alpha_init=0.3)
    critics = [copy.deepcopy(normalised().module) for _ in range(2)]
    for number, critic in enumerate(critics):
        for name, parameter in [*critic.named_parameters(), *critic.named_buffers()]:
            parameter.data.copy_(loss.qvalue_network_params["module", *name.split(".")][number].data)
    data = data_of(9)
    torch.manual_seed(5)
    out = loss(data.clone())
    torch.manual_seed(5)
    actor = loss.get_stateful_net("actor_network")
    following, own = actor.get_dist(data["next"]), actor.get_dist(data)
    next_action, action = following.rsample().detach(), own.rsample()
    together = [
        critic(
            torch.cat([data["observation"], data["next", "observation"]]),
            torch.cat([data["action"], next_action]),
        ).squeeze(-1)
        for critic in critics
    ]
    q, next_q = torch.stack([one[:9] for one in together]), torch.stack([one[9:] for one in together])
    value = next_q.amin(0) - 0.3 * following.log_prob(next_action)
    alive = (~data["next", "terminated"]).squeeze(-1)
    goal = (data["next", "reward"].squeeze(-1) + 0.99 * alive * value).detach()
    error = nn.functional.smooth_l1_loss(q, goal.expand(2, -1), reduction="none").sum(0)
    torch.testing.assert_close(out["loss_qvalue"], error.mean())
    improved = torch.stack([critic.eval()(data["observation"], action).squeeze(-1) for critic in critics])
    torch.testing.assert_close(out["loss_actor"], (0.3 * own.log_prob(action) - improved.amin(0)).mean())
    norm = loss.qvalue_network_params["module", "norm"]
    assert norm["num_batches_tracked"].tolist() == [1, 1]
    for number, critic in enumerate(critics):
        torch.testing.assert_close(norm["running_mean"][number], critic.norm.running_mean)


def test_the_loss_keeps_its_mode_and_the_policy_reads_values_in_evaluation() -> None:
    loss, data = CrossQLoss(policy(), normalised(), target_entropy=-1.5), data_of(9)
    assert loss.training
    first = loss(data.clone())
    assert loss.training
    assert loss.functional_network("qvalue_network").skeleton.training
    loss.eval()
    before = loss.qvalue_network_params["module", "norm", "running_mean"].clone()
    second = loss(data.clone())
    assert torch.equal(loss.qvalue_network_params["module", "norm", "running_mean"], before)
    assert not torch.equal(first["loss_qvalue"], second["loss_qvalue"])


@pytest.mark.peers
def test_a_forward_in_evaluation_moves_no_statistics_and_the_second_of_the_peer_does() -> None:
    mine, theirs = pair(torch.float32, normalised)
    moved = []
    for loss in (mine, theirs):
        counts = loss.qvalue_network_params.get(("module", "norm", "num_batches_tracked")).data
        before = counts.clone()
        loss.eval()
        for _ in range(2):
            loss(data_of(9))
        moved.append((counts - before).tolist())
    assert moved[0] == [0, 0]
    assert max(moved[1]) > 0


def test_the_value_loss_does_not_reach_the_policy_through_batch_statistics() -> None:
    loss = CrossQLoss(policy(), normalised(), target_entropy=-1.5)
    trained = gradients(loss, loss(data_of(9))["loss_qvalue"])
    assert {name.split(".")[0] for name in trained} == {"qvalue_network_params"}


def test_it_is_a_sac_without_targets() -> None:
    loss = CrossQLoss(policy(), action_value(), target_entropy=-1.5)
    assert loss.target_networks() == []
    for keyword in ("delay_actor", "delay_qvalue"):
        with pytest.raises(TypeError, match=keyword):
            CrossQLoss(policy(), action_value(), **{keyword: True})


def test_one_sample_without_batch() -> None:
    loss = CrossQLoss(policy(), action_value(), target_entropy=-1.5)
    data = data_of(1)[0]
    torch.manual_seed(1)
    one = loss(data.clone())
    torch.manual_seed(1)
    torch.testing.assert_close(one["loss_qvalue"], loss(data.unsqueeze(0))["loss_qvalue"])
