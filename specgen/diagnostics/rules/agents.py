"""SG63x: groups of agents."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

GROUP_SIZE = Rule(
    "SG631",
    "group without agents",
    """\
A group has at least one agent: its tensors have a dimension for them, and a tensor without elements has no
reward to sum and no action to draw.

```yaml
groups:
  prey: {agents: 0}
```

```yaml
groups:
  prey: {agents: 1}
```
""",
    without="`rand` gives tensors of shape `[0, …]`, their mean is NaN, and so is the loss.",
)

AGENT_TWICE = Rule(
    "SG632",
    "agent in two places",
    """\
An agent has one name, and is in one group, once. Who reads `group_map` finds the row of an agent by its name. Agents
that are only counted are called after their group: the three agents of `red` are `red_0`, `red_1` and `red_2`.

```yaml
groups:
  hunters: {agents: [ann, bob]}
  healers: {agents: [bob]}
```

```yaml
groups:
  hunters: {agents: [ann, bob]}
  healers: {agents: [eve]}
```
""",
    without="`group_map` finds one row for two agents, or one agent in two policies.",
)

NO_GROUP = Rule(
    "SG633",
    "nested key of no group",
    """\
In an environment with `groups`, each nested key stands under one of them and is declared for one agent. A prefix
that is no group is a slip of the pen: its key would silently be without the agents' dimension.

```yaml
groups:
  red: {agents: 3}
action:
  reds.action: categorical(5)
```

```yaml
action:
  red.action: categorical(5)
```

What belongs to no group stands at the root, without a dot.
""",
    without="The key lacks the agents' dimension and broadcasts over them: all agents get one value.",
)
