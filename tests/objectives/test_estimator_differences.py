"""Where our value estimators mean to differ from TorchRL's: both are run, and who is right is computed."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime import objectives as ours
from specgen_runtime.objectives.value import functional as F
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from tests.objectives.nets import N_OBS, critic, policy, steps
from tests.objectives.steps import random_steps
from tests.objectives.test_estimators_against_torchrl import pair

peer = pytest.importorskip("torchrl.objectives.value")
pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:To copy construct:UserWarning"),
    pytest.mark.filterwarnings("ignore:std\\(\\)"),
]


def off(one: torch.Tensor, other: torch.Tensor) -> bool:
    return not torch.allclose(one, other, atol=1e-2, equal_nan=True)


def test_vtrace_weighs_the_action_in_the_data() -> None:
    """As in the paper; TorchRL weighs the action that the policy would choose now."""
    data = steps(3, 12)
    data["action"] = (data["action"] + 1) % 3
    mine, theirs = pair("VTrace")
    one, other = mine(data.clone()), theirs(data.clone())
    log_pi = policy().get_dist(data.clone()).log_prob(data["action"]).detach()
    after = data["next"]
    expected = F.vtrace_advantage_estimate(
        0.97,
        log_pi.unsqueeze(-1),
        data["action_log_prob"].unsqueeze(-1),
        one["state_value"],
        one["next", "state_value"],
        after["reward"],
        after["done"],
        after["terminated"],
    )
    torch.testing.assert_close(one["advantage"], expected[0])
    torch.testing.assert_close(one["value_target"], expected[1])
    assert off(other["advantage"], expected[0])


@pytest.mark.parametrize("name", ["TD0Estimator", "TD1Estimator", "TDLambdaEstimator"])
def test_average_rewards_leaves_the_data_alone(name: str) -> None:
    """TorchRL writes the standardised rewards back: a second call standardises another time."""
    mine, theirs = pair(name, average_rewards=True)
    one, other = 5 + steps(3, 8), 5 + steps(3, 8)
    for data in (one, other):
        for flag in ("done", "terminated"):
            data["next", flag] = steps(3, 8)["next", flag]
    reward = one["next", "reward"].clone()
    mine(one), theirs(other)
    torch.testing.assert_close(one["next", "reward"], reward)
    assert off(other["next", "reward"], reward)


def test_one_value_alone_is_standardised_to_zero() -> None:
    """TorchRL divides by the deviation of one value, which is not a number."""
    mine, theirs = pair("GAE", average_gae=True)
    assert mine(steps(1, 1))["advantage"].item() == 0
    assert theirs(steps(1, 1))["advantage"].isnan()


def test_hold_out_net_holds_all_and_gives_back_what_was() -> None:
    """TorchRL gives all parameters what the first one had, and holds none if that one is frozen."""
    peers = pytest.importorskip("torchrl.objectives")
    for hold, within, after in (
        (ours.hold_out_net, [False, False], [True, False]),
        (peers.hold_out_net, [False, False], [True, True]),
    ):
        network = nn.Linear(2, 2)
        network.bias.requires_grad_(False)
        with hold(network):
            assert [parameter.requires_grad for parameter in network.parameters()] == within
        assert [parameter.requires_grad for parameter in network.parameters()] == after
    for hold, within in ((ours.hold_out_net, [False, False]), (peers.hold_out_net, [False, True])):
        network = nn.Linear(2, 2)
        network.weight.requires_grad_(False)
        with hold(network):
            assert [parameter.requires_grad for parameter in network.parameters()] == within


def test_shifted_does_not_look_behind_a_terminal_state() -> None:
    """TorchRL takes the last step that has a place for truncated, even if it is terminal."""
    data = steps(1, 4)
    data["next", "terminated"][:] = torch.tensor([False, False, True, False]).view(1, 4, 1)
    data["next", "done"][:] = torch.tensor([True, False, True, False]).view(1, 4, 1)
    mine, theirs = pair("TD0Estimator", shifted=True)
    one, other = mine(data.clone()), theirs(data.clone())
    assert one["shifted_valid"].tolist() == other["shifted_valid"].tolist() == [[True, True, True, False]]
    assert one["value_target"][0, 2] == data["next", "reward"][0, 2]
    assert off(other["value_target"][0, 2], data["next", "reward"][0, 2])


def test_shifted_vtrace_standardises_what_is_valid() -> None:
    """TorchRL counts the others, too, and divides what is left by that."""
    data = steps(5, 12, contiguous=True)
    mine, theirs = pair("VTrace", shifted=True, average_adv=True)
    one, other = mine(data.clone()), theirs(data.clone())
    valid = one["shifted_valid"]
    assert one["advantage"][valid].mean().abs() < 1e-5
    assert other["advantage"][valid].mean().abs() > 1e-3


def test_keywords_do_not_take_features_for_time() -> None:
    """Observations that share a dimension with the rewards' trailing 1 make a batch of three to TorchRL."""
    network = TensorDictModule(nn.Linear(1, 1), in_keys=["observation"], out_keys=["state_value"])
    data = TensorDict(
        {
            "observation": torch.randn(2, 6, 1),
            "next": {"observation": torch.randn(2, 6, 1), **steps(2, 6)["next"].exclude("observation")},
        },
        [2, 6],
    )
    inputs = {
        "observation": data["observation"],
        "next_observation": data["next", "observation"],
        "next_reward": data["next", "reward"],
        "next_done": data["next", "done"],
        "next_terminated": data["next", "terminated"],
    }
    mine, theirs = pair("GAE", value_network=network)
    expected = mine(data.clone())["advantage"]
    torch.testing.assert_close(mine(**inputs)[0], expected)
    torch.testing.assert_close(theirs(data.clone())["advantage"], expected)
    assert off(theirs(**inputs)[0], expected)


def test_nothing_is_differentiated_without_gradients() -> None:
    """TorchRL switches gradients on in a block that switched them off."""
    made = []
    for estimator in pair("GAE", differentiable=True):
        data = steps(3, 8)
        data["next", "reward"].requires_grad_()
        with torch.no_grad():
            made.append(estimator(data)["advantage"].requires_grad)
    assert made == [False, True]


def test_a_value_estimate_uses_the_next_value_that_it_is_given() -> None:
    """TorchRL's GAE has the network compute it, and its V-trace has no estimate."""
    data, after = steps(3, 8), torch.full((3, 8, 1), 100.0)
    for name in ("GAE", "VTrace"):
        mine, theirs = pair(name)
        held = mine(data.clone())
        held["next", "state_value"] = after
        stored, _ = pair(name, value_network=None)
        expected = stored(held)["value_target"]
        torch.testing.assert_close(mine.value_estimate(data, next_value=after), expected)  # type: ignore[attr-defined]
        if name == "GAE":
            assert off(theirs.value_estimate(data.clone(), next_value=after), expected)  # type: ignore[attr-defined]
        else:
            with pytest.raises(NotImplementedError):
                theirs.value_estimate(data.clone(), next_value=after)  # type: ignore[attr-defined]


def test_flags_are_of_booleans() -> None:
    """The bitwise complement of an integer 1 is -2: TorchRL discounts by -2 * gamma, and says nothing."""
    value, after, reward, done, terminated = random_steps(3, 9, 1)
    flags = done.long(), terminated.long()
    theirs = peer.functional.generalized_advantage_estimate(0.9, 0.9, value, after, reward, *flags)[0]
    expected = F.generalized_advantage_estimate(0.9, 0.9, value, after, reward, done, terminated)[0]
    assert off(theirs, expected)
    with pytest.raises(RuntimeError, match=r"done must be a bool tensor, got torch\.int64"):
        F.generalized_advantage_estimate(0.9, 0.9, value, after, reward, *flags)


def test_not_a_number_behind_a_terminal_state_stays_there() -> None:
    """TorchRL multiplies it by zero, which is not a number."""
    _, after, reward, done, terminated = random_steps(3, 20, 1)
    spoilt = torch.where(terminated, torch.nan, after)
    ours = F.td_lambda_return_estimate(0.9, 0.8, spoilt, reward, done, terminated)
    torch.testing.assert_close(ours, F.td_lambda_return_estimate(0.9, 0.8, after, reward, done, terminated))
    assert peer.functional.td_lambda_return_estimate(0.9, 0.8, spoilt, reward, done, terminated).isnan().any()


@pytest.mark.parametrize("spoilt", [torch.nan, torch.inf])
@pytest.mark.parametrize("compiled", [False, True])
def test_not_a_number_stays_in_its_trajectory(spoilt: float, compiled: bool) -> None:
    """TorchRL's reaches the trajectories before it in its row; rows are apart in both."""
    value, after, reward, done, terminated = random_steps(3, 20, 1)
    done[1, 9] = terminated[1, 9] = True
    done[1, 10:16] = terminated[1, 10:16] = False
    reward[1, 15] = spoilt

    def estimate(reward: torch.Tensor) -> torch.Tensor:
        return F.generalized_advantage_estimate(0.9, 0.8, value, after, reward, done, terminated)[0]

    if compiled:
        torch._dynamo.reset()
        estimate = torch.compile(estimate, fullgraph=True, backend="aot_eager")
    own = torch.zeros_like(done)
    own[1, 10:16] = True
    got, clean = estimate(reward), estimate(reward.nan_to_num(0.0, 0.0))
    assert torch.equal(~got.isfinite(), own)
    torch.testing.assert_close(got[~own], clean[~own])
    flags = {"done": done, "terminated": terminated}
    theirs = peer.functional.generalized_advantage_estimate(0.9, 0.8, value, after, reward, **flags)[0]
    assert not theirs[1, :10].isfinite().any()
    assert theirs[[0, 2]].isfinite().all()


def test_not_a_number_has_no_gradient_elsewhere() -> None:
    value, after, reward, done, terminated = random_steps(3, 20, 1)
    reward[1, -1] = torch.nan
    gamma, value = torch.full((3, 20, 1), 0.9).requires_grad_(), value.requires_grad_()
    advantage, _ = F.generalized_advantage_estimate(gamma, 0.8, value, after, reward, done, terminated)
    advantage[[0, 2]].sum().backward()
    assert value.grad is not None
    assert gamma.grad is not None
    assert value.grad.isfinite().all()
    assert gamma.grad[[0, 2]].isfinite().all()


def test_discounts_are_within_their_range() -> None:
    peer.GAE(gamma=-1.0, lmbda=5.0, value_network=None)
    for options in ({"gamma": -1.0}, {"lmbda": 5.0}, {"gamma": torch.tensor([0.5, 1.5])}):
        with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
            ours.GAE(**{"gamma": 0.9, "lmbda": 0.9, **options})  # type: ignore[arg-type]


def test_the_policy_of_vtrace_is_not_in_its_state() -> None:
    """TorchRL's holds the policy's parameters: a loss with it trains and saves them twice."""
    mine, theirs = pair("VTrace")
    assert list(mine.parameters()) == []  # type: ignore[attr-defined]
    assert len(list(theirs.parameters())) == 2  # type: ignore[attr-defined]


def test_the_network_given_is_left_as_it_is() -> None:
    network = critic()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    mine, _ = pair("GAE", value_network=network)
    mine(steps(3, 8), params=TensorDict.from_module(critic(seed=3)))
    for key, value in network.state_dict().items():
        torch.testing.assert_close(value, before[key])
    assert network(TensorDict({"observation": torch.zeros(2, N_OBS)}, [2]))["state_value"].requires_grad
