"""SG609 to SG612, SG614 to SG620, SG626 to SG630, SG634: language models of pipelines, and what they don't fit."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

NO_CONVERSATION = Rule(
    "SG609",
    "language model among numbers, or numbers among conversations",
    """\
In an environment of conversations (`chat:`) a language model acts, which `causal_lm` names, and the loss is one over tokens.
Elsewhere networks of layers do.

```yaml
pipelines: {ChatGRPO: {env: ChatTrain, networks: {actor_network: {mlp: [64, 64]}}, loss: {GRPOLoss: {}}}}
```

```yaml
pipelines: {ChatGRPO: {env: ChatTrain, networks: {actor_network: {causal_lm: policy}}, loss: {GRPOLoss: {}}}}
```
""",
    without="KeyError or TypeError at the first step, behind the loading of the models.",
)

OTHER_MODEL = Rule(
    "SG610",
    "chain that runs a model which does not act",
    """\
The models that a chain runs are frozen, or they are the one that acts and learns. The penalty of another one is of answers
that it did not give.

```yaml
chains: {ChatTrain: {env: Chat, transforms: [{RetrieveKL: {gen_model: first, ref_model: reference}}]}}
pipelines: {ChatGRPO: {env: ChatTrain, networks: {actor_network: {causal_lm: policy}}}}
```

```yaml
chains: {ChatTrain: {env: Chat, transforms: [{RetrieveKL: {gen_model: policy, ref_model: reference}}]}}
pipelines: {ChatGRPO: {env: ChatTrain, networks: {actor_network: {causal_lm: policy}}}}
```
""",
    without="A second model is loaded that nobody trains, and the penalty is of it.",
)

SEVERAL_ANSWERS = Rule(
    "SG611",
    "several answers where one is asked for",
    """\
A conversation of an environment goes on with one answer. Several answers to one prompt are several conversations: `group`
of the environment says how many.

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {num_samples: 8}}}
```

```yaml
envs: {Chat: {chat: {source: "mine.data:load", group: 8, reward: exact}}}
```
""",
    without="The policy gives a batch with a further dimension, and the first step fails.",
)

SAME_ANSWERS = Rule(
    "SG612",
    "policy that always gives the same answer",
    """\
At temperature 0 each token is the likeliest. All answers to a prompt are the same then: none is better than others, and
nothing is learned.

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {temperature: 0}}}
```

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {temperature: 1.0}}}
```
""",
    without="All advantages are 0, so are the gradients, and the curve is flat.",
)

OTHER_INPUT = Rule(
    "SG614",
    "policy that reads what the environment does not give",
    """\
An environment of conversations observes messages (`input: history`) or the text of them (`input: text`). The model that acts
reads the same.

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {}, input: text}}
envs: {Chat: {chat: {source: "mine.data:load"}}}
```

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {}, input: history}}
envs: {Chat: {chat: {source: "mine.data:load"}}}
```
""",
    without="KeyError at the first step, behind the loading of the models.",
)

TWO_DEVICES = Rule(
    "SG615",
    "model with two devices",
    """\
`device` of a pipeline says where its policy is, and becomes a hyper-parameter. A model that says another one contradicts it.

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {}, device: "cuda:1"}}
pipelines: {ChatGRPO: {networks: {actor_network: {causal_lm: policy}}, device: "cuda:0"}}
```

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft}, generate: {}}}
pipelines: {ChatGRPO: {networks: {actor_network: {causal_lm: policy}}, device: "cuda:0"}}
```
""",
    without="The model goes to one of the two, without a word to whoever meant the other.",
)

REWARDS_OF_TOKENS = Rule(
    "SG616",
    "rewards of tokens, and advantages of answers",
    """\
`mc_advantage` compares whole answers. A chain that spreads rewards over the tokens (`spread: tokens`) gives it no number for
an answer.

```yaml
- RetrieveKL: {gen_model: policy, ref_model: reference, spread: tokens}
```

```yaml
- RetrieveKL: {gen_model: policy, ref_model: reference}
```
""",
    without="ValueError at the first batch.",
)

NOT_A_NUMBER = Rule(
    "SG617",
    "terms that are no single number",
    """\
An optimizer minimises the sum of the terms of a loss. With an argument that leaves one number for each sample or token,
there is no sum.

```yaml
loss: {GRPOLoss: {aggregation: none}}
```

```yaml
loss: {GRPOLoss: {aggregation: prompt_mean}}
```
""",
    without="RuntimeError in the first backward pass.",
)

NO_PROMPTS = Rule(
    "SG618",
    "conversations without a source of prompts",
    """\
A training begins new conversations by itself, with the rows of a source. An environment without one waits for prompts in each
reset.

```yaml
envs: {Chat: {chat: {group: 8, reward: exact}}}
```

```yaml
envs: {Chat: {chat: {source: "mine.data:load", group: 8, reward: exact}}}
```
""",
    without="RuntimeError at the first reset, behind the loading of the models.",
)

SAME_NAME = Rule(
    "SG619",
    "two models of one name",
    """\
A training keeps each model that its environments run under the name of that, `parts.reference_model`. Two files may each declare
a model of a name; where a training meets both, one of them is called otherwise.

```yaml
env: ChatTrain  # runs `reference` of one file
evaluate: {env: ChatAsked}  # runs `reference` of another
```

```yaml
env: ChatTrain  # runs `reference`
evaluate: {env: ChatAsked}  # runs `base`
```
""",
    without="The second one takes the place of the first, and penalties are distances to another model.",
)

NO_REWARD = Rule(
    "SG620",
    "conversations that nothing rewards",
    """\
Without `reward` in its `chat` an environment gives 0 for every conversation, and no transform of its chain gives more. No answer is better than another one, and an
evaluation says nothing.

```yaml
envs: {Chat: {chat: {source: "mine.data:load", group: 8}}}
```

```yaml
envs: {Chat: {chat: {source: "mine.data:load", group: 8, reward: exact}}}
```
""",
    without="Advantages are all 0: the training runs to its end, and nothing is learned.",
)

RECORDED_CONVERSATIONS = Rule(
    "SG626",
    "conversations that are recorded, and those that are not",
    """\
`SFTLoss` learns from conversations that a function gives (`conversations`); `GRPOLoss` and its kin from answers of the model itself, `on_policy`;
`DistillationLoss` from either. Numbers are recorded in a folder (`path`).

```yaml
loss: {SFTLoss: {}}
data: {on_policy: {num_envs: 64}}
```

```yaml
loss: {SFTLoss: {}}
data: {recorded: {conversations: "mine.data:train", batch_size: 16}}
```
""",
    without="The model makes its own answers likelier, whatever they are worth.",
)

UNREAD_REFERENCE = Rule(
    "SG627",
    "a reference that nothing reads",
    """\
`ref_model` scores each batch of recorded conversations. `SFTLoss` reads that with `kl_to_ref_coeff`, and as `minor_sft`;
`DistillationLoss` always does.

```yaml
loss: {SFTLoss: {}}
data: {recorded: {conversations: "mine.data:train", ref_model: reference, batch_size: 16}}
```

```yaml
loss: {SFTLoss: {kl_to_ref_coeff: 0.1}}
data: {recorded: {conversations: "mine.data:train", ref_model: reference, batch_size: 16}}
```
""",
    severity="warning",
    without="A second model in memory, and a pass through it for each update, for nothing.",
)

TORN = Rule(
    "SG628",
    "conversations that a batch does not hold whole",
    """\
All answers of a conversation share the advantage of what it was worth in the end. So a batch has conversations from their first
answer to their last, `max_turns` at most, in each of its environments, and an update has conversations with all their answers:
`minibatch_size` is a multiple of `max_turns`.

```yaml
envs: {Chat: {chat: {source: "mine.data:load", tools: "mine.tools:search", max_turns: unlimited, group: 8, reward: exact}}}
```

```yaml
envs: {Chat: {chat: {source: "mine.data:load", tools: "mine.tools:search", max_turns: 4, group: 8, reward: exact}}}
pipelines: {ChatGRPO: {env: Chat, data: {on_policy: {num_envs: 64, minibatch_size: 64}}}}
```
""",
    without="Answers before the last batch get no reward, and their advantage is that of nothing.",
)

COARSE = Rule(
    "SG629",
    "steps that parameters are too coarse for",
    """\
A number in bfloat16 has 8 binary digits, one in float16 has 11. Adam moves each parameter by about `lr`, and a parameter that is
more than 256 times as large (2048 times in float16) is rounded to what it was. Let the parameters that learn be float32; a
model that is small, or a large `lr`, may do with less, and allows it.

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft, dtype: bfloat16}}}
pipelines: {ChatGRPO: {optimizer: {adamw: {lr: 1.0e-6}}}}
```

```yaml
models: {policy: {causal_lm: {path: checkpoints/sft, dtype: float32}}}
pipelines: {ChatGRPO: {optimizer: {adamw: {lr: 1.0e-6}}}}
```
""",
    severity="warning",
    without="Ten updates change 2 % of the parameters, and the curve is flat.",
)

ONLY_TRANSFORMS = Rule(
    "SG630",
    "conversations that only transforms reward",
    """\
Without `reward` in its `chat` an environment gives 0 for every conversation, and a transform of its chain makes something of
that. One that computes rewards is enough; where that is meant, allow it. A penalty alone makes a model stay what it is.

```yaml
envs: {Chat: {chat: {source: "mine.data:load", group: 8}}}
chains: {ChatTrain: {env: Chat, transforms: [{RetrieveKL: {gen_model: policy, ref_model: reference}}]}}
```

```yaml
envs: {Chat: {chat: {source: "mine.data:load", group: 8, reward: exact}}}
chains: {ChatTrain: {env: Chat, transforms: [{RetrieveKL: {gen_model: policy, ref_model: reference}}]}}
```
""",
    severity="warning",
    without="The policy learns to be the reference, whatever it is asked.",
)

OTHERS_ANSWERS = Rule(
    "SG634",
    "the teacher's answers that are the student's",
    """\
With `kl_direction: forward` the loss is the distance of the teacher from the student where the teacher drew the tokens. Of tokens that
the student drew it estimates nothing: rare ones, which the teacher finds likely, weigh without a limit.

```yaml
loss: {DistillationLoss: {kl_direction: forward}}
data: {on_policy: {num_envs: 64}}
```

```yaml
loss: {DistillationLoss: {}}
data: {on_policy: {num_envs: 64}}
```
""",
    severity="warning",
    without="The log shows a distance that is none, and steps of the optimizer are noise.",
)
