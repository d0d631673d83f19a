"""SG572, SG573, SG575 to SG578, SG587, SG596, SG597: pipelines: convolutions, trunks and recurrent layers of networks."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

CONVOLUTION = Rule(
    "SG575",
    "a convolution that does not fit",
    """\
Convolutions read one entry of float32 with channels, height and width. Each makes height and width smaller, `(size - kernel) //
stride + 1`, and its kernel is at most as large as what is left.

```yaml
networks: {value_network: {cnn: [[16, 8, 4], [32, 4, 2]], mlp: [256]}}   # observation: float32[1, 16, 16]
```

```yaml
networks: {value_network: {cnn: [[16, 4, 2], [32, 3, 1]], mlp: [256]}}
```

Pixels as environments give them, uint8 with the channels last, become such images by `ToTensorImage` in the chain.
""",
    without="RuntimeError at the first call; or, with the channels last, convolutions over width and colour.",
)

TRUNK = Rule(
    "SG576",
    "a trunk that is none",
    """\
A trunk is a network without a role: layers that the networks which name it stand on, all with the same parameters. It has no
head, and so no distribution, scale, support or sizes of outputs. Networks of the loss are no trunks, and neither are members
of an ensemble or agents with parameters of their own on one.

```yaml
networks:
  actor_network: {mlp: [64]}
  critic_network: {trunk: actor_network, mlp: [64]}
```

```yaml
networks:
  encoder: {mlp: [64]}
  actor_network: {trunk: encoder, mlp: [64]}
  critic_network: {trunk: encoder, mlp: [64]}
```
""",
    without="Parameters that are meant to be shared are copies, or are moved by two optimizers.",
)

SEQUENCES = Rule(
    "SG577",
    "a recurrent network without sequences",
    """\
A recurrent network learns from sequences: on-policy data, several steps of each environment, and minibatches of whole
environments; or slices of episodes from a replay buffer. From single steps, as a buffer gives them otherwise, and recorded data,
no gradient reaches the step before.

```yaml
networks: {memory: {gru: 64}, value_network: {trunk: memory, mlp: [64]}}
data: {replay: {capacity: 100_000, batch_size: 128}}
```

```yaml
networks: {memory: {gru: 64}, value_network: {trunk: memory, mlp: [64]}}
data: {replay: {capacity: 100_000, batch_size: 512, sampler: {slices: {length: 16}}}}      # 32 slices each
```

```yaml
networks: {memory: {gru: 64}, actor_network: {trunk: memory}, critic_network: {trunk: memory}}
data: {on_policy: {num_envs: 16, num_steps: 64, minibatches: 4}}       # 4 environments each, with all their steps
```
""",
    without="It trains as a network without memory: the state is an input like any other, and nobody learns what to keep.",
)

STATE = Rule(
    "SG578",
    "a recurrent state that nobody writes",
    """\
The state of a recurrent layer is carried by the data: the policy writes it while it acts. That of a network which does not act
is written by nobody. Both stand on one trunk, or the policy alone has such a layer.

```yaml
networks: {actor_network: {mlp: [64]}, critic_network: {gru: 64}}
```

```yaml
networks: {memory: {gru: 64}, actor_network: {trunk: memory}, critic_network: {trunk: memory}}
```
""",
    without="At the first step of each batch the state is zero, wherever in its episode an environment is.",
)

UNREAD = Rule(
    "SG582",
    "an observation that a network does not read",
    """\
A network that doesn't say what it reads takes the vectors of float32 that are observed. Where the environment gives an image
besides, or a vector of float64, as simulators do, that stays unread; `in` says that this is meant.

```yaml
networks: {value_network: {mlp: [64]}}                  # observations: pixels, float32[3, 64, 64], and speed, float32[1]
```

```yaml
networks: {value_network: {cnn: [[32, 8, 4], [64, 4, 2]], mlp: [64]}}
```

A vector of another dtype is read behind a transform of the chain:

```yaml
transforms: [DoubleToFloat]
```
""",
    severity="warning",
    without="The training runs, and the agent is blind: it learns from what happens to be a vector of float32.",
)

CHANNELS_LAST = Rule(
    "SG596",
    "channels last",
    """\
Convolutions, and transforms of images such as `Resize`, read channels, height and width. An image whose last size is 1, 3 or 4, and
whose others are larger, has most likely its channels there. Transforms that bring them to the front, as `ToTensorImage` does, read
height, width and channels: a second one takes what the first one wrote for rows. If sizes look like channels and are none, allow it.

```yaml
networks: {value_network: {cnn: [[16, 3, 1]]}}          # observation: float32[64, 64, 3]
```

```yaml
transforms: [{PermuteTransform: {dims: [-1, -3, -2], in_keys: [observation]}}]
```
""",
    severity="warning",
    without="Convolutions over width and colour, with as many channels as the image has rows: it trains, and badly.",
)

DROPOUT = Rule(
    "SG597",
    "dropout in a policy that is weighed",
    """\
A loss that weighs actions by their log-probability compares that of the policy which acted with that of the policy which
learns. With dropout each call has another policy.

```yaml
networks: {actor_network: {mlp: [64, 64], dropout: 0.1}, critic_network: {mlp: [64, 64]}}
loss: {ClipPPOLoss: {}}
```

```yaml
networks: {actor_network: {mlp: [64, 64], layer_norm: true}, critic_network: {mlp: [64, 64], dropout: 0.1}}
loss: {ClipPPOLoss: {}}
```
""",
    severity="warning",
    without="Ratios are far from 1 before anything was learned, and clipping throws most of the batch away.",
)

NOISE_OF_FEATURES = Rule(
    "SG572",
    "noise of features that there is not",
    """\
`gsde` explores by noise that is linear in the features of the policy's last hidden layer. It is the noise of a normal
distribution, squashed or not, whose scale follows from the features.

```yaml
networks: {actor_network: {mlp: [64, 64], scale: {parameter: 0.6}}}
policy: {explore: {gsde: {every: 16}}}
```

```yaml
networks: {actor_network: {mlp: [64, 64]}}
policy: {explore: {gsde: {every: 16, sigma: 0.6}}}
```
""",
    without="Log-probabilities of another distribution than the one that actions come from.",
)

UNUSED_SETTING = Rule(
    "SG573",
    "a setting without the layers that it is of",
    """\
`layer_norm` and `dropout` are of hidden layers, `activation` of these and of convolutions, `head_gain` of the last layer, which
a trunk does not have, and `dueling` of values of each action of a finite set. Where there are no such layers, they change nothing.

```yaml
networks: {value_network: {gru: 64, activation: tanh}}
```

```yaml
networks: {value_network: {gru: 64, mlp: [64], activation: tanh}}
```
""",
    severity="warning",
    without="Somebody changes it, trains for a night, and nothing is different.",
)

NOTHING_TRAINED = Rule(
    "SG587",
    "a term of frozen networks only",
    """\
A frozen network keeps its first weights. A term that nothing else follows from is computed in each update, and moves nothing.

```yaml
networks: {actor_network: {mlp: [64]}, critic_network: {mlp: [64], frozen: true}}
loss: {ClipPPOLoss: {}}
```

```yaml
networks: {actor_network: {mlp: [64]}, critic_network: {mlp: [64], frozen: true}}
loss: {ClipPPOLoss: {}}
terms: [loss_objective, loss_entropy]
```
""",
    severity="warning",
    without="Nothing is raised: the term's loss stays where it is, and the log shows it as if it were trained.",
)
