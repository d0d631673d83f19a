"""What the assistant said: masks by characters, for templates that say it, and for those that do not."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from specgen_runtime.llm import render_batch
from specgen_runtime.llm.conversations.assistant import spans_of
from specgen_runtime.llm.conversations.messages import Chat
from specgen_runtime.llm.conversations.templates import render

from tests.llm.models import CHATML, tiny_tokenizer

HEAD = "{%- for m in messages %}{%- set c = m['content'] %}"
PROMPT = "{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
TURN = "{{ '<|im_start|>' + m['role'] + '\\n' + c + '<|im_end|>\\n' }}"
TEMPLATES = {
    "marked": CHATML,
    "plain": HEAD + TURN + PROMPT,
    "trimmed": "{{- bos_token }}" + HEAD + "{%- set c = c|trim %}" + TURN + PROMPT,
    "lead": "{{ bos_token }}"
    + HEAD
    + "{{ '[' + c + ']' if m['role'] == 'user' else ' ' + c + eos_token }}{%- endfor %}",
    "default system": "{{ '<|im_start|>system\\nBe good.<|im_end|>\\n' }}" + HEAD + TURN + PROMPT,
    # leaves out earlier reasoning: the rendering of a beginning is not the beginning of the rendering
    "rewrites": HEAD
    + "{%- if m['role'] == 'assistant' and not loop.last %}{%- set c = c.split('</think>')[-1] %}{%- endif %}"
    + TURN
    + PROMPT,
}
PLAIN: Chat = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "I'm well."}]
CHATS: dict[str, Chat] = {
    "one turn": PLAIN,
    "several turns": [{"role": "system", "content": "Be good."}, *PLAIN, *PLAIN],
    "repeated contents": [{"role": role, "content": "42"} for role in ("user", "assistant") * 2],
    "empty answer": [PLAIN[0], {"role": "assistant", "content": ""}],
    "multi-byte characters": [PLAIN[0], {"role": "assistant", "content": "é 🙂 ok"}],
    "the assistant begins": [{"role": "assistant", "content": "Hello"}, PLAIN[0], PLAIN[1]],
}


def said(template: str, chat: Chat, **options: Any) -> str:
    """The text of the tokens that are masked as the assistant's."""
    tokenizer = tiny_tokenizer(template)
    rendered = render_batch([chat], tokenizer, **options)
    assert rendered.assistant is not None
    return str(tokenizer.decode(rendered.ids.values[rendered.assistant.values]))


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_the_assistants_contents_and_ends_of_turns(template: str, chat: str) -> None:
    answers = [str(message["content"]) for message in CHATS[chat] if message["role"] == "assistant"]
    text = said(TEMPLATES[template], CHATS[chat])
    lead = " " if template == "lead" else ""  # one token with what follows it, where that is a word
    assert text.replace(" ", "") == "".join(answer + "<|im_end|>" for answer in answers).replace(" ", "")
    assert lead or text == "".join(answer + "<|im_end|>" for answer in answers)


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_texts_and_ids_are_those_of_transformers(template: str, chat: str) -> None:
    tokenizer = tiny_tokenizer(TEMPLATES[template])
    rendered = render_batch([CHATS[chat]], tokenizer, empty="zero")
    assert rendered.text[0] == tokenizer.apply_chat_template(CHATS[chat], tokenize=False)
    encoded = tokenizer.apply_chat_template(CHATS[chat], return_assistant_tokens_mask=True, return_dict=True)
    assert rendered.ids.values.tolist() == encoded["input_ids"]
    if template == "marked" and rendered.assistant is not None:  # theirs is all zero where it is not said
        assert rendered.assistant.values.int().tolist() == encoded["assistant_masks"]


def test_a_span_that_begins_at_the_first_token() -> None:
    template = "{%- for m in messages %}{% generation %}{{ m['content'] }}{% endgeneration %}{%- endfor %}"
    assert said(template, [{"role": "assistant", "content": "Hello"}]) == "Hello"


def test_turns_that_were_rendered_otherwise_are_no_samples() -> None:
    chat: Chat = [
        PLAIN[0],
        {"role": "assistant", "content": "<think>x</think>b"},
        PLAIN[0],
        {"role": "assistant", "content": "<think>y</think>d"},
    ]
    assert spans_of(TEMPLATES["rewrites"], chat, tiny_tokenizer()).found == "prefixes"
    assert said(TEMPLATES["rewrites"], chat) == "<think>y</think>d<|im_end|>"
    assert said(TEMPLATES["rewrites"], chat[:2], add_generation_prompt=True) == "<think>x</think>b<|im_end|>"


BLOCK = "{%- if m['role'] == 'assistant' %}{% generation %}{{ c }}{% endgeneration %}{%- else %}{{ c }}{%- endif %}"
CAPTURED = "{%- set said %}" + BLOCK + "{%- endset %}{{ '[' + said | trim + ']' }}{%- endfor %}"
RENDERINGS = {
    "blocks that are written as they are": HEAD + "[" + BLOCK + "]{%- endfor %}",
    "blocks that are captured": HEAD + CAPTURED,
    "blocks of a macro": "{%- macro one(m, c) %}" + BLOCK + "{%- endmacro %}" + HEAD + "[{{ one(m, c) | trim }}]{%- endfor %}",
    "blocks of a loop that calls itself": "{%- for m in messages recursive %}{%- set c = m['content'] %}[" + BLOCK + "]{%- endfor %}",
}  # fmt: skip


@pytest.mark.parametrize("name", RENDERINGS)
def test_marks_around_blocks_never_change_the_text(name: str) -> None:
    template = RENDERINGS[name]
    chat: Chat = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": " Hi "}]
    found = spans_of(template, chat)
    assert found.text == render(template, chat)
    assert [found.text[start:stop].strip() for start, stop in found.spans] == ["Hi"]


@pytest.mark.parametrize(
    "further", [{"tools": [{"name": "\ue000look\ue001"}]}, {"documents": ["\ue000x\ue001"]}]
)
def test_marks_in_what_is_no_content_are_no_turns(further: dict[str, Any]) -> None:
    template = "{{ tools }}{{ documents }}" + HEAD + BLOCK + "{%- endfor %}"
    found = spans_of(template, PLAIN, **further)
    assert found.text == render(template, PLAIN, **further)
    assert [found.text[start:stop] for start, stop in found.spans] == ["I'm well."]


def test_other_roles() -> None:
    assert said(CHATML, CHATS["one turn"], roles=("user",)) == "Hello<|im_end|>"
    assert (
        said(CHATML, CHATS["one turn"], roles=("user", "assistant")) == "Hello<|im_end|>I'm well.<|im_end|>"
    )


def test_a_template_that_hides_contents_is_refused() -> None:
    template = "{%- for m in messages %}{{ m['content']|length }}{%- endfor %}{{ messages|length }}"
    with pytest.raises(ValueError, match="message 1, for one"):
        render_batch([PLAIN], tiny_tokenizer(template))


def test_a_row_with_nothing_to_score_is_refused() -> None:
    tokenizer = tiny_tokenizer()
    with pytest.raises(ValueError, match=r"row 1 \(user; 7 tokens\) has no token of assistant"):
        render_batch([PLAIN, PLAIN[:1]], tokenizer)
    with pytest.raises(ValueError, match="cut to max_length=4"):
        render_batch([PLAIN], tokenizer, max_length=4, truncation_side="right")
    rendered = render_batch([PLAIN, PLAIN[:1]], tokenizer, empty="zero")
    assert rendered.assistant is not None
    assert not rendered.assistant.rows()[1].any()


@pytest.mark.parametrize("side", ["left", "right"])
def test_truncation_cuts_ids_and_masks_alike(side: str) -> None:
    tokenizer = tiny_tokenizer()
    whole = render_batch([PLAIN], tokenizer)
    cut = render_batch([PLAIN], tokenizer, max_length=7, truncation_side=side, empty="zero")
    part = slice(7) if side == "right" else slice(-7, None)
    assert cut.ids.values.tolist() == whole.ids.values.tolist()[part]
    assert cut.assistant is not None
    assert whole.assistant is not None
    assert cut.assistant.values.tolist() == whole.assistant.values.tolist()[part]


def test_a_slow_tokenizer_is_refused() -> None:
    class Slow:
        chat_template = CHATML
        is_fast = False
        special_tokens_map: ClassVar[dict[str, str]] = {}

        def get_vocab(self) -> dict[str, int]:
            return {}

        def __len__(self) -> int:
            return 0

    with pytest.raises(ValueError, match="Slow has no character offsets"):
        render_batch([PLAIN], Slow())


def test_the_source_tells_equal_renderings() -> None:
    def source(tokenizer: Any, **options: Any) -> str:
        return render_batch([PLAIN], tokenizer, **options).source

    first = source(tiny_tokenizer())
    other = tiny_tokenizer(padding_side="right")
    other(["a", "a b"], padding=True)  # leaves its padding in the tokenizer
    assert source(other) == first
    assert source(tiny_tokenizer(TEMPLATES["plain"])) != first
    assert source(tiny_tokenizer(eos="</s>")) != first
    other.add_tokens(["weather?"])
    assert source(other) != first


def test_templates_are_sandboxed() -> None:
    with pytest.raises(ValueError, match="refuses the conversation"):
        render("{{ messages.__class__.__mro__ }}", PLAIN)
    with pytest.raises(ValueError, match="only users"):
        render("{{ raise_exception('only users') }}", PLAIN)
    with pytest.raises(ValueError, match="line 1"):
        render("{% if %}", PLAIN)
