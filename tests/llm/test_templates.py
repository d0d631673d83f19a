"""Chat templates by name, and texts read back."""

from __future__ import annotations

import pytest
from specgen_runtime.llm import History, add_chat_template
from specgen_runtime.llm.conversations.families import _FAMILIES, chat_of_text, template_of
from specgen_runtime.llm.conversations.messages import Chat
from specgen_runtime.llm.conversations.templates import render

from specgen.check.language_models import recorded
from tests.llm.models import CHATML, tiny_tokenizer

CHAT: Chat = [
    {"role": "system", "content": "Be good."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "I'm well.\nYou?"},
    {"role": "user", "content": "Yes"},
    {"role": "assistant", "content": "Good"},
]
NAMES = ("chatml_format", "qwen", "dialogpt", "falcon", "deepseek", "llama")


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_read_back(name: str) -> None:
    tokenizer = tiny_tokenizer()
    chat = CHAT[1:] if name == "dialogpt" else CHAT  # which has no place for a system message
    for part in (chat, chat[:-1], chat[:-2]):
        prompted = part[-1]["role"] == "user"
        text = render(template_of(None, name=name), part, tokenizer, add_generation_prompt=prompted)
        assert chat_of_text(text, tokenizer, name=name) == part


def test_an_answer_of_a_base_model_ends_where_texts_do() -> None:
    """Such a model was not trained on ends of turns; in a turn that has one, the token is what was said."""
    asked = "<|im_start|>user\nHello<|im_end|>\n"
    answered = f"{asked}<|im_start|>assistant\nGood<|endoftext|>\n{asked}"
    chat = chat_of_text(answered, name="qwen")
    assert chat == [CHAT[1], {"role": "assistant", "content": "Good"}, CHAT[1]]
    said = chat_of_text(answered.replace("<|endoftext|>\n", "<|endoftext|><|im_end|>\n"), name="qwen")
    assert said[1] == {"role": "assistant", "content": "Good<|endoftext|>"}


@pytest.mark.parametrize("name", ["chatml_format", "qwen", "dialogpt", "deepseek", "llama"])
def test_an_answer_that_was_cut_is_not_complete(name: str) -> None:
    tokenizer = tiny_tokenizer()
    text = render(template_of(None, name=name), CHAT[1:], tokenizer).removesuffix("\n")
    cut = text.removesuffix("<|eot|>" if name == "llama" else "<|im_end|>")[:-1]
    last = chat_of_text(cut, tokenizer, name=name)[-1]
    assert last == {"role": "assistant", "content": "Goo", "is_complete": False}


@pytest.mark.peers
@pytest.mark.parametrize("name", ["chatml_format", "qwen", "falcon", "deepseek", "llama"])
def test_names_mean_what_they_mean_in_torchrl(name: str) -> None:
    torchrl = pytest.importorskip("torchrl.data.llm")
    tokenizer = tiny_tokenizer()
    for chat, prompted in ((CHAT, False), (CHAT[:-1], True)):
        theirs = torchrl.History.from_chats(chat).apply_chat_template(
            tokenizer=tokenizer, chat_template_name=name, add_generation_prompt=prompted
        )
        assert render(template_of(None, name=name), chat, tokenizer, add_generation_prompt=prompted) == theirs


def test_the_template_that_is_used() -> None:
    tokenizer = tiny_tokenizer()
    assert template_of(tokenizer) == CHATML  # its own
    assert template_of(tokenizer, name="llama") == _FAMILIES["llama"].template
    assert template_of(tokenizer, "{{ 1 }}", "llama") == "{{ 1 }}"


@pytest.mark.parametrize(
    "name", ["somebody/Qwen-tiny", "deepseek-llama-qwen", "base", "llama-of-falcons", "DialoGPT"]
)
def test_a_tokenizer_without_a_template_gets_that_of_its_family(name: str) -> None:
    bare = tiny_tokenizer(None)
    bare.name_or_path = name
    family = next((family for family in recorded._FAMILIES if family in name.lower()), "chatml_format")
    said = rf"the tokenizer '{name}' has no chat template.* Say chat_template_name='{family}'"
    with pytest.warns(UserWarning, match=said):
        assert template_of(bare) == _FAMILIES[family].template


def test_an_unknown_template() -> None:
    with pytest.raises(ValueError, match="no chat template 'lama'; did you mean 'llama'"):
        template_of(None, name="lama")
    with pytest.raises(ValueError, match="give a tokenizer"):
        template_of(None)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = {"default": CHATML, "tools": CHATML}
    with pytest.raises(ValueError, match="several templates"):
        template_of(tokenizer)


def test_a_template_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specgen_runtime.llm.conversations.families._FAMILIES", dict(_FAMILIES))
    template = "{%- for m in messages %}{{ m['role'] + '>' + m['content'] + '\n' }}{%- endfor %}"

    def parse(text: str) -> History:
        turns = (line.partition(">") for line in text.splitlines())
        return History.from_chats([{"role": role, "content": content} for role, _, content in turns])

    add_chat_template("lines", template, parse, ["liner"])
    history = History.from_chats(CHAT[3:])
    text = history.apply_chat_template(
        tokenizer=None, chat_template_name="lines", add_generation_prompt=False
    )
    assert text == "user>Yes\nassistant>Good\n"
    assert History.from_text(text, "lines").to_chats() == CHAT[3:]
    bare = tiny_tokenizer(None)
    bare.name_or_path = "my-liner-of-qwen"
    with pytest.warns(UserWarning, match="rendered as 'lines'"):
        assert template_of(bare) == template, "what was added last comes first"
    own = tiny_tokenizer()
    own.name_or_path = "my-liner"
    assert template_of(own) == template, "one that was added for its name goes before its own"
    assert History.from_text(text, tokenizer=own).to_chats() == CHAT[3:]
    with pytest.raises(ValueError, match="already"):
        add_chat_template("lines", template)
    add_chat_template("one way", "{{ messages[0]['content'] }}")
    with pytest.raises(ValueError, match="are not read back"):
        History.from_text("a", "one way")


def test_tool_calls_and_what_they_return() -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": "é<"}}}
    chat: Chat = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "3"},
    ]
    text = render(template_of(None, name="qwen"), chat)
    assert '<tool_call>\n{"name": "add", "arguments": {"a": "é<"}}\n</tool_call><|im_end|>' in text
    assert "<tool_response>\n3\n</tool_response>" in text


def test_going_on_with_a_message() -> None:
    tokenizer = tiny_tokenizer()
    text = render(CHATML, CHAT[:3], tokenizer, continue_final_message=True)
    assert text == tokenizer.apply_chat_template(CHAT[:3], tokenize=False, continue_final_message=True)
    with pytest.raises(ValueError, match="exclude each other"):
        render(CHATML, CHAT, tokenizer, continue_final_message=True, add_generation_prompt=True)
