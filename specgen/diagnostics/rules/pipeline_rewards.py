"""SG605, SG606: bonuses that pipelines add to the reward."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NO_BONUS = Rule(
    "SG605",
    "a bonus that no loss gives",
    """\
A bonus on the reward is a metric of a loss of the pipeline, one number for each sample (`each`). `from` names the loss, or the
metric, where it has several.

```yaml
loss: {agent: {ClipPPOLoss: {}}, bonus: {RNDLoss: {}}}
reward: {novelty: {from: agent, coeff: 0.5}}
```

```yaml
loss: {agent: {ClipPPOLoss: {}}, bonus: {RNDLoss: {}}}
reward: {novelty: {from: bonus, coeff: 0.5}}
```
""",
    without="The mean of a batch is added to every reward: advantages are what they were, and nobody explores.",
)

STALE_BONUS = Rule(
    "SG606",
    "a bonus on data that are sampled later",
    """\
A bonus is computed for what was just collected, before advantages are estimated. In a replay buffer it would stay what it was
when its step was new, and recorded data are new to nobody.

```yaml
data: {replay: {capacity: 100_000, batch_size: 128}}
reward: {novelty: {from: bonus, coeff: 0.5}}
```

```yaml
data: {on_policy: {num_envs: 16, num_steps: 128, epochs: 4, minibatch_size: 256}}
reward: {novelty: {from: bonus, coeff: 0.5}}
```
""",
    without="Values of what was new long ago: the policy goes back to where the bonus was, and finds none.",
)
