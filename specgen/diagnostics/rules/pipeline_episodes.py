"""SG540 to SG549, SG566, SG599: pipelines: how the policy acts, how episodes end, and what nobody needs."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

OTHER_ACTION = Rule(
    "SG540",
    "an action that the policy did not draw",
    """\
On-policy losses weigh actions with the log-probability that the policy gave them. Noise on the action, a random one in its
place, or random frames at first make it another action: the log-probability that is stored is that of the one that was drawn.

```yaml
loss: {ClipPPOLoss: {}}
policy: {explore: {gaussian: {sigma: 0.1}}}
```

A policy that draws its actions explores by that:

```yaml
loss: {ClipPPOLoss: {}}
```
""",
    without="The ratios are those of other actions; the policy drifts, and nothing fails.",
)

NOISE_ON_DRAWS = Rule(
    "SG541",
    "noise on a policy that draws",
    """\
A policy with a distribution explores by drawing from it, and learns how much. Noise besides is on top of that.

```yaml
loss: {SACLoss: {}}
policy: {explore: {gaussian: {sigma: 0.1}}}
```

```yaml
loss: {SACLoss: {}}
```
""",
    severity="warning",
    without="The temperature that is learned is for another policy than the one that acts.",
)

DIVERGING_NOISE = Rule(
    "SG581",
    "noise that grows without end",
    """\
At each step noise that drifts keeps the part `1 - theta dt` of itself. Where `theta dt` is 2 or more, that is -1 or below: it
changes its sign at each step and never dies out.

```yaml
policy: {explore: {ornstein_uhlenbeck: {sigma: 0.3, theta: 15, dt: 0.2}}}
```

```yaml
policy: {explore: {ornstein_uhlenbeck: {sigma: 0.3, theta: 0.15, dt: 0.01}}}
```
""",
    without="Noise of any size, until it is not a number; actions jump between their bounds, and nothing is learned from them.",
)

LARGE_NOISE = Rule(
    "SG542",
    "noise that is larger than the actions",
    """\
Noise of a deviation above a third of the range of actions leaves most of them at the bounds.

```yaml
env: PendulumTrain                       # its action is in [-2, 2]
policy: {explore: {gaussian: {sigma: 2.0}}}
```

```yaml
env: PendulumTrain
policy: {explore: {gaussian: {sigma: 0.2}}}
```
""",
    severity="warning",
    without="What the policy says has little effect on what is done; most actions are clipped.",
)

OTHER_STATISTICS = Rule(
    "SG543",
    "statistics that evaluations lack",
    """\
A normaliser that learns in the chain learns in the training's environment, and evaluations in the same chain read what it has
learned. In another environment, in workers, on several devices, or where nothing acts, they can't: the policy would meet there
what it has never seen.

```yaml
chains: {Train: {env: Pendulum, transforms: [VecNorm, {StepCounter: {max_steps: 200}}, RewardSum]}}
pipelines: {PPO: {env: Train, workers: {processes: 4}}}
```

Leave out what keeps the statistics apart, or say them as numbers:

```yaml
chains:
  Train:
    env: Pendulum
    transforms: [{ObservationNorm: {loc: 0.0, scale: 0.5}}, {StepCounter: {max_steps: 200}}, RewardSum]
```
""",
    without="Returns of evaluations that are far below those of the training, or statistics that follow the evaluation.",
)

OLD_STATISTICS = Rule(
    "SG599",
    "stored observations with statistics of the past",
    """\
A replay buffer holds what the chain gave when a step was taken. Where a normaliser learns in the chain, older rows are
normalised by other statistics than those that the policy meets now: the same state is several observations.

```yaml
env: Train                               # transforms: [VecNorm, {StepCounter: {max_steps: 200}}, RewardSum]
data: {replay: {num_envs: 8, capacity: 100_000, batch_size: 256}}
```

Say the statistics as numbers, or normalise within the network:

```yaml
networks: {actor_network: {mlp: [256, 256], layer_norm: true}}
```

Where the statistics hardly move once the buffer is warm, `allow: [SG599]` on the pipeline says that this is meant.
""",
    severity="warning",
    without="Values that are learned of one observation and asked of another; slower learning, and nothing fails.",
)

SCALED_RETURN = Rule(
    "SG544",
    "an end at a return that is not the environment's",
    """\
`stop.return` is compared with `episode_reward`. Where transforms change the reward before it is summed, that is the sum of what
they make of it.

```yaml
chains: {Train: {env: Pendulum, transforms: [{RewardScaling: {loc: 0.0, scale: 0.1}}, RewardSum]}}
pipelines: {PPO: {env: Train, stop: {frames: 100_000, return: -200}}}
```

Sum first; the warning that this is before the scaling is meant:

```yaml
chains: {Train: {env: Pendulum, transforms: [RewardSum, {RewardScaling: {loc: 0.0, scale: 0.1}}], allow: [SG311]}}
pipelines: {PPO: {env: Train, stop: {frames: 100_000, return: -200}}}
```
""",
    without="The training ends at once, or never.",
)

NEVER_ENDS = Rule(
    "SG545",
    "episodes that never end",
    """\
Nothing sets `terminated` or `truncated`: neither the environment nor a transform. An evaluation counts whole episodes, and the
first one has no end.

```yaml
pipelines: {PPO: {env: Pendulum}}
```

```yaml
chains: {Train: {env: Pendulum, transforms: [{StepCounter: {max_steps: 200}}, RewardSum]}}
pipelines: {PPO: {env: Train}}
```
""",
    without="Each evaluation takes 30,000 steps and says nothing of episodes, and no return is ever logged.",
)

ENDLESS_VALUES = Rule(
    "SG546",
    "values without end",
    """\
Where no state is terminal, the return of a state goes on for ever. With a discount of 1 it has no limit.

```yaml
env: PendulumTrain                       # it is cut off after 200 steps, and never terminates
value_estimator: {gae: {gamma: 1.0}}
```

```yaml
env: PendulumTrain
value_estimator: {gae: {gamma: 0.99}}
```
""",
    severity="warning",
    without="Values that grow as long as the training lasts.",
)

UNREAD_PARAMETER = Rule(
    "SG547",
    "a parameter that no field names",
    """\
A parameter of a pipeline is there to be named by its fields.

```yaml
params: {width: 128}
networks: {value_network: {mlp: [64, 64]}}
```

```yaml
params: {width: 128}
networks: {value_network: {mlp: [width, width]}}
```
""",
    severity="warning",
    without="Somebody changes it on the command line, and nothing happens.",
)

UNTRAINED = Rule(
    "SG548",
    "a network that nobody trains",
    """\
No term of the loss, with these arguments, trains the network. It stays as it was made.

```yaml
loss: {ClipPPOLoss: {critic_coeff: 0}}
networks: {actor_network: {mlp: [64]}, critic_network: {mlp: [64]}}
```

```yaml
loss: {ClipPPOLoss: {}}
networks: {actor_network: {mlp: [64]}, critic_network: {mlp: [64]}}
```
""",
    severity="warning",
    without="Advantages are estimated by a critic that knows nothing.",
)

NOBODY_ACTS = Rule(
    "SG549",
    "how to act where nobody acts",
    """\
Recorded data are there already: nobody explores. Evaluations take the policy without exploration.

```yaml
data: {recorded: {path: data/pendulum, batch_size: 256}}
policy: {explore: {gaussian: {sigma: 0.1}}}
```

```yaml
data: {recorded: {path: data/pendulum, batch_size: 256}}
```
""",
    severity="warning",
    without="Somebody changes it, and nothing happens.",
)

OTHER_ENV = Rule(
    "SG566",
    "an evaluation of other observations",
    """\
The environment of evaluations gives the policy what that of the training gives, and takes the same actions. It often lacks a
transform of the chain.

```yaml
env: CartPoleFlatTrain                   # its observations are flattened
evaluate: {env: CartPole}
```

```yaml
env: CartPoleFlatTrain
evaluate: {env: CartPoleFlat}
```
""",
    without="KeyError or an error of shapes at the first evaluation; with a normaliser missing, returns that mean nothing.",
)
