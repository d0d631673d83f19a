"""SG517, SG519, SG520, SG525: penalties, groups and rows of pipelines that train language models in conversations."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

SUBTRACTED_TWICE = Rule(
    "SG517",
    "KL penalty that is subtracted twice",
    """\
The chain takes the distance to the reference from the reward, and the loss has a term for the same distance. One of the two
is enough; where both are meant, allow it.

```yaml
loss: {GRPOLoss: {kl_to_ref_coeff: 0.04}}  # in a chain with RetrieveKL: {coeff: 0.05, …}
```

```yaml
loss: {GRPOLoss: {kl_to_ref_coeff: 0.04}}  # in a chain with RetrieveKL: {add_to_reward: false, …}
```
""",
    severity="warning",
    without="The policy stays nearer to the reference than either coefficient says, and tuning one of them does little.",
)

TRUNCATED = Rule(
    "SG519",
    "ratios of truncated distributions",
    """\
With `top_k` or `top_p` tokens are drawn from the likeliest ones only. The loss compares the probability of a token before and
after updates; which tokens are among the likeliest changes with them, and a token that is no longer there has probability 0.

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {top_p: 0.9}}}
```

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {temperature: 1.0}}}
```
""",
    severity="warning",
    without="Ratios of 0 and log-probabilities of minus infinity, for tokens that the policy itself has drawn.",
)

GROUP = Rule(
    "SG520",
    "groups of answers that have no advantage",
    """\
The advantage of an answer is how much better it is than the others to the same prompt. The environment says how many there
are (`group`), two at least; `group_size` may repeat that number.

```yaml
envs: {Chat: {chat: {source: "mine.data:load", group: 4, reward: exact}}}
pipelines: {ChatGRPO: {env: Chat, value_estimator: {mc_advantage: {group_size: 8}}}}
```

```yaml
envs: {Chat: {chat: {source: "mine.data:load", group: 8, reward: exact}}}
pipelines: {ChatGRPO: {env: Chat, value_estimator: {mc_advantage: {group_size: 8}}}}
```
""",
    without="ValueError at the first batch; with groups of another size, advantages over half a group.",
)

RAGGED = Rule(
    "SG525",
    "rows of tokens that can't be stacked",
    """\
A batch of conversations becomes tensors, of which minibatches are cut. So rows are padded (`pad_output: true`), and, where a
batch has several steps, to one width (`pad_to`).

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {}, pad_output: false}}
```

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {}, pad_output: true, pad_to: 512}}
```
""",
    without="RuntimeError when the first batch is stacked, behind the loading of the models.",
)
