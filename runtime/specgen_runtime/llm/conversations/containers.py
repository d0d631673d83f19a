"""What language models read and write: conversations, texts, tokens, masks and log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import wraps
from itertools import count
from math import prod
from typing import Any, ClassVar, TypeVar

import torch
from tensordict import MetaData, NonTensorData, NonTensorStack, TensorClass, TensorDict, is_non_tensor
from torch import Tensor

from specgen_runtime.llm.conversations.families import chat_of_text, template_of
from specgen_runtime.llm.conversations.history import History
from specgen_runtime.llm.conversations.messages import Chat, as_rows, chats_of, objects_of
from specgen_runtime.llm.conversations.templates import render
from specgen_runtime.ragged import Ragged, rows_at, stacked_rows
from specgen_runtime.specs import Composite, NonTensor, TensorSpec, Unbounded
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["PARTS", "ChatHistory", "LogProbs", "Masks", "Text", "Tokens"]

PARTS = ("prompt", "response", "full")
"""The entries of containers."""


class _Container:
    """What all containers share: the spec of their entries."""

    KEYS: ClassVar[tuple[str, ...]] = PARTS
    EXAMPLE: ClassVar[Any] = None
    """An object that each row may be; None where rows are tokens."""
    DTYPE: ClassVar[torch.dtype | None] = None
    """Of the tokens of rows."""

    @classmethod
    def default_spec(cls, shape: Sequence[int] = (-1,), keys: Sequence[str] | None = None) -> Composite:
        """The spec of a container of a batch shape; `keys` are those of its entries that it has, None for all."""
        leaf: TensorSpec = (
            NonTensor(shape, example_data=cls.EXAMPLE, batched=True)
            if cls.DTYPE is None
            else Unbounded((*shape, -1), dtype=cls.DTYPE)
        )
        return Composite({key: leaf.clone() for key in keys or cls.KEYS}, shape=shape, data_cls=cls)

    @classmethod
    def _of_rows(cls, size: Sequence[int], rows: Mapping[str, Sequence[Any]]) -> Any:
        """A container of objects, one for each row of a batch of this size."""
        entries = {name: as_rows(objects, size) for name, objects in rows.items()}
        return cls._from_tensordict(TensorDict(entries, size))  # type: ignore[attr-defined]

    def _rows(self, *names: str) -> dict[str, list[Any]]:
        """The objects of those entries that are there, one for each row."""
        held: Any = self
        found = ((name, held._tensordict.get(name, None)) for name in names)
        return {name: objects_of(leaf) for name, leaf in found if leaf is not None}


class ChatHistory(_Container, TensorClass, nocast=True):  # type: ignore[misc,call-arg]
    """Conversations: what a model is given, what it says, and both.

    As entries of a tensordict they are one list of messages for each row, so that rows stack whatever their numbers
    of messages; attributes are `History` objects made of these, `[*batch, messages]`. What is assigned may be a
    `History` or lists of messages.

    Attributes:
        prompt: the conversation before the answer.
        response: the answer.
        full: the conversation with the answer.
    """

    prompt: Any = None
    response: Any = None
    full: Any = None

    EXAMPLE: ClassVar[Any] = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello"}]

    def get(self, key: Any, *default: Any, **options: Any) -> Any:
        """The entry as a tensordict holds it: one list of messages for each row."""
        return self._tensordict.get(key, *default, **options)

    def to_text(
        self, tokenizer: Any, chat_template_name: str | None = None, chat_template: str | None = None
    ) -> Text:
        """The conversations as texts; prompts with what precedes an answer, answers as what `full` adds to them.

        Args:
            tokenizer: see `template_of`, as for the others.
            chat_template_name: the name of a template.
            chat_template: a template.

        Raises:
            ValueError: `full` does not begin with the prompt.
        """
        template = template_of(tokenizer, chat_template, chat_template_name)
        texts: dict[str, list[str]] = {}
        for name, rows in self._rows("prompt", "full").items():
            prompted = {"add_generation_prompt": name == "prompt"}
            texts[name] = [render(template, chat, tokenizer, **prompted) for chat in chats_of(rows)]
        if len(texts) == 2:
            texts["response"] = list(map(_behind, count(), *texts.values()))
        return Text._of_rows(self.batch_size, texts)  # type: ignore[no-any-return]

    def to_tokens(
        self, tokenizer: Any, chat_template_name: str | None = None, chat_template: str | None = None
    ) -> Tokens:
        """The conversations as tokens, each row as long as it is: the tokens of `to_text`."""
        return self.to_text(tokenizer, chat_template_name, chat_template).to_tokens(tokenizer)


def _rows_of(name: str, value: Any, size: Sequence[int]) -> NonTensorData | NonTensorStack:
    """The conversations of a part, one for each row; a history with a message for each row is of conversations of one."""
    if isinstance(value, History) and value.batch_dims and value.batch_dims == len(size):
        value = value.unsqueeze(-1)
    nothing_said = isinstance(value, list) and not value and not size
    try:
        chats = [[]] if nothing_said else chats_of(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} of ChatHistory: {error}") from error
    if len(chats) != prod(size):
        raise ValueError(
            f"{name} of ChatHistory: a batch of {list(size)} has {prod(size)} rows, got {len(chats)} conversations"
        )
    return as_rows(chats, size)


def _size_of(value: Any) -> tuple[int, ...]:
    """The batch size of conversations: that of their lists, without the messages."""
    if isinstance(value, History):
        return tuple(value.batch_size[:-1])
    if is_non_tensor(value):
        return tuple(value.batch_size)
    if not isinstance(value, list | tuple) or not value or isinstance(value[0], Mapping):
        return ()
    return (len(value), *_size_of(value[0]))


def _behind(row: int, prompt: str, full: str) -> str:
    if not full.startswith(prompt):
        raise ValueError(
            f"row {row}: the rendering of full does not begin with that of prompt, {prompt[-60:]!r}"
        )
    return full[len(prompt) :]


def _given(name: str, value: Any, size: Sequence[int]) -> NonTensorData | NonTensorStack | None:
    """A part as it was given; what has a row for each conversation already stays as it is."""
    if value is None or (is_non_tensor(value) and tuple(value.batch_size) == tuple(size)):
        return value
    return _rows_of(name, value, size)


def _init(
    self: ChatHistory,
    prompt: Any = None,
    response: Any = None,
    full: Any = None,
    *,
    batch_size: Sequence[int] | None = None,
    device: DEVICE_TYPING | None = None,
    names: Sequence[str] | None = None,
) -> None:
    given = dict(zip(PARTS, (prompt, response, full), strict=True))
    if batch_size is None:
        batch_size = next((_size_of(value) for value in given.values() if value is not None), ())
    rows = {name: _given(name, value, batch_size) for name, value in given.items()}
    _plain_init(self, **rows, batch_size=batch_size, device=device, names=names)  # type: ignore[call-arg]


def _get(self: ChatHistory, name: str) -> Any:
    if name not in PARTS:
        return _plain_get(self, name)
    rows = self._tensordict.get(name, None)
    return None if rows is None else History.from_chats(rows.tolist())


def _set(self: ChatHistory, name: str, value: Any) -> None:
    if name in PARTS and value is not None:
        value = _rows_of(name, value, self.batch_size)
    _plain_set(self, name, value)


# tensordict makes these three of a class: lists are conversations here, and no batches of what they hold; attributes of
# conversations are histories of their own.
_plain_init, _plain_get, _plain_set = ChatHistory.__init__, ChatHistory.__getattr__, ChatHistory.__setattr__
ChatHistory.__init__ = _init  # type: ignore[method-assign,assignment]
ChatHistory.__getattr__, ChatHistory.__setattr__ = _get, _set  # type: ignore[method-assign,assignment]


class Text(_Container, TensorClass, nocast=True):  # type: ignore[misc,call-arg]
    """Texts: what a model is given, what it says, and both; one string for each row."""

    prompt: Any = None
    response: Any = None
    full: Any = None

    EXAMPLE: ClassVar[Any] = "Hello"

    def __post_init__(self) -> None:
        stacks = [value for name in PARTS if (value := self._tensordict.get(name, None)) is not None]
        if not self.batch_dims and stacks and all(value.batch_dims == 1 for value in stacks):
            self.batch_size = stacks[0].batch_size  # lists of texts, made without a batch size

    def to_tokens(
        self, tokenizer: Any, padding: bool = False, truncation: bool = False, return_tensors: str = "pt"
    ) -> Tokens:
        """The texts as tokens: int64 `[*batch, tokens]`; each row as long as it is, unless they are padded.

        Args:
            tokenizer: of `transformers`; special tokens are those of the texts only.
            padding: whether to pad rows on the tokenizer's side.
            truncation: whether to cut rows to the tokenizer's `model_max_length`.
            return_tensors: ``"pt"``.
        """
        options = {"max_length": tokenizer.model_max_length} if truncation else {}
        entries: dict[str, Ragged] = {}
        for name, texts in self._rows(*PARTS).items():
            rows = tokenizer(texts, add_special_tokens=False, truncation=truncation, **options)["input_ids"]
            entries[name] = Ragged.of([torch.tensor(row, dtype=torch.int64) for row in rows])
        if padding:
            fill, side = tokenizer.pad_token_id, tokenizer.padding_side
            padded = {name: rows.padded(fill, side) for name, rows in entries.items()}
            shaped = {name: value.reshape(*self.batch_size, -1) for name, value in padded.items()}
            made: Any = TensorDict(shaped, self.batch_size)
        else:
            made = stacked_rows(**{name: rows.rows() for name, rows in entries.items()})
            made = made.reshape(self.batch_size) if self.batch_dims != 1 else made
        return Tokens._from_tensordict(made.set("padded", MetaData(padding)))  # type: ignore[no-any-return]

    def to_history(
        self, tokenizer: Any, chat_template_name: str | None = None, chat_template: str | None = None
    ) -> ChatHistory:
        """The conversations that the texts say; see `chat_of_text`. An answer is what `full` has behind the prompt.

        Raises:
            ValueError: texts of the template are not read back.
        """
        named = {"template": chat_template, "name": chat_template_name}
        chats: dict[str, list[Chat]] = {
            name: [chat_of_text(each, tokenizer, **named) for each in texts]
            for name, texts in self._rows("prompt", "full").items()
        }
        if len(chats) == 2:
            pairs = zip(chats["prompt"], chats["full"], strict=True)
            chats["response"] = [full[len(prompt) :] for prompt, full in pairs]
        return ChatHistory._of_rows(self.batch_size, chats)  # type: ignore[no-any-return]


C = TypeVar("C", bound=type[Any])


def _refuses_lists(cls: C) -> C:
    """Have the constructor of tensors refuse lists of rows in words."""
    plain = cls.__init__

    @wraps(plain)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        for name, value in {**dict(zip(cls.__annotations__, args, strict=False)), **kwargs}.items():
            if isinstance(value, list) and any(isinstance(row, Tensor) for row in value):
                raise TypeError(
                    f"{name} of {cls.__name__} is a tensor, got a list of them: for rows of different lengths write"
                    f" tensordict.lazy_stack([{cls.__name__}({name}=row) for row in rows])"
                )
        plain(self, *args, **kwargs)

    cls.__init__ = init
    return cls


@_refuses_lists
class Tokens(_Container, TensorClass, nocast=True):  # type: ignore[misc,call-arg]
    """Tokens, int64 `[*batch, tokens]`: of what a model is given, of what it says, and of both.

    Rows of different lengths are a lazy stack: their shape prints -1, and ``get(key, as_list=True)`` returns them.

    Attributes:
        prompt: padded on the left, if it is padded.
        response: padded on the right, if it is padded.
        full: prompt and response; padded on either side.
        padded: whether they are padded.
    """

    prompt: Any = None
    response: Any = None
    full: Any = None
    padded: Any = None

    DTYPE: ClassVar[torch.dtype | None] = torch.int64

    def to_text(self, tokenizer: Any, skip_special_tokens: bool = False) -> Text:
        """The tokens as texts.

        Args:
            tokenizer: of `transformers`.
            skip_special_tokens: whether special tokens, such as ends of turns, are left out.

        Raises:
            ValueError: the tokens are padded: ids do not tell padding from what was said.
        """
        flags = self._tensordict.get("padded", None)
        if flags is not None and any(objects_of(flags)):
            raise ValueError(
                "padded tokens are not turned into text: ids do not tell padding from what was said"
            )
        texts: dict[str, list[str]] = {}
        for name in PARTS:
            if (rows := rows_at(self._tensordict, name)) is not None:
                flat = rows.reshape(-1, rows.shape[-1]) if isinstance(rows, Tensor) else rows
                texts[name] = [tokenizer.decode(row, skip_special_tokens=skip_special_tokens) for row in flat]
        return Text._of_rows(self.batch_size, texts)  # type: ignore[no-any-return]

    def to_history(
        self, tokenizer: Any, chat_template_name: str | None = None, skip_special_tokens: bool = False
    ) -> ChatHistory:
        """The conversations that the tokens say; see `to_text` and `Text.to_history`."""
        return self.to_text(tokenizer, skip_special_tokens).to_history(tokenizer, chat_template_name)


@_refuses_lists
class Masks(_Container, TensorClass, nocast=True):  # type: ignore[misc,call-arg]
    """Masks of tokens, bool, of the shape of `Tokens.full`.

    Attributes:
        all_attention_mask: which tokens are not padding.
        all_assistant_mask: which the assistant said.
        padded: whether they are padded.
    """

    all_attention_mask: Any = None
    all_assistant_mask: Any = None
    padded: Any = None

    KEYS: ClassVar[tuple[str, ...]] = ("all_attention_mask", "all_assistant_mask")
    DTYPE: ClassVar[torch.dtype | None] = torch.bool


@_refuses_lists
class LogProbs(_Container, TensorClass, nocast=True):  # type: ignore[misc,call-arg]
    """Log-probabilities of tokens, float32, of the shapes of `Tokens`; 0.0 where nothing was scored.

    Attributes:
        prompt: of the prompt's tokens.
        response: of the answer's.
        full: of both.
        padded: whether they are padded.
    """

    prompt: Any = None
    response: Any = None
    full: Any = None
    padded: Any = None

    DTYPE: ClassVar[torch.dtype | None] = torch.float32
