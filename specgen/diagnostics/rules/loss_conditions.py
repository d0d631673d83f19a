"""SG46x: what a loss computes, reads and returns only with some parameters."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

WRONG_CONDITION = Rule(
    "SG461",
    "condition that is none",
    """\
A term, a metric or a key that is there `when` a condition holds is so for the whole batch: the condition is a truth
value of parameters. A number stands for its not being 0. `given(x)` asks for what is declared with `optional: true`.

```yaml
params: {entropy_coeff: 0.01}
terms:
  loss_entropy: {value: -entropy_coeff * bonus, when: given(entropy_coeff)}
```

Write:

```yaml
params: {entropy_coeff: 0.01}
terms:
  loss_entropy: {value: -entropy_coeff * bonus, when: entropy_coeff}
```
""",
    without="An `if` on a tensor of many values raises at the first batch; on a tensor of one it works until there are two.",
)

RANDOM = Rule(
    "SG476",
    "whether a network is random",
    """\
`random(actor_network)` asks whether what was given as a policy gives a distribution, or is certain. It is asked of a network
that may be either, by `plain: delta`; others are always policies.

```yaml
networks: {actor: {policy: action, in: [observation]}}
terms: {loss: "where(random(actor), -log_prob(actor(now), action), sum((mode(actor(now)) - action)**2))"}
```

Write:

```yaml
networks: {actor: {policy: action, plain: delta, in: [observation]}}
terms: {loss: "where(random(actor), -log_prob(actor(now), action), sum((mode(actor(now)) - action)**2))"}
```
""",
    without="AttributeError at the first batch: a network that writes actions has no `get_dist`.",
)

MAY_BE_MISSING = Rule(
    "SG462",
    "value that may be missing",
    """\
What is optional, or there only under a condition, may be read where the same condition holds.

```yaml
params: {clip_value: {type: float, optional: true}}
let:
  near: old_value + clip(value - old_value, -clip_value, clip_value)
terms:
  loss_critic: distance(near, target, l2)
```

Say what is computed without it, or leave the term out:

```yaml
params: {clip_value: {type: float, optional: true}}
let:
  near: old_value + clip(value - old_value, -clip_value, clip_value)
terms:
  loss_critic: distance(where(given(clip_value), near, value), target, l2)
```
""",
    without="TypeError, at the first batch of whoever leaves the parameter out: `bad operand type for unary -: 'NoneType'`.",
)

BATCH_OF = Rule(
    "SG463",
    "wrong statistic over the batch",
    """\
`batch_mean`, `batch_std` and their like take one number of each sample.

```yaml
params: {coeff: 0.5}
let:
  scale: batch_mean(coeff)
```

Give them what differs between samples, without features of its own: `batch_mean(sum(x))`, `batch_mean(advantage)`.
""",
    without="RuntimeError or a statistic over features as well as samples.",
)

WRONG_MISSING = Rule(
    "SG464",
    "nothing can stand for a missing key",
    """\
`missing` says what stands for a key that the data lack: a number, or `estimate`, for what the value estimator of the
loss computes: `advantage` and `value_target`.

```yaml
keys:
  returns: {key: returns, type: "float32[1]", missing: estimate}
```

Write:

```yaml
keys:
  value_target: {key: value_target, type: "float32[1]", missing: estimate}
value_estimator: {default: gae, network: critic_network}
```
""",
    without="KeyError at the first batch that lacks the entry.",
)

ESTIMATOR_NETWORK = Rule(
    "SG465",
    "value estimator without values",
    """\
`gae`, `multi_agent_gae` and `vtrace` read the value of each state and of the next one. `network` names the network of
the loss that gives them, one number of each state.

```yaml
value_estimator: gae
```

Write:

```yaml
value_estimator: {default: gae, network: critic_network}
```
""",
    without="KeyError for `state_value` at the first batch, or advantages of values that an old network wrote.",
)

WRONG_MASK = Rule(
    "SG466",
    "wrong mask of samples",
    """\
A mask is one truth value of each sample: whether it counts. Statistics over the batch leave out what it leaves out, so
that it is known before them.

```yaml
let:
  ratio: exp(log_p - sample_log_prob)
mask: ratio
```

Write:

```yaml
let:
  ratio: exp(log_p - sample_log_prob)
mask: isfinite(ratio)
```
""",
    without="A mask of numbers multiplies: padding that is NaN makes the loss NaN, and a mask of another shape masks by features.",
)

WRONG_REDUCE = Rule(
    "SG488",
    "wrong means before the reduction",
    """\
`reduce` says over which dimensions of the samples a term takes means before the batch is reduced, for each word of the
parameter that `by` names. They are dimensions that `samples` lists behind the batch; `[]` is one mean over all samples,
`none` no reduction.

```yaml
params: {aggregation: {type: "enum(token_mean, prompt_mean)", default: token_mean}}
samples: [batch, token]
reduce: {token_mean: [], prompt_mean: [tokens], by: aggregation}
```

Write:

```yaml
params: {aggregation: {type: "enum(token_mean, prompt_mean)", default: token_mean}}
samples: [batch, token]
reduce: {token_mean: [], prompt_mean: [token], by: aggregation}
```
""",
    without='A word that nobody knows is taken for the default: TorchRL\'s `aggregation="promt_mean"` is a mean over tokens.',
)

RECORD = Rule(
    "SG489",
    "wrong output of a network",
    """\
A network that writes several entries gives them all in one run; expressions read them by name.

```yaml
networks:
  world: {in: [observation], out: {mean: "float32[a]", std: "float32[a]"}}
let:
  error: target - world(now)
```

Write:

```yaml
networks:
  world: {in: [observation], out: {mean: "float32[a]", std: "float32[a]"}}
let:
  error: (target - world(now).mean) / world(now).std
```
""",
    without="TypeError of a tensordict in the place of a tensor, at the first batch.",
)
