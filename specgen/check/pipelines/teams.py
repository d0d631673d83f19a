"""Losses of a team, which mix the values of its agents: what of such a loss is each agent's, and what is the team's."""

from __future__ import annotations

from specgen.check.losses.model import CheckedLoss, LossNetwork, LossRole
from specgen.check.model import AgentGroup, dotted
from specgen.expr import Type
from specgen.expr.symbols import Key
from specgen.values import replace


def mixes_values(loss: CheckedLoss) -> bool:
    """Whether a sample of a loss holds the actions of several agents, each of which has values of its own."""
    return _agents_dim(loss) is not None


def roles_of_team(loss: CheckedLoss) -> tuple[LossRole, ...]:
    """The roles that are the whole team's: its reward, its flags, its value."""
    dim = _agents_dim(loss)
    written = {name: type for network in loss.networks for name, type in network.outputs}
    return tuple(role for role in loss.roles if not _is_of_agents(written.get(role.name, role.type), dim))


def of_team(loss: CheckedLoss, group: AgentGroup) -> tuple[CheckedLoss, dict[str, Key]]:
    """A loss that mixes values, with the keys of a group and its networks as one agent has them; and the keys that are not its own.

    What is each agent's stands below the group's name, all else outside of it.
    """
    dim, team = _agents_dim(loss), {role.name for role in roles_of_team(loss)}
    keys: dict[str, Key] = {}
    below: dict[str, str] = {}
    for role in loss.roles:
        if role.name not in team:
            below[dotted(role.key)] = role.name
            key = (group.name, *(role.key[1:] or role.key))
            if key != role.key:
                keys[role.accepted] = key
    networks = tuple(_of_agent(network, below, dim) for network in loss.networks)
    return replace(loss, networks=networks), keys


def mixed_role(loss: CheckedLoss, network: LossNetwork) -> LossRole | None:
    """What a network mixes into the value of the team, of a loss as one agent has it: values that no network writes; else None."""
    dim = _agents_dim(loss)
    if dim is None or network.action is not None:
        return None
    written = {name for one in loss.networks for name, _ in one.outputs}
    acted = {one.action for one in loss.networks}
    of_agents = (role for role in loss.roles if _is_of_agents(role.type, dim))
    found = (one for one in of_agents if one.name in network.inputs and one.name not in written | acted)
    return next(found, None)


def _of_agent(network: LossNetwork, below: dict[str, str], dim: str | None) -> LossNetwork:
    """A network as one agent has it; `below` are the roles of agents by their dotted keys."""
    type = network.type
    if isinstance(type, Type) and _is_of_agents(type, dim):
        type = replace(type, dims=type.dims[1:])
    inputs = (below.get(one) or one.removeprefix(f"{dim}.") for one in network.inputs)
    return replace(network, type=type, inputs=tuple(inputs))


def _agents_dim(loss: CheckedLoss) -> str | None:
    """The name of the dimension of agents, that of the actions that a loss values; None where it has none."""
    types = {role.name: role.type for role in loss.roles}
    valued = (one.action for one in loss.networks if one.action is not None and not one.choices)
    actions = (types.get(action) for action in valued)
    return next((str(type.dims[0]) for type in actions if type is not None and type.rank > 0), None)


def _is_of_agents(type: Type | None, dim: str | None) -> bool:
    return type is not None and type.rank > 0 and str(type.dims[0]) == dim
