"""SG5xx: language models and KL."""

from __future__ import annotations

from specgen.diagnostics.diagnostic import Rule

UNKNOWN_MODEL = Rule(
    "SG502",
    "unknown model or chat template",
    """\
A model, or the chat template of one, is named that nobody declares. Models are those of `models:` in this file and in
the files that it imports. Templates are those that are known by name (`chatml_format`, `deepseek`, `dialogpt`, `falcon`,
`llama`, `qwen`), or a file that ends with `.jinja`; a model without `template` has that of its tokenizer.

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, template: chatml}
```

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, template: chatml_format}
```
""",
    without="The weights are loaded, for minutes, and then the first prompt is refused.",
)

NO_TOKENIZER = Rule(
    "SG503",
    "no tokenizer",
    """\
A model that reads conversations or texts needs a tokenizer. It is that of the model's folder, unless another one is
named; a model that a factory makes has no folder.

```yaml
models:
  policy: {causal_lm: {factory: "mypackage.models:make_policy"}, input: history}
```

```yaml
models:
  policy: {causal_lm: {factory: "mypackage.models:make_policy"}, input: history, tokenizer: checkpoints/sft}
```
""",
    without="The model is made, and refuses its first conversation.",
)

MODEL_SETTINGS = Rule(
    "SG512",
    "settings that no model has",
    """\
A model comes from a folder or a hub (`path`) or from a function (`factory`), directly or because it is `like` another
one. Its numbers are in range, and go together: rows that are padded to a width (`pad_output: true`, `pad_to`) have
room for a sequence (`max_length`), and for more than an answer (`max_new_tokens`).

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {max_new_tokens: 512}, pad_output: true, pad_to: 256}
```

```yaml
models:
  policy: {causal_lm: {path: checkpoints/sft}, generate: {max_new_tokens: 128}, pad_output: true, pad_to: 256}
```
""",
    without="The constructor raises after the weights are loaded, or the first long answer does.",
)
