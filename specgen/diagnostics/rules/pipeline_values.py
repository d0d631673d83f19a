"""SG401 to SG405, SG411 to SG420: pipelines: targets, value estimators, and the numbers that learning depends on."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NO_TARGET_UPDATER = Rule(
    "SG401",
    "targets that nobody moves",
    """\
The loss has target parameters, and the pipeline says nothing of how they follow. They would stay what they were when the
loss was made.

```yaml
loss: {DQNLoss: {double_dqn: true}}
```

```yaml
loss: {DQNLoss: {double_dqn: true}}
target_updater: {soft: {tau: 0.01}}
```
""",
    without="A warning at the first update; then values are learned against a network that never learns.",
)

NO_TARGETS = Rule(
    "SG402",
    "an updater without targets",
    """\
`target_updater` says how target parameters follow, and the loss has none.

```yaml
loss: {DQNLoss: {delay_value: false}}
target_updater: {soft: {tau: 0.01}}
```

Leave out one or the other:

```yaml
loss: {DQNLoss: {delay_value: false}}
```
""",
    without="RuntimeError when the updater is made, after the environment and the networks.",
)

FAST_TARGET = Rule(
    "SG403",
    "a target that is replaced",
    """\
`tau` is how much of a network comes into its target at each update: near 0. Some say `eps`, how much of the target stays,
which is near 1.

```yaml
target_updater: {soft: {tau: 0.995}}
```

```yaml
target_updater: {soft: {tau: 0.005}}
```
""",
    without="A warning of a deprecated keyword at most; the target follows at once, and values chase themselves.",
)

CLOSE_TARGET = Rule(
    "SG404",
    "a target that follows closely",
    """\
Targets are there to stand still for a while. With `tau` above 0.1, or when they are replaced more often than every tenth
update, they hardly do.

```yaml
target_updater: {hard: {interval: 2}}
```

```yaml
target_updater: {hard: {interval: 500}}
```
""",
    severity="warning",
    without="The values may chase themselves and diverge.",
)

NEVER_REPLACED = Rule(
    "SG405",
    "targets that are never replaced",
    """`hard` replaces targets every `interval` of its steps, `every` says in which updates it takes one. Where the training ends before
the first replacement, all values are learned against the network of the beginning.

```yaml
data: {replay: {num_envs: 8, capacity: 100_000, batch_size: 128}}   # one update for each 8 frames
target_updater: {hard: {interval: 50_000}}
stop: {frames: 100_000}                                             # about 12_500 updates
```

```yaml
target_updater: {hard: {interval: 500}}
```
""",
    without="Values that hardly move; the loss is small, and nothing fails.",
)

OUT_OF_RANGE = Rule(
    "SG411",
    "a number out of its range",
    """\
Each number of a pipeline has a range, which is checked here and again when the generated configuration is made.

```yaml
value_estimator: {gae: {gamma: 1.5, lmbda: 0.95}}
```

```yaml
value_estimator: {gae: {gamma: 0.99, lmbda: 0.95}}
```
""",
    without="A discount above 1 is accepted, and the values grow without bound.",
)

WRONG_ESTIMATOR = Rule(
    "SG412",
    "an estimator that the loss does not support",
    """\
A loss says which value estimators fit: those that give advantages need a network of state values.

```yaml
loss: {DQNLoss: {}}
value_estimator: {gae: {gamma: 0.99}}
```

```yaml
loss: {DQNLoss: {}}
value_estimator: {td0: {gamma: 0.99}}
```
""",
    without="NotImplementedError when the training starts.",
)

NO_TIME = Rule(
    "SG413",
    "an estimator that needs the steps in their order",
    """\
`td1`, `td_lambda`, `gae` and `vtrace` go back through the steps of an episode. In a loss that gets frames drawn at random
there are none: it takes `td0`.

```yaml
loss: {DQNLoss: {}}
value_estimator: {td_lambda: {gamma: 0.99, lmbda: 0.95}}
data: {replay: {capacity: 100_000, batch_size: 128}}
```

```yaml
loss: {DQNLoss: {}}
value_estimator: {td0: {gamma: 0.99}}
data: {replay: {capacity: 100_000, batch_size: 128}}
```
""",
    without="The rewards of frames of different episodes are summed as if they followed each other, and values are learned "
    "of that; nothing fails.",
)

ESTIMATOR_NUMBER = Rule(
    "SG414",
    "a field that the estimator does not have",
    """\
Each estimator has its own numbers: `td0` and `td1` a discount, `td_lambda` and `gae` a decay besides. `when` says when one
runs before the loss; where the loss calls its estimator itself, there is nothing to say.

```yaml
value_estimator: {td0: {gamma: 0.99, lmbda: 0.95}}
```

```yaml
value_estimator: {td_lambda: {gamma: 0.99, lmbda: 0.95}}
```
""",
    without="TypeError when the training starts; `when` would be ignored.",
)

TWO_VALUES = Rule(
    "SG415",
    "two values of one number",
    """\
The discount is one number for the whole pipeline: the estimator, sums over several steps and the loss read the same.

```yaml
loss: {DistributionalDQNLoss: {gamma: 0.99}}
value_estimator: {td0: {gamma: 0.9}}
```

```yaml
loss: {DQNLoss: {}}
value_estimator: {td0: {gamma: 0.9}}
```
""",
    without="Rewards are summed with one discount and values with another: both are learned, and neither is right.",
)

NOT_DISCOUNTED = Rule(
    "SG416",
    "several steps for a loss that knows of one",
    """\
`n_step` sums the rewards of several steps, and writes how many. A loss with a value estimator discounts by that; one that
has none and does not read `steps_to_next_obs` takes the sum for the reward of one step, or reads no reward at all.

```yaml
loss: {BCLoss: {}}
data: {replay: {capacity: 100_000, batch_size: 128, n_step: 3}}
```

```yaml
loss: {BCLoss: {}}
data: {replay: {capacity: 100_000, batch_size: 128}}
```
""",
    without="The value behind several steps is discounted as one that is one step away.",
)

NORMALISED_TWICE = Rule(
    "SG417",
    "advantages that are normalised twice",
    """\
`average_gae` normalises the advantages of a whole batch, `normalize_advantage` those of each minibatch again.

```yaml
loss: {ClipPPOLoss: {normalize_advantage: true}}
value_estimator: {gae: {average_gae: true}}
```

```yaml
loss: {ClipPPOLoss: {normalize_advantage: true}}
value_estimator: {gae: {}}
```
""",
    without="Both are applied: what the first one does has no effect but noise.",
)

SMALL_BATCH = Rule(
    "SG418",
    "a batch of few frames",
    """\
An on-policy batch of fewer than 64 frames says little of how good the policy is.

```yaml
data: {on_policy: {num_envs: 1, num_steps: 32}}
```

```yaml
data: {on_policy: {num_envs: 16, num_steps: 128}}
```
""",
    severity="warning",
    without="Each step of the optimizer follows noise.",
)

UPDATE_RATIO = Rule(
    "SG419",
    "too many updates for each frame, or too few",
    """\
More than one update for each new frame fits values to noise, unless there are many of them (`num_qvalue_nets` of 5 or more,
as in REDQ). Fewer than one for 256 frames leaves most of what was collected unused.

`updates` counts those of a batch, which has `num_envs * num_steps` frames: environments side by side make updates rarer. A pipeline
that says nothing has one a batch, which is warned of where that is more than 4 frames; with `updates: 1` it is meant.

```yaml
data: {replay: {num_envs: 1, num_steps: 1, updates: 20, capacity: 100_000, batch_size: 256}}
```

```yaml
data: {replay: {num_envs: 4, num_steps: 5, updates: 20, capacity: 100_000, batch_size: 256}}
```
""",
    severity="warning",
    without="Values that only rise, or a training that waits for its environment.",
)

LARGE_STEP = Rule(
    "SG420",
    "a large step of the optimizer",
    """\
Optimizers that scale their steps by the size of gradients move each weight by about `lr`; above 0.1 they undo what was
learned. Plain gradient descent bears ten times as much.

```yaml
optimizer: {adam: {lr: 0.3}}
```

```yaml
optimizer: {adam: {lr: 3.0e-4}}
```
""",
    severity="warning",
    without="The losses jump, or become NaN.",
)
