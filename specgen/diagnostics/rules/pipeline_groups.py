"""SG588, SG589 and SG59x: pipelines whose environment has groups of agents."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

GROUP_WITHOUT_LOSS = Rule(
    "SG590",
    "a group of agents without a loss",
    """\
Every group of agents acts at every step, so that each needs a loss whose policy acts for it. A loss is that of the group that
it is named like: it reads the group's observations, actions, rewards and flags, and its networks are those of the group.

```yaml
env: SimpleTagTrain                      # groups: adversary, agent
loss: {MAPPOLoss: {}}
```

```yaml
env: SimpleTagTrain
networks:
  adversary.actor_network: {mlp: [64, 64]}
  adversary.critic_network: {mlp: [64, 64], per: all}
  agent.actor_network: {mlp: [64, 64]}
  agent.critic_network: {mlp: [64, 64], per: all}
loss: {adversary: {MAPPOLoss: {}}, agent: {MAPPOLoss: {}}}
```
""",
    without="KeyError of `action` or of `reward` at the first step or the first update: they stand below the group's name.",
)

LOSS_OF_AGENTS = Rule(
    "SG591",
    "a loss of one agent for a group, or the other way round",
    """\
A group's data have a dimension of agents behind those of the batch. Losses that say so (`samples: [batch, agents]`) normalize
advantages for each agent by itself, and know which flags are of the whole team. Losses over values of actions (`DQNLoss`, `SACLoss`,
`DDPGLoss`, `BranchingDQNLoss`, `QRDQNLoss`) have those of each agent, and take each as a sample; `QMixerLoss` mixes the values of all.

```yaml
loss: {adversary: {ClipPPOLoss: {}}, agent: {ClipPPOLoss: {}}}
```

```yaml
loss: {adversary: {MAPPOLoss: {}}, agent: {MAPPOLoss: {}}}
```
""",
    without="Numbers of agents and of samples are broadcast against each other, or normalized together.",
)

MEASURED_GROUP = Rule(
    "SG592",
    "the return of which group",
    """\
Every group has a return of its own. `evaluate: {of: …}` says whose it is that ends the training; without an end by a return
the curve is that of the first group.

```yaml
loss: {adversary: {MAPPOLoss: {}}, agent: {MAPPOLoss: {}}}
stop: {frames: 1_000_000, return: 50}
```

```yaml
loss: {adversary: {MAPPOLoss: {}}, agent: {MAPPOLoss: {}}}
evaluate: {of: adversary}
stop: {frames: 1_000_000, return: 50}
```
""",
    without="A mean over groups that play against each other says nothing of either.",
)

AGENTS_OF_NETWORK = Rule(
    "SG593",
    "agents of a network that is of none",
    """\
`per` says how the agents of a group share a network: `group`, one for all, each for itself; `agent`, parameters of its own for
each; `all`, parameters of its own for each, which sees what all observe. A network outside groups has no agents.

```yaml
networks: {critic_network: {mlp: [64, 64], per: all}}
```

```yaml
networks: {adversary.critic_network: {mlp: [64, 64], per: all}}
```
""",
    without="The last dimension but one, that of the batch, is taken for the agents.",
)

CENTRAL_POLICY = Rule(
    "SG594",
    "a policy that sees what all agents observe",
    """\
With `per: all` each agent's action depends on what all of them observe, so that none of them can act by itself. That is right
where one place controls them all: then allow it.

```yaml
networks: {adversary.actor_network: {mlp: [64, 64], per: all}}
```

```yaml
networks:
  adversary.actor_network: {mlp: [64, 64]}
  adversary.critic_network: {mlp: [64, 64], per: all}
```
""",
    without="Nothing; whoever wants to let an agent act by itself finds that out later.",
    severity="warning",
)

OF_TEAM = Rule(
    "SG595",
    "rewards or flags of the team, values of agents",
    """\
The environment gives one reward, or one set of flags, for all agents, `[1]`, and the critic a value for each, `[n, 1]`.
`multi_agent_gae` gives every agent what is the team's; other estimators take rewards, flags and values of one shape.

```yaml
loss: {robot: {MAPPOLoss: {}}}
value_estimator: {gae: {gamma: 0.95}}
```

```yaml
loss: {robot: {MAPPOLoss: {}}}
value_estimator: {multi_agent_gae: {gamma: 0.95}}
```
""",
    without="A shape error in the estimator at the first update.",
)

GROUPS_SEEN = Rule(
    "SG598",
    "groups that a network sees",
    """\
`of` names the groups all of whose agents a network sees: its own, and others. Where `in` says what it reads, that has something of each.

```yaml
networks:
  adversary.critic_network: {mlp: [64, 64], per: all, of: [agent]}
```

```yaml
networks:
  adversary.critic_network: {mlp: [64, 64], per: all, of: [adversary, agent]}
```
""",
    without="A critic that does not see its own agents values them all alike, whatever they observe.",
)

JOINED_INPUTS = Rule(
    "SG588",
    "what agents see of others can't be joined",
    """\
A network with `of`, or one of a group that reads what is of no group, joins all that an agent sees into one vector. Trunks,
convolutions and recurrent layers read what each agent observes itself.

```yaml
networks:
  memory: {gru: 64}
  adversary.critic_network: {trunk: memory, of: [adversary, agent]}
```

```yaml
networks:
  memory: {gru: 64}
  adversary.actor_network: {trunk: memory}
  adversary.critic_network: {mlp: [64, 64], of: [adversary, agent]}
```
""",
    without="A shape error in the first call, between tensors with the dimension of agents and tensors without it.",
)

NEXT_ACTIONS = Rule(
    "SG589",
    "what others do next",
    """\
A critic of actions values the next state by what is done there. Those of its own group are what its policy would do; those of other
groups are what their policies would do, without noise: these have to be deterministic (`DDPGLoss`, `TD3Loss`), as in multi-agent
deep deterministic policy gradients (Lowe et al. 2017). A critic of states values the next one before anybody acts there.

```yaml
networks:
  adversary.value_network: {mlp: [64], of: [adversary, agent]}
loss: {adversary: {DDPGLoss: {}}, agent: {SACLoss: {}}}
```

```yaml
networks:
  adversary.value_network: {mlp: [64], of: [adversary, agent]}
loss: {adversary: {DDPGLoss: {}}, agent: {DDPGLoss: {}}}
```
""",
    without="KeyError of the next action of the other group, or a target of actions that were done by an older policy.",
)
