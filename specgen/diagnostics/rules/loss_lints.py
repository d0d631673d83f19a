"""SG43x: legal losses that rarely train what was meant."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

ESTIMATE_OF_NOW = Rule(
    "SG431",
    "value estimate from the present value",
    """\
`value_estimate` takes the value of the *next* state and adds the reward to it. Everything in this argument is
computed from the present record.

```yaml
let:
  target: stop_grad(value_estimate(critic.target(now)))
```

Ask for the next one:

```yaml
let:
  target: stop_grad(value_estimate(critic.target(next)))
```
""",
    severity="warning",
    without="Each value moves towards its own reward plus itself: values grow by about a reward each pass and never settle.",
)

BOOTSTRAP_MASK = Rule(
    "SG432",
    "bootstrapping without `terminated`",
    """\
A reward and the value of the next state are added. Behind a terminal state there is no value, so the sum has to
leave it out where the episode is `terminated`, and only there: `done` is true at time limits too, where it goes on.

```yaml
let:
  target: stop_grad(reward + gamma * critic.target(next) * where(done, 0.0, 1.0))
```

```yaml
let:
  target: stop_grad(reward + gamma * critic.target(next) * where(terminated, 0.0, 1.0))
```

`value_estimate(next_value)` does it for you. In a task that never ends, say `allow: [SG432]`.
""",
    severity="warning",
    without="With `done` every time limit counts as a terminal state; with nothing the value of a fall is that of the "
    "state behind it, which no data ever correct.",
)

TARGET_GRADIENT = Rule(
    "SG433",
    "gradient through the target",
    """\
The target of a value is computed by the trained network itself, and its gradient is not stopped: the loss moves the
next state's value towards the present one as well as the other way.

```yaml
let:
  target: value_estimate(critic(next))
terms:
  loss: distance(critic(now), target, l2)
```

Stop it, or ask a copy:

```yaml
let:
  target: stop_grad(value_estimate(critic(next)))
```

Whoever wants the residual gradient says `allow: [SG433]`.
""",
    severity="warning",
    without="autograd follows the target: the loss falls, values shrink towards each other, and the policy gets no better.",
)

TRAINS_NOTHING = Rule(
    "SG434",
    "term that trains no network",
    """\
No gradient of this term reaches the parameters of a network: what it reads is `.frozen`, `.target`, behind
`stop_grad`, or behind something without a gradient (`argmax`, a comparison, a cast to integers).

```yaml
terms:
  loss: distance(critic.frozen(now), target, l2)
```

Call the network that is to be trained:

```yaml
terms:
  loss: distance(critic(now), target, l2)
```
""",
    severity="warning",
    without="Alone, the term makes `backward()` raise that no tensor requires grad; beside others it is added in "
    "silence and trains nothing.",
)

MISSPELT_KEY = Rule(
    "SG435",
    "key that looks misspelt",
    """\
The default key of a role, or a key that a network reads, is one or two letters away from a key that environments
write. Any text is a key, so that nothing else notices before the loss is called.

```yaml
keys: {terminated: terminted}
```

```yaml
keys: {terminated: terminated}
```
""",
    severity="warning",
    without="The loss raises KeyError at its first batch, after the data have been collected.",
)

TRAINS_BOTH = Rule(
    "SG436",
    "a term that trains a learned number and a network",
    """\
The gradient of one term reaches a number under `learnable` and a network. A temperature or a multiplier weighs what the
network is trained by; it has a term of its own, in which what the network gives has no gradient.

```yaml
terms:
  loss_actor: exp(log_alpha) * log_p - q
  loss_alpha: -log_alpha * (log_p + target_entropy)
```

Stop one of the gradients in each:

```yaml
terms:
  loss_actor: stop_grad(exp(log_alpha)) * log_p - q
  loss_alpha: -log_alpha * (stop_grad(log_p) + target_entropy)
```
""",
    severity="warning",
    without="The temperature falls to where the policy's term is smallest, and the policy is pushed by the temperature's: "
    "exploration dies, and the losses look well.",
)

ESTIMATED_BY_HAND = Rule(
    "SG437",
    "target beside the value estimator",
    """\
The loss declares a value estimator, which is chosen, and given its discount, by `make_value_estimator` or by a pipeline.
The target is a reward and a value of the next state, put together without it: another discount, another
estimator, or transitions of several steps change nothing.

```yaml
value_estimator: td0
let:
  target: stop_grad(reward + 0.99 * where(terminated, 0.0, critic.target(next)))
```

Let it compute the target:

```yaml
value_estimator: td0
let:
  target: stop_grad(value_estimate(critic.target(next)))
```

A loss that computes its own declares no `value_estimator`.
""",
    severity="warning",
    without="A discount that is set, or swept over, has no effect; sums of several rewards meet the value of one step later, "
    "discounted once. Nothing fails.",
)
