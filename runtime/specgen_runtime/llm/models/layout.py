"""Where a wrapper of a language model finds and puts entries, and how wide its tensors are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.conversations.containers import ChatHistory, LogProbs, Masks, Text, Tokens
from specgen_runtime.llm.conversations.entries import Sequences, write_rows
from specgen_runtime.llm.conversations.messages import Chat, Message, as_rows
from specgen_runtime.llm.models.sampling import Answers
from specgen_runtime.ragged import Ragged
from specgen_runtime.typing import NestedKey

__all__ = ["InputMode", "Layout", "within"]

InputMode: TypeAlias = Literal["history", "text", "tokens"]


@dataclass(frozen=True)
class Layout:
    """The keys of containers, and the widths of tensors in them.

    Args:
        history: the key of conversations.
        text: of texts.
        tokens: of tokens.
        masks: of masks.
        log_probs: of log-probabilities.
        padded: whether tensors are padded; otherwise rows are as long as they are.
        side: where padding of prompts and whole sequences is, ``"left"`` or ``"right"``.
        width: of padded tensors; None for the longest row's.
        pad_id: the id of padding.

    Raises:
        ValueError: another side, a width of tensors that are not padded, or one below 1.
    """

    history: NestedKey
    text: NestedKey
    tokens: NestedKey
    masks: NestedKey
    log_probs: NestedKey
    padded: bool
    side: str
    width: int | None
    pad_id: int

    def __post_init__(self) -> None:
        if self.side not in ("left", "right"):
            raise ValueError(f"padding_side is 'left' or 'right', got {self.side!r}")
        if self.width is not None and not self.padded:
            raise ValueError(f"pad_to={self.width} is the width of padded tensors: set pad_output=True")
        if self.width is not None and self.width < 1:
            raise ValueError(f"pad_to is at least 1, got {self.width}")

    @property
    def attention_mask(self) -> NestedKey:
        """The key of the mask of what is no padding."""
        return within(self.masks, "all_attention_mask")

    @property
    def assistant_mask(self) -> NestedKey:
        """The key of the mask of what the assistant said."""
        return within(self.masks, "all_assistant_mask")

    def written(self, mode: InputMode, *, generate: bool, log_probs: bool) -> list[NestedKey]:
        """The keys that a wrapper writes."""
        parts = ("prompt", "response", "full") if generate else ("full",)
        said = parts[-2:] if generate else parts
        keys = [*(within(self.tokens, part) for part in parts), self.attention_mask]
        if generate or mode == "history":
            keys.append(self.assistant_mask)
        if log_probs:
            keys += [within(self.log_probs, part) for part in said]
        if generate and mode != "tokens":
            keys += [within(self.text, part) for part in parts]
        if generate and mode == "history":
            keys += [within(self.history, part) for part in parts]
        return keys

    def sequences(
        self, ids: Ragged, assistant: Ragged | None = None, text: Sequence[str] | None = None
    ) -> Sequences:
        """Rows of tokens, padded.

        Raises:
            ValueError: one is longer than the width.
        """
        said = None if assistant is None else assistant.padded(False, self.side, self.width)
        return Sequences(
            ids.padded(self.pad_id, self.side, self.width), ids.mask(self.side, self.width), said, text
        )

    def write_scores(self, out: TensorDictBase, found: Sequences, log_probs: Tensor) -> None:
        """Write sequences and the log-probabilities of their tokens, ``[rows, width]``."""
        kept = found.attention
        masks = {"all_attention_mask": kept}
        if found.assistant is not None:
            masks["all_assistant_mask"] = found.assistant
        self._write(out, self.tokens, Tokens, {"full": (found.ids, kept)})
        self._write(out, self.masks, Masks, {name: (mask, kept) for name, mask in masks.items()})
        self._write(out, self.log_probs, LogProbs, {"full": (log_probs, kept)})

    def write_answers(
        self, out: TensorDictBase, prompts: Sequence[Tensor], answers: Answers, *, log_probs: bool
    ) -> None:
        """Write the tokens of prompts and of what was answered to each.

        Args:
            out: with a row for each answer.
            prompts: int64 ``[tokens]``, one for each answer.
            answers: as they were sampled.
            log_probs: whether their log-probabilities are written, too.
        """
        said = Ragged.of(answers.tokens)
        whole = [torch.cat(pair) for pair in zip(prompts, answers.tokens, strict=True)]
        new = [
            torch.arange(len(row), device=row.device) >= len(prompt)
            for prompt, row in zip(prompts, whole, strict=True)
        ]
        before, full = self.sequences(Ragged.of(prompts)), self.sequences(Ragged.of(whole), Ragged.of(new))
        alone = said.mask("right", self.width)
        tokens = {
            "prompt": (before.ids, before.attention),
            "response": (said.padded(self.pad_id, "right", self.width), alone),
            "full": (full.ids, full.attention),
        }
        masks = {"all_attention_mask": full.attention, "all_assistant_mask": cast("Tensor", full.assistant)}
        self._write(out, self.tokens, Tokens, tokens)
        self._write(out, self.masks, Masks, {name: (mask, full.attention) for name, mask in masks.items()})
        if log_probs:
            told = [
                torch.cat([row.new_zeros(len(prompt)), row])
                for prompt, row in zip(prompts, answers.log_probs, strict=True)
            ]
            entries = {
                "response": (Ragged.of(answers.log_probs).padded(0.0, "right", self.width), alone),
                "full": (Ragged.of(told).padded(0.0, self.side, self.width), full.attention),
            }
            self._write(out, self.log_probs, LogProbs, entries)

    def write_texts(self, out: TensorDictBase, prompts: Sequence[str], replies: Sequence[str]) -> None:
        """Write prompts, answers and both as texts, one for each row."""
        both = [prompt + reply for prompt, reply in zip(prompts, replies, strict=True)]
        _write_objects(out, self.text, Text, {"prompt": prompts, "response": replies, "full": both})

    def write_messages(
        self, out: TensorDictBase, prompts: Sequence[Chat], replies: Sequence[Message]
    ) -> None:
        """Write prompts, answers and both as conversations, one for each row."""
        both = [[*chat, message] for chat, message in zip(prompts, replies, strict=True)]
        alone = [[message] for message in replies]
        _write_objects(out, self.history, ChatHistory, {"prompt": prompts, "response": alone, "full": both})

    def _write(
        self, out: TensorDictBase, key: NestedKey, kind: Any, columns: Mapping[str, tuple[Tensor, Tensor]]
    ) -> None:
        write_rows(out, key, kind, columns, padded=self.padded)


def _write_objects(
    out: TensorDictBase, key: NestedKey, kind: Any, entries: Mapping[str, Sequence[Any]]
) -> None:
    rows = {name: as_rows(values, out.batch_size) for name, values in entries.items()}
    before = out.get(key, None)
    made = kind(batch_size=out.batch_size) if before is None else before.copy()
    if not isinstance(made, kind):  # an environment's plain tensordict
        made = kind._from_tensordict(made)
    for name, values in rows.items():
        made._tensordict.set(name, values)
    out.set(key, made)


def within(container: NestedKey, part: str) -> NestedKey:
    """The key of an entry of a container."""
    return (container, part) if isinstance(container, str) else (*container, part)
