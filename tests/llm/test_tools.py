"""Tools that models call: parsers, the registry, and conversations with the results of calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import (
    CallTools,
    ChatEnv,
    ExecuteToolsInOrder,
    IncrementalTokenizer,
    JSONCallParser,
    ToolCall,
    ToolRegistry,
    XMLBlockParser,
    chats_of,
)
from specgen_runtime.testing import check_env
from specgen_runtime.transforms import Compose, TransformedEnv

from tests.llm.models import tiny_tokenizer
from tests.llm.test_chat_env import say


class Tool:
    """A function as a service."""

    def __init__(self, name: str, function: Any) -> None:
        self.name, self.function = name, function
        self.schema_in: dict[str, Any] = {}
        self.schema_out: dict[str, Any] = {}

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        return {"result": self.function(**arguments)}


class Spelled:
    """A service that takes what it names only."""

    def __init__(self) -> None:
        self.name = "spell"
        self.schema_in: dict[str, Any] = {"word": str}
        self.schema_out: dict[str, Any] = {"letters": list}

    def __call__(self, word: str) -> dict[str, Any]:
        return {"letters": list(word)}


def add(a: int, b: int, **_: Any) -> int:
    return a + b


def fail(**_: Any) -> int:
    raise ArithmeticError("no number")


def asked(_state: dict[str, Any]) -> list[Any]:
    return [_state["query"], len(_state["history"])]


def registry() -> ToolRegistry:
    return ToolRegistry([Tool("add", add), Tool("fail", fail), Tool("asked", asked), Spelled()])


ADD = '<tool name="add" tag="A">{"a": 3, "b": 5}</tool>'


def test_registry() -> None:
    tools = registry()
    assert "add" in tools
    assert "sub" not in tools
    tools.register(Tool("sub", lambda a, b: a - b))
    assert tools.get("sub")(a=3, b=1) == {"result": 2}
    with pytest.raises(
        KeyError, match="Unknown tool: ad; known are add, asked, fail, spell, sub; did you mean 'add'"
    ):
        tools.get("ad")


@pytest.mark.parametrize(
    ("text", "rest", "calls"),
    [
        (ADD, "", [ToolCall("add", {"a": 3, "b": 5}, "A")]),
        (
            f"So\n{ADD} and <tool name='x'> and <tool name=\"f\"></tool>.",
            "So\n and <tool name='x'> and .",
            [ToolCall("add", {"a": 3, "b": 5}, "A"), ToolCall("f", {})],
        ),
        ('<tool tag="A" name="f">\n{"x": [1]}\n</tool>', "", [ToolCall("f", {"x": [1]}, "A")]),
        ('<tool name="f">{x}</tool>', "", [ToolCall("f", {"raw": "{x}"})]),
        ('<tool name="f">[1]</tool>', "", [ToolCall("f", {"raw": "[1]"})]),
        ("<tool>{}</tool>", "<tool>{}</tool>", []),
        ('<tool name="f">{"x": 1}', '<tool name="f">{"x": 1}', []),
    ],
)
def test_calls_in_blocks(text: str, rest: str, calls: list[ToolCall]) -> None:
    assert XMLBlockParser()(text) == {"text": rest, "calls": calls, "meta": {"count": len(calls)}}
    assert XMLBlockParser()({"text": text})["calls"] == calls


@pytest.mark.parametrize(
    ("said", "text", "calls"),
    [
        ({"message": "So", "tools": [{"tool": "f", "args": {"x": 1}}]}, "So", [ToolCall("f", {"x": 1})]),
        ('{"tools": [{"tool": "f", "args": "{\\"x\\": 1}", "tag": "T"}, {"tool": "g"}]}', "", [
            ToolCall("f", {"x": 1}, "T"), ToolCall("g", {})]),
        ('{"message": "So", "tools": [{"args": {}}, 3, {"tool": 4}]}', "So", []),
        ('{"tools": 3}', "", []),
        ("So", "So", []),
        ("3", "3", []),
        ({"message": "So"}, "So", []),
    ],
)  # fmt: skip
def test_calls_as_json(said: Any, text: str, calls: list[ToolCall]) -> None:
    assert JSONCallParser()(said) == {"text": text, "calls": calls, "meta": {"count": len(calls)}}


def results(text: str, **options: Any) -> str | None:
    found = CallTools(registry(), XMLBlockParser(), **options)(
        [{"role": "assistant", "content": text}], {"query": "q"}
    )
    if found is None:
        return None
    (message,) = found
    assert isinstance(message["content"], str)
    return message["role"] + ":" + message["content"]


def test_results_of_calls() -> None:
    assert results("nothing") is None
    said = (
        ADD
        + '<tool name="fail"></tool><tool name="ad"></tool><tool name="asked"></tool><tool name="spell">{"word": "hé"}</tool>'
    )
    assert results(said) == (
        'tool:<tool_results>\nadd, call 1 (A) succeeded: {"result": 8}\nfail, call 2 failed: ArithmeticError: no number\n'
        "ad, call 3 failed: KeyError: Unknown tool: ad; known are add, asked, fail, spell; did you mean 'add'?\n"
        'asked, call 4 succeeded: {"result": [{"query": "q"}, 1]}\nspell, call 5 succeeded: {"letters": ["h", "é"]}\n'
        "</tool_results>"
    )  # fmt: skip
    stopped = results(said, stop_on_error=True, role="user")
    assert stopped is not None
    assert stopped.startswith("user:")
    assert "call 2 failed" in stopped
    assert "call 3" not in stopped
    without = results('<tool name="asked"></tool>', pass_state=False)
    assert without is not None
    assert "call 1 failed: TypeError" in without


QUERIES = ["one", "two", "three", "four", "five"]
WAYS: dict[str, Any] = {
    "tools": lambda **k: ChatEnv(QUERIES, tools=CallTools(registry(), XMLBlockParser()), **k),
    "transform": lambda **k: TransformedEnv(
        ChatEnv(QUERIES, **k), ExecuteToolsInOrder(registry(), XMLBlockParser())
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_conversations_go_on_with_results(way: str) -> None:
    env = WAYS[way](max_turns=3, batch_size=(2,), shuffle=False)
    policy = say(lambda chat: ADD if len(chat) < 4 else "8")
    data = env.rollout(3, policy, break_when_any_done=False)
    for row, begun in zip(data[:, 2], ("one", "two"), strict=True):
        chat = chats_of([row.get(("next", "history", "prompt")).data])[0]
        assert [message["role"] for message in chat] == ["user", *("assistant", "tool") * 2, "assistant"]
        assert chat[0]["content"] == begun
        assert '"result": 8' in str(chat[4]["content"])
    assert data["next", "done"][:, :, 0].tolist() == [[False, False, True]] * 2
    check_env(lambda: WAYS[way](max_turns=2, batch_size=(2,)), steps=4)


def test_only_rows_that_step_call_tools() -> None:
    env = WAYS["transform"](max_turns=None, batch_size=(2,))
    root = say(ADD)(env.reset()).set("_step", torch.tensor([True, False]))
    chats = chats_of(env.step(root)["next"].get(("history", "prompt")))
    assert [len(chat) for chat in chats] == [3, 1]


def test_tools_come_before_tokens() -> None:
    tokenizer = tiny_tokenizer()
    tools = ExecuteToolsInOrder(registry(), XMLBlockParser())
    env = TransformedEnv(ChatEnv(["one"], max_turns=None), Compose(tools, IncrementalTokenizer(tokenizer)))
    following = env.step(say(ADD)(env.reset()))["next"]
    text = tokenizer.decode(following["tokens", "prompt"][0])
    assert '"result": 8' in text
    for wrong in (
        TransformedEnv(ChatEnv(["one"], input_mode="text", tokenizer=tokenizer), tools.clone()),
        TransformedEnv(ChatEnv(["one"]), Compose(IncrementalTokenizer(tokenizer), tools.clone())),
    ):
        with pytest.raises(ValueError, match=r"put ExecuteToolsInOrder first"):
            wrong.reset()
