"""Chat templates by name, and how texts that they gave are read back."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

from specgen_runtime.llm.conversations.messages import Chat, Message, chats_of

__all__ = ["add_chat_template", "chat_of_text", "template_of"]


@dataclass(frozen=True)
class _Family:
    """A template.

    Attributes:
        template: its text.
        parse: from a text and the end token to messages; None if texts are not read back.
        keywords: parts of the names of tokenizers that have no template of their own and take this one.
        added: whether it came by `add_chat_template`: tokenizers with a template of their own take it, too.
    """

    template: str
    parse: Callable[[str, str | None], Any] | None
    keywords: tuple[str, ...] = ()
    added: bool = False


def add_chat_template(
    template_name: str,
    template: str,
    inverse_parser: Callable[[str], Any] | None = None,
    model_family_keywords: Sequence[str] | None = None,
) -> None:
    """Add a chat template to those known by name.

    Args:
        template_name: its name, as `chat_template_name` takes it.
        template: a jinja template. Where it has ``{% generation %}`` blocks, they say what the model says; where it
            has none, that is found from the contents of messages.
        inverse_parser: reads a text back: a function to a `History` or a list of messages.
        model_family_keywords: a tokenizer takes this one if its name contains one of these words, whichever template
            it would have taken before, its own among them.

    Raises:
        ValueError: the name is taken.
    """
    if template_name in _FAMILIES:
        raise ValueError(f"there is a chat template {template_name!r} already: take another name")
    parse = None if inverse_parser is None else partial(_parsed_by, inverse_parser)
    _FAMILIES[template_name] = _Family(template, parse, tuple(model_family_keywords or ()), added=True)


def _parsed_by(inverse_parser: Callable[[str], Any], text: str, end: str | None) -> Chat:
    (chat,) = chats_of(inverse_parser(text))
    return chat


def template_of(tokenizer: Any, template: str | None = None, name: str | None = None) -> str:
    """The chat template to use.

    Args:
        tokenizer: with a template of its own, or a name that tells its family; None if `template` or `name` is given.
        template: the template itself.
        name: of a known one.

    Returns:
        `template`, else the one called `name`, else the one added for its family, else the tokenizer's own, else its
        family's, else ``chatml_format``; a UserWarning says which, where the tokenizer has none.

    Raises:
        ValueError: no template of this name; there is nothing to choose by; or the tokenizer has several.
    """
    if template is not None:
        return template
    if name is not None:
        return _named(name).template
    if tokenizer is None:
        raise ValueError(
            "give a tokenizer, chat_template or chat_template_name: a conversation is rendered by one of them"
        )
    own = getattr(tokenizer, "chat_template", None)
    family = _family_of(tokenizer)
    if own and _FAMILIES[family].added:
        return _FAMILIES[family].template
    if isinstance(own, dict):
        raise ValueError(
            f"the tokenizer has several templates ({', '.join(own)}): give one of them as chat_template"
        )
    if own:
        return str(own)
    called = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    warnings.warn(
        f"the tokenizer {called!r} has no chat template: conversations are rendered as {family!r}. Say "
        f"chat_template_name={family!r} if that is meant, or give the template that the model knows as chat_template",
        stacklevel=2,
    )
    return _FAMILIES[family].template


def _named(name: str) -> _Family:
    if name not in _FAMILIES:
        close = get_close_matches(name, _FAMILIES, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"no chat template {name!r}; {hint}known are {', '.join(sorted(_FAMILIES))}")
    return _FAMILIES[name]


def _family_of(tokenizer: Any) -> str:
    model = str(getattr(tokenizer, "name_or_path", "")).lower()
    found = [
        name for name, family in _FAMILIES.items() if any(word.lower() in model for word in family.keywords)
    ]
    return found[-1] if found else "chatml_format"  # what was added last is the most special


def chat_of_text(
    text: str, tokenizer: Any = None, *, template: str | None = None, name: str | None = None
) -> Chat:
    """The conversation that a rendered text says; an answer without an end of turn has ``is_complete`` False.

    A generation prompt at the end is no message.

    Args:
        text: what a template gave.
        tokenizer: tells the end token, and the template if none is given.
        template: the template itself.
        name: of a known one.

    Raises:
        ValueError: texts of this template are not read back, or this one is no text of it.
    """
    if name is None:
        known = template_of(tokenizer, template) if template is not None or tokenizer is not None else None
        same = (each for each, family in _FAMILIES.items() if family.template == known)
        name = next(same, None) or ("chatml_format" if known is None or "<|im_start|>" in known else None)
    if name is None or (parse := _named(name).parse) is None:
        raise ValueError(
            f"texts of {name or 'this template'} are not read back: add_chat_template(..., inverse_parser=...)"
        )
    bos, end = getattr(tokenizer, "bos_token", None), getattr(tokenizer, "eos_token", None)
    messages: Chat = parse(text.removeprefix(bos or ""), end)
    if not messages and text.strip():
        raise ValueError(f"no message of template {name!r} is in the text {text!r:.80}")
    return messages


# ------------------------------------------------------------------- parsers


_END_OF_TEXT = "<|endoftext|>"
"""What base models, which were not trained on turns, end answers with."""


def _delimited(opening: str, closing: str) -> Callable[[str, str | None], Chat]:
    """A parser of messages that begin with their role and end with a token; without that, where the text ends."""

    def parse(text: str, end: str | None) -> Chat:
        pieces = re.split(opening, text)[1:]
        said = (one.partition(closing if closing in one else _END_OF_TEXT) for one in pieces[1::2])
        turns = zip(pieces[::2], said, strict=True)
        return _turns((role, content, bool(closed)) for role, (content, closed, _) in turns)

    return parse


def _labelled(text: str, end: str | None, *, ends: bool) -> Chat:
    """Parse messages with ``User:`` or ``Assistant:`` in front, behind a system message.

    Args:
        text: of the messages.
        end: the end token.
        ends: whether answers end with it.
    """
    mark = re.escape(end) if ends and end else "(?!)"
    system, *pieces = re.split(f"(?:^|(?<=\n)|(?<={mark}))(User|Assistant):", text)
    turns = [("system", system.strip(), True)] if system.strip() else []
    for role, piece in zip(pieces[::2], pieces[1::2], strict=True):
        said, closed, _ = piece.partition(end) if ends and end and role == "Assistant" else (piece, "-", "")
        turns.append((role.lower(), said.strip(), bool(closed)))
    return _turns(turns)


def _alternating(text: str, end: str | None) -> Chat:
    """Parse messages that end with the end token, the user's first."""
    if not end:
        raise ValueError("this template ends messages with the end token: give the tokenizer")
    *closed, rest = text.split(end)
    said = [(content, True) for content in closed] + ([(rest, False)] if rest.strip() else [])
    return _turns((("user", "assistant")[k % 2], *turn) for k, turn in enumerate(said))


def _turns(turns: Any) -> Chat:
    messages: list[Message] = []
    for role, content, closed in turns:
        messages.append({"role": role, "content": content})
        if not closed:
            messages[-1]["is_complete"] = False
    prompted = messages and messages[-1]["role"] == "assistant" and not messages[-1]["content"]
    return messages[:-1] if prompted else messages


# ----------------------------------------------------------------- templates

_CHATML = """\
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{{ '<|im_start|>assistant\\n' }}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}
{%- else -%}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"""

_QWEN = """\
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{{ '<|im_start|>assistant\\n' }}{% generation %}{{ message['content'] or '' }}
{%- for call in message['tool_calls'] or [] -%}
{%- set made = call['function'] or call -%}
{{ '\\n' if message['content'] or not loop.first }}
{{- '<tool_call>\\n' }}{{ {'name': made['name'], 'arguments': made['arguments']} | tojson }}{{ '\\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}
{%- elif message['role'] == 'tool' -%}
{{ '<|im_start|>user\\n<tool_response>\\n' + message['content'] + '\\n</tool_response><|im_end|>\\n' }}
{%- else -%}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"""

_LLAMA = """\
{{- bos_token -}}
{%- for message in messages -%}
{{ '<|header_start|>' + message['role'] + '<|header_end|>\\n\\n' }}
{%- if message['role'] == 'assistant' -%}
{% generation %}{{ message['content'] + '<|eot|>' }}{% endgeneration %}
{%- else -%}
{{ message['content'] + '<|eot|>' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|header_start|>assistant<|header_end|>\\n\\n' }}{%- endif -%}"""

_DIALOGPT = """\
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}
{%- elif message['role'] == 'user' -%}
{{ message['content'] + eos_token }}
{%- endif -%}
{%- endfor -%}"""

_FALCON = """\
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{{ 'Assistant: ' }}{% generation %}{{ '' + message['content'] }}{% endgeneration %}{{ '\\n' }}
{%- elif message['role'] == 'user' -%}
{{ 'User: ' + message['content'] + '\\n\\n' }}
{%- else -%}
{{ message['content'] + '\\n\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}"""

_DEEPSEEK = """\
{{- bos_token -}}
{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{{ 'Assistant: ' }}{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}
{%- elif message['role'] == 'user' -%}
{{ 'User: ' + message['content'] + '\\n\\n' }}
{%- else -%}
{{ message['content'] + '\\n\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}"""

_chatml = _delimited(r"<\|im_start\|>(\w+)\n", "<|im_end|>")

_FAMILIES = {
    "chatml_format": _Family(_CHATML, _chatml),
    "qwen": _Family(_QWEN, _chatml, ("qwen",)),
    "dialogpt": _Family(_DIALOGPT, _alternating, ("dialogpt", "microsoft/dialo")),
    "falcon": _Family(_FALCON, partial(_labelled, ends=False), ("falcon",)),
    "deepseek": _Family(_DEEPSEEK, partial(_labelled, ends=True), ("deepseek",)),
    "llama": _Family(
        _LLAMA, _delimited(r"<\|header_start\|>(\w+)<\|header_end\|>\n\n", "<|eot|>"), ("llama",)
    ),
}
"""The known templates; `add_chat_template` adds to them."""
