"""SG569 to SG571: pipelines whose data are collected by workers."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

OF_RAY = Rule(
    "SG569",
    "resources that no process is given",
    """\
`cpus` and `gpus` say what an actor of a Ray cluster asks for. Processes of this machine share all that it has.

```yaml
workers: {processes: 4, cpus: 1}
```

```yaml
workers: {ray: 4, cpus: 1}
```
""",
    without="Somebody changes the number, and nothing happens.",
)

OLD_POLICIES = Rule(
    "SG570",
    "data of older policies for a loss that learns from its own",
    """\
With `sync: false` a worker goes on while the others' batches are learned from: the policy that chose its actions is some
updates older than the one that learns. An on-policy loss takes the data for its own. V-trace makes up for it.

```yaml
loss: {ClipPPOLoss: {}}
value_estimator: {gae: {}}
workers: {processes: 4, sync: false}
```

```yaml
loss: {ClipPPOLoss: {}}
value_estimator: {gae: {}}
workers: {processes: 4}
```
""",
    severity="warning",
    without="It learns more slowly than with fewer workers, or not at all, and each run does so in another way.",
)

RETURNS_OF_NOBODY = Rule(
    "SG571",
    "rewards of several workers that nobody sums",
    """\
The log has the mean return of the episodes that ended. Where no transform sums rewards, this is done from batch to batch;
with `sync: false`, batches are of different workers, and so of different episodes.

```yaml
env: PendulumGym
workers: {processes: 4, sync: false}
```

```yaml
env: PendulumTask                       # a chain with `RewardSum`
workers: {processes: 4, sync: false}
```
""",
    without="Returns in the log that no episode has had.",
)
