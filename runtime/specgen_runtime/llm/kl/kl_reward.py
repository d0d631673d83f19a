"""`KLRewardTransform`: the KL penalty from log-probabilities that the policy wrote as it sampled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Unpack

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.conversations.entries import Sequences, behind_prompts
from specgen_runtime.llm.kl.kl_penalty import KLPenalty
from specgen_runtime.llm.kl.log_probs import moment_after, put_rows, row_specs, zero_rows
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
from specgen_runtime.ragged import rows_at
from specgen_runtime.services import HereOrInActors, RayService
from specgen_runtime.specs import Composite
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
        roles: whose tokens count in place of the assistant's; see `scoring`.
        exclude_tokens: tokens that do not count; see `WhichTokens`.
        mask_key: of a mask of those that do; see `WhichTokens`.
        log_prob_key: of the policy's log-probabilities, which `roles` need.
        options: further keywords of `scoring`.

    Raises:
        ValueError: see `scoring`.
    """

    def __init__(
        self,
        *,
        ref_model: Callable[[], TransformersWrapper],
        assistant_only: bool,
        roles: Collection[str] | None = None,
        exclude_tokens: Sequence[int | str] = (),
        mask_key: NestedKey | None = None,
        log_prob_key: NestedKey | None = None,
        **options: Any,
    ) -> None:
        model = scoring(ref_model(), "ref_model", assistant_only=False, **options)
        which = WhichTokens(assistant_only, "zero", exclude_tokens, mask_key)
        super().__init__({"ref_model": model}, which=which)
        self.log_prob_key = log_prob_key
        self._roles_renderer = None
        if roles is not None:
            self._roles_renderer = scoring(model, "ref_model", assistant_only=assistant_only, roles=roles)

    def row_layout(self) -> RowLayout:
        """Where rows are read, and how wide results are."""
        known = super().row_layout()
        written = () if self.log_prob_key is None else (self.log_prob_key,)
        return known._replace(reads=(*known.reads, _PROMPTS, *written))

    def tokens_to_score(self, data: TensorDictBase, found: Sequences) -> Tensor:
        """Which tokens are scored: bool ``[rows, width]``.

        Args:
            data: what the tokens were read from.
            found: the tokens.

        Raises:
            ValueError: tokens in the data are others than those of the conversations whose roles are asked for; the
                policy wrote log-probabilities of its answers alone; or see `WhichTokens`.
        """
        if self._roles_renderer is not None:
            wanted = _mask_of_beginnings(found, self._roles_renderer.sequences(data))
            scored = super().tokens_to_score(data, found._replace(assistant=wanted))
            if self.log_prob_key is not None:
                self._check_written(data, found, scored, self.log_prob_key)
            return scored
        if self.which.assistant_only and found.assistant is None:
            found = found._replace(assistant=behind_prompts(data, _PROMPTS, found))
        return super().tokens_to_score(data, found)

    @staticmethod
    def _check_written(data: TensorDictBase, found: Sequences, scored: Tensor, key: NestedKey) -> None:
        """Refuse scored tokens of which the policy wrote no log-probability, since it did not sample them."""
        gen = log_probs_like(rows_at(data, key), found.attention, key)
        others = scored if found.assistant is None else scored & ~found.assistant
        unwritten = others.any(-1) & ~(others & (gen != 0)).any(-1)
        if bool(unwritten.any()):
            row = int(unwritten.nonzero()[0])
            raise ValueError(
                f"row {row}: {key!r} is 0 for all {int(others[row].sum())} tokens of these roles that the "
                "policy did not sample; a policy that samples writes those of its answer alone. Take RetrieveKL(roles=...), "
                "which scores them"
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
    lengths = attention.sum(-1).tolist()
    if isinstance(log_probs, list):
        if [len(row) for row in log_probs] == lengths:
            values = torch.cat(log_probs)
            return values.new_zeros(attention.shape).index_put(attention.nonzero(as_tuple=True), values)
    elif log_probs.numel() == attention.numel():
        return log_probs.reshape(attention.shape)
    sizes = list(log_probs.shape) if isinstance(log_probs, Tensor) else [len(row) for row in log_probs]
    raise ValueError(
        f"{key!r} is {sizes}, but the reference reads tokens of {list(attention.shape)} "
        f"(lengths {lengths}): they are not of the same tokens"
    )


def _mask_of_beginnings(tokens: Sequences, rendered: Sequences) -> Tensor:
    """The assistant's mask of rendered conversations, for tokens that they begin with: bool ``[rows, width]``.

    Sampled tokens end before what a template puts behind the last message.

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
        roles: whose tokens count in place of the assistant's; None for what the assistant said. The policy's
            log-probabilities are to be of these too, as one writes them that scores. It needs ``input_mode="history"``.
        exclude_tokens: tokens that do not count; see `WhichTokens`.
        mask_key: of a mask of those that do; see `WhichTokens`.
        use_ray_service: whether the reference runs in Ray actors: a `RayKLRewardTransform`.
        options: of the penalty and of Ray actors, as for `RetrieveKL`.

    Raises:
        TypeError: there is no such keyword.
        ValueError: no reference, or two; `in_keys` and `out_keys` are not of these numbers; roles can't be told; or see
            `KLPenalty`. At a call: the policy wrote no log-probabilities of the tokens of `roles`. With `use_ray_service`: a model instead of a factory, or the actor of this name has other arguments.
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
        self.penalise(
            next_tensordict, gen, ref, scores.scored, attention, padded, reward_keys=self.reward_keys
        )
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return zero_rows(tensordict_reset, self.out_keys[1:], self.models.row_layout())

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._step(tensordict, moment_after(tensordict))
        return tensordict

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs with the penalty and the reference's log-probabilities, `[*batch, pad_to]`."""
        return row_specs(observation_spec, self.out_keys[1:], self.models.row_layout())

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """The reward specs; with `add_to_reward` without bounds."""
        return self.reward_spec(reward_spec, self.models.row_layout().pad_to or -1, self.reward_keys)

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

    def close(self) -> None:
        """Use Ray actors no more: those without a name end."""
        self.models.close()


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
