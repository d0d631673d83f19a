"""The generated `REDQLoss`: against TorchRL's on the same draws, and its contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import chosen_members
from specgen_std.losses.redq import REDQLoss
from specgen_std.losses.sac import SACLoss
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.objectives.peers import (
    action_value,
    assert_equal,
    batch,
    gradients,
    policy,
    with_equal_parameters,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

TERMS = ("loss_actor", "loss_qvalue", "loss_alpha")
OUTPUTS = (*TERMS, "alpha", "entropy", "state_action_value_actor", "action_log_prob_actor", "target_value")

OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_qvalue_nets": 3, "sub_sample_len": 1},
    {"num_qvalue_nets": 5, "sub_sample_len": 4},
    {"alpha_init": 0.5, "fixed_alpha": True},
    {"alpha_init": 0.05},
    {"alpha_init": 30.0},
    {"loss_function": "l2"},
    {"loss_function": "l1", "delay_qvalue": False},
    {"separate_losses": True},
]


def names(one: dict[str, Any]) -> str:
    return "-".join(f"{name}={value}" for name, value in one.items()) or "default"


@pytest.fixture
def _same_draws() -> Iterator[None]:
    """The peer draws the members first, then the noise of both records at once: here each has its own numbers."""
    drawn = 0

    randn = torch.randn

    def noise(*sizes: Any, **given: Any) -> Tensor:
        nonlocal drawn
        if "generator" in given or isinstance(sizes[0], int):
            return randn(*sizes, **given)
        shape, dtype = sizes[0], given["dtype"]

        def of(seed: int, *size: int) -> Tensor:
            made = randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            return made.to(dtype)

        if len(shape) == 3:
            return torch.stack([of(1, *shape[1:]), of(2, *shape[1:])])  # of now, and of next
        drawn += 1
        return of(2 if drawn % 2 else 1, *shape)

    def permutation(n: int, **_: Any) -> Tensor:
        return torch.arange(n).flip(0).roll(2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "randn", noise)
        patch.setattr(torch, "randperm", permutation)
        yield


def loss_of(**given: Any) -> REDQLoss:
    return REDQLoss(policy(), action_value(), **{"target_entropy": -1.5, "num_qvalue_nets": 4, **given})


@pytest.mark.peers
@pytest.mark.usefixtures("_same_draws")
@pytest.mark.parametrize("options", OPTIONS, ids=names)
@pytest.mark.parametrize("size", [17, 2])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
def test_equals_torchrl(options: dict[str, Any], size: int, dtype: torch.dtype, tolerance: float) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    given = {"target_entropy": -1.5, **options}
    mine = REDQLoss(policy(dtype), action_value(dtype), **given)
    theirs = objectives.REDQLoss(policy(dtype), action_value(dtype), **given)
    with_equal_parameters(mine, theirs)
    terms = [term for term in TERMS if term != "loss_alpha" or not options.get("fixed_alpha")]

    def data() -> Any:
        return batch(size, dtype=dtype).exclude("priority_weight")

    assert_equal(mine, theirs, data, outputs=OUTPUTS, terms=terms, tolerance=tolerance)
    torch.testing.assert_close(
        mine(data())["next_state_value"], theirs(data())["next.state_value"], rtol=tolerance, atol=tolerance
    )


@pytest.mark.peers
def test_a_batch_of_one_keeps_its_dimension_and_loses_it_in_the_peer() -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    theirs = objectives.REDQLoss(policy(), action_value(), target_entropy=-1.5, num_qvalue_nets=4)
    data = batch(1).exclude("priority_weight")
    assert loss_of()(data.clone())["action_log_prob_actor"].shape == (1,)
    assert theirs(data.clone())["action_log_prob_actor"].shape == ()


@pytest.mark.peers
@pytest.mark.usefixtures("_same_draws")
def test_a_sum_counts_each_sample_once_and_the_peers_each_member() -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    given = {"target_entropy": -1.5, "num_qvalue_nets": 4, "reduction": "sum"}
    mine = REDQLoss(policy(torch.float64), action_value(torch.float64), **given)
    theirs = objectives.REDQLoss(policy(torch.float64), action_value(torch.float64), **given)
    with_equal_parameters(mine, theirs)
    data = batch(5, dtype=torch.float64).exclude("priority_weight")
    got, other = mine(data.clone()), theirs(data.clone())
    torch.testing.assert_close(4 * got["loss_qvalue"], other["loss_qvalue"])
    torch.testing.assert_close(4 * got["loss_actor"], other["loss_actor"])
    torch.testing.assert_close(2 * got["loss_alpha"], other["loss_alpha"])


def test_the_members_are_drawn_without_replacement_in_their_order() -> None:
    values = torch.arange(4.0)[:, None].expand(4, 3)
    torch.manual_seed(0)
    pairs = [tuple(chosen_members(values, 2)[:, 0].tolist()) for _ in range(200)]
    assert set(pairs) == {(a, b) for a in range(4) for b in range(a + 1, 4)}
    assert max(map(pairs.count, set(pairs))) < 60
    with pytest.raises(ValueError, match="5 members can't be chosen of 4"):
        chosen_members(values, 5)


class Counted(nn.Module):
    """The value of an action, of layers that can't be multiplied at once."""

    runs = 0

    def __init__(self) -> None:
        super().__init__()
        self.net = action_value().module

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        type(self).runs += 1
        return self.net(observation, action).contiguous()


def test_members_that_are_not_drawn_are_not_run() -> None:
    """And what is drawn does not depend on how members are called: together, one by one, or under `torch.vmap`."""
    found = []
    for critic, apart in (
        (action_value(), False),
        (action_value(), True),
        (Counted(), True),
        (Counted(), False),
    ):
        torch.manual_seed(6)
        network = (
            critic
            if isinstance(critic, TensorDictModule)
            else TensorDictModule(critic, ["observation", "action"], ["state_action_value"])
        )
        loss = REDQLoss(
            policy(), network, num_qvalue_nets=7, sub_sample_len=3, target_entropy=-1.0, deactivate_vmap=apart
        )
        generator = torch.Generator().manual_seed(2)
        for name in ("qvalue_network_params", "target_qvalue_network_params"):
            for _, value in sorted(getattr(loss, name).flatten_keys(".").items(), key=lambda one: one[0]):
                value.data.copy_(torch.randn(value.shape, generator=generator))
        Counted.runs = 0
        torch.manual_seed(3)
        found.append(loss(batch(6).exclude("priority_weight"))["target_value"])
        if isinstance(critic, Counted) and apart:
            assert Counted.runs == 1 + 3 + 7 + 7, "once to see that they can't be multiplied"
    for other in found[1:]:
        torch.testing.assert_close(other, found[0])


def test_draws_come_from_the_generator() -> None:
    loss, data = loss_of(), batch(6).exclude("priority_weight")
    loss.generator = torch.Generator().manual_seed(3)
    state = torch.get_rng_state()
    first, second = (loss(data.clone())["target_value"] for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    loss.generator.manual_seed(3)
    assert torch.equal(loss(data.clone())["target_value"], first)
    assert not torch.equal(first, second)


def test_bounds_of_the_temperature_are_read_through() -> None:
    """It is read between its bounds, and keeps its value and its gradient outside of them."""
    loss = loss_of(alpha_init=30.0)
    out = loss(batch(6))
    torch.testing.assert_close(out["alpha"], torch.tensor(10.0))
    torch.testing.assert_close(loss.log_alpha.exp(), torch.tensor(30.0))
    assert "log_alpha" in gradients(loss, out["loss_alpha"])


@pytest.mark.parametrize("given", [{"sub_sample_len": 11}, {"num_qvalue_nets": 2, "sub_sample_len": 3}])
def test_no_more_members_are_drawn_than_there_are(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="sub_sample_len <= num_qvalue_nets"):
        loss_of(**given)


@pytest.mark.peers
@pytest.mark.parametrize("members", [1, 2, 5])
def test_all_members_can_be_drawn_and_one_less_in_the_peer(members: int) -> None:
    """Chen et al. 2021, algorithm 1: M of N indices, which may be all of them."""
    objectives = pytest.importorskip("torchrl.objectives")
    torch.manual_seed(0)
    networks = {"actor_network": policy(), "qvalue_network": action_value()}
    loss = REDQLoss(**networks, num_qvalue_nets=members, sub_sample_len=members, target_entropy=-1.5)
    data = batch(6)
    drawn: list[Tensor] = []
    choose = torch.Tensor.index_select

    def seen(self: Tensor, dim: int, index: Tensor) -> Tensor:
        drawn.append(index)
        return choose(self, dim, index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "index_select", seen)
        value = loss(data.clone())["next_state_value"]
    assert {tuple(index.tolist()) for index in drawn} == {tuple(range(members))}
    assert value.shape == (6,)
    theirs = objectives.REDQLoss(
        **networks, num_qvalue_nets=members, sub_sample_len=members, target_entropy=-1.5
    )
    assert theirs.sub_sample_len == max(1, members - 1)


def test_it_is_a_sac_without_a_target_of_the_policy_and_without_a_value_network() -> None:
    loss = loss_of()
    assert set(SACLoss.out_keys) - {"loss_value"} <= set(loss.out_keys)
    assert not hasattr(loss, "value_network")
    assert set(loss.target_networks()) == {"qvalue_network"}
    assert loss.state_dict()["target_entropy_buffer"].item() == -1.5
