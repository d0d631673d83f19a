"""The two models whose KL is a penalty: a policy, perhaps that of a collector, and a reference."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.conversations.entries import Sequences
from specgen_runtime.llm.conversations.families import template_of
from specgen_runtime.llm.conversations.rendering import tokenizer_identity
from specgen_runtime.llm.kl.scored_tokens import WhichTokens, scoring
from specgen_runtime.llm.kl.scoring_models import ScoringModels, TokenScores
from specgen_runtime.llm.models.chosen import full_kl_of
from specgen_runtime.llm.models.head import evaluating
from specgen_runtime.llm.models.wrapper import TransformersWrapper
from specgen_runtime.typing import NestedKey

__all__ = ["CollectorWithPolicy", "PolicyAndReference", "policy_of"]


class CollectorWithPolicy(Protocol):
    """What `RetrieveKL` asks of a collector: anything that was given to `TransformedEnv.register_collector`.

    TorchRL's collectors are such things, and call it themselves on what `to_torchrl` made of an environment.
    """

    @property
    def policy(self) -> Any:
        """The policy, whose `get_new_version(**keywords)` is a `TransformersWrapper` of the same model that scores."""


class PolicyAndReference(ScoringModels):
    """The two models of a `RetrieveKL`: ``"gen_model"``, which may come later, and ``"ref_model"``.

    Args:
        gen_model: makes the policy; None if it comes later.
        ref_model: makes the reference.
        detach: see `ScoringModels`.
        assistant_only: see `WhichTokens`, and so are `empty`, `exclude_tokens` and `mask_key`.
        options: further keywords of `scoring`, for both.

    Raises:
        ValueError: the two do not give log-probabilities of the same tokens, or see `scoring`.
    """

    def __init__(
        self,
        *,
        gen_model: Callable[[], TransformersWrapper] | None,
        ref_model: Callable[[], TransformersWrapper],
        detach: bool,
        assistant_only: bool,
        empty: Literal["error", "zero"],
        exclude_tokens: Sequence[int | str],
        mask_key: NestedKey | None,
        **options: Any,
    ) -> None:
        self.options = {"assistant_only": assistant_only, **options}
        policy = None if gen_model is None else gen_model()
        self.reference = scoring(ref_model(), "ref_model", **self.options)
        models = {"ref_model": self.reference}
        which = WhichTokens(assistant_only, empty, exclude_tokens, mask_key)
        super().__init__(models, which=which, detach=detach)
        if gen_model is not None:
            self.take_policy(policy)

    @property
    def has_policy(self) -> bool:
        """Whether the policy is there."""
        return len(self.models) == 2

    def take_policy(self, gen_model: object) -> None:
        """Score with this policy from now on."""
        gen = scoring(gen_model, "gen_model", **self.options)
        _check_pair(gen, self.reference)
        if _same_weights(gen, self.reference):
            warnings.warn(
                "ref_model has the weights of gen_model themselves, so the KL is 0 whatever the policy becomes: load the"
                " reference a second time, or copy its model, copy.deepcopy(model).requires_grad_(False)",
                stacklevel=2,
            )
        self.models = {"gen_model": gen, "ref_model": self.reference}

    def score(self, data: TensorDictBase, full: bool = False) -> TokenScores:
        """The log-probabilities of tokens.

        Args:
            data: what is read.
            full: whether scores have the KL of each token's whole distribution, too.

        Raises:
            KeyError, ValueError: see `ScoringModels.score`; or a model draws from some tokens only.
        """
        if not full:
            return super().score(data)
        found = self.models["gen_model"].sequences(data)
        scored = self.tokens_to_score(data, found)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.detach):
            gen, ref, kl = _with_full_kl(self.models["gen_model"], self.reference, found, scored)
        return TokenScores((gen, ref), scored, found.attention, kl)


def policy_of(collector: CollectorWithPolicy | None, reference: TransformersWrapper) -> TransformersWrapper:
    """The policy of a collector as a model that scores as the reference does.

    Raises:
        TypeError: it has none.
        ValueError: there is no collector.
    """
    if collector is None:
        raise ValueError(
            "gen_model='from_collector', but there is no collector: put the transform into an environment that a "
            "collector runs (env.register_collector(collector) tells it), or give gen_model"
        )
    policy: Any = getattr(collector, "policy", None)
    if not hasattr(policy, "get_new_version"):
        raise TypeError(
            f"gen_model='from_collector' asks for collector.policy.get_new_version(...), but the policy of this "
            f"{type(collector).__name__} is {'missing' if policy is None else f'a {type(policy).__name__}'}: give it"
            " a TransformersWrapper, or give gen_model"
        )
    made = policy.get_new_version(
        generate=False,
        return_log_probs=True,
        input_mode=reference.input_mode,
        pad_output=reference.pad_output,
        pad_to=reference.pad_to,
        padding_side=reference.padding_side,
    )
    if not isinstance(made, TransformersWrapper):
        raise TypeError(
            f"get_new_version of the policy of this {type(collector).__name__} is to give a TransformersWrapper, got "
            f"{type(made).__module__}.{type(made).__name__}"
        )
    return made


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
                f"{name} mismatch: gen_model has {values[0]!r}, ref_model {values[1]!r}; their log-probabilities are "
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


def _same_weights(gen: TransformersWrapper, ref: TransformersWrapper) -> bool:
    """Whether two wrappers are of one model, or of two that share all parameters; another class may leave out adapters."""
    mine, other = gen.model, ref.model
    if mine is other:
        return True
    shared = [*map(id, mine.parameters())] == [*map(id, other.parameters())]
    return shared and type(mine) is type(other)


def _template(model: TransformersWrapper) -> str:
    return template_of(model.tokenizer, model.chat_template, model.chat_template_name)
