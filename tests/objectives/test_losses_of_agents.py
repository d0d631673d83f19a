"""Losses over values of actions, on groups of agents: each agent is a sample, as in data of one agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.modules import (
    MLP,
    DistributionalQValueActor,
    MultiAgentMLP,
    NormalParamExtractor,
    ProbabilisticActor,
    QuantileQValueActor,
    QValueActor,
    SafeModule,
    TanhNormal,
    ValueOperator,
)
from specgen_runtime.modules.distributions import Categorical
from specgen_runtime.objectives import LossModule
from specgen_runtime.specs import Bounded, Composite
from specgen_runtime.typing import NestedKey
from specgen_std.losses.cql import CQLLoss, DiscreteCQLLoss
from specgen_std.losses.crossq import CrossQLoss
from specgen_std.losses.ddpg import DDPGLoss
from specgen_std.losses.dqn import BranchingDQNLoss, DistributionalDQNLoss, DQNLoss, QRDQNLoss
from specgen_std.losses.iql import IQLLoss
from specgen_std.losses.redq import REDQLoss
from specgen_std.losses.sac import DiscreteSACLoss, SACLoss
from specgen_std.losses.td3 import TD3BCLoss, TD3Loss
from specgen_std.losses.tqc import TQCLoss
from tensordict import TensorDict, TensorDictBase
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*")

ROWS, AGENTS, ACTIONS = 6, 3, 5
CHOICES = (2, 5, 3)
Place = Callable[[str], NestedKey]


def in_group(name: str) -> NestedKey:
    """The key of an entry of the group."""
    return ("agents", name)


def at_root(name: str) -> NestedKey:
    """The key of the same entry of one agent."""
    return name


def net(inputs: int, outputs: int) -> nn.Module:
    return MLP(in_features=inputs, out_features=outputs, num_cells=[8])


def certain(at: Place) -> nn.Module:
    return SafeModule(
        nn.Sequential(net(4, 2), nn.Tanh()), in_keys=[at("observation")], out_keys=[at("action")]
    )


def drawing(at: Place) -> nn.Module:
    module = SafeModule(
        nn.Sequential(net(4, 4), NormalParamExtractor()),
        in_keys=[at("observation")],
        out_keys=[at("loc"), at("scale")],
    )
    return ProbabilisticActor(
        module, in_keys=[at("loc"), at("scale")], out_keys=[at("action")], distribution_class=TanhNormal
    )


def choosing(at: Place) -> nn.Module:
    module = SafeModule(net(4, ACTIONS), in_keys=[at("observation")], out_keys=[at("logits")])
    return ProbabilisticActor(
        module, in_keys=[at("logits")], out_keys=[at("action")], distribution_class=Categorical
    )


def value(at: Place) -> nn.Module:
    return ValueOperator(net(4, 1), in_keys=[at("observation")], out_keys=[at("state_value")])


def of_action(at: Place) -> nn.Module:
    keys = [at("observation"), at("action")]
    return ValueOperator(net(6, 1), in_keys=keys, out_keys=[at("state_action_value")])


def of_actions(at: Place) -> nn.Module:
    return ValueOperator(net(4, ACTIONS), in_keys=[at("observation")], out_keys=[at("action_value")])


def greedy(at: Place) -> nn.Module:
    return QValueActor(
        net(4, ACTIONS),
        in_keys=[at("observation")],
        action_space="categorical",
        action_key=at("action"),
        action_value_key=at("action_value"),
        chosen_action_value_key=at("chosen_action_value"),
    )


def values_of_choices(at: Place, module: nn.Module) -> nn.Module:
    return QValueActor(
        module,
        in_keys=[at("observation")],
        action_space="multi-categorical",
        var_nums=CHOICES,
        action_key=at("action"),
        action_value_key=at("action_value"),
        chosen_action_value_key=at("chosen_action_value"),
    )


def atoms(at: Place, module: nn.Module) -> nn.Module:
    return DistributionalQValueActor(
        module,
        in_keys=[at("observation")],
        action_space="categorical",
        action_key=at("action"),
        action_value_key=at("action_value"),
        support=torch.linspace(-3, 3, 7),
    )


def quantiles(at: Place, module: nn.Module) -> nn.Module:
    return QuantileQValueActor(
        module,
        in_keys=[at("observation")],
        action_space="categorical",
        action_key=at("action"),
        action_value_key=at("action_value"),
    )


def of_each_action() -> nn.Module:
    """Seven numbers of the value of each action."""
    return MLP(in_features=4, out_features=(7, ACTIONS), num_cells=[8])


OF_OWN: dict[str, tuple[Any, Callable[[Place, nn.Module], nn.Module]]] = {
    "BranchingDQN": (BranchingDQNLoss, values_of_choices),
    "DistributionalDQN": (DistributionalDQNLoss, atoms),
    "QRDQN": (QRDQNLoss, quantiles),
}
"""Losses, and what makes actors of their networks."""


def quantiles_of_action(at: Place) -> nn.Module:
    keys = [at("observation"), at("action")]
    return ValueOperator(net(6, 7), in_keys=keys, out_keys=[at("state_action_value")])


LOSSES: dict[str, Callable[[Place], LossModule]] = {
    "DQN": lambda at: DQNLoss(greedy(at), double_dqn=True),
    "BranchingDQN": lambda at: BranchingDQNLoss(values_of_choices(at, net(4, sum(CHOICES)))),
    "DistributionalDQN": lambda at: DistributionalDQNLoss(atoms(at, of_each_action())),
    "QRDQN": lambda at: QRDQNLoss(quantiles(at, of_each_action()), double_dqn=True),
    "TQC": lambda at: TQCLoss(drawing(at), quantiles_of_action(at), target_entropy=-2.0),
    "DiscreteCQL": lambda at: DiscreteCQLLoss(greedy(at)),
    "DiscreteSAC": lambda at: DiscreteSACLoss(
        choosing(at), of_actions(at), num_actions=ACTIONS, action_space="categorical"
    ),
    "DDPG": lambda at: DDPGLoss(certain(at), of_action(at)),
    "TD3": lambda at: TD3Loss(certain(at), of_action(at), bounds=(-1, 1)),
    "TD3BC": lambda at: TD3BCLoss(certain(at), of_action(at), bounds=(-1, 1)),
    "SAC": lambda at: SACLoss(drawing(at), of_action(at), target_entropy=-2.0),
    "SAC with values": lambda at: SACLoss(drawing(at), of_action(at), value(at), target_entropy=-2.0),
    "REDQ": lambda at: REDQLoss(drawing(at), of_action(at), target_entropy=-2.0),
    "CrossQ": lambda at: CrossQLoss(drawing(at), of_action(at), target_entropy=-2.0),
    "CQL": lambda at: CQLLoss(
        drawing(at), of_action(at), target_entropy=-2.0, action_spec=Bounded(-1, 1, (2,))
    ),
    "IQL": lambda at: IQLLoss(drawing(at), of_action(at), value(at)),
}
DISCRETE = ("DQN", "DistributionalDQN", "QRDQN", "DiscreteCQL", "DiscreteSAC")


def with_keys(loss: LossModule, *, of_team: bool = False) -> LossModule:
    """The loss with all of its keys in the group; signals of the team stay at the root."""
    defaults = vars(type(loss)._AcceptedKeys())
    signals = ("reward", "done", "terminated") if of_team else ()
    loss.set_keys(**{role: in_group(key) for role, key in defaults.items() if role not in signals})
    return loss


def data_of_agents(name: str, *, of_team: bool = False) -> TensorDictBase:
    """`[ROWS]` steps of a group."""
    size = (ROWS,) if of_team else (ROWS, AGENTS)
    signals = {
        "reward": torch.randn(*size, 1),
        "done": torch.zeros(*size, 1, dtype=torch.bool),
        "terminated": torch.rand(*size, 1) < 0.3,
    }
    if name == "BranchingDQN":
        action = torch.stack([torch.randint(n, (ROWS, AGENTS)) for n in CHOICES], -1)
    elif name in DISCRETE:
        action = torch.randint(ACTIONS, (ROWS, AGENTS))
    else:
        action = torch.rand(ROWS, AGENTS, 2) * 2 - 1
    now = {"observation": torch.randn(ROWS, AGENTS, 4), "action": action}
    after = {"observation": torch.randn(ROWS, AGENTS, 4), **({} if of_team else signals)}
    agents = TensorDict({"agents": TensorDict(after, [ROWS, AGENTS])}, [ROWS])
    data = TensorDict({"agents": TensorDict(now, [ROWS, AGENTS]), "next": agents}, [ROWS])
    return data.update({"next": signals}) if of_team else data


def data_of_one(data: TensorDictBase) -> TensorDictBase:
    """The same steps, each agent's as a row of its own."""
    rows = data["agents"].reshape(-1)
    return rows.set("next", data["next", "agents"].reshape(-1))


@pytest.mark.parametrize("name", LOSSES)
def test_each_agent_is_a_sample(name: str) -> None:
    """Terms and their gradients are those of one agent's data of as many rows."""
    torch.manual_seed(0)
    data = data_of_agents(name)
    of_agents, of_one = with_keys(LOSSES[name](in_group)), LOSSES[name](at_root)
    of_one.load_state_dict(of_agents.state_dict())
    found = []
    for loss, given in ((of_agents, data), (of_one, data_of_one(data))):
        torch.manual_seed(3)
        terms = loss(given)
        total = sum(term for key, term in terms.items() if key.startswith("loss_") or key == "loss")
        loss.zero_grad()
        total.backward()
        grads = [one.grad for one in loss.parameters() if one.grad is not None]
        found.append((terms, grads))
    (terms, grads), (expected_terms, expected_grads) = found
    for key, term in expected_terms.items():
        torch.testing.assert_close(
            terms[key].reshape(term.shape), term, msg=lambda text, key=key: f"{key}: {text}"
        )
    torch.testing.assert_close(grads, expected_grads)
    assert data["agents", "td_error"].shape == (ROWS, AGENTS, 1)


@pytest.mark.parametrize(
    "name", ["DQN", "BranchingDQN", "DistributionalDQN", "QRDQN", "TQC", "DDPG", "SAC", "IQL"]
)
def test_rewards_and_ends_of_a_team_are_those_of_each_agent(name: str) -> None:
    torch.manual_seed(0)
    data = data_of_agents(name, of_team=True)
    each = data.clone()
    for role in ("reward", "done", "terminated"):
        each["next", "agents", role] = data["next", role].unsqueeze(-2).expand(ROWS, AGENTS, 1)
    of_team = with_keys(LOSSES[name](in_group), of_team=True)
    of_each = with_keys(LOSSES[name](in_group))
    of_each.load_state_dict(of_team.state_dict())
    found = []
    for loss, given in ((of_team, data), (of_each, each)):
        torch.manual_seed(3)
        found.append(loss(given))
    for key, term in found[1].items():
        torch.testing.assert_close(found[0][key], term)


@pytest.mark.parametrize("name", ["BranchingDQN", "DistributionalDQN", "QRDQN"])
def test_agents_with_parameters_of_their_own_learn_each_by_itself(name: str) -> None:
    """The loss is the mean of those of single agents, and so are the gradients, agent by agent."""
    torch.manual_seed(0)
    outputs: Any = sum(CHOICES) if name == "BranchingDQN" else (7, ACTIONS)
    made, actor = OF_OWN[name]
    nets = [
        MultiAgentMLP(4, outputs, AGENTS, centralized=False, share_params=False, num_cells=[8])
        for _ in range(2)
    ]
    data = data_of_agents(name)
    of_agents = with_keys(made(actor(in_group, nets[0])))
    _retarget(of_agents, made(actor(in_group, nets[1])))
    terms = of_agents(data)
    terms["loss"].backward()
    gradients = {key: value.grad for key, value in nets[0].params.named_parameters()}
    losses, priorities = [], []
    for agent in range(AGENTS):
        singles = [MLP(in_features=4, out_features=outputs, num_cells=[8]) for _ in nets]
        for single, net in zip(singles, nets, strict=True):
            single.load_state_dict({key: value[agent] for key, value in net.params.state_dict().items()})
        of_one = made(actor(at_root, singles[0]))
        _retarget(of_one, made(actor(at_root, singles[1])))
        rows = data["agents"][:, agent].set("next", data["next", "agents"][:, agent])
        losses.append(of_one(rows)["loss"])
        priorities.append(rows["td_error"])
        (losses[-1] / AGENTS).backward()
        for key, value in singles[0].named_parameters():
            torch.testing.assert_close(gradients[key][agent], value.grad)
    torch.testing.assert_close(terms["loss"], torch.stack(losses).mean())
    torch.testing.assert_close(data["agents", "td_error"], torch.stack(priorities, 1))


def _retarget(loss: LossModule, other: LossModule) -> None:
    """Give the target network the parameters of another loss."""
    for key, value in other.value_network_params.items(True, True):
        loss.target_value_network_params[key].data.copy_(value.data)


def test_steps_of_a_record_are_those_of_each_agent() -> None:
    """`steps_to_next_obs`, of the record or of each agent, discounts what each agent expects."""
    torch.manual_seed(0)
    loss = with_keys(LOSSES["QRDQN"](in_group))
    loss.set_keys(steps_to_next_obs="steps_to_next_obs")
    data = data_of_agents("QRDQN")
    steps = torch.randint(1, 4, (ROWS,))
    found = []
    of_agents = steps[:, None].expand(ROWS, AGENTS)
    for given in (steps, steps[:, None], of_agents, of_agents[..., None]):
        found.append(loss(data.clone().set("steps_to_next_obs", given))["loss"])
        torch.testing.assert_close(found[0], found[-1])
    assert not torch.isclose(found[0], loss(data)["loss"])
    wanted = rf"'steps_to_next_obs' has the shape \[{ROWS}, {AGENTS}, 1\]; got \[{ROWS}, 2\]"
    with pytest.raises(RuntimeError, match=wanted):
        loss(data.clone().set("steps_to_next_obs", steps[:, None].expand(ROWS, 2)))


@pytest.mark.parametrize("name", ["DistributionalDQN", "QRDQN"])
def test_signals_of_another_shape_are_named(name: str) -> None:
    data = data_of_agents(name)
    data["next", "agents", "reward"] = torch.zeros(ROWS, AGENTS, 2)
    wanted = rf"has the shape \[{ROWS}, {AGENTS}, 1\], or \[{ROWS}, 1\]; got \[{ROWS}, {AGENTS}, 2\]"
    with pytest.raises(RuntimeError, match=wanted):
        with_keys(LOSSES[name](in_group))(data)


def test_a_joint_value_has_the_probability_of_all_actions() -> None:
    """One value of what all do, at the root: a record is a sample."""
    torch.manual_seed(0)
    data = data_of_agents("SAC", of_team=True)

    class Joint(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net(6 * AGENTS, 1)

        def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
            return self.net(torch.cat([observation, action], -1).flatten(-2))  # type: ignore[no-any-return]

    keys = [in_group("observation"), in_group("action")]
    joint = ValueOperator(Joint(), in_keys=keys, out_keys=["state_action_value"])
    loss = SACLoss(drawing(in_group), joint, target_entropy=-6.0)
    loss.set_keys(action=in_group("action"))
    terms = loss(data)
    assert terms["entropy"].isfinite()
    assert data["td_error"].shape == (ROWS, 1)


def test_the_entropy_that_is_wanted_is_of_the_action_of_one_agent() -> None:
    leaf = Bounded(-1, 1, (AGENTS, 2))
    spec = Composite(agents=Composite(action=leaf, shape=(AGENTS,)))
    loss = with_keys(SACLoss(drawing(in_group), of_action(in_group), action_spec=spec))
    assert loss.target_entropy == -2


@pytest.mark.parametrize("rows", [1, AGENTS])
@pytest.mark.parametrize("name", ["SAC", "REDQ", "CrossQ", "CQL", "IQL"])
def test_a_group_without_the_dimension_of_its_agents_is_refused(name: str, rows: int) -> None:
    """Rows that are one, or as many as agents, would be paired with them."""
    data = data_of_agents("SAC")[:rows]
    for group in (data["agents"], data["next", "agents"]):
        group.batch_size = [rows]
    with pytest.raises(
        ValueError, match=rf"for the group 'agents', whose batch size \[{rows}\] lacks the dim"
    ):
        with_keys(LOSSES[name](in_group))(data)


def test_data_without_the_group_are_refused() -> None:
    data = data_of_agents("SAC")
    with pytest.raises(KeyError, match="the group 'agents' is not in the tensordict; it holds "):
        with_keys(LOSSES["SAC"](in_group))(data.exclude(("next", "agents")))
