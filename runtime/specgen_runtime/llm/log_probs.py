"""`RetrieveLogProb`: what a language model says about the tokens of a conversation, as a transform."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.llm.body import scorable
from specgen_runtime.llm.containers import PARTS, LogProbs
from specgen_runtime.llm.entries import Sequences, mask_at, write_rows
from specgen_runtime.llm.ragged import stacked_rows
from specgen_runtime.llm.sampling import single_token
from specgen_runtime.llm.wrapper import TransformersWrapper
from specgen_runtime.objectives.keys import listed
from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms import Transform
from specgen_runtime.transforms.keys import as_tuple, normal_key
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = [
    "RetrieveLogProb",
    "WhichTokens",
    "moment_after",
    "put_rows",
    "row_specs",
    "scored_tokens",
    "scoring",
    "zero_rows",
]

_SAID = {"tokenize": True, "return_assistant_tokens_mask": True, "return_dict": True, "return_tensors": "pt"}
"""Keywords of tokenizers that are always so here."""


def scoring(
    model: TransformersWrapper,
    name: str,
    *,
    assistant_only: bool,
    tokenizer: Any = None,
    tokenizer_kwargs: Mapping[str, Any] | None = None,
    history_key: NestedKey | None = None,
    padding_side: str | None = None,
    device: DEVICE_TYPING | None = None,
    roles: Collection[str] | None = None,
) -> TransformersWrapper:
    """A model as one that scores conversations as asked for; the same one if nothing is.

    Args:
        model: one that scores.
        name: of the argument, in messages.
        assistant_only: whether only the assistant's tokens are scored.
        tokenizer: instead of the model's.
        tokenizer_kwargs: more keywords of `render_batch` or the template.
        history_key: where conversations are.
        padding_side: of the results.
        device: where the model is moved.
        roles: whose tokens are scored in place of the assistant's. Data do not hold a mask of these: conversations are
            rendered, then.

    Raises:
        ValueError: the model generates, returns no log-probabilities, or cannot tell the assistant's tokens.
    """
    if isinstance(roles, str) or (roles is not None and not (roles and assistant_only)):
        raise ValueError(
            f"roles are names such as ['assistant', 'tool'], with assistant_only=True; got {roles!r}"
        )
    if model.generate:
        raise ValueError(f"{name} generates: give {name}.get_new_version(generate=False), which scores")
    if not model.return_log_probs:
        raise ValueError(f"{name} returns no log-probabilities: set return_log_probs=True")
    if assistant_only and model.input_mode != "history":
        raise ValueError(
            f"assistant_only=True needs input_mode='history', {name} has input_mode={model.input_mode!r}: only "
            "conversations tell what the assistant said; or set assistant_only=False"
        )
    if assistant_only and tokenizer is None and model.tokenizer is None:
        raise ValueError(f"assistant_only=True needs a tokenizer: give one to {name} or as `tokenizer`")
    if device is not None:
        model.model.to(device)
    keywords: dict[str, Any] = {
        "tokenizer": tokenizer,
        "history_key": history_key,
        "padding_side": padding_side,
    }
    if tokenizer_kwargs is not None:
        keywords |= _wrapper_keywords(model, tokenizer_kwargs)
    if roles is not None and set(roles) != {"assistant"}:
        options = keywords.get("tokenizer_kwargs", model.tokenizer_kwargs)
        keywords |= {"tokenizer_kwargs": {**options, "roles": tuple(roles)}, "prefer_tokens": False}
    asked = {
        key: value for key, value in keywords.items() if value is not None and getattr(model, key) != value
    }
    return model.get_new_version(**asked) if asked else model


def _wrapper_keywords(model: TransformersWrapper, tokenizer_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What keywords of tokenizers are among a wrapper's."""
    given = dict(tokenizer_kwargs)
    for name, value in _SAID.items():
        if given.pop(name, value) != value:
            raise ValueError(f"tokenizer_kwargs: {name} is {value!r} here, got {tokenizer_kwargs[name]!r}")
    if given.pop("add_generation_prompt", False):
        raise ValueError(
            "tokenizer_kwargs: add_generation_prompt=True is for prompts; whole conversations are scored"
        )
    given.pop("padding", None)  # as the model's pad_output says
    kept = {"max_length": given.pop("max_length", None), "padding_side": given.pop("padding_side", None)}
    if not given.pop("truncation", True):
        kept["max_length"] = None
    for name in ("chat_template", "chat_template_name"):
        kept[name] = given.pop(name, None)
    return {**kept, "tokenizer_kwargs": {**model.tokenizer_kwargs, **given}}


def scored_tokens(
    found: Sequences,
    assistant_only: bool,
    empty: str = "error",
    excluded: Sequence[int] = (),
    mask: Tensor | None = None,
) -> Tensor:
    """Which tokens are scored: bool ``[rows, width]``; those of the assistant, or all, that have a predecessor.

    Args:
        found: tokens with their masks.
        assistant_only: whether only the assistant's are.
        empty: what to do with a row without any: ``"error"`` or ``"zero"``.
        excluded: ids of tokens that are not.
        mask: bool ``[rows, width]``: only these of them; None for all.

    Raises:
        ValueError: a row has none; or it is not known what the assistant said.
    """
    if assistant_only and found.assistant is None:
        raise ValueError(
            "it is not known which tokens the assistant said: there is no masks.all_assistant_mask"
        )
    wanted = found.assistant if assistant_only and found.assistant is not None else found.attention
    scored = scorable(wanted, found.attention)
    if excluded:
        scored &= ~torch.isin(found.ids, torch.tensor(excluded, device=found.ids.device))
    if mask is not None:
        scored &= mask
    if empty == "error" and assistant_only and not bool((any_ := scored.any(-1)).all()):
        row = int((~any_).nonzero()[0])
        raise ValueError(
            f"row {row} ({int(found.attention[row].sum())} tokens) has no token of the assistant that can be scored; "
            "leave it out, or pass empty='zero'"
        )
    return scored


class WhichTokens:
    """Which tokens of conversations a transform scores.

    Args:
        assistant_only: whether only the assistant's.
        empty: what to do with a row without any: ``"error"`` or ``"zero"``.
        exclude_tokens: tokens that are not, such as ends of turns: ids, or strings that are one token of the tokenizer.
        mask_key: of a mask in the data, bool of the shape of the tokens: only these of them; None for all.

    Raises:
        ValueError: a string is not one token.
    """

    def __init__(
        self,
        assistant_only: bool = True,
        empty: Literal["error", "zero"] = "error",
        exclude_tokens: Sequence[int | str] = (),
        mask_key: NestedKey | None = None,
    ) -> None:
        self.assistant_only, self.empty = assistant_only, empty
        self.exclude_tokens, self.mask_key = tuple(exclude_tokens), mask_key

    def __call__(self, data: TensorDictBase, found: Sequences, model: TransformersWrapper) -> Tensor:
        """Bool ``[rows, width]``.

        Args:
            data: what was read.
            found: its tokens.
            model: which read it.

        Raises:
            KeyError: the mask is not in the data.
            ValueError: it is not of their shape, a row has no token to score, or see `scored_tokens`.
        """
        mask = None
        if self.mask_key is not None:
            mask = mask_at(data, self.mask_key, found)
            if mask is None:
                raise KeyError(
                    f"there is no mask of {list(found.ids.shape)} tokens at {self.mask_key!r} (the data hold {listed(data)})"
                )
        excluded = [single_token(token, model.tokenizer) for token in self.exclude_tokens]
        return scored_tokens(found, self.assistant_only, self.empty, excluded, mask)


def put_rows(data: TensorDictBase, key: NestedKey, values: Tensor, kept: Tensor, padded: bool) -> None:
    """Write a value for each token.

    Args:
        data: as many rows as `values`.
        key: of the entry.
        values: ``[rows, width]``.
        kept: bool ``[rows, width]``, what is no padding.
        padded: whether rows stay so wide. Otherwise each is as long as it is: of a container a lazy stack, else a
            jagged nested tensor.
    """
    *container, name = as_tuple(key)
    if padded:
        data.set((*container, name), values.reshape(*data.batch_size, values.shape[-1]))
    elif container and name in PARTS:
        write_rows(data, tuple(container), LogProbs, {name: (values, kept)}, padded=False)
    elif container:
        rows = [value[keep] for value, keep in zip(values, kept, strict=True)]
        data.set(tuple(container), stacked_rows(**{name: rows}).reshape(data.batch_size))
    else:
        rows = [value[keep] for value, keep in zip(values, kept, strict=True)]
        if isinstance(data, LazyStackedTensorDict) and data.batch_dims == 1:
            for part, row in zip(data.tensordicts, rows, strict=True):
                part.set(name, row)
        elif data.batch_dims == 1:
            data.set(name, torch.nested.as_nested_tensor(rows, layout=torch.jagged))
        else:
            data.set(name, rows[0] if not data.batch_dims else _refuse_ragged(data))


def _refuse_ragged(data: TensorDictBase) -> Tensor:
    raise ValueError(
        f"rows of different lengths need one batch dimension, got {list(data.batch_size)}: pad_output=True"
    )


def row_specs(specs: Composite, keys: list[NestedKey], model: TransformersWrapper | None) -> Composite:
    """The specs with a float32 value for each token at some keys, ``[*batch, pad_to]``.

    Args:
        specs: which are modified.
        keys: of the values.
        model: whose `pad_to` it is; without one the width is that of the data, which partial resets cannot merge.

    Raises:
        ValueError: the model's rows are not padded.
    """
    if model is not None and not model.pad_output:
        raise ValueError("an environment's tensors are padded: give models with pad_output=True, and pad_to")
    width = -1 if model is None or model.pad_to is None else model.pad_to
    for key in keys:
        *container, name = as_tuple(key)
        if container and tuple(container) not in specs.keys(True):
            specs[tuple(container)] = Composite(shape=specs.shape, device=specs.device)
        specs[(*container, name)] = Unbounded((*specs.shape, width), dtype=torch.float32, device=specs.device)
    return specs


def zero_rows(
    data: TensorDictBase, keys: list[NestedKey], model: TransformersWrapper | None
) -> TensorDictBase:
    """Write zeros at keys of `row_specs`: nothing is scored yet."""
    width = 0 if model is None or model.pad_to is None else model.pad_to
    zeros = torch.zeros(data.batch_size.numel(), width, device=data.device)
    for key in keys:
        put_rows(data, key, zeros, torch.ones_like(zeros, dtype=torch.bool), padded=True)
    return data


def moment_after(tensordict: TensorDictBase) -> TensorDictBase:
    """What data hold under ``"next"``, where results are written; the data themselves without it."""
    after = tensordict.get("next", None)
    return tensordict if after is None else after


class RetrieveLogProb(Transform):
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

    model: TransformersWrapper

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
        key = normal_key(
            (*as_tuple(model.log_probs_key), "full") if log_probs_full_key is None else log_probs_full_key
        )
        super().__init__(in_keys=[], out_keys=[key])
        self.assistant_only, self.detach = assistant_only, detach
        self.which = WhichTokens(assistant_only, empty, exclude_tokens, mask_key)
        self.__dict__["model"] = scoring(  # not a submodule: it is no part of the transform's state
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
        self.in_keys = [self.model.input_key]

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        found = self.model.sequences(tensordict)
        scored = self.which(tensordict, found, self.model)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.detach):
            log_probs = self.model.score(found, scored).log_probs
        put_rows(next_tensordict, self.out_keys[0], log_probs, found.attention, self.model.pad_output)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return zero_rows(tensordict_reset, self.out_keys, self.model)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._step(tensordict, moment_after(tensordict))
        return tensordict

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs with the log-probabilities, `[*batch, pad_to]`.

        Raises:
            ValueError: the model's rows are not padded.
        """
        return row_specs(observation_spec, self.out_keys, self.model)
