"""Tools that language models call: their calls in what is said, the functions by name, and the text of results."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol, TypedDict

from tensordict import TensorDictBase

from specgen_runtime.llm.conversations.entries import chats_at
from specgen_runtime.llm.conversations.messages import Chat, Message, as_rows, chats_of, objects_of
from specgen_runtime.specs import Composite
from specgen_runtime.transforms import Transform
from specgen_runtime.typing import NestedKey

__all__ = [
    "CallTools",
    "ExecuteToolsInOrder",
    "JSONCallParser",
    "ParseResult",
    "ToolCall",
    "ToolParser",
    "ToolRegistry",
    "ToolService",
    "Tools",
    "XMLBlockParser",
    "check_tools",
    "messages_of",
]


Tools = Callable[[Chat, Mapping[str, Any]], Sequence[Message] | None]
"""Given a conversation and the row that it began with: the messages that follow the answer, or None at the end."""


def check_tools(tools: object) -> None:
    """Refuse what is no `Tools`.

    Raises:
        TypeError: it can't be called.
    """
    if tools is not None and not callable(tools):
        raise TypeError(
            f"tools is a function of a conversation and its row, such as CallTools(registry, parser), got {tools!r:.80}"
        )


def messages_of(said: object) -> Chat:
    """The messages that `Tools` said.

    Raises:
        TypeError, ValueError: they are none.
    """
    if isinstance(said, str | Mapping):
        raise TypeError(
            f"tools give a list of messages, or None when a conversation is over, got {said!r:.80}"
        )
    try:
        return chats_of([list(said)])[0] if isinstance(said, Iterable) and said else []
    except (TypeError, ValueError) as error:
        raise type(error)(f"tools gave {said!r:.80}: {error}") from error


@dataclass
class ToolCall:
    """A call of a tool.

    Args:
        tool: the name of the tool.
        args: its arguments, by name; ``{"raw": text}`` if what was said is no JSON object.
        tag: what the model calls this call; None for nothing.
    """

    tool: str
    args: dict[str, Any]
    tag: str | None = None


class ParseResult(TypedDict):
    """What a parser finds in an answer.

    Attributes:
        text: the answer without the calls.
        calls: in the order in which they were said.
        meta: the number of calls, under ``"count"``.
    """

    text: str
    calls: list[ToolCall]
    meta: dict[str, Any]


class ToolParser(Protocol):
    """Finds the calls of tools in an answer; whatever a model says, it raises nothing."""

    def __call__(self, response: str | dict[str, Any], /) -> ParseResult:
        """Return the calls, and the rest of the text."""
        ...


class ToolService(Protocol):
    """A function that a model can call, with a name and a description of what it takes and returns."""

    name: str
    schema_in: dict[str, Any]
    schema_out: dict[str, Any]

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        """Return its results, by name. An exception is told to the model."""
        ...


class ToolRegistry:
    """Tools by name.

    Args:
        services: the first of them.

    Raises:
        TypeError: one is no tool.
        KeyError: when an unknown one is asked for.
    """

    def __init__(self, services: Sequence[ToolService] = ()) -> None:
        self._services: dict[str, ToolService] = {}
        for service in services:
            self.register(service)

    def register(self, service: ToolService) -> None:
        """Add a tool, or replace the one of its name."""
        if isinstance(service, type) or not (callable(service) and hasattr(service, "name")):
            raise TypeError(
                f"a tool is an object with a name that is called with arguments (ToolService), got {service!r:.80}"
            )
        self._services[service.name] = service

    def get(self, name: str) -> ToolService:
        """The tool of a name."""
        if name in self._services:
            return self._services[name]
        close = get_close_matches(name, self._services, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise KeyError(f"Unknown tool: {name}; known are {', '.join(sorted(self._services)) or 'none'}{hint}")

    def __contains__(self, name: object) -> bool:
        return name in self._services

    def __iter__(self) -> Iterator[str]:
        return iter(self._services)


class XMLBlockParser:
    """Finds calls in blocks such as ``<tool name="search" tag="A">{"query": "cats"}</tool>``; the tag may be left out."""

    _block = re.compile(r"<tool((?:\s+\w+=\"[^\"]*\")*)\s*>(.*?)</tool>", re.DOTALL)
    _attribute = re.compile(r"(\w+)=\"([^\"]*)\"")

    def __call__(self, response: str | dict[str, Any]) -> ParseResult:
        """Return the calls of an answer: a text, or a dict with one under ``"text"``."""
        text = response if isinstance(response, str) else str(response.get("text", ""))
        calls = []
        for block in self._block.finditer(text):
            attributes = dict(self._attribute.findall(block[1]))
            if "name" in attributes:
                arguments = _arguments(block[2].strip() or {})
                calls.append(ToolCall(attributes["name"], arguments, attributes.get("tag")))
        rest = self._block.sub(lambda block: "" if 'name="' in block[1] else block[0], text).strip()
        return {"text": rest, "calls": calls, "meta": {"count": len(calls)}}


class JSONCallParser:
    """Finds calls in answers of the form ``{"message": "...", "tools": [{"tool": "search", "args": {...}, "tag": "A"}]}``.

    What is no JSON object is a message without calls.
    """

    def __call__(self, response: str | dict[str, Any]) -> ParseResult:
        """Return the calls of an answer: a text, or the object itself."""
        said: Any = response
        if isinstance(said, str):
            try:
                said = json.loads(said)
            except json.JSONDecodeError:
                said = None
        if not isinstance(said, Mapping):
            return {"text": str(response), "calls": [], "meta": {"count": 0}}
        entries = said.get("tools")
        calls = [
            ToolCall(entry["tool"], _arguments(entry.get("args", {})), entry.get("tag"))
            for entry in (entries if isinstance(entries, list) else [])
            if isinstance(entry, Mapping) and isinstance(entry.get("tool"), str)
        ]
        return {"text": str(said.get("message", "")), "calls": calls, "meta": {"count": len(calls)}}


def _arguments(said: Any) -> dict[str, Any]:
    """The arguments that a model gave, by name."""
    found = said
    if isinstance(said, str):
        with contextlib.suppress(json.JSONDecodeError):
            found = json.loads(said)
    return dict(found) if isinstance(found, Mapping) else {"raw": said}


class CallTools:
    """Calls the tools that an answer asks for, in the order in which it does: `tools` of `ChatEnv`.

    The results of all calls are one message. What a tool raises, and the name of a tool that is unknown, are told to the
    model in it. A conversation whose last message calls no tool is over (None).

    Args:
        registry: the tools.
        parser: finds the calls.
        stop_on_error: whether the calls behind one that failed are not made.
        pass_state: whether tools that take a keyword ``_state`` (or any keyword) are given a dict there, with the
            conversation under ``"history"`` and the source's row under ``"query"``.
        role: of the message.

    Raises:
        TypeError: they are none.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        parser: ToolParser,
        *,
        stop_on_error: bool = False,
        pass_state: bool = True,
        role: str = "tool",
    ) -> None:
        if not hasattr(registry, "get") or not callable(parser):
            raise TypeError(
                f"tools are called by a ToolRegistry and a ToolParser, got {registry!r:.60} and {parser!r:.60}"
            )
        self.registry, self.parser = registry, parser
        self.stop_on_error, self.pass_state, self.role = stop_on_error, pass_state, role

    def __call__(self, chat: Chat, row: Mapping[str, Any]) -> list[Message] | None:
        """The message with the results of what the last message of a conversation calls; None if it calls nothing."""
        content = chat[-1]["content"] if chat else None
        calls = self.parser(content)["calls"] if isinstance(content, str) else []
        if not calls:
            return None
        state = {"history": chat, "query": row}
        lines = ["<tool_results>"]
        for number, call in enumerate(calls, 1):
            which = f"{call.tool}, call {number}" + (f" ({call.tag})" if call.tag else "")
            try:
                found = self._called(call, state)
                lines.append(f"{which} succeeded: {json.dumps(found, default=str, ensure_ascii=False)}")
            except Exception as error:  # whatever a tool raises is an answer to the model
                reason = error.args[0] if isinstance(error, KeyError) and error.args else error
                lines.append(f"{which} failed: {type(error).__name__}: {reason}")
                if self.stop_on_error:
                    break
        return [{"role": self.role, "content": "\n".join([*lines, "</tool_results>"])}]

    def _called(self, call: ToolCall, state: dict[str, Any]) -> Any:
        service = self.registry.get(call.tool)
        taken = self.pass_state and _takes(service, "_state")
        return service(**call.args, **({"_state": state} if taken else {}))


def _takes(function: Any, name: str) -> bool:
    """Whether a function takes a keyword."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of some functions that are not written in Python
        return False
    return name in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


class ExecuteToolsInOrder(Transform):
    """Appends the results of the tools that answers call to the conversations that follow, as `CallTools` does.

    It is for environments without `tools` of their own; of one that is to go on after a call, `max_turns` allows it.

    Args:
        registry: the tools.
        parser: finds the calls.
        stop_on_error: whether the calls behind one that failed are not made.
        pass_state_to_tools: as `pass_state` of `CallTools`.
        history_key: of the conversations.
        query_key: of the source's rows, which tools are passed; data may be without.

    Raises:
        KeyError: when it is put into an environment without conversations.
        ValueError: when it is put behind what makes texts or tokens of the conversations.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        parser: ToolParser,
        stop_on_error: bool = False,
        pass_state_to_tools: bool = True,
        *,
        history_key: NestedKey = ("history", "prompt"),
        query_key: NestedKey = "query",
    ) -> None:
        super().__init__(in_keys=[history_key], out_keys=[history_key])
        self.calls = CallTools(registry, parser, stop_on_error=stop_on_error, pass_state=pass_state_to_tools)
        self.query_key = query_key

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        key = self.in_keys[0]
        chats = chats_at(next_tensordict, key)
        queries = tensordict.get(self.query_key, None)
        rows = [{}] * len(chats) if queries is None else objects_of(queries)
        mask = tensordict.get("_step", None)
        stepping = [True] * len(chats) if mask is None else mask.flatten().tolist()
        following = [
            [*chat, *(self.calls(chat, row) or [])] if steps else chat
            for chat, row, steps in zip(chats, rows, stepping, strict=True)
        ]
        return next_tensordict.set(key, as_rows(following, next_tensordict.batch_size))

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs, as they are."""
        key = self.in_keys[0]
        if key not in observation_spec.keys(True, True):
            raise KeyError(
                f"tools are called in conversations at {key!r}, which the environment does not observe"
            )
        made = [
            other
            for other in (("text", "prompt"), ("tokens", "prompt"))
            if other in observation_spec.keys(True, True)
        ]
        if made:
            raise ValueError(
                f"{made[0]!r} is made of the conversations before tools add to them: put ExecuteToolsInOrder first, and "
                "let the environment observe conversations (input_mode='history')"
            )
        return observation_spec
