"""`recorded_conversations`: conversations that were recorded, as the tokens that a language model learns from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tensordict import TensorDict

from specgen_runtime.llm.conversations.messages import Chat, as_rows, chats_of
from specgen_runtime.llm.models.wrapper import TransformersWrapper

__all__ = ["recorded_conversations"]


def recorded_conversations(
    conversations: Iterable[Chat | Mapping[str, Any]], model: TransformersWrapper
) -> TensorDict:
    """Render conversations and tokenise them, once for a whole training.

    Args:
        conversations: each a list of messages, or a mapping that has them under ``"messages"``.
        model: whose tokenizer, chat template, `max_length`, `padding_side` and `pad_to` count.

    Returns:
        Of batch size ``[conversations]``: ``("tokens", "full")``, int64 ``[conversations, width]``, and bool of the same shape
        ``("masks", "all_attention_mask")``, what is no padding, and ``("masks", "all_assistant_mask")``, what the assistant said.

    Raises:
        TypeError: `conversations` can't be gone through.
        ValueError: there is no conversation; one is of another form, is longer than `pad_to`, or has nothing of the assistant's
            behind `max_length`.
    """
    if not isinstance(conversations, Iterable):
        raise TypeError(f"conversations are a list of lists of messages, got {conversations!r:.80}")
    chats = [_chat_of(number, one) for number, one in enumerate(conversations)]
    if not chats:
        raise ValueError("there are no conversations to learn from")
    rows = TensorDict({}, [len(chats)])
    rows.set(("history", "full"), as_rows(chats, rows.batch_size))
    reading = model.get_new_version(
        generate=False, input_mode="history", input_key=("history", "full"), pad_output=True
    )
    found = reading.sequences(rows)
    assert found.assistant is not None
    for number, said in enumerate(found.assistant[:, 1:].any(-1).tolist()):
        if not said:
            raise ValueError(f"conversation {number} {_unlearned(chats[number], model.max_length)}")
    masks = {"all_attention_mask": found.attention, "all_assistant_mask": found.assistant}
    return TensorDict({"tokens": {"full": found.ids}, "masks": masks}, rows.batch_size)


def _unlearned(chat: Chat, max_length: int | None) -> str:
    """Why nothing is learned from a conversation."""
    roles = [message["role"] for message in chat]
    if "assistant" not in roles:
        return f"has nothing of the assistant's, its roles are {', '.join(map(repr, roles))}: leave it out"
    cut = "" if max_length is None else f" in its first {max_length} tokens"
    more = "" if max_length is None else ", or raise `max_length`"
    return f"has nothing of the assistant's{cut}: leave it out{more}"


def _chat_of(number: int, row: Chat | Mapping[str, Any]) -> Chat:
    """The messages of a conversation."""
    found = row.get("messages") if isinstance(row, Mapping) else row
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        what = "a list of messages, or a mapping with one under 'messages'"
        raise ValueError(f"conversation {number} is {what}, got {row!r:.80}")
    try:
        chat = chats_of(found)[0]
    except ValueError as error:
        raise ValueError(f"conversation {number}: {error}") from error
    for index, message in enumerate(chat):
        if message["content"] is None and not message.get("tool_calls"):
            raise ValueError(
                f"conversation {number}: 'content' of message {index} is None, and it calls no tools"
            )
    return chat
