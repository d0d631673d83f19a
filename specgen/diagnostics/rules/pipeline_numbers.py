"""SG538, SG539, SG551, SG552, SG561, SG567, SG568: pipelines: numbers, and whether they fit together."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

SCHEDULE_END = Rule(
    "SG538",
    "a schedule that ends too early or too late",
    """\
A schedule that lasts longer than the training never comes to its last value. One that brings `lr` or `max_grad_norm` to 0
before the end leaves the rest of the training without effect.

```yaml
optimizer: {adam: {lr: "linear(1.0e-3, 0.0, over=1_000_000)"}}
stop: {frames: 200_000}
```

```yaml
optimizer: {adam: {lr: "linear(1.0e-3, 0.0)"}}
stop: {frames: 200_000}
```
""",
    severity="warning",
    without="A last value that is never there, or frames from which nothing is learned.",
)

TARGET_ENTROPY = Rule(
    "SG539",
    "an entropy that no policy has",
    """\
Of n actions the largest entropy is log(n), and of numbers between bounds the sum of the logarithms of the widths. A
`target_entropy` above it is never reached.

```yaml
loss: {DiscreteSACLoss: {target_entropy: 2.0}}      # CartPole has two actions: log(2) = 0.69
```

```yaml
loss: {DiscreteSACLoss: {target_entropy: 0.3}}
```
""",
    without="The temperature grows without bound, and the policy stays random.",
)

UNKNOWN_NUMBER = Rule(
    "SG551",
    "a number that nobody declares",
    """\
A field that is a number may name one of the pipeline's `params`.

```yaml
optimizer: {adam: {lr: learning_rate}}
```

```yaml
params: {learning_rate: 3.0e-4}
optimizer: {adam: {lr: learning_rate}}
```
""",
    without="The text reaches the optimizer, which raises a TypeError.",
)

SCHEDULE = Rule(
    "SG552",
    "not a schedule",
    """\
A number that may change in training can be a schedule: `linear`, `cosine` or `exponential`, from its first value to its
last, over a number of frames, or until the training ends.

```yaml
policy: {explore: {epsilon_greedy: {eps: "linear(1.0)"}}}
```

```yaml
policy: {explore: {epsilon_greedy: {eps: "linear(1.0, 0.05, over=20_000)"}}}
```
""",
    without="The number never changes, or the schedule raises when it is first asked.",
)

DOES_NOT_FIT = Rule(
    "SG561",
    "numbers that do not fit together",
    """\
Minibatches divide a batch, a buffer holds a batch, and the first update comes when there is one.

```yaml
data: {on_policy: {num_envs: 8, num_steps: 100, minibatch_size: 256}}
```

```yaml
data: {on_policy: {num_envs: 8, num_steps: 128, minibatch_size: 256}}
```
""",
    without="The last minibatch is smaller and noisier than the others, or frames are left out of every pass.",
)

NAME_TAKEN = Rule(
    "SG567",
    "a parameter with the name of another number",
    """\
Numbers become fields of one configuration, by their names. A parameter of `params` that is called as a field is called has to
be what that field says, by name.

```yaml
params: {lr: 3.0e-4}
optimizer: {adam: {lr: 1.0e-3}}
```

```yaml
params: {lr: 3.0e-4}
optimizer: {adam: {lr: lr}}
```
""",
    without="One of the two numbers would be read in the place of the other.",
)

NEVER_DUE = Rule(
    "SG568",
    "what the training ends before",
    """\
The training ends before it is evaluated, or kept, for the first time.

```yaml
evaluate: {every: 1_000_000}
stop: {frames: 200_000}
```

```yaml
evaluate: {every: 10_000}
stop: {frames: 200_000}
```
""",
    severity="warning",
    without="An empty curve, a return that never stops the training, or nothing to go on from after an interruption.",
)
