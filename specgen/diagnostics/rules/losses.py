"""SG4xx: losses, their networks, target networks, estimators, parameters and buffers."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NETWORK_CALL = Rule(
    "SG421",
    "wrong call of a network",
    """\
A network is called with the record that it reads, `now` or `next`, and with what it reads in the place of data: a role,
and one value of its type for each sample. Which parameters it uses is said between its name and the parentheses: none
for the trained ones, `.frozen` for the same without gradients, `.target` for the target copy; `.eval` behind them says that it
runs in evaluation mode.

```yaml
let:
  q: value_network(observation)
```

Write:

```yaml
let:
  q: value_network(now)
  next_q: value_network.target(next, action=actor_network.target(next))
```
""",
    without="TypeError of a forward that gets a tensor in the place of a tensordict, at the first batch.",
)

UNKNOWN_NETWORK = Rule(
    "SG422",
    "unknown network",
    """\
An expression calls a network that the loss does not declare.

```yaml
networks:
  value_network: {out: {action_value: "float32[n]"}}
let:
  q: value_netwrok(now)
```

Correct the name, or declare the network under `networks:`.
""",
    without="AttributeError at the first batch, after the data have been collected.",
)

NO_TARGET = Rule(
    "SG423",
    "network without target parameters",
    """\
An expression calls the target copy of a network that has none; it would be the network itself, and the loss
would chase its own tail.

```yaml
networks:
  value_network: {out: {action_value: "float32[n]"}}
let:
  next_q: value_network.target(next)
```

Say that it has a target copy, always (`true`) or by the choice of a parameter:

```yaml
networks:
  value_network: {out: {action_value: "float32[n]"}, target: delay_value}
params:
  delay_value: true
```
""",
    without="The network chases its own output: values oscillate or diverge, and nothing says why.",
)

UNUSED_TARGET = Rule(
    "SG424",
    "target parameters that nothing uses",
    """\
A network is declared with target parameters, and no expression calls `.target`: the copy costs memory and has
no effect.

```yaml
networks:
  value_network: {out: {action_value: "float32[n]"}, target: true}
let:
  next_q: value_network.frozen(next)
```

Call `value_network.target(next)`, or remove `target`.
""",
    severity="warning",
    without="A copy of every parameter on the device, moved at each update and read by nothing.",
)

UNKNOWN_ESTIMATOR = Rule(
    "SG425",
    "unknown value estimator",
    """\
`value_estimator` names none of the estimators.

```yaml
value_estimator: tdo
```

Write one of them:

```yaml
value_estimator: td0
```
""",
    without="`make_value_estimator` raises when the loss is first used, in another file than the slip.",
)

NO_ESTIMATOR = Rule(
    "SG426",
    "value estimate without a value estimator",
    """\
`value_estimate(next_value)` is the target that the value estimator of the loss computes; the loss declares none.

```yaml
let:
  target: value_estimate(next_value)
```

Declare the default:

```yaml
value_estimator: td0
```
""",
    without="TorchRL takes a default estimator, and a gamma that nobody chose, with a warning that scrolls "
    "by.",
)

TERM_NAME = Rule(
    "SG427",
    "name of a loss term",
    """\
Training loops sum the entries whose name starts with `loss`, and log the others. A term that is called
otherwise would be computed and never minimised.

```yaml
terms:
  objective: distance(q, target, l2)
```

Call it `loss` or `loss_…`; what is only to be logged belongs under `metrics`:

```yaml
terms:
  loss_objective: distance(q, target, l2)
```
""",
    without="Training loops sum what begins with `loss`: the term is computed, logged and never minimised.",
)

NOT_PER_SAMPLE = Rule(
    "SG428",
    "not one value per sample",
    """\
A term is one floating-point number per sample; the reduction over the batch is applied by the generated class.

```yaml
let:
  q: value_network(now)
terms:
  loss: q**2
```

Reduce the axes that a sample has:

```yaml
terms:
  loss: sum(q**2, axis=-1)
```
""",
    without="The mean goes over actions as well as samples: a network with more outputs gets smaller "
    "gradients.",
)

UNKNOWN_ROLE = Rule(
    "SG429",
    "unknown key of a loss",
    """\
`writes`, `policy` and `qvalue` name keys by their role, as declared under `keys:`.

```yaml
keys: {priority: td_error}
writes:
  td_error: (chosen - target)**2
```

Write the role:

```yaml
keys: {priority: td_error}
writes:
  priority: (chosen - target)**2
```
""",
    without="The entry is written under a new key, and the replay buffer goes on with its old priorities.",
)

PARAM_FORM = Rule(
    "SG480",
    "parameter in forms that don't fit",
    """\
`parts` names the two numbers of a parameter that takes one number or a pair: expressions read the parts. `true_is` names
another number, which True stands for; the parameter is `optional`, and None where False is given. `by_part` lets one number of
a loss be one for each part of an action, in the order in which `entropies` gives these. `or_function` lets words that are kinds
of a distance be a function, too.

```yaml
params:
  clip_epsilon: {default: 0.2, parts: [low]}
  clip_value: {default: 0.2, true_is: clip_epsilon}
```

```yaml
params:
  clip_epsilon: {default: 0.2, parts: [low, high]}
  clip_value: {type: float, optional: true, true_is: clip_epsilon}
```
""",
    without="A pair reaches a formula of one number: a TypeError at the first batch, or values that broadcast.",
)

UPDATE = Rule(
    "SG481",
    "update of what is no buffer",
    """\
`update` says what numbers that the loss keeps become after a batch, by `next.` and their names: parameters with
`buffer: true`. What they become is one number for the whole batch.

```yaml
params: {beta: {default: 1.0, buffer: true}}
update: {next.beta: where(divergence > 0.1, 2 * beta, beta)}
```

```yaml
params: {beta: {default: 1.0, buffer: true}}
update: {next.beta: "where(batch_mean(divergence) > 0.1, 2 * beta, beta)"}
```
""",
    without="A coefficient that becomes a tensor of a batch, and broadcasts in the next; or one that never changes.",
)
