"""SG585, SG586: pipelines: data whose steps must follow each other."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

SLICES = Rule(
    "SG585",
    "slices of episodes with data that are none",
    """\
A slice has steps of one episode that follow each other. Sums over `n_step` transitions are no such steps, and workers that do not
wait for each other give batches of other environments each time.

```yaml
data: {replay: {capacity: 100_000, batch_size: 512, n_step: 3, sampler: {slices: {length: 16}}}}
value_estimator: {td0: {gamma: 0.99}}
```

```yaml
data: {replay: {capacity: 100_000, batch_size: 512, sampler: {slices: {length: 16}}}}
value_estimator: {td_lambda: {gamma: 0.99, lmbda: 0.9}}
```
""",
    without="Rewards are counted several times; or slices jump from one environment to another.",
)

SINGLE_TRANSITIONS = Rule(
    "SG586",
    "recorded transitions where steps must follow each other",
    """\
Recorded data may have been saved in any order, and are taken for single transitions. Slices of episodes and sums over several
steps need steps that follow each other, which are collected.

```yaml
data: {online_and_recorded: {path: data/pendulum, capacity: 200_000, batch_size: 256, n_step: 3}}
```

```yaml
data: {online_and_recorded: {path: data/pendulum, capacity: 200_000, batch_size: 256}}
```
""",
    without="Rewards of other episodes are summed, where the data do not happen to be in order.",
)
