"""SG652 and SG653: pipelines: goals that are replaced by what was achieved."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

HINDSIGHT = Rule(
    "SG652",
    "goals that can't be replaced in hindsight",
    """\
In hindsight a step has another goal, `desired_goal`: what was achieved behind a step of its episode, `next.achieved_goal`. Its
reward is computed again, and so is `terminated` where goals end episodes. So an environment observes both, under these names or those
that `goal_key` and `achieved_goal_key` say, networks read the goal, and both numbers follow from the two observations alone: of a native
environment as it is declared, else by a function that is named. Behind statistics that are learned of rewards, or sums of several steps,
no function gives them.

```yaml
networks: {value_network: {mlp: [256]}}
data: {replay: {capacity: 100_000, batch_size: 256, n_step: 3, sampler: {hindsight: {her_ratio: 0.8}}}}
```

```yaml
networks: {value_network: {mlp: [256], in: [observation, desired_goal]}}
data: {replay: {capacity: 100_000, batch_size: 256, sampler: {hindsight: {her_ratio: 0.8}}}}
```
""",
    without="Rewards are those for a goal that the networks are not shown; most of them are wrong.",
)

REWARDS_CHANGED = Rule(
    "SG653",
    "a function of rewards behind transforms that change them",
    """\
The replay buffer keeps rewards as the chain gives them: scaled, say, or clipped. A function of yours that is
named by `hindsight: {reward: …}` gives those for other goals, and no transform of the chain changes these. So it has to give what the
chain would: scaled likewise. For rewards that are normalised by what is learned, or summed over several steps, it can't: that is SG652.

```yaml
chains: {Train: {env: Reach, transforms: [{RewardScaling: {loc: 0, scale: 0.1}}]}}
pipelines: {DDPG: {env: Train, data: {replay: {sampler: {hindsight: {reward: "my_rl.goals:reward"}}}}}}
```

```yaml
chains: {Train: {env: Reach, transforms: []}}
pipelines: {DDPG: {env: Train, data: {replay: {sampler: {hindsight: {reward: "my_rl.goals:reward"}}}}}}
```

Where the function does give them so, `allow: [SG653]` on the pipeline says it.
""",
    severity="warning",
    without="One batch has rewards of two scales: those of the goals that there were, and ten times as large those of others.",
)
