"""Conversations: the `rewards:` section, and `chat:` of environments."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from specgen.schema.fields import Declaration


class Reward(Declaration):
    """A function that rewards conversations which have ended; it is imported when an environment is made.

    Attributes:
        python: where it is, `package.module:function`.
        reads: the fields of a source's row that it reads, with their types.
        metrics: the names of other numbers that it gives of each conversation, to be logged.
        doc: the documentation of its Protocol.
    """

    python: str
    reads: dict[str, str] = Field(default_factory=dict)
    metrics: list[str] = Field(default_factory=list)
    doc: str = ""


class Chat(Declaration):
    """Conversations about the prompts of a source.

    Attributes:
        source: the function that gives the rows, `package.module:function`; left out, the constructor or a reset does.
        prompt: the field of a row that holds what is asked, and the key of the data that holds the row.
        system: a first message for conversations that begin without one of the system's.
        group: how many conversations are about one prompt.
        max_turns: the most answers in a conversation, or `unlimited`.
        reward: the name of a declared reward; without one rewards are 0.
        tools: the function that says what follows an answer, `package.module:function`.
        input: what models read and write: messages, or the text that a template makes of them.
        template: the chat template that makes the text, by its name.
    """

    source: str | None = None
    prompt: str = "query"
    system: str | None = None
    group: int = 1
    max_turns: int | Literal["unlimited"] = 1
    reward: str | None = None
    tools: str | None = None
    input: Literal["history", "text"] = "history"
    template: str | None = None
