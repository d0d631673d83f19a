"""SG639 and SG640: pipelines whose losses mix the values of a team."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

REWARD_OF_TEAM = Rule(
    "SG639",
    "no reward of the team",
    """\
A loss that mixes the values of agents learns one value of all of them, from one reward of the whole team, which stands outside of
the group. Rewards of each agent become one by their sum, `LineariseRewards`, or in the environment.

```yaml
env: SimpleTagTrain                      # adversary.reward, of each of three
loss: {adversary: {QMixerLoss: {}}, agent: {DQNLoss: {}}}
```

```yaml
env: SimpleTagOfTeam                     # … with `LineariseRewards: {in_keys: [adversary.reward], out_keys: [reward]}`
loss: {adversary: {QMixerLoss: {}}, agent: {DQNLoss: {}}}
```
""",
    without="KeyError of `reward`, or the reward of the first agent for all of them, by broadcasting.",
)

MIXER = Rule(
    "SG640",
    "a mixer that is none",
    """\
The network of a loss that mixes the values of a team is a mixer: `vdn`, the sum of the values (Sunehag et al. 2017), or `qmix`, a
network that grows with each of them, whose weights follow from a state (Rashid et al. 2018), or a class of one's own,
`{python: package.module:Class}`. It has no layers besides, and reads the values of its own group, and one state.

```yaml
networks:
  robot.local_value_network: {mlp: [64]}
  robot.mixer_network: {mlp: [64]}
```

```yaml
networks:
  robot.local_value_network: {mlp: [64]}
  robot.mixer_network: {mixer: {qmix: 32}, in: [state]}
```
""",
    without="A value that falls where that of an agent grows: what is best for the team is then not what is best for each.",
)
