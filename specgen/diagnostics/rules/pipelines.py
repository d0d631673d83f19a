"""SG553 to SG560, SG562 to SG565: pipelines: what each part reads, writes and trains."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

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
    "a network reads what nobody writes, or leaves out what it values",
    """\
A network reads what the environment gives, or the action. One that values actions reads them, and `in`, which says all that it reads,
names them, too: `in: [observation, action]`.

```yaml
networks: {value_network: {mlp: [64, 64], in: [observatoin]}}
```

```yaml
networks: {value_network: {mlp: [64, 64], in: [observation]}}
```
""",
    without="KeyError at the first step; or a policy that learns nothing, since all actions have one value.",
)

DISTRIBUTION = Rule(
    "SG556",
    "a distribution over other actions",
    """\
The distribution of a policy is over the actions of the environment: `categorical` and `ordinal` over indices,
`onehot_categorical` and `onehot_ordinal` over one-hot vectors, `bernoulli` over bits, `tanh_normal`, `beta` and `truncated_normal` over numbers that are
bounded at both ends, `normal` over unbounded ones.

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
