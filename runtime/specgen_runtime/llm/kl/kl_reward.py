"""`KLRewardTransform`: the KL penalty from log-probabilities that the policy wrote as it sampled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Unpack

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.conversations.entries import Sequences, behind_prompts, in_places
from specgen_runtime.llm.kl.kl_penalty import KLPenalty
from specgen_runtime.llm.kl.log_probs import WritesRows, put_rows
from specgen_runtime.llm.kl.options import FixedArguments, KLOptions, PenaltyOptions, split_options
from specgen_runtime.llm.kl.scored_tokens import WhichTokens, scoring
from specgen_runtime.llm.kl.scoring_models import (
    RayScoringModels,
    RowLayout,
    ScoringModels,
    model_of,
)
from specgen_runtime.llm.models.wrapper import TransformersWrapper
from specgen_runtime.objectives.keys import listed
from specgen_runtime.ragged import rows_at, sizes_of
from specgen_runtime.services import HereOrInActors, RayService
from specgen_runtime.transforms.keys import normal_key
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["KLRewardTransform", "RayKLRewardTransform"]

_PROMPTS: NestedKey = ("tokens", "prompt")


class Reference(ScoringModels):
    """The model of a `KLRewardTransform`, ``"ref_model"``.

    Args:
        ref_model: makes it.
        assistant_only: whether only answers are scored: what the assistant said, where that is known; else all behind
            the prompt.
        roles: whose tokens are scored in place of the assistant's; see `scoring`.
        exclude_tokens: tokens that do not count; see `WhichTokens`.
        mask_key: of a mask of those that do; see `WhichTokens`.
        log_prob_key: of the policy's log-probabilities, which are to be of the tokens of `roles`, too.
        options: further keywords of `scoring`.

    Raises:
        ValueError: see `scoring`.
    """

    def __init__(
        self,
        *,
        ref_model: Callable[[], TransformersWrapper],
        assistant_only: bool,
        roles: Collection[str] | None,
        exclude_tokens: Sequence[int | str],
        mask_key: NestedKey | None,
        log_prob_key: NestedKey | None,
        **options: Any,
    ) -> None:
        model = scoring(ref_model(), "ref_model", assistant_only=False, **options)
        which = WhichTokens(assistant_only, "zero", exclude_tokens, mask_key)
        super().__init__({"ref_model": model}, which=which)
        self._of_roles = model
        if roles is not None:
            self._of_roles = scoring(model, "ref_model", assistant_only=assistant_only, roles=roles)
        self._log_prob_key = None if self._of_roles is model else log_prob_key  # it is of answers

    def row_layout(self) -> RowLayout:
        """Where rows are read, and how wide results are."""
        known = super().row_layout()
        written = () if self._log_prob_key is None else (self._log_prob_key,)
        return known._replace(reads=(*known.reads, _PROMPTS, *written))

    def tokens_to_score(self, data: TensorDictBase, found: Sequences) -> Tensor:
        """Which tokens are scored: bool ``[rows, width]``; see `WhichTokens`.

        Args:
            data: what the tokens were read from.
            found: the tokens.

        Raises:
            ValueError: tokens in the data are not those of the conversations whose roles are asked for, or the policy wrote
                log-probabilities of its answers alone; or see `WhichTokens`.
        """
        if self.which.assistant_only and found.assistant is None:
            found = found._replace(assistant=behind_prompts(data, _PROMPTS, found))
        if self._log_prob_key is None:
            return super().tokens_to_score(data, found)
        of_roles = _mask_of_beginnings(found, self._of_roles.sequences(data))
        scored = super().tokens_to_score(data, found._replace(assistant=of_roles))
        others = scored if found.assistant is None else scored & ~found.assistant
        gen = log_probs_like(rows_at(data, self._log_prob_key), found.attention, self._log_prob_key)
        _refuse_unwritten(gen, others, self._log_prob_key)
        return scored


def _refuse_unwritten(log_probs: Tensor, others: Tensor, key: NestedKey) -> None:
    """ValueError for a row with no log-probability of any of the tokens that the policy did not say."""
    unwritten = others.any(-1) & ~(others & (log_probs != 0)).any(-1)
    if bool(unwritten.any()):
        row = int(unwritten.nonzero()[0])
        raise ValueError(
            f"row {row}: {key!r} is 0 for all {int(others[row].sum())} tokens of these roles that the policy did not "
            "sample; a policy that samples writes those of its answer alone. Take RetrieveKL(roles=...), which scores them"
        )


def log_probs_like(log_probs: Tensor | list[Tensor] | None, attention: Tensor, key: NestedKey) -> Tensor:
    """The policy's log-probabilities at the places of the reference's tokens, ``[rows, width]``.

    Args:
        log_probs: as they are in the data; None where they are not.
        attention: bool ``[rows, width]``, what is no padding.
        key: where they are.

    Raises:
        KeyError: they are not there.
        ValueError: they are of other tokens.
    """
    if log_probs is None:
        raise KeyError(f"KLRewardTransform reads {key!r}, which is not in the tensordict")
    if (found := in_places(log_probs, attention)) is not None:
        return found
    raise ValueError(
        f"{key!r} is {sizes_of(log_probs)}, but the reference reads tokens of {list(attention.shape)} "
        f"(lengths {attention.sum(-1).tolist()}): they are not of the same tokens"
    )


def _mask_of_beginnings(tokens: Sequences, rendered: Sequences) -> Tensor:
    """The mask of whole conversations for tokens that they begin with: bool ``[rows, width]``.

    Sampled tokens end before what a template puts behind the last message.

    Args:
        tokens: as they are in the data.
        rendered: the conversations, whose `assistant` is the mask.

    Raises:
        ValueError: a row has other tokens than its conversation.
    """
    assert rendered.assistant is not None
    mask = torch.zeros_like(tokens.attention)
    wholes = zip(rendered.rows(), rendered._replace(ids=rendered.assistant).rows(), strict=True)
    for row, (ids, (whole, wanted)) in enumerate(zip(tokens.rows(), wholes, strict=True)):
        if not torch.equal(ids, whole[: len(ids)]):
            raise ValueError(
                f"row {row}: the data have {len(ids)} tokens that are not those of the conversation as the template "
                "renders it, so roles can't be told; give a mask (mask_key)"
            )
        mask[row, tokens.attention[row]] = wanted[: len(ids)]
    return mask


class KLRewardTransform(
    HereOrInActors,
    FixedArguments,
    WritesRows,
    KLPenalty,
    changeable=("coef", "add_to_reward", "in_keys", "out_keys", *PenaltyOptions.__annotations__),
):
    """Writes the KL penalty between the policy, whose log-probabilities are in the data, and a reference.

    `RetrieveKL` is the way for everything but this: it does not need the policy's log-probabilities. Only answers
    count: the tokens of the assistant, where that is known; else all behind ``tokens.prompt``.

    Args:
        ref_model: the reference, as a model that scores; it reads tokens, or conversations and texts, which are then
            tokenised again unless their tokens are in the data.
        coef: of the penalty in the reward.
        in_keys: of the reward.
        out_keys: of the reward, the penalty and the reference's log-probabilities (the last may be left out): the
            latter two float32 ``[*batch, time]``.
        log_prob_key: of the policy's log-probabilities, float ``[*batch, time]`` of whole conversations.
        ref_model_factory: makes the reference; instead of `ref_model`.
        device: where the reference is moved.
        add_to_reward: whether the penalty is subtracted from the reward; see `KLPenalty`.
        tokenizer: instead of the reference's.
        assistant_only: whether only answers count.
        padding_side: of the reference's tokens; None for its own.
        roles: whose tokens count in place of the assistant's; None for those of what the assistant said. The policy's
            log-probabilities are to be of these, too, as one that scores writes them. It needs ``input_mode="history"``.
        exclude_tokens: tokens that do not count; see `WhichTokens`.
        mask_key: of a mask of those that do; see `WhichTokens`.
        use_ray_service: whether the reference runs in Ray actors: a `RayKLRewardTransform`.
        options: of the penalty and of Ray actors, as for `RetrieveKL`.

    Raises:
        TypeError: there is no such keyword.
        ValueError: no reference, or two; `in_keys` and `out_keys` are not of these numbers; roles can't be told; or see
            `KLPenalty`. At a call: the policy wrote no log-probabilities of the tokens of `roles`. With `use_ray_service`: a
            model instead of a factory, or the actor of this name has other arguments.
    """

    models: Reference | RayScoringModels
    kl_place = 1

    def __init__(
        self,
        ref_model: TransformersWrapper | None = None,
        *,
        coef: float = 1.0,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        log_prob_key: NestedKey = ("log_probs", "full"),
        ref_model_factory: Callable[[], TransformersWrapper] | None = None,
        device: DEVICE_TYPING | None = None,
        add_to_reward: bool = True,
        tokenizer: Any = None,
        assistant_only: bool = True,
        padding_side: Literal["left", "right"] | None = None,
        roles: Collection[str] | None = None,
        exclude_tokens: Sequence[int | str] = (),
        mask_key: NestedKey | None = None,
        use_ray_service: bool = False,
        **options: Unpack[KLOptions],
    ) -> None:
        penalty, given = split_options(type(self), options)
        actor, ray = self._actor_options(use_ray_service, given), self.runs_in_actors
        reads = ["reward"] if in_keys is None else list(in_keys)
        writes = [*reads, "kl_penalty", "ref_log_probs"] if out_keys is None else list(out_keys)
        super().__init__(add_to_reward=add_to_reward, coeff=coef, **penalty)
        self.in_keys, self.out_keys = reads, writes
        self._log_prob_key = normal_key(log_prob_key)
        create = partial(
            Reference,
            ref_model=model_of(ref_model, ref_model_factory, "ref_model", sent=ray),
            assistant_only=assistant_only,
            roles=roles,
            exclude_tokens=exclude_tokens,
            mask_key=mask_key,
            log_prob_key=None if roles is None else self._log_prob_key,
            tokenizer=tokenizer,
            padding_side=padding_side,
            device=device,
        )
        self.models = RayScoringModels(create, what="KLRewardTransform", options=actor) if ray else create()

    def check_keys(self, name: str, keys: list[NestedKey]) -> None:
        """`in_keys` is the reward's; `out_keys` are those of reward, penalty and reference."""
        if len(keys) not in {"in_keys": (1,), "out_keys": (2, 3)}[name] or len({*keys}) < len(keys):
            raise ValueError(
                "in_keys is the reward's key, out_keys are those of reward, penalty and, if wanted, the reference's "
                f"log-probabilities; got {keys} as {name}"
            )

    @property
    def reward_keys(self) -> tuple[NestedKey, NestedKey]:
        """Where the reward is read, and where it is written."""
        return self.in_keys[0], self.out_keys[0]

    @property
    def row_keys(self) -> list[NestedKey]:
        """Of the penalty, and of the reference's log-probabilities if they are wanted."""
        return self.out_keys[1:]

    @property
    def log_prob_key(self) -> NestedKey:
        """Where the policy's log-probabilities are read."""
        return self._log_prob_key

    @property
    def coef(self) -> Tensor:
        """The coefficient of the penalty in the reward, float32 scalar; a number can be assigned."""
        return self.coeff

    @coef.setter
    def coef(self, value: float) -> None:
        self.coeff = value  # type: ignore[assignment]  # a number is held in the buffer

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        log_probs = rows_at(tensordict, self.log_prob_key)
        if log_probs is None:
            raise KeyError(
                f"KLRewardTransform reads {self.log_prob_key!r}, which is not in the tensordict ({listed(tensordict)}): a "
                "policy writes it with return_log_probs=True"
            )
        scores = self.models.score(tensordict)
        attention = scores.attention
        gen = log_probs_like(log_probs, attention, self.log_prob_key)
        ref = scores.log_probs[0].to(gen.dtype)
        padded = isinstance(log_probs, Tensor)
        if len(self.out_keys) == 3:
            put_rows(next_tensordict, self.out_keys[2], ref, attention, padded)
        self.penalise(next_tensordict, gen, ref, scores.scored, attention, padded)
        return next_tensordict

    def update_weights(
        self,
        weights: TensorDictBase | Mapping[str, Any],
        which: Literal["ref_model"] = "ref_model",
        version: int | None = None,
    ) -> int:
        """Copy new values into the reference; see `RetrieveKL.update_weights`."""
        return self.models.update_weights(weights, which, version)

    def weight_versions(self) -> dict[str, int]:
        """The number of the reference's weights: 0 for those that it was made with."""
        return self.models.weight_versions()


class RayKLRewardTransform(KLRewardTransform, in_actors=True):
    """A `KLRewardTransform` whose reference runs in actors of a Ray cluster; see `RayRetrieveKL`.

    Args:
        kwargs: as for `KLRewardTransform`.

    Raises:
        Exception: as `RayRetrieveKL`.
    """

    models: RayScoringModels

    @property
    def service(self) -> RayService:
        """The actors."""
        return self.models.service
