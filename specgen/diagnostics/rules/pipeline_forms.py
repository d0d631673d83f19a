"""SG607, SG608, SG624, SG625, SG638, SG648: what a pipeline may be made of besides the parts that all have."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NO_CONDITION = Rule(
    "SG607",
    "not a condition on a metric",
    """\
`until` ends the passes over a batch when a metric of an update is above a number, such as the divergence of the policy from the
one that acted.

```yaml
data: {on_policy: {num_envs: 16, num_steps: 128, epochs: 10, minibatch_size: 256, until: kl > 0.03}}
```

```yaml
data: {on_policy: {num_envs: 16, num_steps: 128, epochs: 10, minibatch_size: 256, until: kl_approx > 0.03}}
```
""",
    without="AttributeError at the first update, or passes that never end early.",
)

NO_BUFFER = Rule(
    "SG608",
    "a buffer that is not there",
    """\
`checkpoint: {buffer: false}` leaves the replay buffer out of checkpoints. On-policy batches are gone when a checkpoint is written,
and recorded data are in their folder.

```yaml
data: {on_policy: {num_envs: 16, num_steps: 128, epochs: 10, minibatch_size: 256}}
checkpoint: {buffer: false}
```

```yaml
data: {on_policy: {num_envs: 16, num_steps: 128, epochs: 10, minibatch_size: 256}}
```
""",
    severity="warning",
    without="Nothing; whoever reads it looks for a buffer.",
)

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

TARGETS_APART = Rule(
    "SG638",
    "targets of two updaters",
    """\
Where `target_updater` says by name how targets follow, each is of one network, or of one of several losses. A target that two move
would follow faster than either says.

```yaml
target_updater:
  agent: {soft: {tau: 0.005}}
  agent.qvalue_network: {soft: {tau: 0.01}}
```

```yaml
target_updater:
  agent.actor_network: {soft: {tau: 0.005}}
  agent.qvalue_network: {soft: {tau: 0.01}}
```
""",
    without="The target moves twice at each update.",
)

UNREAD_NUMBER = Rule(
    "SG648",
    "a number that no term reads",
    """\
Arguments of a loss decide which terms it has. A number of a term that is left out weighs nothing.

```yaml
loss: {ClipPPOLoss: {entropy_bonus: false, entropy_coeff: 0.02}}
```

```yaml
loss: {ClipPPOLoss: {entropy_coeff: 0.02}}
```
""",
    severity="warning",
    without="The number is a hyper-parameter that changes nothing, whatever it is set to.",
)
