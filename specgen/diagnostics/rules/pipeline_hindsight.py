"""SG652: pipelines: goals that are replaced by what was achieved."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

HINDSIGHT = Rule(
    "SG652",
    "goals that can't be replaced in hindsight",
    """\
In hindsight a step has another goal, `desired_goal`: what was achieved behind a step of its episode, `next.achieved_goal`. Its
reward is computed again, and so is `terminated` where goals end episodes. So an environment observes both, networks read the goal, and
both numbers follow from the two observations alone: of a native environment as it is declared, else by a function that is named.

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
