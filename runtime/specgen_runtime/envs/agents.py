"""Groups of agents: which agents' tensors are stacked together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

__all__ = ["MarlGroupMapType", "check_marl_grouping"]


class MarlGroupMapType(Enum):
    """The usual ways to group agents: all together, or each by itself."""

    ALL_IN_ONE_GROUP = 1
    """One group, `"agents"`; its tensors have a dimension for the agents. They have to be alike."""

    ONE_GROUP_PER_AGENT = 2
    """A group for each agent, of the agent's name; its tensors have no dimension for agents."""

    def get_group_map(self, agent_names: Sequence[str]) -> dict[str, list[str]]:
        """The names of the agents of each group, by the group's name."""
        if self is MarlGroupMapType.ALL_IN_ONE_GROUP:
            return {"agents": list(agent_names)}
        return {name: [name] for name in agent_names}


def check_marl_grouping(group_map: Mapping[str, Sequence[str]], agent_names: Sequence[str]) -> None:
    """Check that every agent is in exactly one group.

    Args:
        group_map: the names of the agents of each group, by the group's name.
        agent_names: all agents of the environment.

    Raises:
        ValueError: there are no agents, or two of one name; a group is empty, or names an agent that the
            environment has not got; an agent is in no group, or in two places.
    """
    if not agent_names:
        raise ValueError("there are no agents")
    twice = sorted({name for name in agent_names if list(agent_names).count(name) > 1})
    if twice:
        raise ValueError(f"agents must have names of their own; there are several called {', '.join(twice)}")
    group_of: dict[str, str] = {}
    for group, members in group_map.items():
        if not members:
            raise ValueError(f"group {group!r} is empty")
        for name in members:
            if name not in agent_names:
                raise ValueError(
                    f"group {group!r}: the environment has no agent {name!r}, only {', '.join(agent_names)}"
                )
            if name in group_of:
                raise ValueError(f"agent {name!r} is in group {group_of[name]!r} and again in {group!r}")
            group_of[name] = group
    missing = [name for name in agent_names if name not in group_of]
    if missing:
        raise ValueError(f"agents in no group: {', '.join(missing)}")
