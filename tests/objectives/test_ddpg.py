"""The generated `DDPGLoss`: against TorchRL's, by hand, and its contract."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import SoftUpdate
from specgen_std.losses.ddpg import DDPGLoss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

N_OBS, N_ACT = 4, 2
CONFIGURATIONS = [
    {"delay_actor": actor, "delay_value": value, "loss_function": distance, "separate_losses": apart}
    for actor, value, distance, apart in itertools.product(
        (True, False), (True, False), ("l1", "l2", "smooth_l1"), (True, False)
    )
]


class Value(nn.Module):
    """The value of an action; `trunk` may be shared with the policy."""

    def __init__(self, trunk: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Sequential(nn.Linear(8 + N_ACT, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        return self.head(torch.cat([self.trunk(observation), action], -1))


def networks(seed: int = 0, *, shared: bool = False) -> tuple[TensorDictModule, TensorDictModule]:
    torch.manual_seed(seed)
    trunk = nn.Sequential(nn.Linear(N_OBS, 8), nn.Tanh())
    policy = nn.Sequential(trunk, nn.Linear(8, N_ACT), nn.Tanh())
    other = trunk if shared else nn.Sequential(nn.Linear(N_OBS, 8), nn.Tanh())
    return (
        TensorDictModule(policy, in_keys=["observation"], out_keys=["action"]),
        TensorDictModule(Value(other), in_keys=["observation", "action"], out_keys=["state_action_value"]),
    )


def batch(*shape: int, seed: int = 1) -> TensorDict:
    generator = torch.Generator().manual_seed(seed)
    terminated = torch.rand(*shape, 1, generator=generator) < 0.4
    return TensorDict(
        {
            "observation": torch.randn(*shape, N_OBS, generator=generator),
            "action": 2 * torch.rand(*shape, N_ACT, generator=generator) - 1,
            "next": {
                "observation": torch.randn(*shape, N_OBS, generator=generator),
                "reward": 3 * torch.randn(*shape, 1, generator=generator),
                "done": terminated | (torch.rand(*shape, 1, generator=generator) < 0.3),
                "terminated": terminated,
            },
        },
        shape,
    )


def pair(configuration: dict[str, Any], *, shared: bool = False, **further: Any) -> tuple[DDPGLoss, Any]:
    """The two losses over equal networks, with target networks that differ from them."""
    objectives = pytest.importorskip("torchrl.objectives")
    mine = DDPGLoss(*networks(shared=shared), **configuration, **further)
    theirs = objectives.DDPGLoss(*networks(shared=shared), **configuration, **further)
    for name in mine.target_networks():
        generator = torch.Generator().manual_seed(7)
        for key, parameter in mine._modules[f"target_{name}_params"].items(True, True):  # type: ignore[union-attr,operator]
            value = torch.randn(parameter.shape, generator=generator)
            parameter.data.copy_(value)
            getattr(theirs, f"target_{name}_params").data.get(key).copy_(value)
    return mine, theirs


def gradients(loss: Any, total: Tensor) -> dict[str, Tensor]:
    loss.zero_grad()
    total.backward()
    return {
        name: p.grad.clone() for name, p in loss.named_parameters() if p.grad is not None and p.grad.any()
    }


@pytest.mark.peers
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda one: "-".join(map(str, one.values())))
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize("shared", [False, True])
def test_equals_torchrl(configuration: dict[str, Any], shape: tuple[int, ...], shared: bool) -> None:
    mine, theirs = pair(configuration, shared=shared)
    data, other = batch(*shape), batch(*shape)
    ours, reference = mine(data), theirs(other)
    terms, each = ["loss_actor", "loss_value"], ["td_error", "pred_value", "target_value"]
    if shared and configuration["delay_actor"] != configuration["delay_value"]:
        # see test_targets_of_shared_layers: the target differs, and all that is computed from it
        terms, each = ["loss_actor"], ["pred_value"]
    else:
        torch.testing.assert_close(data["td_error"].squeeze(-1), other["td_error"])
    for term in each:
        assert ours[term].shape == shape
        torch.testing.assert_close(ours[term], reference[term], msg=term)
    for term in terms:
        torch.testing.assert_close(ours[term], reference[term], msg=term)
        got = gradients(mine, mine(batch(*shape))[term])
        wanted = gradients(theirs, theirs(batch(*shape))[term])
        assert got.keys() == wanted.keys(), term
        for name, gradient in got.items():
            torch.testing.assert_close(gradient, wanted[name], msg=f"{term}: {name}")


@pytest.mark.peers
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("TD0", {"gamma": 0.9}),
        ("TD1", {"gamma": 0.9}),
        ("TDLambda", {"gamma": 0.9, "lmbda": 0.8}),
    ],
)
def test_value_estimators(name: str, given: dict[str, float]) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    mine, theirs = pair({})
    mine.make_value_estimator(name, **given)
    theirs.make_value_estimator(getattr(objectives.ValueEstimators, name), **given)
    data, other = batch(4, 9), batch(4, 9)
    data["next", "done"][:, -1] = other["next", "done"][:, -1] = True
    got, wanted = mine(data), theirs(other)
    for entry in ("target_value", "loss_value", "loss_actor"):
        torch.testing.assert_close(got[entry], wanted[entry], msg=entry)


@pytest.mark.peers
def test_outputs() -> None:
    mine, theirs = pair({})
    got, wanted = mine(batch(3)), theirs(batch(3))
    assert set(got.keys()) == set(wanted.keys()) == set(mine.out_keys)
    for name in ("pred_value_max", "target_value_max"):
        torch.testing.assert_close(got[name], wanted[name])


@pytest.mark.peers
def test_targets_of_shared_layers() -> None:
    """A layer that both networks have is the policy's target in the policy, and the trained one in the other."""
    mine, theirs = pair({"delay_actor": True, "delay_value": False}, shared=True)
    data = batch(6)
    following = data["next"]
    policy = mine.get_stateful_net("actor_network")
    for key, value in mine.target_actor_network_params.items(True, True):
        dict(policy.named_parameters())[".".join(key)].data.copy_(value)
    action = policy(following.select("observation"))["action"]
    value = mine.get_stateful_net("value_network")(following.select("observation").set("action", action))
    goal = following["reward"] + 0.99 * value["state_action_value"] * ~following["terminated"]
    torch.testing.assert_close(mine(data)["target_value"], goal.squeeze(-1))
    assert not torch.allclose(theirs(batch(6))["target_value"], goal.squeeze(-1))


def test_the_data_are_not_changed_but_for_the_priority() -> None:
    loss = DDPGLoss(*networks())
    data = batch(5)
    before = data.clone()
    loss(data)
    assert set(data.keys(True, True)) == {*before.keys(True, True), "td_error"}
    assert all((data[key] == before[key]).all() for key in before.keys(True, True))


def test_renamed_keys_reach_the_networks() -> None:
    policy, value = networks()
    renamed = DDPGLoss(
        TensorDictModule(policy.module, in_keys=["obs"], out_keys=["u"]),
        TensorDictModule(value.module, in_keys=["obs", "u"], out_keys=["q"]),
    )
    renamed.set_keys(action="u", state_action_value="q", reward="r")
    data = batch(5)
    other = data.clone().rename_key_("observation", "obs").rename_key_("action", "u")
    other["next"].rename_key_("observation", "obs").rename_key_("reward", "r")
    expected, got = DDPGLoss(policy, value)(data), renamed(other)
    for name in sorted(expected.keys()):
        torch.testing.assert_close(got[name], expected[name])


def test_a_value_network_that_does_not_read_the_action() -> None:
    policy, _ = networks()
    state_value = TensorDictModule(
        nn.Linear(N_OBS, 1), in_keys=["observation"], out_keys=["state_action_value"]
    )
    with pytest.raises(KeyError, match="value_network is to read 'action' as the loss computes it"):
        DDPGLoss(policy, state_value)(batch(5))


def test_it_learns() -> None:
    """A policy finds the action whose reward is greatest."""
    torch.manual_seed(0)
    loss = DDPGLoss(*networks(), delay_actor=True)
    updater = SoftUpdate(loss, tau=0.05)
    optimizer = torch.optim.Adam(
        [
            {"params": loss.actor_network_params.parameters(), "lr": 3e-3},
            {"params": loss.value_network_params.parameters(), "lr": 3e-2},
        ]
    )
    for step in range(800):
        data = batch(64, seed=step)
        data["next", "reward"] = -(data["action"] - 0.4).square().sum(-1, keepdim=True)
        data["next", "terminated"] = torch.ones_like(data["next", "terminated"])
        terms = loss(data)
        (terms["loss_actor"] + terms["loss_value"]).backward()
        optimizer.step()
        optimizer.zero_grad()
        updater.step()
    actions = loss.get_stateful_net("actor_network")(batch(64, seed=-1))["action"]
    torch.testing.assert_close(actions, torch.full_like(actions, 0.4), atol=0.2, rtol=0)
