"""Losses with ensembles: each member's values, against the members one by one."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import SoftUpdate
from specgen_std.losses import SACLoss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.objectives import peers
from tests.objectives.peers import ActionValue
from tests.objectives.test_ddpg import N_OBS, Value, batch, networks
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
losses:
  TwinLoss:
    networks:
      actor_network: {in: [observation], out: {action: "float32[a]"}, target: true}
      qvalue_network:
        in: [observation, action]
        out: {state_action_value: "float32[1]"}
        ensemble: num_qvalue_nets
        target: true
    keys: {action: action, reward: reward, terminated: terminated, done: done, priority: td_error}
    params: {num_qvalue_nets: {default: 2, min: 1}}
    value_estimator: {default: td0, value: next_value}
    let:
      next_q: qvalue_network.target(next, action=actor_network.target(next))
      next_value: min(next_q, axis=ensemble)
      goal: stop_grad(value_estimate(next_value))
      q: qvalue_network(now)
    terms:
      loss_actor: -mean(qvalue_network.frozen(now, action=actor_network(now)), axis=ensemble)
      loss_qvalue: sum(distance(q, goal, smooth_l1), axis=ensemble)
    metrics:
      pred_value: {each: q}
      spread: max(q, axis=ensemble) - min(q, axis=ensemble)
      best: {each: "argmax(q, axis=ensemble)"}
    writes:
      priority: max((q - goal)**2, axis=ensemble)
  ClassesLoss:
    networks:
      value_network:
        {qvalue: action, in: [observation], out: {action_value: "float32[n]"}, ensemble: members}
    keys: {action: action, reward: reward}
    params: {members: {default: 3, min: 1}}
    terms:
      loss: mean((gather(value_network(now), action) - reward)**2, axis=ensemble)
  ActorFirstLoss:
    networks:
      actor_network: {in: [observation], out: {action: "float32[a]"}}
      qvalue_network:
        in: [observation, action]
        out: {state_action_value: "float32[1]"}
        ensemble: members
        apart: true
    keys: {action: action}
    params: {members: {default: 2, min: 1}}
    let:
      q: qvalue_network(now)
      q_of_policy: qvalue_network.frozen(now, action=actor_network(now))
    terms:
      loss_qvalue: sum(q**2, axis=ensemble)
      loss_actor: -mean(q_of_policy, axis=ensemble)
  CriticsFirstLoss:
    networks:
      qvalue_network: {in: [observation, action], out: {state_action_value: "float32[1]"}, ensemble: members}
      actor_network: {in: [observation], out: {action: "float32[a]"}, apart: true}
    keys: {action: action}
    params: {members: {default: 2, min: 1}}
    let:
      q: qvalue_network(now)
      q_of_policy: qvalue_network.frozen(now, action=actor_network(now))
    terms:
      loss_qvalue: sum(q**2, axis=ensemble)
      loss_actor: -mean(q_of_policy, axis=ensemble)
"""
PACKAGE = "ensembles_made"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(
        generate({"twin.yaml": SCHEMA}, PACKAGE), PACKAGE, tmp_path_factory.mktemp("made")
    ) as module:
        yield module


def critics(count: int) -> list[TensorDictModule]:
    torch.manual_seed(3)
    trunks = [nn.Sequential(nn.Linear(N_OBS, 8), nn.Tanh()) for _ in range(count)]
    return [
        TensorDictModule(Value(trunk), in_keys=["observation", "action"], out_keys=["state_action_value"])
        for trunk in trunks
    ]


def values(modules: list[TensorDictModule], record: TensorDict, action: Tensor) -> Tensor:
    """[member, *batch]"""
    given = record.select("observation").set("action", action)
    return torch.stack([module(given.clone())["state_action_value"].squeeze(-1) for module in modules])


@pytest.mark.parametrize("shape", [(5,), (4, 3), (1,)])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_members_one_by_one(made: ModuleType, shape: tuple[int, ...], count: int) -> None:
    policy, modules = networks()[0], critics(count)
    loss = made.TwinLoss(policy, modules, num_qvalue_nets=count)
    SoftUpdate(loss, tau=0.5)
    data = batch(*shape)
    terms = loss(data)
    following = data["next"]
    action = policy(following.select("observation"))["action"]
    least = values(modules, following, action).amin(0)
    goal = (following["reward"].squeeze(-1) + 0.99 * least * ~following["terminated"].squeeze(-1)).detach()
    q = values(modules, data, data["action"])
    new = values(modules, data, policy(data.select("observation"))["action"])
    smooth = nn.functional.smooth_l1_loss(q, goal.expand_as(q), reduction="none")
    expected = {
        "loss_actor": -new.mean(0).mean(),
        "loss_qvalue": smooth.sum(0).mean(),
        "pred_value": q,
        "spread": (q.amax(0) - q.amin(0)).mean(),
        "best": q.argmax(0),
    }
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value, msg=name)
    torch.testing.assert_close(data["td_error"], ((q - goal) ** 2).amax(0).unsqueeze(-1))
    terms["loss_qvalue"].backward()
    smooth.sum(0).mean().backward()
    for index, module in enumerate(modules):
        for name, parameter in module.named_parameters():
            gradient = loss.qvalue_network_params.get(tuple(name.split("."))).grad
            torch.testing.assert_close(gradient[index], parameter.grad, msg=name)


def test_one_module_makes_members_of_their_own(made: ModuleType) -> None:
    loss = made.TwinLoss(networks()[0], critics(1)[0], num_qvalue_nets=4)
    SoftUpdate(loss, tau=0.5)
    predicted = loss(batch(6))["pred_value"]
    assert predicted.shape == (4, 6)
    assert (predicted[0] != predicted[1]).all()


def test_the_action_of_every_member(made: ModuleType) -> None:
    """A class is chosen among the values of each member."""
    torch.manual_seed(0)
    modules = [nn.Linear(N_OBS, 3) for _ in range(2)]
    wrapped: list[Any] = [
        TensorDictModule(module, in_keys=["observation"], out_keys=["action_value"]) for module in modules
    ]
    loss = made.ClassesLoss(wrapped, members=2, action_space="categorical")
    data = batch(4, 3)
    data["action"] = torch.randint(3, (4, 3))
    chosen = [module(data["observation"]).gather(-1, data["action"].unsqueeze(-1)) for module in modules]
    expected = torch.stack([(one - data["next", "reward"]) ** 2 for one in chosen]).mean()
    torch.testing.assert_close(loss(data)["loss"], expected)


@pytest.mark.parametrize("count", [3, 1])
def test_another_number_of_modules(made: ModuleType, count: int) -> None:
    with pytest.raises(RuntimeError, match=f"qvalue_network: {count} modules were given, and expand_dim=2"):
        made.TwinLoss(networks()[0], critics(count))


@pytest.mark.parametrize("first", ["ActorFirstLoss", "CriticsFirstLoss"])
@pytest.mark.parametrize("count", [1, 2])
def test_what_members_share_with_another_network_is_trained_by_the_first_alone(
    made: ModuleType, first: str, count: int
) -> None:
    torch.manual_seed(0)
    trunk = nn.Linear(N_OBS, 8)
    actor = TensorDictModule(
        nn.Sequential(trunk, nn.Linear(8, 2)), in_keys=["observation"], out_keys=["action"]
    )
    members = [
        TensorDictModule(Value(trunk), in_keys=["observation", "action"], out_keys=["state_action_value"])
        for _ in range(count)
    ]
    both = (actor, members) if first == "ActorFirstLoss" else (members, actor)
    loss = getattr(made, first)(*both, members=count)
    # One member alone is a copy, which shares nothing: then the policy trains what was shared.
    trained = {"ActorFirstLoss": {"loss_actor"}, "CriticsFirstLoss": {"loss_qvalue"}}[first]
    trained = {"loss_actor"} if count == 1 else trained
    for term in ("loss_actor", "loss_qvalue"):
        trunk.zero_grad()
        loss(batch(5))[term].backward()
        assert (trunk.weight.grad is not None) == (term in trained)
    loss.double()
    with torch.no_grad():
        loss.actor_network_params["module", "0", "weight"].add_(1)
    if first == "ActorFirstLoss":
        shown = loss.qvalue_network_params["module", "trunk", "weight"][-1]
        assert torch.equal(shown, loss.actor_network_params["module", "0", "weight"])


def test_a_loss_that_reads_no_key_of_its_own_leaves_no_name_unused() -> None:
    """Strict pyright refuses a local that nobody reads."""
    schema = """\
specgen: 1
losses:
  SmallLoss:
    networks: {policy: {in: [observation], out: {action: "float32[a]"}}}
    terms: {loss: "sum(policy(now)**2, axis=-1)"}
"""
    text = generate({"small.yaml": schema}, "small_made")["small.py"]
    assert text.count("keys = self.tensor_keys") == 1
    assert "def in_keys" not in text


class Branching(ActionValue):
    """A critic whose Python reads a number of a tensor, which `torch.vmap` can't do; its buffer keeps members from being called apart."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        value = super().forward(observation, action)
        return value * self.scale if value.sum().item() > 0 else value


@pytest.mark.filterwarnings("ignore:No target network updater")
def test_members_that_vmap_cannot_run_are_called_one_after_another() -> None:
    torch.manual_seed(0)
    critics = [
        TensorDictModule(Branching(), in_keys=["observation", "action"], out_keys=["state_action_value"])
        for _ in range(5)
    ]
    data = peers.batch(7).exclude("priority_weight")
    refused = SACLoss(peers.policy(), critics, num_qvalue_nets=5, target_entropy=-1.0)
    with pytest.raises(RuntimeError, match="vmap"):
        refused(data.clone())
    loss = SACLoss(
        peers.policy(),
        critics,
        num_qvalue_nets=5,
        target_entropy=-1.0,
        deactivate_vmap=True,
        reduction="none",
    )
    assert loss.deactivate_vmap
    assert not refused.deactivate_vmap
    out = loss(data.clone())
    found = loss.functional_network("qvalue_network").live(data, "state_action_value")
    members, one_by_one = loss.qvalue_network_params.data.unbind(0), []
    for parameters in members:
        with parameters.to_module(critics[0]):
            one_by_one.append(critics[0](data.clone())["state_action_value"])
    torch.testing.assert_close(found, torch.stack(one_by_one))
    out["loss_qvalue"].sum().backward()
    assert all(p.grad is not None for p in loss.qvalue_network_params.parameters())
