"""Renders conversations with chat templates, in a sandbox."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from specgen_runtime.llm.conversations.messages import MARKS, Message

__all__ = ["has_generation_blocks", "render", "variables_of"]


class _Generation(Extension):
    """``{% generation %}`` blocks: around what the model itself is to say."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)
    marks = ("", "")

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("wrap"), [], [], body).set_lineno(line)

    def wrap(self, caller: Callable[[], str]) -> str:
        opening, closing = self.marks
        return opening + caller() + closing


class _MarkedGeneration(_Generation):
    marks = MARKS


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _why(error: Exception, chat: Sequence[Message]) -> str:
    """What of a conversation a template fails on, and what to do, where it is known."""
    if re.search(r"'\w+_token' is undefined", str(error)):
        return "; it is a special token of the tokenizer: give a tokenizer that has it"
    other = ((k, one) for k, one in enumerate(chat) if not isinstance(one["content"], str))
    index, message = next(other, (None, None))
    if message is None or not isinstance(error, TypeError):
        return ""
    said = f"; message {index} ({message['role']}) has no text"
    if message["content"] is not None:
        return f"{said}, but parts, which this template does not take: give its text as 'content'"
    if message.get("tool_calls"):
        return f"{said}, but calls of tools: take a template that renders them, such as chat_template_name='qwen'"
    return f"{said}: its 'content' is None"


def _environment(marked: bool) -> jinja2.Environment:
    generation = _MarkedGeneration if marked else _Generation
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(
        raise_exception=_refuse, strftime_now=lambda form: datetime.now().strftime(form)
    )
    return environment


@lru_cache(64)
def _compiled(template: str, marked: bool) -> jinja2.Template:
    try:
        return _environment(marked).from_string(template)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(
            f"the chat template is no jinja template: line {error.lineno}: {error.message}"
        ) from error


def _parsed(template: str) -> nodes.Template:
    """The tree of a template, an empty one of what is no template."""
    try:
        return _environment(marked=False).parse(template)
    except jinja2.TemplateSyntaxError:
        return nodes.Template([], lineno=1)


@lru_cache(64)
def variables_of(template: str) -> frozenset[str]:
    """The names that a template reads and does not give itself; none of one that is no template."""
    return frozenset(meta.find_undeclared_variables(_parsed(template)))


@lru_cache(64)
def has_generation_blocks(template: str) -> bool:
    """Whether a template says itself what the model says, by ``{% generation %}`` blocks; comments have none."""
    blocks = _parsed(template).find_all(nodes.CallBlock)
    return any(isinstance(one.call.node, nodes.ExtensionAttribute) for one in blocks)  # not of a {% call %}


def render(
    template: str,
    chat: Sequence[Message],
    tokenizer: Any = None,
    *,
    add_generation_prompt: bool = False,
    continue_final_message: bool = False,
    marked: bool = False,
    **variables: Any,
) -> str:
    """The text of a conversation.

    Args:
        template: a jinja template, with what templates of `transformers` may use.
        chat: the conversation.
        tokenizer: whose special tokens the template can name (``eos_token`` and so on).
        add_generation_prompt: whether to add what precedes an answer.
        continue_final_message: whether to end with the last message's content, so that it is continued.
        marked: whether what ``{% generation %}`` blocks give is put between the characters of `MARKS`.
        variables: further variables of the template, such as ``tools``.

    Raises:
        ValueError: the template is wrong or refuses the conversation; or both of the first two options are given.
    """
    if add_generation_prompt and continue_final_message:
        raise ValueError("add_generation_prompt and continue_final_message exclude each other")
    if continue_final_message:
        last = chat[-1] if chat else None
        if last is None or not isinstance(last["content"], str):
            raise ValueError("continue_final_message needs a last message whose content is a text")
        chat = [*chat[:-1], {**last, "content": last["content"] + MARKS[1]}]
    special = dict(getattr(tokenizer, "special_tokens_map", {}))
    given = {"tools": None, "documents": None, **special, **variables}
    try:
        text = _compiled(template, marked).render(
            messages=chat, add_generation_prompt=add_generation_prompt, **given
        )
    except (jinja2.TemplateError, TypeError) as error:
        why = _why(error, chat)
        raise ValueError(f"the chat template refuses the conversation: {error}{why}") from error
    return text.partition(MARKS[1])[0] if continue_final_message else text
