"""SG40x, SG41x, SG55x: pipelines: what each part reads, writes and trains."""

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

ESTIMATOR_NUMBER = Rule(
    "SG414",
    "a number that the estimator does not have",
    """\
Each estimator has its own numbers: `td0` and `td1` a discount, `td_lambda` and `gae` a decay besides.

```yaml
value_estimator: {td0: {gamma: 0.99, lmbda: 0.95}}
```

```yaml
value_estimator: {td_lambda: {gamma: 0.99, lmbda: 0.95}}
```
""",
    without="TypeError when the training starts.",
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

CHOICE = Rule(
    "SG553",
    "one of several",
    """\
Where a field takes one of several, it takes exactly one.

```yaml
target_updater: {soft: {tau: 0.01}, hard: {interval: 100}}
```

```yaml
target_updater: {soft: {tau: 0.01}}
```
""",
    without="One of them would silently win.",
)

NETWORK = Rule(
    "SG554",
    "a network that the loss does not have, or misses",
    """\
Networks are declared by the names that the loss has for them. Each that it needs is declared, and no other.

```yaml
networks: {critic: {mlp: [64, 64]}}
loss: {DQNLoss: {}}
```

```yaml
networks: {value_network: {mlp: [64, 64]}}
loss: {DQNLoss: {}}
```
""",
    without="TypeError when the loss is made.",
)

NETWORK_INPUT = Rule(
    "SG555",
    "nobody writes what a network reads",
    """\
A network reads what the environment gives, or the action.

```yaml
networks: {value_network: {mlp: [64, 64], in: [observatoin]}}
```

```yaml
networks: {value_network: {mlp: [64, 64], in: [observation]}}
```
""",
    without="KeyError at the first step.",
)

DISTRIBUTION = Rule(
    "SG556",
    "a distribution over other actions",
    """\
The distribution of a policy is over the actions of the environment: `categorical` over indices, `onehot_categorical` over
one-hot vectors, `tanh_normal` and `truncated_normal` over bounded numbers, `normal` over unbounded ones.

```yaml
env: PendulumTrain                       # its action is float32[1] in [-2, 2]
networks: {actor_network: {mlp: [64, 64], dist: normal}}
```

```yaml
env: PendulumTrain
networks: {actor_network: {mlp: [64, 64], dist: tanh_normal}}
```
""",
    without="The environment clips actions; the data hold clipped ones with log-probabilities of others.",
)

EXPLORATION = Rule(
    "SG557",
    "exploration that does not fit",
    """\
`epsilon_greedy` takes a random action of a finite set; `gaussian` adds noise to numbers. A policy that draws its actions
explores by that.

```yaml
env: PendulumTrain
policy: {explore: {epsilon_greedy: {eps: 0.1}}}
```

```yaml
env: PendulumTrain
policy: {explore: {gaussian: {sigma: 0.1}}}
```
""",
    without="Uniform draws over a box where noise was meant, or an error at the first step.",
)

NEVER_EXPLORES = Rule(
    "SG558",
    "a policy that never explores",
    """\
The policy takes the action that it holds for the best one, always: what it never tries it never learns.

```yaml
networks: {value_network: {mlp: [64, 64]}}
loss: {DQNLoss: {}}
```

```yaml
networks: {value_network: {mlp: [64, 64]}}
loss: {DQNLoss: {}}
policy: {explore: {epsilon_greedy: {eps: "linear(1.0, 0.05, over=20_000)"}}}
```
""",
    severity="warning",
    without="The first habit of an untrained network is kept for good.",
)

WRONG_DATA = Rule(
    "SG559",
    "data of another policy",
    """\
Losses that weigh an advantage with the log-probability of the action learn from what the present policy did: `on_policy`.

```yaml
loss: {ClipPPOLoss: {}}
data: {replay: {capacity: 100_000, batch_size: 256}}
```

```yaml
loss: {ClipPPOLoss: {}}
data: {on_policy: {num_envs: 8, num_steps: 128, epochs: 4, minibatch_size: 256}}
```
""",
    without="Advantages of policies that are long gone; the ratios leave the clipping range at once.",
)

PRIORITIES = Rule(
    "SG560",
    "priorities that nobody writes",
    """\
A prioritized sampler draws by what the loss writes after each update.

```yaml
loss: {BCLoss: {}}
data: {replay: {capacity: 100_000, batch_size: 256, sampler: {prioritized: {}}}}
```

```yaml
loss: {DQNLoss: {}}
data: {replay: {capacity: 100_000, batch_size: 256, sampler: {prioritized: {}}}}
```
""",
    without="All priorities stay what they were at first: a slow uniform sampler.",
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

NOT_OPTIMIZED = Rule(
    "SG562",
    "parameters in no optimizer, or in two",
    """\
Every network and learned number that the loss trains is moved by exactly one optimizer.

```yaml
loss: {SACLoss: {}}
optimizer:
  actor: {of: [actor_network], adam: {lr: 3.0e-4}}
  critic: {of: [qvalue_network], adam: {lr: 3.0e-4}}
```

```yaml
loss: {SACLoss: {}}
optimizer:
  actor: {of: [actor_network], adam: {lr: 3.0e-4}}
  critic: {of: [qvalue_network], adam: {lr: 3.0e-4}}
  temperature: {of: [log_alpha], adam: {lr: 3.0e-4}}
```
""",
    without="The temperature stays at its first value; gradients pile up in what no optimizer clears.",
)

MISSING_PART = Rule(
    "SG563",
    "a part is missing",
    """\
A pipeline says its environment, its loss, its data, its optimizer and when it stops.

```yaml
pipelines:
  DQN: {env: CartPoleTrain, loss: {DQNLoss: {}}}
```

```yaml
pipelines:
  DQN:
    env: CartPoleTrain
    networks: {value_network: {mlp: [128, 128]}}
    policy: {explore: {epsilon_greedy: {eps: 0.1}}}
    loss: {DQNLoss: {}}
    data: {replay: {capacity: 100_000, batch_size: 128}}
    target_updater: {soft: {tau: 0.01}}
    optimizer: {adam: {lr: 1.0e-3}}
    stop: {frames: 200_000}
```
""",
    without="There is nothing to run.",
)

NO_WRITER = Rule(
    "SG564",
    "nobody wrote what is read",
    """\
What the estimator and the loss read has to be written before: by the environment, by the policy, by an estimator.

```yaml
networks: {actor_network: {mlp: [64], dist: tanh_delta}, critic_network: {mlp: [64]}}
loss: {ClipPPOLoss: {}}                  # reads the log-probability of the action
```

```yaml
networks: {actor_network: {mlp: [64], dist: tanh_normal}, critic_network: {mlp: [64]}}
loss: {ClipPPOLoss: {}}
```
""",
    without="KeyError at the first update, after a whole batch was collected.",
)

ONE_PIPELINE = Rule(
    "SG565",
    "several pipelines in a file",
    """\
A pipeline becomes a module with its functions `train`, `update` and `evaluate`: one for each file. Abstract ones, which are
extended only, may stand beside it.

```yaml
pipelines: {DQNSmall: {extends: DQN}, DQNLarge: {extends: DQN}}
```

```yaml
pipelines: {DQN: {abstract: true}, DQNSmall: {extends: DQN}}
```
""",
    without="Their functions would be written over each other.",
)
