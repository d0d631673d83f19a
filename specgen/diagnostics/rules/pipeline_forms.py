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

SUPPORT = Rule(
    "SG625",
    "values of a distribution that nobody asks for, or that are missing",
    """\
A network of distributional action values gives the probabilities of values, which its `support` says: how many they are,
the lowest and the highest. No other network has one.

```yaml
networks: {value_network: {mlp: [128]}}
loss: {DistributionalDQNLoss: {}}
```

```yaml
networks: {value_network: {mlp: [128], support: {atoms: 51, low: 0, high: 100}}}
loss: {DistributionalDQNLoss: {}}
```
""",
    without="Returns outside of the support count as its ends.",
)
