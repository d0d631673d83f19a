"""Which tokens of conversations are scored, and the models that tell them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.conversations.entries import Sequences, mask_at, tokens_at
from specgen_runtime.llm.models.body import scorable
from specgen_runtime.llm.models.layout import within
from specgen_runtime.llm.models.sampling import single_token
from specgen_runtime.llm.models.wrapper import TransformersWrapper
from specgen_runtime.objectives.keys import language_wrapping, listed
from specgen_runtime.ragged import rows_at, sizes_of
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["WhichTokens", "scoring", "wrapper_of"]


def wrapper_of(model: object, name: str, *, scores: bool = False) -> TransformersWrapper:
    """A model that is to be a wrapper; the same one.

    Args:
        model: what was given.
        name: of the argument, in the message.
        scores: whether the message tells of one that scores.

    Raises:
        TypeError: it is none.
    """
    if isinstance(model, TransformersWrapper):
        return model
    kind, remedy = type(model), language_wrapping(model, scores=scores)
    raise TypeError(
        f"{name} is a TransformersWrapper, got {kind.__module__}.{kind.__qualname__}{': ' * bool(remedy)}{remedy}"
    )


def scoring(
    model: object,
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
        model: one that scores, a `TransformersWrapper`; factories may have made anything.
        name: of the argument, in messages.
        assistant_only: whether only the assistant's tokens are scored.
        tokenizer: instead of the model's.
        tokenizer_kwargs: more of the wrapper's.
        history_key: where conversations are.
        padding_side: of the results.
        device: where the model is moved.
        roles: whose tokens are scored in place of the assistant's. Data do not hold a mask of these: conversations are
            rendered, then.

    Raises:
        TypeError: the model is no `TransformersWrapper`.
        ValueError: it generates, returns no log-probabilities, or cannot tell the assistant's tokens.
    """
    if isinstance(roles, str) or (roles is not None and not (roles and assistant_only)):
        raise ValueError(
            f"roles are names such as ['assistant', 'tool'], with assistant_only=True; got {roles!r}"
        )
    model = wrapper_of(model, name, scores=True)
    if model.generate:
        raise ValueError(f"{name} generates: give {name}.get_new_version(generate=False), which scores")
    if not model.return_log_probs:
        raise ValueError(f"{name} returns no log-probabilities: set return_log_probs=True")
    if assistant_only and model.input_mode != "history":
        raise ValueError(
            f"The model must have `input_mode='history'` when assistant_only=True, {name} has {model.input_mode!r}: only"
            " conversations tell what the assistant said; or set assistant_only=False"
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
        keywords["tokenizer_kwargs"] = {**model.tokenizer_kwargs, **tokenizer_kwargs}
    if roles is not None and set(roles) != {"assistant"}:
        options = keywords.get("tokenizer_kwargs", model.tokenizer_kwargs)
        keywords |= {"tokenizer_kwargs": {**options, "roles": tuple(roles)}, "prefer_tokens": False}
    asked = {
        key: value for key, value in keywords.items() if value is not None and getattr(model, key) != value
    }
    return model.get_new_version(**asked) if asked else model


@dataclass(frozen=True)
class WhichTokens:
    """Which tokens of conversations a transform scores.

    Args:
        assistant_only: whether only the assistant's.
        empty: what to do with a row without any: ``"error"`` or ``"zero"``.
        exclude_tokens: tokens that are not, such as ends of turns: ids, or strings that are one token of the tokenizer.
        mask_key: of a mask in the data, bool of the shape of the tokens: only these of them; None for all.

    Raises:
        ValueError: `empty` is neither; at a call: a string is not one token.
    """

    assistant_only: bool = True
    empty: Literal["error", "zero"] = "error"
    exclude_tokens: Sequence[int | str] = ()
    mask_key: NestedKey | None = None

    def __post_init__(self) -> None:
        if self.empty not in ("error", "zero"):
            raise ValueError(f"empty is 'error' or 'zero', got {self.empty!r}")

    def __call__(self, data: TensorDictBase, found: Sequences, model: TransformersWrapper) -> Tensor:
        """Bool ``[rows, width]``.

        Args:
            data: what was read.
            found: its tokens.
            model: which read it.

        Raises:
            KeyError: the mask is not in the data.
            ValueError: it is not of their shape, or of other tokens than those that are scored; it is not known what the
                assistant said; or a row has no token to score.
        """
        if self.assistant_only and found.assistant is None:
            raise ValueError(
                "it is not known which tokens the assistant said: there is no masks.all_assistant_mask"
            )
        wanted = found.assistant if self.assistant_only and found.assistant is not None else found.attention
        scored = scorable(wanted, found.attention)
        if self.exclude_tokens:
            excluded = [single_token(token, model.tokenizer) for token in self.exclude_tokens]
            scored &= ~torch.isin(found.ids, torch.tensor(excluded, device=found.ids.device))
        if self.mask_key is not None:
            scored &= _mask(data, found, model, self.mask_key)
        if self.empty == "error" and self.assistant_only and not bool((any_ := scored.any(-1)).all()):
            row = int((~any_).nonzero()[0])
            roles = model.tokenizer_kwargs.get("roles", ("assistant",))
            whom = "the assistant" if set(roles) == {"assistant"} else " or ".join(map(repr, roles))
            raise ValueError(
                f"row {row} ({int(found.attention[row].sum())} tokens) has no token of {whom} that can be scored; "
                "leave it out, or pass empty='zero'"
            )
        return scored


def _mask(data: TensorDictBase, found: Sequences, model: TransformersWrapper, key: NestedKey) -> Tensor:
    """The mask in the data of tokens that were read."""
    _check_tokens(data, found, model, key)
    if (mask := mask_at(data, key, found)) is not None:
        return mask
    if (held := rows_at(data, key)) is None:
        raise KeyError(
            f"there is no mask of {list(found.ids.shape)} tokens at {key!r} (the data hold {listed(data)})"
        )
    raise ValueError(
        f"the mask at {key!r} is {sizes_of(held)}, the tokens {list(found.ids.shape)}: they are not of the same"
    )


def _check_tokens(
    data: TensorDictBase, found: Sequences, model: TransformersWrapper, mask_key: NestedKey
) -> None:
    """Refuse a mask whose tokens are in the data where the conversations were rendered as others."""
    keys = model.keys
    known = tokens_at(data, within(keys.tokens, "full"), [keys.attention_mask], keys.side, keys.width)
    if known is None or model.input_mode != "history":
        return
    for row, (held, scored) in enumerate(zip(known.rows(), found.rows(), strict=True)):
        if not torch.equal(held, scored):
            raise ValueError(
                f"row {row}: {mask_key!r} is a mask of the {len(held)} tokens in the data, but the conversation was "
                f"rendered as {len(scored)} others, which it does not fit: roles other than the assistant's, and "
                "prefer_tokens=False, render anew. Leave roles out and let the mask say which tokens count, or take the "
                "tokens out of the data"
            )
