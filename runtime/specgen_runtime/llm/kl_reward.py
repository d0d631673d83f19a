"""`KLRewardTransform`: the KL penalty from log-probabilities that the policy wrote as it sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.body import scorable
from specgen_runtime.llm.entries import Sequences
from specgen_runtime.llm.kl import made
from specgen_runtime.llm.kl_penalty import KLPenalty
from specgen_runtime.llm.log_probs import moment_after, put_rows, row_specs, scored_tokens, scoring, zero_rows
from specgen_runtime.llm.ragged import rows_at
from specgen_runtime.llm.wrapper import TransformersWrapper
from specgen_runtime.objectives.keys import listed
from specgen_runtime.specs import Composite
from specgen_runtime.transforms.keys import normal_key
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["KLRewardTransform"]


class KLRewardTransform(KLPenalty):
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
        penalty: further keywords of `KLPenalty`.

    Raises:
        ValueError: no reference, or two; `in_keys` and `out_keys` are not of these numbers; or see `KLPenalty`.
    """

    ref_model: TransformersWrapper

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
        use_ray_service: bool = False,
        **penalty: Any,
    ) -> None:
        if use_ray_service:
            raise ValueError(
                "use_ray_service=True: this KLRewardTransform runs its model here; there is no Ray service"
            )
        reads = [normal_key(key) for key in (["reward"] if in_keys is None else in_keys)]
        writes = (
            [*reads, "kl_penalty", "ref_log_probs"] if out_keys is None else [normal_key(k) for k in out_keys]
        )
        if len(reads) != 1 or len(writes) not in (2, 3):
            raise ValueError(
                "in_keys is the reward's key, out_keys are those of reward, penalty and, if wanted, the reference's "
                f"log-probabilities; got {reads} and {writes}"
            )
        super().__init__(kl_key=writes[1], add_to_reward=add_to_reward, coeff=coef, **penalty)
        self.assistant_only = assistant_only
        self.log_prob_key = normal_key(log_prob_key)
        ref = made(ref_model, ref_model_factory, "ref_model")
        self.__dict__["ref_model"] = scoring(
            ref,
            "ref_model",
            assistant_only=False,
            tokenizer=tokenizer,
            padding_side=padding_side,
            device=device,
        )
        self.reward_keys = reads[0], writes[0]
        self.in_keys, self.out_keys = reads, writes

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        log_probs = rows_at(tensordict, self.log_prob_key)
        if log_probs is None:
            held = listed(tensordict)
            raise KeyError(
                f"KLRewardTransform reads {self.log_prob_key!r}, which is not in the tensordict ({held})"
            )
        found = self.ref_model.sequences(tensordict)
        gen = self._like(log_probs, found)
        scored = self._scored(tensordict, found)
        with torch.no_grad():
            ref = self.ref_model.score(found, scored).log_probs.to(gen.dtype)
        padded = isinstance(log_probs, Tensor)
        if len(self.out_keys) == 3:
            put_rows(next_tensordict, self.out_keys[2], ref, found.attention, padded)
        self.penalise(
            next_tensordict, gen, ref, scored, found.attention, padded, reward_keys=self.reward_keys
        )
        return next_tensordict

    def _like(self, log_probs: Tensor | list[Tensor], found: Sequences) -> Tensor:
        """The policy's log-probabilities at the places of the reference's tokens."""
        lengths = found.attention.sum(-1).tolist()
        if isinstance(log_probs, list):
            if [len(row) for row in log_probs] == lengths:
                values = torch.cat(log_probs)
                return values.new_zeros(found.ids.shape).index_put(
                    found.attention.nonzero(as_tuple=True), values
                )
        elif log_probs.numel() == found.ids.numel():
            return log_probs.reshape(found.ids.shape)
        sizes = list(log_probs.shape) if isinstance(log_probs, Tensor) else [len(row) for row in log_probs]
        raise ValueError(
            f"{self.log_prob_key!r} is {sizes}, but the reference reads tokens of {list(found.ids.shape)} "
            f"(lengths {lengths}): they are not of the same tokens"
        )

    def _scored(self, data: TensorDictBase, found: Sequences) -> Tensor:
        prompts = rows_at(data, ("tokens", "prompt"))
        if not self.assistant_only or found.assistant is not None or prompts is None:
            return scored_tokens(found, self.assistant_only, empty="zero")
        if isinstance(prompts, list):
            behind = found.attention.cumsum(-1) > torch.tensor([len(row) for row in prompts])[:, None].to(
                found.ids.device
            )
        else:
            behind = torch.arange(found.ids.shape[-1], device=found.ids.device) >= prompts.shape[-1]
        return scorable(behind.expand_as(found.attention), found.attention)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return zero_rows(tensordict_reset, self.out_keys[1:], self.ref_model)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._step(tensordict, moment_after(tensordict))
        return tensordict

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs with the penalty and the reference's log-probabilities, `[*batch, pad_to]`."""
        return row_specs(observation_spec, self.out_keys[1:], self.ref_model)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """The reward specs; with `add_to_reward` without bounds."""
        width = -1 if self.ref_model.pad_to is None else self.ref_model.pad_to
        return self.reward_spec(reward_spec, width, self.reward_keys)
