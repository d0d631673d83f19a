"""`RetrieveLogProb`: what a language model says about the tokens of a conversation, as a transform."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.llm.conversations.containers import PARTS, LogProbs
from specgen_runtime.llm.conversations.entries import write_rows
from specgen_runtime.llm.kl.options import FixedArguments
from specgen_runtime.llm.kl.scored_tokens import WhichTokens, scoring
from specgen_runtime.llm.kl.scoring_models import RayScoringModels, ScoringModels
from specgen_runtime.llm.models.wrapper import TransformersWrapper
from specgen_runtime.ragged import stacked_rows
from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms import Transform
from specgen_runtime.transforms.keys import as_tuple, normal_key
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["RetrieveLogProb", "WritesRows", "moment_after", "put_rows"]


def put_rows(data: TensorDictBase, key: NestedKey, values: Tensor, kept: Tensor, padded: bool) -> None:
    """Write a value for each token.

    Args:
        data: as many rows as `values`.
        key: of the entry.
        values: ``[rows, width]``.
        kept: bool ``[rows, width]``, what is no padding.
        padded: whether rows stay so wide. Otherwise each is as long as it is: of a container a lazy stack, else a
            jagged nested tensor.

    Raises:
        ValueError: the data have another number of rows.
    """
    *container, name = as_tuple(key)
    if len(values) != data.batch_size.numel():
        raise ValueError(
            f"{key!r} is of {len(values)} rows, but is to be written to data of the batch {list(data.batch_size)}"
        )
    if padded:
        if container and name in PARTS and data.get(tuple(container), None) is None:
            data.set(tuple(container), LogProbs(batch_size=data.batch_size, device=data.device))
        data.set((*container, name), values.reshape(*data.batch_size, values.shape[-1]))
        return
    if container and name in PARTS:
        write_rows(data, tuple(container), LogProbs, {name: (values, kept)}, padded=False)
        return
    rows = [value[keep] for value, keep in zip(values, kept, strict=True)]
    if container:
        data.set(tuple(container), stacked_rows(**{name: rows}).reshape(data.batch_size))
    elif not data.batch_dims:
        data.set(name, rows[0])
    elif data.batch_dims > 1:
        raise ValueError(
            f"rows of different lengths need one batch dimension, got {list(data.batch_size)}: pad_output=True"
        )
    elif isinstance(data, LazyStackedTensorDict):
        for part, row in zip(data.tensordicts, rows, strict=True):
            part.set(name, row)
    else:
        data.set(name, torch.nested.as_nested_tensor(rows, layout=torch.jagged))


def moment_after(tensordict: TensorDictBase) -> TensorDictBase:
    """What data hold under ``"next"``, where results are written; the data themselves without it."""
    after = tensordict.get("next", None)
    return tensordict if after is None else after


class WritesRows(Transform):
    """Base of transforms that write numbers for the tokens of conversations, as models of `models` score them.

    What they write is next to the reward: under ``"next"`` where there is one, at the root otherwise.
    """

    models: ScoringModels | RayScoringModels

    @property
    def row_keys(self) -> list[NestedKey]:
        """The keys of what is written, float32 ``[*batch, time]``."""
        return self.out_keys

    def row_width(self) -> int:
        """The models' `pad_to`; -1 without one."""
        return self.models.row_layout().pad_to or -1

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        width = self.models.row_layout().pad_to or 0
        nothing = torch.zeros(tensordict_reset.batch_size.numel(), width, device=tensordict_reset.device)
        for key in self.row_keys:
            put_rows(tensordict_reset, key, nothing, torch.ones_like(nothing, dtype=torch.bool), padded=True)
        return tensordict_reset

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._step(tensordict, moment_after(tensordict))
        return tensordict

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs with what is written, ``[*batch, pad_to]``.

        Without `pad_to` the width is that of the data, which partial resets cannot merge.

        Raises:
            ValueError: the models' rows are not padded.
        """
        if not self.models.row_layout().pad_output:
            raise ValueError(
                "an environment's tensors are padded: give models with pad_output=True, and pad_to"
            )
        batch, device, width = observation_spec.shape, observation_spec.device, self.row_width()
        for key in self.row_keys:
            *container, name = as_tuple(key)
            if container and tuple(container) not in observation_spec.keys(True):
                kind = LogProbs if name in PARTS else None
                observation_spec[tuple(container)] = Composite(shape=batch, device=device, data_cls=kind)
            observation_spec[key] = Unbounded((*batch, width), dtype=torch.float32, device=device)
        return observation_spec

    def close(self) -> None:
        """Use Ray actors no more: those without a name end."""
        self.models.close()


class RetrieveLogProb(
    FixedArguments,
    WritesRows,
    changeable=(),
    derived={
        "in_keys": "they are those of the model: give it another input_key, or RetrieveLogProb(..., history_key=...)",
        "out_keys": "give RetrieveLogProb(..., log_probs_full_key=...)",
    },
):
    """Writes the log-probability of each token of conversations, as a model says it.

    The conversations (texts, tokens: as the model's `input_mode` says) are those of the data themselves, with the
    answer; what is written is next to the reward: under ``"next"`` where there is one, at the root otherwise. In an
    environment a reset writes zeros.

    Args:
        model: scores: ``generate=False``, ``return_log_probs=True``.
        log_probs_full_key: where they are written, float32 ``[*batch, time]``; None for the model's
            `log_probs_key` and ``"full"``.
        assistant_only: whether only the assistant's tokens have one. It is exactly 0 for all others, and for the
            first token of a conversation.
        tokenizer_kwargs: keywords of the chat template, or ``max_length``; not modified.
        detach: whether there are no gradients.
        device: where the model is moved; results are where the data are.
        tokenizer: instead of the model's.
        padding_side: of results, ``"left"`` or ``"right"``; None for the model's.
        history_key: where conversations are; None for the model's.
        empty: what to do with a row without a token to score: ``"error"`` or ``"zero"``.
        roles: whose tokens are the assistant's; see `scoring`. None for those of messages of the assistant.
        exclude_tokens: tokens that have none; see `WhichTokens`.
        mask_key: of a mask of those that have one; see `WhichTokens`.

    Raises:
        ValueError: the model generates, or cannot tell the assistant's tokens.

    Example:
        >>> policy = TransformersWrapper(model, tokenizer=tokenizer, generate=False, pad_output=True)
        >>> RetrieveLogProb(policy)(data)["next", "log_probs", "full"].shape
        torch.Size([2, 26])
    """

    def __init__(
        self,
        model: TransformersWrapper,
        *,
        log_probs_full_key: NestedKey | None = None,
        assistant_only: bool = True,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        detach: bool = True,
        device: DEVICE_TYPING | None = None,
        tokenizer: Any = None,
        padding_side: Literal["left", "right"] | None = None,
        history_key: NestedKey | None = None,
        empty: Literal["error", "zero"] = "error",
        roles: Collection[str] | None = None,
        exclude_tokens: Sequence[int | str] = (),
        mask_key: NestedKey | None = None,
    ) -> None:
        model = scoring(
            model,
            "model",
            assistant_only=assistant_only,
            tokenizer=tokenizer,
            tokenizer_kwargs=tokenizer_kwargs,
            history_key=history_key,
            padding_side=padding_side,
            device=device,
            roles=roles,
        )
        key = normal_key(
            (*as_tuple(model.log_probs_key), "full") if log_probs_full_key is None else log_probs_full_key
        )
        super().__init__(in_keys=[model.input_key], out_keys=[key])
        which = WhichTokens(assistant_only, empty, exclude_tokens, mask_key)
        self.models: ScoringModels = ScoringModels({"model": model}, which=which, detach=detach)

    @property
    def model(self) -> TransformersWrapper:
        """The model, as it scores."""
        return self.models.models["model"]

    @property
    def assistant_only(self) -> bool:
        """Whether only the assistant's tokens have a log-probability."""
        return self.models.which.assistant_only

    @property
    def detach(self) -> bool:
        """Whether there are no gradients."""
        return self.models.detach

    @property
    def log_probs_full_key(self) -> NestedKey:
        """Where log-probabilities are written."""
        return self.out_keys[0]

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        scores = self.models.score(tensordict)
        padded = self.models.row_layout().pad_output
        put_rows(next_tensordict, self.out_keys[0], scores.log_probs[0], scores.attention, padded)
        return next_tensordict
