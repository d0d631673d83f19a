"""Conversations as lists of messages: what is read as one, what is refused, rows of tensordicts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import as_rows, chats_of
from tensordict import TensorDict

from tests.python_processes import run_python

SHORT = [{"role": "user", "content": "a"}]
LONG = [{"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]


@pytest.mark.parametrize(
    ("value", "chats"),
    [
        ([SHORT, LONG], [SHORT, LONG]),
        (SHORT, [SHORT]),
        ([], []),
        ([[]], [[]]),
        ([[SHORT, LONG], [LONG, SHORT]], [SHORT, LONG, LONG, SHORT]),
        (as_rows([SHORT, LONG], (2,)), [SHORT, LONG]),
        (as_rows([SHORT], ()), [SHORT]),
        ([as_rows([SHORT, LONG], (2,)), as_rows([LONG, LONG], (2,))], [SHORT, LONG, LONG, LONG]),
        (as_rows([SHORT, LONG, SHORT, LONG, LONG, LONG], (2, 3)), [SHORT, LONG, SHORT, LONG, LONG, LONG]),
        (as_rows([], (0,)), []),
    ],
)
def test_conversations_of_a_value(value: Any, chats: list[Any]) -> None:
    assert chats_of(value) == chats


def test_rows_of_different_lengths_stack_and_index() -> None:
    data = TensorDict(chat=as_rows([SHORT, LONG], (2,)), batch_size=(2,))
    both: Any = torch.stack([data, data[[1, 0]]])
    assert both.batch_size == (2, 2)
    assert chats_of(both.get("chat")) == [SHORT, LONG, LONG, SHORT]
    assert chats_of(data[1].get("chat")) == [LONG]
    assert chats_of(data["chat"]) == [SHORT, LONG]


def test_a_conversation_is_copied() -> None:
    given = [dict(SHORT[0])]
    chats_of(given)[0][0]["content"] = "changed"
    assert given == SHORT


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ("a", TypeError, "chats is a list of messages"),
        ([SHORT, 3], TypeError, r"chats\[1\] is a list"),
        ([[{"role": 1, "content": "a"}]], ValueError, r"chats\[0\]\[0\] needs a 'role'"),
        ([SHORT, [{"role": "user"}]], ValueError, r"chats\[1\]\[0\] needs a 'content'"),
        ([[{"role": "user", "content": 3}]], ValueError, "got int"),
        ([[{"role": "user", "content": "a\ue000"}]], ValueError, r"U\+E000"),
        ([[{"role": "user", "content": [{"type": "text", "text": "\ue001"}]}]], ValueError, r"U\+E000"),
    ],
)
def test_what_is_no_conversation_is_refused(value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        chats_of(value)


def test_a_message_of_tool_calls_only_has_no_content() -> None:
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": {}}}]}
    assert chats_of([call]) == [[{**call, "content": None}]]


def test_objects_and_rows_are_as_many() -> None:
    with pytest.raises(ValueError, match="3 rows, got 2"):
        as_rows([SHORT, LONG], (3,))


def test_importing_language_models_imports_no_transformers() -> None:
    code = "import specgen_runtime.llm, sys; print(sorted({'transformers', 'tokenizers', 'torchrl'} & set(sys.modules)))"
    done = run_python("-c", code)
    assert done.stdout.strip() == "[]"


def test_importing_the_runtime_imports_no_language_models() -> None:
    code = "import specgen_runtime, sys; print([name for name in sys.modules if name.startswith('specgen_runtime.llm')])"
    done = run_python("-c", code)
    assert done.stdout.strip() == "[]"
