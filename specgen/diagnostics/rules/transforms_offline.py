"""SG329, SG330 and SG391: transforms of recorded data."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

RECURSION = Rule(
    "SG329",
    "recursion over recorded data that is incomplete",
    """\
`offline` with a `step` computes its outputs moment by moment, from one end of each episode to the other. `acc.y` is the
value of `y` at the moment done before; where an episode begins (for `direction: backward`: ends) it is what `start`
says. `open` says what it is where the data end without `done`. Such a transform has no phases beside it.

```yaml
offline:
  step: {togo: next.reward + gamma * acc.togo}
```

```yaml
offline:
  start: {togo: 0.0}
  step: {togo: next.reward + gamma * acc.togo}
```
""",
    without="The first moment of each episode has no value to begin with, or one of the episode beside it.",
)

ONLY_OFFLINE = Rule(
    "SG330",
    "transform of recorded data in a chain",
    """\
A transform with a recursion over recorded data, or with a class that has `phases: [offline]`, needs what comes later (or what came before, as far back as it goes). An
environment has that at no step, so a chain can't hold it: call it on rollouts, or give it to a replay buffer.

```yaml
chains:
  Train: {env: CartPole, transforms: [Reward2GoTransform]}
```

```python
data = Reward2GoTransform(gamma=0.99)(env.rollout(1000))
```

So does a parameter that `backward` names, where it is true.
""",
    without="The chain would have to return rewards that nobody has received yet.",
)

NOT_BACKWARD = Rule(
    "SG391",
    "transform that can't be replayed from the end",
    """\
`backward` names a parameter with which recorded data are replayed from the end of each episode: `reset` at its last
moment, then `step` for each moment before, where a bare carried output is that of the moment behind. Flags, rewards and
what a policy writes follow what was before, and a map needs no replay.

```yaml
params: {future: {default: false, static: true}}
backward: future
map: {scaled: 2 * x}
```

```yaml
params: {future: {default: false, static: true}}
backward: future
carry: [last]
reset: {last: x}
step: {next.last: last}
```
""",
    without="A parameter that changes nothing, or an episode whose end follows its beginning.",
)
