"""`History`: messages of conversations as a tensorclass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from tensordict import NonTensorData, TensorClass, TensorDict, lazy_stack

from specgen_runtime.llm.conversations.families import chat_of_text, template_of
from specgen_runtime.llm.conversations.messages import Chat, as_rows, chats_of, checked_message
from specgen_runtime.llm.conversations.rendering import render_batch
from specgen_runtime.llm.conversations.templates import render
from specgen_runtime.ragged import rows_at, stacked_rows
from specgen_runtime.specs import Composite, NonTensor

__all__ = ["History"]

_DEFAULTS = {"is_complete": True, "tool_calls": None, "tool_responses": None, "extra": None}


class History(TensorClass, nocast=True):  # type: ignore[misc,call-arg]
    """Messages of conversations, with a place each: shape `[messages]`, or `[rows, messages]`.

    Where rows have different numbers of messages, the last size is -1: such a history is a lazy stack.

    Attributes:
        role: who says it: a string; of several messages (nested) lists of them, as for the others.
        content: what is said: a string, None, or a list of parts.
        is_complete: whether it ended with an end of turn.
        tool_calls: calls that it asks for: a list of dicts, or None.
        tool_responses: what calls returned: a list of strings, or None.
        extra: further fields that chat templates read, such as ``name`` or ``tool_call_id``: a dict, or None.
    """

    role: Any
    content: Any
    is_complete: Any = True
    tool_calls: Any = None
    tool_responses: Any = None
    extra: Any = None

    def __post_init__(self) -> None:
        # all messages have all fields, so that they stack
        for name, default in {"content": None, **_DEFAULTS}.items():
            value = self._tensordict.get(name, None)
            if value is None:
                self._tensordict.set(name, NonTensorData(default, batch_size=self.batch_size))
            elif getattr(value, "batch_dims", 0) > self.batch_dims:  # lists that tensordict took for a batch
                rows = _flat(value.tolist(), self.batch_dims)
                self._tensordict.set(name, as_rows(rows, self.batch_size))

    @classmethod
    def from_chats(cls, chats: Sequence[Any]) -> Self:
        """Make it of conversations as lists of messages: of one `[messages]`, of several `[rows, messages]`.

        Args:
            chats: a conversation, or a list of them, at any depth.

        Raises:
            TypeError: something in it is no message, nor a list.
            ValueError: a message lacks its role or content; see `chats_of`.
        """
        if not isinstance(chats, Sequence) or isinstance(chats, str):
            raise TypeError(f"a list of messages, or of such lists, is needed, got {chats!r:.80}")
        if not all(isinstance(message, Mapping) for message in chats):
            made: Self = lazy_stack([cls.from_chats(chat) for chat in chats])
            return made
        names = ("role", "content", *_DEFAULTS)
        messages = [
            {
                **_DEFAULTS,
                **{name: value for name, value in message.items() if name in names},
                "extra": {name: value for name, value in message.items() if name not in names} or None,
            }
            for message in (checked_message(each, f"message {k}") for k, each in enumerate(chats))
        ]
        size = [len(messages)]
        columns = {name: as_rows([message[name] for message in messages], size) for name in names}
        return cls._from_tensordict(TensorDict(columns, size))  # type: ignore[no-any-return]

    def to_chats(self) -> Any:
        """The messages as dicts, in lists as deep as the shape; fields that say nothing are left out."""
        columns = {name: self._tensordict.get(name).tolist() for name in ("role", "content", *_DEFAULTS)}
        return _messages(columns, self.batch_dims)

    def append(self, history: History, *, inplace: bool = True, dim: int = -1) -> History:
        """Add one message, or one conversation, at the end.

        Args:
            history: what is added, of one dimension less than this.
            inplace: whether this history changes; what a container's attribute returned is a copy, so put the result
                back there.
            dim: the dimension that grows by one.

        Raises:
            RuntimeError: the dimensions or sizes do not fit.
        """
        return self._grown(history, inplace, dim, one=True)

    def extend(self, history: History, *, inplace: bool = True, dim: int = 0) -> History:
        """Add messages, or conversations, at the end.

        Args:
            history: what is added, of as many dimensions as this.
            inplace: as for `append`.
            dim: the dimension that grows.

        Raises:
            RuntimeError: the dimensions or sizes do not fit.
        """
        return self._grown(history, inplace, dim, one=False)

    def _grown(self, history: History, inplace: bool, dim: int, one: bool) -> History:
        if not self.batch_dims:
            raise RuntimeError("a single message does not grow: unsqueeze(0) makes it a conversation")
        if not isinstance(history, History):
            raise TypeError(
                f"a History grows by a History, got {type(history).__name__}: one message is History(role=..., content=...), "
                "several are History.from_chats(messages)"
            )
        wanted = self.batch_dims - one
        if history.batch_dims != wanted or not -self.batch_dims <= dim < self.batch_dims:
            raise RuntimeError(
                f"The new history to {'append' if one else 'extend'} by has {wanted} dimensions, and dim is one of "
                f"{self.batch_dims}: a history of shape {list(history.shape)} cannot be added to one of shape "
                f"{list(self.shape)} along dimension {dim}"
            )
        grown = self.from_chats(_joined(self.to_chats(), history.to_chats(), dim % self.batch_dims, one))
        if not inplace:
            return grown
        self.__dict__["_tensordict"] = grown._tensordict
        return self

    def apply_chat_template(
        self,
        *,
        tokenizer: Any,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
        chat_template_name: str | None = None,
        continue_final_message: bool = False,
        tokenize: bool | None = None,
        padding: bool | str = False,
        truncation: bool | str = False,
        return_tensors: str | None = None,
        return_dict: bool | None = None,
        return_assistant_tokens_mask: bool = False,
        max_length: int | None = None,
        **variables: Any,
    ) -> Any:
        """The conversations as texts, or as tokens.

        Args:
            tokenizer: gives tokens, and the template unless one is given; see `template_of`.
            add_generation_prompt: whether to add what precedes an answer.
            chat_template: a template.
            chat_template_name: the name of one.
            continue_final_message: whether to end with the last message's content.
            tokenize: whether to return tokens; None: if a mask or tensors are asked for.
            padding: whether to pad rows on the tokenizer's side: to the longest, or with ``"max_length"`` to that.
            truncation: whether to cut rows to `max_length`, or to the tokenizer's own.
            return_tensors: ``"pt"`` or None; tokens are tensors in any case.
            return_dict: whether to return the masks beside the tokens; None: if the assistant's is asked for.
            return_assistant_tokens_mask: whether ``assistant_masks`` is among them.
            max_length: in tokens.
            variables: further variables of the template.

        Returns:
            A text, or a list of texts. Tokens: a tensordict of ``input_ids`` (int64 `[tokens]`), ``attention_mask``
            (int64) and, if asked for, ``assistant_masks`` (int64); of several rows `[rows, tokens]`, lazily stacked
            where they are not padded. Without `return_dict` only the ids; unpadded rows are a list. The mask of a conversation
            without a message of the assistant is 0.

        Raises:
            ValueError: there is no template, or it refuses a conversation; or the assistant's tokens are not found.
        """
        if self.batch_dims not in (1, 2):
            raise ValueError(
                f"a history is rendered as [messages] or [rows, messages], got shape {list(self.shape)}"
            )
        single = self.batch_dims < 2
        chats = chats_of([self.to_chats()] if single else self)
        if tokenize is None:
            tokenize = return_assistant_tokens_mask or return_tensors is not None
        ends: dict[str, Any] = {
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": continue_final_message,
        }
        if not tokenize:
            template = template_of(tokenizer, chat_template, chat_template_name)
            texts = [render(template, chat, tokenizer, **ends, **variables) for chat in chats]
            return texts[0] if single else texts
        rendered = render_batch(
            chats,
            tokenizer,
            chat_template=chat_template,
            chat_template_name=chat_template_name,
            **ends,
            assistant_mask=return_assistant_tokens_mask,
            max_length=(max_length or tokenizer.model_max_length) if truncation else None,
            empty="error_where_said",
            variables=variables,
        )
        attended = rendered.ids.with_values(torch.ones_like(rendered.ids.values))
        columns = {"input_ids": rendered.ids, "attention_mask": attended}
        if rendered.assistant is not None:
            columns["assistant_masks"] = rendered.assistant.with_values(rendered.assistant.values.long())
        if padding:
            side, width = tokenizer.padding_side, max_length if padding == "max_length" else None
            fill = {"input_ids": tokenizer.pad_token_id}
            padded = {name: rows.padded(fill.get(name, 0), side, width) for name, rows in columns.items()}
            data = TensorDict(padded, [len(chats)])
        else:
            data = stacked_rows(**{name: rows.rows() for name, rows in columns.items()})
        whole = return_assistant_tokens_mask if return_dict is None else return_dict
        if single:
            return data[0] if whole else data[0]["input_ids"]
        return data if whole else rows_at(data, "input_ids")

    @classmethod
    def from_text(
        cls,
        text: str | Sequence[str],
        chat_template_name: str | None = None,
        chat_template: str | None = None,
        tokenizer: Any = None,
    ) -> Self:
        """Make it of texts that a chat template gave; see `chat_of_text`.

        Args:
            text: one text, which gives `[messages]`, or several: `[rows, messages]`.
            chat_template_name: the name of the template.
            chat_template: the template itself.
            tokenizer: tells the end token, and the template if none is given.

        Raises:
            ValueError: texts of the template are not read back, or this one is none of them.
        """

        def read(each: str) -> Chat:
            return chat_of_text(each, tokenizer, template=chat_template, name=chat_template_name)

        return cls.from_chats(read(text) if isinstance(text, str) else [read(each) for each in text])

    @classmethod
    def default_spec(cls, shape: Sequence[int] = (-1,)) -> Composite:
        """The spec of histories of a shape, of which the last size counts messages."""
        values = {"role": "user", "content": "Hello", **_DEFAULTS}
        leaves = {name: NonTensor(shape, example_data=value, batched=True) for name, value in values.items()}
        return Composite(leaves, shape=shape, data_cls=cls)


def _messages(columns: Mapping[str, Any], dims: int) -> Any:
    if dims:
        count = len(columns["role"])
        return [
            _messages({name: column[k] for name, column in columns.items()}, dims - 1) for k in range(count)
        ]
    said = {
        name: value for name, value in columns.items() if name not in _DEFAULTS or value != _DEFAULTS[name]
    }
    extra = said.pop("extra", None) or {}
    return {**said, **extra}


def _joined(chats: list[Any], more: Any, depth: int, one: bool) -> list[Any]:
    """Nested lists with others at the end of those at one depth."""
    if not depth:
        return [*chats, more] if one else [*chats, *more]
    if len(chats) != len(more):
        raise RuntimeError(f"{len(more)} rows cannot be added to {len(chats)} rows")
    return [_joined(chat, each, depth - 1, one) for chat, each in zip(chats, more, strict=True)]


def _flat(nested: Any, dims: int) -> list[Any]:
    return [nested] if not dims else [leaf for entry in nested for leaf in _flat(entry, dims - 1)]
