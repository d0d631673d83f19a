"""Losses over values of actions, on groups of agents: each agent is a sample, as in data of one agent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from specgen_runtime.modules import (
    MLP,
    NormalParamExtractor,
    ProbabilisticActor,
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
from specgen_std.losses.dqn import DQNLoss
from specgen_std.losses.iql import IQLLoss
from specgen_std.losses.redq import REDQLoss
from specgen_std.losses.sac import DiscreteSACLoss, SACLoss
from specgen_std.losses.td3 import TD3BCLoss, TD3Loss
from tensordict import TensorDict, TensorDictBase
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*")

ROWS, AGENTS, ACTIONS = 6, 3, 5
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


LOSSES: dict[str, Callable[[Place], LossModule]] = {
    "DQN": lambda at: DQNLoss(greedy(at), double_dqn=True),
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
DISCRETE = ("DQN", "DiscreteCQL", "DiscreteSAC")


def with_keys(loss: LossModule, *, of_team: bool = False) -> LossModule:
    """The loss with all of its keys in the group; signals of the team stay at the root."""
    defaults = vars(type(loss)._AcceptedKeys())
    signals = ("reward", "done", "terminated") if of_team else ()
    loss.set_keys(**{role: in_group(key) for role, key in defaults.items() if role not in signals})
    return loss


def data_of_agents(*, discrete: bool, of_team: bool = False) -> TensorDictBase:
    """`[ROWS]` steps of a group."""
    size = (ROWS,) if of_team else (ROWS, AGENTS)
    signals = {
        "reward": torch.randn(*size, 1),
        "done": torch.zeros(*size, 1, dtype=torch.bool),
        "terminated": torch.rand(*size, 1) < 0.3,
    }
    action = torch.randint(ACTIONS, (ROWS, AGENTS)) if discrete else torch.rand(ROWS, AGENTS, 2) * 2 - 1
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
    data = data_of_agents(discrete=name in DISCRETE)
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


@pytest.mark.parametrize("name", ["DQN", "DDPG", "SAC", "IQL"])
def test_rewards_and_ends_of_a_team_are_those_of_each_agent(name: str) -> None:
    torch.manual_seed(0)
    data = data_of_agents(discrete=name in DISCRETE, of_team=True)
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


def test_a_joint_value_has_the_probability_of_all_actions() -> None:
    """One value of what all do, at the root: a record is a sample."""
    torch.manual_seed(0)
    data = data_of_agents(discrete=False, of_team=True)

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
    data = data_of_agents(discrete=False)[:rows]
    for group in (data["agents"], data["next", "agents"]):
        group.batch_size = [rows]
    with pytest.raises(
        ValueError, match=rf"for the group 'agents', whose batch size \[{rows}\] lacks the dim"
    ):
        with_keys(LOSSES[name](in_group))(data)


def test_data_without_the_group_are_refused() -> None:
    data = data_of_agents(discrete=False)
    with pytest.raises(KeyError, match="the group 'agents' is not in the tensordict; it holds "):
        with_keys(LOSSES["SAC"](in_group))(data.exclude(("next", "agents")))
