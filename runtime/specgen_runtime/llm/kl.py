"""`RetrieveKL`: the KL penalty between two language models, of conversations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.chosen import full_kl_of
from specgen_runtime.llm.entries import Sequences
from specgen_runtime.llm.families import template_of
from specgen_runtime.llm.head import evaluating
from specgen_runtime.llm.kl_penalty import KLPenalty
from specgen_runtime.llm.log_probs import (
    WhichTokens,
    moment_after,
    put_rows,
    row_specs,
    scoring,
    zero_rows,
)
from specgen_runtime.llm.rendering import tokenizer_identity
from specgen_runtime.llm.wrapper import TransformersWrapper
from specgen_runtime.specs import Composite
from specgen_runtime.transforms import Compose
from specgen_runtime.transforms.keys import normal_key
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["RetrieveKL", "made"]


class _ModelsKL(KLPenalty):
    """The KL of two models' log-probabilities of what `gen_model` reads; see `RetrieveKL`."""

    ref_model: TransformersWrapper
    knows_distributions = True

    def __init__(
        self,
        gen_model: Any,
        ref_model: TransformersWrapper,
        keys: tuple[NestedKey, NestedKey],
        *,
        which: WhichTokens,
        detach: bool,
        options: dict[str, Any],
        **penalty: Any,
    ) -> None:
        super().__init__(**penalty)
        self.which, self.detach, self.options = which, detach, options
        self.out_keys = [*keys, self.kl_key]
        # Not submodules: the models are no part of the transform's state, and it trains none.
        self.__dict__["ref_model"] = scoring(
            ref_model, "ref_model", assistant_only=which.assistant_only, **options
        )
        self.__dict__["_gen_model"] = None
        if gen_model != "from_collector":
            self._take(gen_model)

    def _take(self, gen_model: TransformersWrapper) -> TransformersWrapper:
        gen = scoring(gen_model, "gen_model", assistant_only=self.which.assistant_only, **self.options)
        _check_pair(gen, self.ref_model)
        self.__dict__["_gen_model"] = gen
        self.in_keys = [gen.input_key]
        return gen

    @property
    def gen_model(self) -> TransformersWrapper:
        """The model whose KL it is; that of the collector's policy is made when it is first asked for."""
        held: TransformersWrapper | None = self.__dict__["_gen_model"]
        if held is not None:
            return held
        collector = self.collector
        if collector is None:
            raise ValueError(
                "gen_model='from_collector', but there is no collector: put the transform into an environment that a "
                "collector runs, or give gen_model"
            )
        ref = self.ref_model
        return self._take(
            collector.policy.get_new_version(
                generate=False,
                return_log_probs=True,
                input_mode=ref.input_mode,
                pad_output=ref.pad_output,
                pad_to=ref.pad_to,
                padding_side=ref.padding_side,
            )
        )

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        gen_model, ref_model = self.gen_model, self.ref_model
        found = gen_model.sequences(tensordict)  # rendered once, for both
        scored = self.which(tensordict, found, gen_model)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.detach):
            if self.estimator == "full":
                gen, ref, full = _with_full_kl(gen_model, ref_model, found, scored)
            else:
                gen, full = gen_model.score(found, scored).log_probs, None
                with torch.no_grad():
                    ref = ref_model.score(found, scored).log_probs.to(gen.dtype)
        padded = gen_model.pad_output
        put_rows(next_tensordict, self.out_keys[0], gen, found.attention, padded)
        put_rows(next_tensordict, self.out_keys[1], ref, found.attention, padded)
        self.penalise(next_tensordict, gen, ref, scored, found.attention, padded, full=full)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return zero_rows(tensordict_reset, self.out_keys, self.ref_model)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._step(tensordict, moment_after(tensordict))
        return tensordict

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        return row_specs(observation_spec, self.out_keys, self.ref_model)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        return self.reward_spec(reward_spec, -1 if self.ref_model.pad_to is None else self.ref_model.pad_to)


def _with_full_kl(
    gen: TransformersWrapper, ref: TransformersWrapper, found: Sequences, scored: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The log-probabilities of both models and the KL of each token's distribution, ``[rows, width]`` each."""
    for name, model in (("gen_model", gen), ("ref_model", ref)):
        if model.warp.truncates:
            raise ValueError(
                f"estimator='full' compares the probabilities of all tokens; {name} draws with top-k or top-p, which are 0 "
                "for some: give it log_probs_of='tempered' or 'model'"
            )
    if not bool(scored.any()):
        nothing = gen.score(found, scored).log_probs
        return nothing, nothing.detach(), nothing
    places, targets = scored.nonzero(as_tuple=True), found.ids[scored]

    def placed(values: Tensor) -> Tensor:
        return values.new_zeros(scored.shape, device=scored.device).index_put(
            places, values.to(scored.device)
        )

    with evaluating(gen.model), evaluating(ref.model):
        states = gen.states_before(found, scored)
        with torch.no_grad():
            others = ref.states_before(found, scored)
            of_ref = ref.scorer.chosen(others, targets.to(others.device), warp=ref.warp).log_probs
        of_gen = gen.scorer.chosen(states, targets.to(states.device), warp=gen.warp).log_probs
        size = int(gen.scorer.logits(states[:1].detach()).shape[-1])
        heads = gen.scorer.logits, ref.scorer.logits
        kl = full_kl_of((states, others), heads, (gen.warp, ref.warp), size)
    return placed(of_gen), placed(of_ref.to(of_gen.dtype)), placed(kl)


def _check_pair(gen: TransformersWrapper, ref: TransformersWrapper) -> None:
    """Refuse two models whose log-probabilities are not of the same tokens."""
    for name in ("pad_output", "padding_side", "pad_to"):
        values = getattr(gen, name), getattr(ref, name)
        if values[0] != values[1]:
            raise ValueError(
                f"{name} differs: gen_model has {values[0]!r}, ref_model {values[1]!r}; their log-probabilities are "
                "subtracted token by token"
            )
    if (
        gen.log_probs_key == ref.log_probs_key
        and gen.model is not ref.model
        and gen.log_probs_key != "log_probs"
    ):
        raise ValueError(
            f"gen_model and ref_model both write {gen.log_probs_key!r}: give one another log_probs_key"
        )
    if gen.tokenizer is None or ref.tokenizer is None or gen.tokenizer is ref.tokenizer:
        same = True
    else:
        same = tokenizer_identity(gen.tokenizer) == tokenizer_identity(ref.tokenizer)
    if not same:
        raise ValueError("gen_model and ref_model have different tokenizers: a KL per token is undefined")
    if gen.input_mode == ref.input_mode == "history" and _template(gen) != _template(ref):
        raise ValueError(
            "the templates of gen_model and ref_model differ: the same conversation is two texts; give both the same "
            "chat_template"
        )


def _template(model: TransformersWrapper) -> str:
    return template_of(model.tokenizer, model.chat_template, model.chat_template_name)


class RetrieveKL(Compose):
    """Writes the KL penalty between a policy and a reference, of conversations with their answers.

    The conversations are those of the data themselves; they are rendered and tokenised once for both models, or not
    at all where the data have the tokens that were sampled. Results are next to the reward: under ``"next"`` where
    there is one, at the root otherwise. Both models run in evaluation mode, the reference without gradients. In
    environments the models need ``pad_output=True`` and should have the same `pad_to`, the width of all results; a
    reset writes zeros. It is a chain: further transforms can be appended.

    Args:
        gen_model: the policy, as a model that scores; ``"from_collector"`` for such a version of the policy of the
            collector that runs the environment, made once when it is first needed.
        ref_model: the reference, as a model that scores.
        gen_model_factory: makes the policy; instead of `gen_model`.
        ref_model_factory: makes the reference; instead of `ref_model`.
        assistant_only: whether only the assistant's tokens count; all others have log-probabilities and penalties of
            exactly 0. It needs ``input_mode="history"``.
        history_key: where conversations are; None for the models'.
        tokenizer_kwargs: keywords of the chat template, or ``max_length``; not modified.
        detach: whether there are no gradients; otherwise they reach `gen_model` only.
        device: where the models are moved; results are where the data are.
        tokenizer: instead of the models'.
        padding_side: of results, ``"left"`` or ``"right"``; None for the models'.
        gen_log_probs_full_key: of the policy's log-probabilities, float32 ``[*batch, time]``.
        ref_log_probs_full_key: of the reference's.
        kl_key: of the penalty, float32 ``[*batch, time]``.
        add_to_reward: whether ``coeff`` times the penalty is subtracted from the reward; see `KLPenalty`.
        coeff: of the penalty in the reward.
        empty: what to do with a row without a token to score: ``"error"`` or ``"zero"``.
        roles: whose tokens are the assistant's; see `scoring`. None for those of messages of the assistant.
        exclude_tokens: tokens that do not count; see `WhichTokens`.
        mask_key: of a mask of those that do; see `WhichTokens`.
        penalty: `estimator`, `level`, `bound`, `spread`, `check_finite`, `target_kl` and `horizon` of `KLPenalty`.

    Raises:
        ValueError: a model is missing, or given in two ways; generates or returns no log-probabilities; the two do
            not give log-probabilities of the same tokens; or the assistant's tokens cannot be told.

    Example:
        >>> transform = RetrieveKL(gen_model=policy, ref_model=reference)
        >>> transform(data)["next", "kl_penalty"].shape
        torch.Size([2, 26])
    """

    def __init__(
        self,
        gen_model: TransformersWrapper | Literal["from_collector"] | None = "from_collector",
        ref_model: TransformersWrapper | None = None,
        *,
        gen_model_factory: Callable[[], TransformersWrapper] | None = None,
        ref_model_factory: Callable[[], TransformersWrapper] | None = None,
        assistant_only: bool = True,
        history_key: NestedKey | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        detach: bool = True,
        device: DEVICE_TYPING | None = None,
        tokenizer: Any = None,
        padding_side: Literal["left", "right"] | None = None,
        gen_log_probs_full_key: NestedKey = ("log_probs", "full"),
        ref_log_probs_full_key: NestedKey = ("ref_log_probs", "full"),
        kl_key: NestedKey = "kl_penalty",
        add_to_reward: bool = True,
        coeff: float = 1.0,
        empty: Literal["error", "zero"] = "error",
        roles: Collection[str] | None = None,
        exclude_tokens: Sequence[int | str] = (),
        mask_key: NestedKey | None = None,
        use_ray_service: bool = False,
        **penalty: Any,
    ) -> None:
        if use_ray_service:
            raise ValueError(
                "use_ray_service=True: this RetrieveKL runs its models here; there is no Ray service of it"
            )
        if isinstance(gen_model, str) and gen_model != "from_collector":
            raise ValueError(f"gen_model is a model or 'from_collector', got {gen_model!r}")
        given = None if gen_model == "from_collector" and gen_model_factory is not None else gen_model
        gen: Any = made(given, gen_model_factory, "gen_model")
        ref = made(ref_model, ref_model_factory, "ref_model")
        keys = normal_key(gen_log_probs_full_key), normal_key(ref_log_probs_full_key)
        if len({*keys, normal_key(kl_key)}) < 3:
            raise ValueError(f"log-probabilities and penalty need keys of their own, got {[*keys, kl_key]}")
        options = {
            "tokenizer": tokenizer,
            "tokenizer_kwargs": tokenizer_kwargs,
            "history_key": history_key,
            "padding_side": padding_side,
            "device": device,
            "roles": roles,
        }
        super().__init__(
            _ModelsKL(
                gen,
                ref,
                keys,
                which=WhichTokens(assistant_only, empty, exclude_tokens, mask_key),
                detach=detach,
                options=options,
                kl_key=kl_key,
                add_to_reward=add_to_reward,
                coeff=coeff,
                **penalty,
            )
        )

    @property
    def penalty(self) -> KLPenalty:
        """The transform that computes it, with `coeff` and `metrics`."""
        found = self[0]
        assert isinstance(found, KLPenalty)
        return found


def made(model: Any, factory: Callable[[], Any] | None, name: str) -> Any:
    """The model that is given, or made.

    Raises:
        ValueError: it is given in both ways, or in none.
    """
    if model is not None and factory is not None:
        raise ValueError(f"{name} and {name}_factory are both given: give one of them")
    if factory is not None:
        return factory()
    if model is None:
        raise ValueError(f"{name} is missing: give it, or {name}_factory")
    return model
