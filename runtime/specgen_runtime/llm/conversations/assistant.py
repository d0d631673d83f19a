"""Which characters of a rendered conversation, and which of its tokens, the assistant said."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from specgen_runtime.llm.conversations.messages import MARKS, Message
from specgen_runtime.llm.conversations.templates import (
    has_generation_blocks,
    render,
)

__all__ = ["Spans", "mask_of", "spans_of"]

_MARK = re.compile(f"([{''.join(MARKS)}])")


@dataclass(frozen=True)
class Spans:
    """A rendered conversation, and where turns of its assistant are.

    Attributes:
        text: the rendering.
        spans: the first character of each turn, and the one behind it.
        found: by what they were found: ``{% generation %}`` blocks of the template (``"markers"``), the contents of
            messages, or what a turn adds to the rendering (``"prefixes"``).
    """

    text: str
    spans: list[tuple[int, int]]
    found: Literal["markers", "contents", "prefixes"]


def spans_of(
    template: str,
    chat: Sequence[Message],
    tokenizer: Any = None,
    *,
    roles: Collection[str] = ("assistant",),
    **variables: Any,
) -> Spans:
    """Where the turns of the assistant are in a rendered conversation.

    ``{% generation %}`` blocks tell it where the template has them. Otherwise each content is marked, and the marked
    rendering compared with the plain one. If the template rewrites contents (such as those that leave out earlier
    reasoning), a turn is what its message adds to the rendering before it; turns that were rendered otherwise when
    they were sampled are then left out.

    Args:
        template: a chat template.
        chat: the conversation.
        tokenizer: see `render`.
        roles: whose turns; blocks of the template are used for the assistant's only.
        variables: of the template; see `render`.

    Raises:
        ValueError: the template refuses the conversation, or none of the turns can be found; the text names one.
    """
    blocks = set(roles) == {"assistant"} and has_generation_blocks(template)
    text = render(template, chat, tokenizer, **variables)
    turns = [index for index, message in enumerate(chat) if message["role"] in roles]
    if blocks:
        marked = render(template, chat, tokenizer, marked=True, **variables)
        if (spans := _marked_spans(marked, text)) is not None:
            return Spans(text, spans, "markers")
    for whole in (True, False):
        contents = [_marked(message, whole) if k in turns else message for k, message in enumerate(chat)]
        spans = _marked_spans(render(template, contents, tokenizer, **variables), text)
        if spans is not None and len(spans) == len(turns):
            return Spans(text, spans, "contents")
    spans = []
    for index in turns:
        before = _rendered(template, chat[:index], tokenizer, variables, add_generation_prompt=True)
        after = _rendered(template, chat[: index + 1], tokenizer, variables)
        if before is not None and after is not None and text.startswith(before) and text.startswith(after):
            spans.append((len(before), len(after)))
    if not spans:
        raise ValueError(
            f"no turn of {', '.join(roles)} is found in what the chat template gives: not message {turns[0]}, for one. "
            f"Put {{% generation %}} blocks around what the model says. The template begins {template!r:.60}"
        )
    return Spans(text, spans, "prefixes")


def _rendered(
    template: str,
    chat: Sequence[Message],
    tokenizer: Any,
    variables: Mapping[str, Any],
    add_generation_prompt: bool = False,
) -> str | None:
    whole = {**variables, "add_generation_prompt": add_generation_prompt, "continue_final_message": False}
    try:
        return render(template, chat, tokenizer, **whole)
    except ValueError:  # the template refuses some beginnings of conversations
        return None


def _marked(message: Message, whole: bool) -> Message:
    """The message with marks around its content, or around what is left of it without outer blanks."""
    content = message["content"]
    if not isinstance(content, str):
        return message
    core = content if whole else content.strip()
    before, _, after = content.partition(core) if core else ("", "", "")
    return cast("Message", {**message, "content": before + MARKS[0] + core + MARKS[1] + after})


def _marked_spans(marked: str, text: str) -> list[tuple[int, int]] | None:
    """The marked parts of a text, counted without marks; None unless it is `text` without them."""
    spans, place, start = [], 0, -1
    for piece in _MARK.split(marked):
        if piece == MARKS[0] and start < 0:
            start = place
        elif piece == MARKS[1] and start >= 0:
            spans.append((start, place))
            start = -1
        elif piece in MARKS or not text.startswith(piece, place):
            return None
        else:
            place += len(piece)
    return spans if start < 0 and place == len(text) else None


def mask_of(
    ids: Sequence[int], offsets: Sequence[tuple[int, int]], turns: Spans, special: Collection[int]
) -> list[bool]:
    """Whether the assistant said each token: whether its characters and those of a turn overlap.

    Where the template does not say it, the end of a turn is the assistant's as well: the special token right behind
    its content. What the template writes behind that is not.

    Args:
        ids: tokens of `turns.text`.
        offsets: the first character of each token, and the one behind it.
        turns: of the assistant.
        special: ids of tokens that can end a turn.
    """
    mask = [any(a < stop and b > start and a < b for start, stop in turns.spans) for a, b in offsets]
    if turns.found == "markers":
        return mask
    for start, stop in turns.spans:
        if turns.found == "contents":
            behind = next((k for k, (a, b) in enumerate(offsets) if a >= stop and a < b), None)
            if behind is not None and ids[behind] in special:
                mask[behind] = True
            continue
        inside = [k for k, (a, _) in enumerate(offsets) if start <= a < stop]
        end = next((n for n, k in enumerate(inside) if ids[k] in special), len(inside))
        for k in inside[end + 1 :]:
            mask[k] = False
    return mask
