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

CHAT_NUMBER = Rule(
    "SG528",
    "number that conversations can't have",
    """\
`group` says how many conversations are about one prompt, `max_turns` the most answers in a conversation: whole numbers
from 1. `max_turns: unlimited` sets no limit.

```yaml
chat: {source: "mypackage.data:load", group: 0}
```

```yaml
chat: {source: "mypackage.data:load", group: 8}
```
""",
    without="ValueError when the first environment is made, on the machine that trains.",
)

FIELD_TYPE = Rule(
    "SG529",
    "not the type of a field of a row",
    """\
`reads` says what a reward function reads of the row that a conversation began with. The types are `str`, `int`,
`float`, `bool`, `messages` (a conversation), `any`, and `list[…]` of one of them. The generated module has a `TypedDict`
with these fields, and each row is compared with it when its conversation begins.

```yaml
rewards:
  exact: {python: "mypackage.rewards:exact", reads: {answer: text}}
```

```yaml
rewards:
  exact: {python: "mypackage.rewards:exact", reads: {answer: str}}
```
""",
    without="The reward function meets a number where it compares texts, and every reward is 0.",
)

PROMPT_TYPE = Rule(
    "SG530",
    "prompt that is neither text nor messages",
    """\
What a row asks is text, or a conversation that begins with it. A reward may read it as `str`, `messages` or `any`, not
as a number.

```yaml
rewards:
  close: {python: "mypackage.rewards:close", reads: {query: int}}
envs:
  Chat:
    chat: {prompt: query, reward: close}
```

```yaml
rewards:
  close: {python: "mypackage.rewards:close", reads: {query: str, number: int}}
envs:
  Chat:
    chat: {prompt: query, reward: close}
```
""",
    without="Every row is refused when the environment is reset: what it asks has one of two types at most.",
)

ENDLESS = Rule(
    "SG531",
    "conversation that never ends",
    """\
A conversation ends when it has `max_turns` answers, or when `tools` say so. With neither it goes on for ever, and since
a reward is given for a conversation that has ended, there is none. A time limit in a chain cuts conversations off, but
the reward function is not called then.

```yaml
chat: {source: "mypackage.data:load", max_turns: unlimited, reward: exact}
```

```yaml
chat: {source: "mypackage.data:load", max_turns: 4, reward: exact}
```
""",
    severity="warning",
    without="Rewards are 0 for ever, and the policy learns nothing.",
)

UNHEARD_TOOLS = Rule(
    "SG532",
    "tools that nobody answers",
    """\
`tools` say what follows an answer, such as a calculator's result, and the conversation goes on with the next answer. By
default a conversation has one answer, so that nobody reads what they say.

```yaml
chat: {source: "mypackage.data:load", tools: "mypackage.tools:calculator"}
```

```yaml
chat: {source: "mypackage.data:load", tools: "mypackage.tools:calculator", max_turns: 4}
```
""",
    severity="warning",
    without="Each conversation is cut off at the first call of a tool, and rewarded as if the call were the answer.",
)

TEXT_TEMPLATE = Rule(
    "SG533",
    "text and template that don't belong together",
    """\
With `input: text` models read and write texts in place of messages. A chat template says which text a conversation is,
so it has to be named; with `input: history` there is no text, and models render conversations by templates of their own.

```yaml
chat: {source: "mypackage.data:load", input: text}
```

```yaml
chat: {source: "mypackage.data:load", input: text, template: chatml_format}
```
""",
    without="ValueError when the first environment is made; a template that nothing reads is taken for the models' one.",
)

NO_ROOM = Rule(
    "SG583",
    "answers that may not fit behind their prompts",
    """\
The longest prompt (`max_length`) and the longest answer (`max_new_tokens`) are wider together than the rows that hold
both (`pad_to`).

```yaml
models:
  policy:
    causal_lm: {path: checkpoints/sft}
    max_length: 480
    generate: {max_new_tokens: 64}
    pad_output: true
    pad_to: 512
```

Cut prompts shorter, or make rows wider. A model whose prompts are never that long says `allow: [SG583]`.

```yaml
models:
  policy:
    causal_lm: {path: checkpoints/sft}
    max_length: 448
    generate: {max_new_tokens: 64}
    pad_output: true
    pad_to: 512
```
""",
    severity="warning",
    without="The first long prompt with a long answer raises, which may be hours into a training.",
)
