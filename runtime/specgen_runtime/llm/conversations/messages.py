"""Conversations as plain lists of messages, and their place in tensordicts: one object for each row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Required, TypedDict, cast

from tensordict import NonTensorData, NonTensorStack, is_non_tensor

__all__ = ["MARKS", "Chat", "Message", "as_rows", "chats_of", "checked_message", "objects_of"]

MARKS = ("\ue000", "\ue001")
"""Characters for private use that mark spans while a template is rendered: no message may contain them."""

PLACEHOLDER = "<none>"
"""The role of what only fills a place in a batch, and is no message."""


class Message(TypedDict, total=False):
    """One message of a conversation; chat templates see the same fields.

    Attributes:
        role: who says it, such as ``"system"``, ``"user"``, ``"assistant"`` or ``"tool"``.
        content: what is said. None in a message that is nothing but tool calls; a list of parts (dicts with a
            ``"type"``) where the template takes those.
        is_complete: False for an answer that ended without an end of turn.
        tool_calls: calls that the message asks for.
        tool_responses: what calls returned.
    """

    role: Required[str]
    content: Required[str | list[dict[str, Any]] | None]
    is_complete: bool
    tool_calls: list[dict[str, Any]] | None
    tool_responses: list[str] | None


Chat = list[Message]
"""A conversation: its messages, the oldest first."""


def chats_of(value: Any) -> list[Chat]:
    """The conversations in a value, row by row; of several batch dimensions the last varies fastest.

    Args:
        value: a `History`, whose messages of the role ``"<none>"`` are left out; the rows of a tensordict (`NonTensorStack`, `NonTensorData`); a list of conversations, at
            any depth; or one conversation, which is one row.

    Raises:
        TypeError: something in it is no conversation; the text says where.
        ValueError: a message lacks its role or content, or contains a character of `MARKS`.
    """
    chats: list[Chat] = []
    _collect(value, "chats", chats)
    return chats


def _collect(value: Any, place: str, chats: list[Chat]) -> None:
    if is_non_tensor(value):
        value = value.tolist()
    elif hasattr(value, "to_chats"):
        value = value.to_chats()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TypeError(
            f"{place} is a list of messages, or of such lists, got {type(value).__name__}: {value!r:.80}"
        )
    if all(isinstance(entry, dict) for entry in value) and (value or place != "chats"):
        messages = (checked_message(entry, f"{place}[{index}]") for index, entry in enumerate(value))
        chats.append([message for message in messages if message["role"] != PLACEHOLDER])
        return
    for index, entry in enumerate(value):
        _collect(entry, f"{place}[{index}]", chats)


def checked_message(message: Mapping[str, Any], place: str) -> Message:
    """A copy of a message, whose content is None if it has only calls of tools.

    Args:
        message: a role and a content, and what else belongs to it.
        place: where it stands, for errors.

    Raises:
        ValueError: see `chats_of`.
    """
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise ValueError(
            f"{place} needs a 'role', a string, got {role!r}; it has {', '.join(map(repr, message))}"
        )
    if "content" not in message and not message.get("tool_calls"):
        raise ValueError(f"{place} needs a 'content'; it has {', '.join(map(repr, message))}")
    if not isinstance(content, str | list | None):
        raise ValueError(
            f"'content' of {place} is a string, a list of parts or None, got {type(content).__name__}"
        )
    if any(mark in text for text in _texts(content) for mark in MARKS):
        raise ValueError(
            f"'content' of {place} contains U+E000 or U+E001, which mark spans while templates are rendered: remove them"
        )
    return cast("Message", dict(message) if "content" in message else {**message, "content": None})


def _texts(content: str | list[Any] | None) -> Iterable[str]:
    if isinstance(content, str):
        return (content,)
    return (
        part["text"]
        for part in content or ()
        if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    )


def as_rows(chats: Sequence[Any], batch_size: Sequence[int]) -> NonTensorData | NonTensorStack:
    """Objects as a leaf of a tensordict: one for each row, so that rows of different lengths stack.

    Args:
        chats: one object for each row, such as its conversation; of several batch dimensions the last varies fastest.
        batch_size: of the leaf.

    Raises:
        ValueError: not as many objects as rows.
    """
    if len(chats) != prod(batch_size):
        raise ValueError(
            f"a batch of {list(batch_size)} has {prod(batch_size)} rows, got {len(chats)} objects"
        )
    if not chats:
        return NonTensorData(None, batch_size=tuple(batch_size))
    if not batch_size:
        return NonTensorData(chats[0])
    width = len(chats) // batch_size[0]
    parts = [as_rows(chats[k * width : (k + 1) * width], batch_size[1:]) for k in range(batch_size[0])]
    return NonTensorStack(*parts)


def objects_of(leaf: NonTensorData | NonTensorStack) -> list[Any]:
    """The objects that `as_rows` made a leaf of: one for each row."""
    return leaf.reshape(-1).tolist() if leaf.batch_dims else [leaf.data]
