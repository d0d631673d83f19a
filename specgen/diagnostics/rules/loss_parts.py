"""SG406 to SG408, SG49x: losses in parts, and their methods."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

PART_NAME = Rule(
    "SG490",
    "part of a loss with the name of something else",
    """\
Terms that share no run of a network, no draw and no estimate are computed apart, by a function for each part: `sac_actor`
is the one of `SACLoss` that begins with `loss_actor`, and `SACActorTerms` what it returns. Nothing else of the same file may
be called so.

```yaml
losses:
  SACLoss:
    terms: {loss_actor: q_new, loss_qvalue: error}
  SACActor:
    terms: {loss: imitation}
```

Give one of the two another name:

```yaml
losses:
  SACLoss:
    terms: {loss_actor: q_new, loss_qvalue: error}
  SACImitation:
    terms: {loss: imitation}
```
""",
    without="One function written over the other, and a loss that computes something else.",
)

METHOD_TERM = Rule(
    "SG491",
    "method of no term",
    """\
An entry of `methods` names a method and the term that it computes.

```yaml
terms: {loss_actor: -q}
methods: {actor_loss: actor}
```

Write the term:

```yaml
terms: {loss_actor: -q}
methods: {actor_loss: loss_actor}
```
""",
    without="KeyError when the method is called.",
)

METHOD_NAME = Rule(
    "SG492",
    "name of a method of a loss",
    """\
A method that computes a term begins with `loss_` or ends with `_loss`: so it is told from parameters and networks, which are
attributes as well.

```yaml
methods: {actor: loss_actor}
```

Write:

```yaml
methods: {actor_loss: loss_actor}
```
""",
    without="A method written over by a parameter or a network of the same name.",
)

METHOD_GIVEN = Rule(
    "SG406",
    "what a method of a loss is given",
    """\
A method that is given values has an argument for each: a value of `let`, floating-point numbers of each sample or a
distribution, that its term or value reads, each once.

```yaml
let:
  dist: actor_network(now)
  log_p: log_prob(dist, rsample(dist))
terms: {loss_alpha: -log_alpha * (stop_grad(log_p) + target_entropy)}
methods: {alpha_loss: {term: loss_alpha, given: {log_prob: log_pi}}}
```

Name a value that the term reads:

```yaml
methods: {alpha_loss: {term: loss_alpha, given: {log_prob: log_p}}}
```
""",
    without="NameError when the method is called, or an argument without effect.",
)

METHOD_READS = Rule(
    "SG407",
    "method of a loss that is not given all",
    """\
A method that is given values has no data: its term or value is computed from these, and from what the loss holds, its
parameters and the numbers that it learns. What else that reads has to be given, too.

```yaml
let:
  dist: actor_network(now)
  a: rsample(dist)
  log_p: log_prob(dist, a)
  q: qvalue_network.frozen(now, action=a)
terms: {loss_actor: alpha * log_p - q}
methods: {actor_loss: {term: loss_actor, given: {log_prob: log_p}}}
```

Give the rest, too, or let the method read the data:

```yaml
methods: {actor_loss: loss_actor}
```
""",
    without="NameError when the method is called.",
)

METHOD_RESULT = Rule(
    "SG408",
    "what a method of a loss computes",
    """\
A method that is given values computes either a term or a value of `let`, floating-point numbers of each sample. With
`type: float32[1]` these have a trailing 1, as they have in data: that is for one number of each sample.

```yaml
let: {dist: actor_network(now), H: entropy(dist)}
methods: {get_entropy: {value: dist, given: {dist: dist}}}
```

Name a value that is computed of what is given:

```yaml
let: {dist: actor_network(now), H: entropy(dist)}
methods: {get_entropy: {value: H, given: {dist: dist}}}
```
""",
    without="AttributeError when the method is called.",
)

OUT_KEY = Rule(
    "SG493",
    "out_keys of no output",
    """\
`out_keys` says in which order a loss that is called with tensors returns its terms and metrics, each once. Those that it does
not name stand behind the others.

```yaml
terms: {loss_actor: -q, loss_qvalue: error}
out_keys: [loss_qvalue, actor]
```

Write their names:

```yaml
terms: {loss_actor: -q, loss_qvalue: error}
out_keys: [loss_qvalue, loss_actor]
```
""",
    without="One output unpacked under the name of another.",
)
