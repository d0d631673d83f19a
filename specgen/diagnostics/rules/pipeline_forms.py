"""SG624 to SG630: what a pipeline may be made of besides the parts that all have."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

UNKNOWN_TERM = Rule(
    "SG624",
    "a term that the loss does not have",
    """\
`terms` names the terms of the loss that are trained, where not all are.

```yaml
loss: {CQLLoss: {}}
terms: [loss_actor, loss_q, loss_alpha]
```

```yaml
loss: {CQLLoss: {}}
terms: [loss_actor, loss_qvalue, loss_cql, loss_alpha]
```
""",
    without="What was meant is not trained.",
)
