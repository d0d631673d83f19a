"""SG473 and SG485: objects that a loss is passed, whose methods expressions call, and networks that are called with tensors."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

MODULE = Rule(
    "SG473",
    "wrong use of a module",
    """\
What stands under `modules` is an object that the constructor takes. Expressions call its methods: `normalize(x)` of a
`normalizer`, and `denormalize(x)` and `scale()` of a `value_norm`, too. `update` names the key of the data that it is
updated by, which they always hold.

```yaml
modules: {value_norm: {protocol: value_norm, update: value_target}}
keys: {value_target: {key: value_target, type: "float32[1]"}}
let: {goal: value_norm(value_target)}
```

Write:

```yaml
modules: {value_norm: {protocol: value_norm, update: value_target}}
keys: {value_target: {key: value_target, type: "float32[1]"}}
let: {goal: value_norm.normalize(value_target)}
```
""",
    without="AttributeError or TypeError at the first batch; statistics of what the loss has normalized itself.",
)

PLAIN = Rule(
    "SG485",
    "network that can't be a module of tensors",
    """\
With `plain: true` the constructor takes any module, and calls it with the tensors of the keys under `in`. Such a network is
kept as it is, without target parameters and members. `plain: delta` is of policies.

```yaml
networks: {predictor: {in: [observation], out: {features: "float32[k]"}, plain: true, target: true}}
keys: {observation: {key: next.observation, type: "float32[o]"}}
```

Write:

```yaml
networks: {predictor: {in: [observation], out: {features: "float32[k]"}, plain: true}}
keys: {observation: {key: next.observation, type: "float32[o]"}}
```
""",
    without="TypeError at the first batch: a module of tensors gets a tensordict.",
)
