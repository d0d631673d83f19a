"""SG605, SG606, SG641: bonuses that pipelines add to the reward, and returns of changed rewards in the log."""

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

LOGGED_RETURN = Rule(
    "SG641",
    "logged returns that are not the environment's",
    """\
The log has the mean return of evaluations, `evaluation`, and of episodes of the training, `return`. Where transforms change the
reward before it is summed, or nothing sums it, that is the sum of what they make of it: of normalised, clipped or scaled rewards, which is
no measure of how well the policy does, and of running statistics not even the same one all the time.

```yaml
chains: {Train: {env: Pendulum, transforms: [{VecNorm: {in_keys: [reward]}}]}}
pipelines: {PPO: {env: Train}}
```

Sum first, which SG311 warns of where it is not said to be meant:

```yaml
chains: {Train: {env: Pendulum, transforms: [RewardSum, {VecNorm: {in_keys: [reward]}}], allow: [SG311]}}
pipelines: {PPO: {env: Train}}
```

Where what the transforms make of it is the task, `allow: [SG641]` on the pipeline says so.
""",
    severity="warning",
    without="A curve of normalised rewards is read as one of the task: it stays near a constant whatever the policy learns.",
)
