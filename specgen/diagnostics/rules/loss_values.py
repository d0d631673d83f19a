"""What networks, distributions and draws of a loss give, and what can be made of it: SG441 to 443, SG477 to 479, SG482, SG494."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

DISTRIBUTION = Rule(
    "SG441",
    "wrong use of a distribution",
    """\
A network with `policy` gives a distribution, which is no number. `log_prob`, `rsample`, `sample`, `mode`, `entropy`, `kl`,
`probs` and `log_probs` take one; all else takes what they give. What is drawn for a key without a type can be scored, and
handed to networks, and not computed with.

```yaml
networks:
  actor_network: {policy: action, in: [observation]}
terms:
  loss_actor: -actor_network(now)
```

Write:

```yaml
networks:
  actor_network: {policy: action, in: [observation]}
let:
  dist: actor_network(now)
terms:
  loss_actor: -log_prob(dist, action)
```
""",
    without="TypeError or AttributeError at the first batch; a plain network in the place of a policy is found as late.",
)

DRAW = Rule(
    "SG442",
    "wrong draw in a loss",
    """\
`normal_like(x)` draws one standard normal number for each of `x`, `uniform(low, high, like=x)` one between two numbers, or `n`
such along the axis `draw`, `bernoulli(p)` a truth value for each sample, and `choose(q, k, axis=ensemble)` the same `k` members
for all samples. The class of the loss draws, before the terms: they take data, or what networks and other draws give.

```yaml
let:
  next_action: actor_network.target(next) + normal_like(2 * action)
```

Write:

```yaml
let:
  next_action: actor_network.target(next) + normal_like(action)
```
""",
    without="Noise of another shape than the action, or another choice of members for each sample.",
)

MEMBER = Rule(
    "SG443",
    "member that may not be there",
    """\
`take(q, 0, axis=ensemble)` is what one member gives. Its number is known when specgen builds, and there are as many members
with any value of the parameter that counts them.

```yaml
networks: {critic: {in: [observation], out: {state_value: "float32[1]"}, ensemble: members}}
params: {members: {default: 2, min: 1}}
let: {second: "take(critic(now), 1, axis=ensemble)"}
```

Let there be enough:

```yaml
networks: {critic: {in: [observation], out: {state_value: "float32[1]"}, ensemble: members}}
params: {members: {default: 2, min: 2}}
let: {second: "take(critic(now), 1, axis=ensemble)"}
```
""",
    without="IndexError at the first batch of who asks for one member.",
)

JOINED = Rule(
    "SG477",
    "calls that can't run as one batch",
    """\
`joined: true` lets the calls of a network with its trained parameters run as one batch, so that statistics over the batch,
such as those of batch normalisation, see the values of all of them. That needs two calls of which neither reads what the other
gives, and one value for each sample.

```yaml
networks:
  critic: {in: [observation], out: {state_value: "float32[1]"}, joined: true}
let:
  value: critic(now)
  next_value: critic.frozen(next)
```

Write:

```yaml
networks:
  critic: {in: [observation], out: {state_value: "float32[1]"}, joined: true}
let:
  value: critic(now)
  next_value: stop_grad(critic(next))
```
""",
    without="Each run normalises by its own statistics: values of two records that are compared stand on different scales.",
)

PROJECTION = Rule(
    "SG478",
    "wrong projection on a support",
    """\
`project(masses, places, support)` gives masses at the atoms of the support, which is the same for all samples, for masses at
other places. Each is a vector with one number for each atom.

```yaml
networks:
  value_network: {qvalue: action, in: [observation], out: {action_value: "float32[atoms, n_actions]"}, buffers: {support: "float32[atoms]"}}
let:
  masses: exp(gather(value_network(next), best))
  goal: project(support, masses, reward + 0.99 * support)
```

Write:

```yaml
  goal: project(masses, reward + 0.99 * support, support)
```
""",
    without="Masses that do not sum to 1, or a shape error in a scatter, at the first batch.",
)

GRADIENT = Rule(
    "SG479",
    "wrong gradient of a network",
    """\
`gradient(y, x)` is the derivative of the number that a network gives for each sample to a value that the call reads in the
place of data, in the shape of that value; to several vectors, one behind the other. The first argument is the call itself, and
the others are names that stand in it.

```yaml
let:
  near: action + normal_like(action)
  value: critic(now, action=near)
  slope: gradient(value, near)
```

Write:

```yaml
let:
  near: action + normal_like(action)
  slope: gradient(critic(now, action=near), near)
```
""",
    without="RuntimeError at the first batch: one of the differentiated tensors was not used in the graph.",
)

STORED = Rule(
    "SG482",
    "stored distribution of no policy",
    """\
`actor_network.stored(now)` is the distribution that a policy had when it chose the actions of the data, from the parameters
that it wrote there. It is of networks with `policy`, and reads nothing but those.

```yaml
let:
  before: critic_network.stored(now)
```

```yaml
let:
  before: actor_network.stored(now)
```
""",
    without="AttributeError at the first batch.",
)

QVALUE_ACTION = Rule(
    "SG494",
    "type of an action that is no index of its values",
    """\
What `qvalue` names is, in expressions, where the action that was done stands among its values: one index, or with a type one
for each place of the dimensions that the values have before the last one.

```yaml
networks:
  local_value_network: {qvalue: action, in: [agents.observation], out: {action_value: "float32[agents, n_actions]"}}
keys:
  action: {key: agents.action, type: "float32[n_actions]"}
```

The type is int64, of these dimensions:

```yaml
networks:
  local_value_network: {qvalue: action, in: [agents.observation], out: {action_value: "float32[agents, n_actions]"}}
keys:
  action: {key: agents.action, type: "int64[agents]"}
```

A policy is over one choice of each sample, so that an action which has one has no such type.
""",
    without="The value of another action, of another agent.",
)
