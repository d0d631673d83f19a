"""SG49x: losses in parts."""

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
