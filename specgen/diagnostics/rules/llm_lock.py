"""SG5xx: what the folders of language models say."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

_RECORDED = """
`specgen models lock` records what the folders of models say in `language_models.lock.json` beside the schemas. Nothing
is said of models that are not recorded, such as those of a hub.
"""

REWRITING_TEMPLATE = Rule(
    "SG504",
    "chat template that rewrites what was said",
    f"""\
Which tokens the assistant said is told by `{{% generation %}}` blocks of the chat template; without them it is found out
from the contents of messages. This template has no such blocks, and cuts or replaces parts of contents, as templates do
that leave out earlier reasoning. So turns before the last may be rendered otherwise than they were sampled, and then
they are not scored.
{_RECORDED}
```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/reasoner}}}}
```

```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/reasoner}}, template: templates/with_generation_blocks.jinja}}
```
""",
    severity="warning",
    without="Answers before the last have no part in losses and penalties, and nothing says so.",
)

TOKENIZERS_DIFFER = Rule(
    "SG505",
    "models with different tokenizers",
    f"""\
The log-probabilities of two models are subtracted token by token, and the models cut texts into different tokens: their
`tokenizer.json` are not the same.
{_RECORDED}
```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/qwen}}, generate: {{max_new_tokens: 64}}, pad_output: true, pad_to: 512}}
  reference: {{like: policy, causal_lm: {{path: checkpoints/llama}}, tokenizer: checkpoints/llama, frozen: true}}
```

```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/qwen}}, generate: {{max_new_tokens: 64}}, pad_output: true, pad_to: 512}}
  reference: {{like: policy, causal_lm: {{path: checkpoints/qwen-base}}, frozen: true}}
```
""",
    without="ValueError when the chain is made, behind the loading of both models; with one length, a penalty of no meaning.",
)

TEMPLATES_DIFFER = Rule(
    "SG506",
    "models with different chat templates",
    f"""\
Two models are compared on the same conversations, and each has a chat template of its own: base models and those that were
trained to chat often do. The same conversation is then two texts.
{_RECORDED}
```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/sft}}, generate: {{max_new_tokens: 64}}, pad_output: true, pad_to: 512}}
  reference: {{like: policy, causal_lm: {{path: checkpoints/base}}, tokenizer: checkpoints/base, frozen: true}}
```

```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/sft}}, generate: {{max_new_tokens: 64}}, pad_output: true, pad_to: 512}}
  reference: {{like: policy, causal_lm: {{path: checkpoints/base}}, frozen: true}}
```
""",
    without="ValueError when the chain is made, behind the loading of both models.",
)

TOO_LONG = Rule(
    "SG521",
    "sequences longer than the model knows",
    f"""\
A prompt of `max_length` tokens with an answer of `max_new_tokens` is longer than the positions that the model was made
for (`max_position_embeddings` of its configuration).
{_RECORDED}
```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/gpt2}}, max_length: 1024, generate: {{max_new_tokens: 64}}}}
```

```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/gpt2}}, max_length: 960, generate: {{max_new_tokens: 64}}}}
```
""",
    without="An index error on the accelerator at the first long prompt, or answers that fall apart behind that place.",
)

PAD_IS_END = Rule(
    "SG522",
    "pad token that is the end token",
    f"""\
The tokenizer pads with the token that ends an answer. specgen is right about it: an answer ends at its first end token,
and padding is what a mask says. Code that finds the end of an answer by looking for padding is not.
{_RECORDED}
Name another pad token and save the tokenizer, or write `allow: [SG522]`.
""",
    severity="warning",
    without="Code of your own that masks pad tokens masks the ends of answers too, and the model never learns to stop.",
)

NO_FAST_TOKENIZER = Rule(
    "SG523",
    "tokenizer without offsets",
    f"""\
Which tokens the assistant said is told by the places of their characters, which only fast tokenizers know: there is no
`tokenizer.json` in this folder.
{_RECORDED}
Load the tokenizer with `transformers.AutoTokenizer`, which converts most of them, and save it again; or let the model read
`text` or `tokens`.
""",
    without="ValueError at the first conversation that is scored, behind minutes of loading.",
)

TOO_FEW_TOKENS = Rule(
    "SG524",
    "tokenizer with more tokens than the model",
    f"""\
The tokenizer has ids that the model has no embedding for: it was saved with another model, or got tokens for which the
model was never resized.
{_RECORDED}
Use the model's own tokenizer, or resize the model (`model.resize_token_embeddings(len(tokenizer))`) and save it.
""",
    without="An index error on the accelerator at the first text with one of these tokens, which says nothing of its cause.",
)

NO_PAD_TOKEN = Rule(
    "SG534",
    "padded output without a pad token",
    f"""\
Rows of one width are padded, and the tokenizer has no token for that.
{_RECORDED}
```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/llama}}, pad_output: true}}
```

Name one and save the tokenizer (`tokenizer.pad_token = "<|finetune_right_pad_id|>"`), or write `pad_output: false`.
""",
    without="ValueError when the first two conversations have different lengths.",
)

ROLE_REFUSED = Rule(
    "SG537",
    "chat template that refuses a role",
    f"""\
The conversations of an environment have messages of a role for which the model's chat template raises an error: some know
no system messages.
{_RECORDED}
```yaml
envs:
  Chat:
    chat: {{source: "mypackage.data:load", system: Be brief.}}
```

```yaml
envs:
  Chat:
    chat: {{source: "mypackage.data:load"}}
```
""",
    without="The template's own error at the first conversation, behind minutes of loading.",
)

NO_CHAT_TEMPLATE = Rule(
    "SG579",
    "no chat template",
    f"""\
The tokenizer has no chat template, and `template` names none. Conversations are rendered by the template of the family
that the folder's name tells, else by `chatml_format`, which the model may never have seen.
{_RECORDED}
```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/base}}}}
```

```yaml
models:
  policy: {{causal_lm: {{path: checkpoints/base}}, template: templates/base.jinja}}
```
""",
    severity="warning",
    without="The model answers worse than it can, and a warning at run time is all that tells why.",
)

VOCABULARIES_DIFFER = Rule(
    "SG580",
    "distributions over different vocabularies",
    f"""\
`estimator: full` sums over the vocabulary, and the two models have numbers for different numbers of tokens, as where one
was resized. Estimators of sampled tokens don't mind, if the tokenizers are the same.
{_RECORDED}
```yaml
chains:
  Train:
    env: Chat
    transforms: [{{RetrieveKL: {{gen_model: policy, ref_model: reference, estimator: k1}}}}]
```
""",
    without="ValueError at the first conversation, when both models are loaded.",
)

BROKEN_MODEL_LOCK = Rule(
    "SG535",
    "record of language models that cannot be read",
    """\
`language_models.lock.json` is written by `specgen models lock` and is not meant to be edited; it is not what that wrote (a
merge conflict, perhaps).

Delete the file and run `specgen models lock`.
""",
    without="Half of a merge conflict is taken for facts of a model.",
)

UNREADABLE_FOLDER = Rule(
    "SG536",
    "folder of a language model that cannot be read",
    """\
`specgen models lock` reads `config.json`, `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json` and
`chat_template.jinja` of the folders that `models:` name; one of them is damaged.

Save the model or the tokenizer again.
""",
    without="The model is loaded for minutes, and then transformers raises an error about the same file.",
)
