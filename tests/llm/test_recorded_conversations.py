"""Recorded conversations as tokens: widths, masks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import TransformersWrapper, recorded_conversations

from tests.llm.models import tiny_model, tiny_tokenizer


def wrapper(**options: Any) -> TransformersWrapper:
    tokenizer = tiny_tokenizer()
    return TransformersWrapper(tiny_model("llama", tokenizer), tokenizer=tokenizer, **options)


def chat(question: str, *answers: str) -> list[dict[str, str]]:
    said = [{"role": "assistant", "content": answer} for answer in answers]
    return [{"role": "user", "content": question}, *said]


def test_rows_are_as_wide_as_the_longest_or_as_said() -> None:
    chats = [chat("a", "bcd"), {"messages": chat("abc", "d"), "source": "mine"}]
    data = recorded_conversations(chats, wrapper())
    assert data.batch_size == (2,)
    attended = data["masks", "all_attention_mask"]
    assert attended.all(-1).any()
    assert (attended.sum(-1) > data["masks", "all_assistant_mask"].sum(-1)).all()
    said = data["masks", "all_assistant_mask"]
    rendered = [
        wrapper().tokenizer.decode(row[mask]) for row, mask in zip(data["tokens", "full"], said, strict=True)
    ]
    assert [text[: len(answer)] for text, answer in zip(rendered, ("bcd", "d"), strict=True)] == ["bcd", "d"]
    wide = recorded_conversations(chats, wrapper(pad_output=True, pad_to=40, padding_side="right"))
    assert wide["tokens", "full"].shape == (2, 40)
    assert not wide["masks", "all_attention_mask"][:, -1].any()
    for row in range(2):
        left = data["tokens", "full"][row][attended[row]]
        right = wide["tokens", "full"][row][wide["masks", "all_attention_mask"][row]]
        assert torch.equal(left, right)


@pytest.mark.parametrize(
    ("chats", "message"),
    [
        ([], "no conversations"),
        ([chat("a", "b"), "hello"], "conversation 1 is a list of messages, .* got 'hello'"),
        ([{"query": "a"}], "conversation 0 is a list of messages"),
        ([chat("a", "b"), chat("c")], "conversation 1 .* its roles are 'user': leave it out"),
        ([[*chat("a"), {"role": "assistent", "content": "b"}]], "roles are 'user', 'assistent'"),
        ([[{"role": "user"}]], "conversation 0: .*content"),
        ([[*chat("a"), {"role": "assistant", "content": None}]], "conversation 0: .* message 1 is None"),
    ],
)
def test_what_is_no_conversation_is_named(chats: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recorded_conversations(chats, wrapper())


def test_a_function_that_gives_nothing_is_named() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="a list of lists of messages, got None"):
        recorded_conversations(nothing, wrapper())


def test_answers_behind_the_longest_length_are_named() -> None:
    with pytest.raises(ValueError, match=r"conversation 0 .* in its first 3 tokens.* raise `max_length`"):
        recorded_conversations([chat("abcdefgh", "b")], wrapper(max_length=3))
    with pytest.raises(ValueError, match="4"):
        recorded_conversations([chat("abcdefgh", "b")], wrapper(pad_output=True, pad_to=4))
