"""SG5xx: transforms of chains that run language models."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

ROWS_DIFFER = Rule(
    "SG501",
    "models whose rows have different widths",
    """\
The log-probabilities of two models are subtracted token by token. One model gives rows that are as long as they are
(`pad_output: false`), the other rows that are padded; or both are padded, to different widths (`pad_to`).

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {}, pad_output: true, pad_to: 512}
  reference: {causal_lm: {path: checkpoints/base}, frozen: true}
```

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {}, pad_output: true, pad_to: 512}
  reference: {like: policy, causal_lm: {path: checkpoints/base}, frozen: true}
```
""",
    without="ValueError when both models have been loaded; elsewhere a tensor minus a nested one, at the first step.",
)

NEGATIVE_COEFFICIENT = Rule(
    "SG507",
    "negative coefficient of a KL penalty",
    """\
The coefficient times the penalty is subtracted from the reward. A negative one rewards every step away from the
reference.

```yaml
- RetrieveKL: {gen_model: policy, ref_model: reference, coeff: -0.05}
```

```yaml
- RetrieveKL: {gen_model: policy, ref_model: reference, coeff: 0.05}
```
""",
    without="The policy runs away from the reference, faster the better it is trained, and the reward rises.",
)

WRONG_ESTIMATOR = Rule(
    "SG508",
    "estimator that is wrong in the reward",
    """\
A penalty in the reward gets its gradient through the policy gradient. With `k1`, the log-ratio, that is exactly the
gradient of the KL. With `k3` and its kin it is the gradient of the reverse minus the forward KL, with `k2` it vanishes
near the reference, and with `abs` it is wrong. These are for losses; where only the values are wanted, set
`add_to_reward: false`.

```yaml
- RetrieveKL: {gen_model: policy, ref_model: reference, estimator: k3}
```

```yaml
- RetrieveKL: {gen_model: policy, ref_model: reference, estimator: k1}
```
""",
    severity="warning",
    without="The penalty looks right on the plot, and holds the policy back in the wrong direction or not at all.",
)

ASSISTANT_UNKNOWN = Rule(
    "SG509",
    "nobody knows what the assistant said",
    """\
With `assistant_only`, the default, only tokens of the assistant count, and conversations alone tell which these are. A
model that reads texts or tokens can't say.

```yaml
models:
  reference: {causal_lm: {path: checkpoints/base}, input: text, frozen: true}
```

```yaml
models:
  reference: {causal_lm: {path: checkpoints/base}, input: history, frozen: true}
```
""",
    without="ValueError when both models have been loaded, or a penalty on the prompt, which the policy did not write.",
)

SIDES_DIFFER = Rule(
    "SG510",
    "models that pad at different sides",
    """\
The log-probabilities of two models are subtracted column by column. Where one is padded at the left and the other at the
right, a column holds two different tokens.

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {}, pad_output: true, pad_to: 64, padding_side: left}
  reference: {like: policy, frozen: true, padding_side: right}
```

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {}, pad_output: true, pad_to: 64, padding_side: left}
  reference: {like: policy, frozen: true}
```
""",
    without="The differences are of unrelated tokens: a KL that is large, noisy, and plausible.",
)

POLICY_WITHOUT_GENERATE = Rule(
    "SG511",
    "policy that generates nothing",
    """\
The penalty is of the policy that answers, scored under the temperature, top-k and top-p that it samples with: those of
`generate`. A model without `generate` only scores; it is nobody's policy.

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, pad_output: true, pad_to: 512}
```

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {max_new_tokens: 64}, pad_output: true, pad_to: 512}
```
""",
    without="The penalty is of a distribution that no answer was drawn from.",
)

SAME_LOG_PROBS_KEY = Rule(
    "SG513",
    "two models that write one key",
    """\
The log-probabilities of two models have keys of their own. `log_probs_key` of a model names the group, a keyword of the
transform the key.

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {}, log_probs_key: log_probs}
  reference: {like: policy, frozen: true}
```

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {}, log_probs_key: log_probs}
  reference: {like: policy, frozen: true, log_probs_key: ref_log_probs}
```
""",
    without="The second writes over the first, the difference is 0 everywhere, and so is the penalty.",
)

KL_KEY = Rule(
    "SG514",
    "log-probabilities or a penalty that are written twice, or not yet",
    """\
A transform reads log-probabilities that no transform before it writes, or writes a key that is there already.

```yaml
transforms:
  - KLComputation
  - RetrieveLogProb: {model: policy}
```

```yaml
transforms:
  - RetrieveLogProb: {model: policy}
  - RetrieveLogProb: {model: reference}
  - KLComputation: {ref_log_probs_full_key: ref_log_probs.full}
```
""",
    without="KeyError at the first step, after the models are loaded; or one penalty is written over the other.",
)

TRAINED_REFERENCE = Rule(
    "SG515",
    "reference that can be trained",
    """\
The reference of a KL penalty stays where it is. A model that is not `frozen` has parameters with gradients, which an
optimizer that is given them moves.

```yaml
models:
  reference: {like: policy, causal_lm: {path: checkpoints/base}}
```

```yaml
models:
  reference: {like: policy, causal_lm: {path: checkpoints/base}, frozen: true}
```
""",
    without="The reference follows the policy, the penalty stays small, and nothing holds the policy back.",
)

REFERENCE_IS_POLICY = Rule(
    "SG516",
    "policy that is its own reference",
    """\
One model is given as the policy and as the reference: the same object, so that the penalty is always 0. A reference that
begins as the policy is a second model of the same path.

```yaml
- RetrieveKL: {gen_model: policy, ref_model: policy}
```

```yaml
models:
  reference: {like: policy, frozen: true}
chains:
  Train:
    env: Chat
    transforms: [{RetrieveKL: {gen_model: policy, ref_model: reference}}]
```
""",
    without="The penalty is 0 whatever the policy becomes.",
)

REWARD_RANK = Rule(
    "SG518",
    "reward that is neither of a conversation nor of each token",
    """\
A penalty is subtracted from one reward for a conversation (the sum over its tokens), or from a reward for each token,
whose width is `pad_to`. A reward of another shape is neither.

```yaml
transforms:
  - RewardOfParts   # writes reward: float32[2]
  - RetrieveKL: {gen_model: policy, ref_model: reference}
```

```yaml
transforms:
  - RewardOfParts
  - RetrieveKL: {gen_model: policy, ref_model: reference, add_to_reward: false}
```
""",
    without="ValueError at the end of the first conversation.",
)

GRADIENTS_ACROSS_ACTORS = Rule(
    "SG526",
    "gradients that would cross an actor",
    """\
With `use_ray_service` the models run in processes of their own, and tensors travel without gradients. `detach: false`
asks for gradients of the policy.

```yaml
- RetrieveKL: {gen_model: policy, ref_model: reference, use_ray_service: true, detach: false}
```

```yaml
- RetrieveKL: {gen_model: policy, ref_model: reference, use_ray_service: true}
```
""",
    without="ValueError when the actors have started; elsewhere gradients of zero, and a policy that does not learn.",
)

WIDTH_CHANGES = Rule(
    "SG527",
    "no width for tensors of a chain",
    """\
Data of an environment have one width at every step, so that steps are stacked and rows that have ended are reset beside
others. Models in a chain are padded (`pad_output: true`), to a declared width (`pad_to`).

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {max_new_tokens: 64}}
```

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {max_new_tokens: 64}, pad_output: true, pad_to: 512}
```
""",
    without="The first rollout of two steps can't be stacked, or the first partial reset fails.",
)
