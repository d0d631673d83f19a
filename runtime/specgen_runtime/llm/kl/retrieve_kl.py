"""`RetrieveKL`: the KL penalty between two language models, of conversations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Unpack

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.kl.kl_penalty import KLPenalty
from specgen_runtime.llm.kl.log_probs import WritesRows, put_rows
from specgen_runtime.llm.kl.options import FixedArguments, KLOptions, PenaltyOptions, split_options
from specgen_runtime.llm.kl.policy_and_reference import PolicyAndReference, policy_of
from specgen_runtime.llm.kl.scoring_models import RayScoringModels, model_of
from specgen_runtime.llm.models.wrapper import TransformersWrapper
from specgen_runtime.services import HereOrInActors, RayService
from specgen_runtime.transforms import Compose
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["RayRetrieveKL", "RetrieveKL"]


_READS = "they are those of gen_model: give it another input_key, or RetrieveKL(..., history_key=...)"
_WRITES = "give RetrieveKL(..., gen_log_probs_full_key=..., ref_log_probs_full_key=..., kl_key=...)"


class _ModelsKL(WritesRows, KLPenalty):
    """The KL of two models' log-probabilities of what the policy reads; see `RetrieveKL`."""

    models: PolicyAndReference | RayScoringModels
    knows_distributions = True
    kl_place = 2

    def __init__(
        self,
        keys: Sequence[NestedKey],
        *,
        add_to_reward: bool,
        coeff: float,
        **penalty: Unpack[PenaltyOptions],
    ) -> None:
        super().__init__(add_to_reward=add_to_reward, coeff=coeff, **penalty)
        self.out_keys = [*keys]

    def check_keys(self, name: str, keys: list[NestedKey]) -> None:
        if name == "in_keys":
            raise AttributeError(f"in_keys can't be assigned: {_READS}")
        if len(keys) != 3 or len({*keys}) < 3:
            raise ValueError(f"log-probabilities and penalty need keys of their own, got {keys}")

    def take(self, models: PolicyAndReference | RayScoringModels) -> None:
        """Score with these models."""
        self.models = models
        if isinstance(models, RayScoringModels) or models.has_policy:
            self._in_keys = [models.row_layout().in_key]

    def _scores_with(self) -> PolicyAndReference | RayScoringModels:
        """The models; the policy of the collector is asked for when it is first needed."""
        models = self.models
        if isinstance(models, PolicyAndReference) and not models.has_policy:
            models.take_policy(policy_of(self.collector, models.reference))
            self.take(models)
        return models

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        models = self._scores_with()
        (gen, ref), scored, attention, full = models.score(tensordict, full=self.estimator == "full")
        ref = ref.to(gen.dtype)
        padded = models.row_layout().pad_output
        put_rows(next_tensordict, self.out_keys[0], gen, attention, padded)
        put_rows(next_tensordict, self.out_keys[1], ref, attention, padded)
        self.penalise(next_tensordict, gen, ref, scored, attention, padded, full=full)
        return next_tensordict


class RetrieveKL(
    HereOrInActors,
    FixedArguments,
    Compose,
    changeable=("coeff",),
    derived={"in_keys": _READS, "out_keys": _WRITES},
):
    """Writes the KL penalty between a policy and a reference, of conversations with their answers.

    The conversations are those of the data themselves; they are rendered and tokenised once for both models, or not
    at all where the data have the tokens that were sampled. Results are next to the reward: under ``"next"`` where
    there is one, at the root otherwise. Both models run in evaluation mode, the reference without gradients. In
    environments the models need ``pad_output=True`` and should have the same `pad_to`, the width of all results; a
    reset writes zeros. It is a chain: further transforms can be appended.

    Args:
        gen_model: the policy, as a model that scores; ``"from_collector"`` for such a version of the policy of the
            collector that runs the environment, made once when it is first needed.
        ref_model: the reference, as a model that scores; one with the weights of the policy themselves is a warning.
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
        use_ray_service: whether the models run in Ray actors: a `RayRetrieveKL`.
        options: of the penalty, `estimator`, `level`, `bound`, `spread`, `check_finite`, `target_kl` and `horizon`: see
            `KLPenalty`; and of Ray actors, `actor_name`, `num_gpus`, `num_cpus`, `replicas`, `lifetime` and `timeout`:
            see `ActorOptions`.

    Raises:
        TypeError: there is no such keyword.
        ValueError: a model is missing, or given in two ways; generates or returns no log-probabilities; the two do
            not give log-probabilities of the same tokens; or the assistant's tokens cannot be told. With
            `use_ray_service`: there are gradients, or models instead of factories, or the actor of this name has
            other arguments.

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
        **options: Unpack[KLOptions],
    ) -> None:
        penalty, given = split_options(type(self), options)
        actor, ray = self._actor_options(use_ray_service, given), self.runs_in_actors
        if ray and not detach:
            raise ValueError("detach=False with use_ray_service=True: gradients do not cross to a Ray actor")
        if isinstance(gen_model, str) and gen_model != "from_collector":
            raise ValueError(f"gen_model is a model or 'from_collector', got {gen_model!r}")
        if gen_model == "from_collector" and gen_model_factory is not None:
            gen_model = None
        from_collector = gen_model == "from_collector" and not ray
        keys = gen_log_probs_full_key, ref_log_probs_full_key, kl_key
        kl = _ModelsKL(keys, add_to_reward=add_to_reward, coeff=coeff, **penalty)
        create = partial(
            PolicyAndReference,
            gen_model=None
            if from_collector
            else model_of(gen_model, gen_model_factory, "gen_model", sent=ray),
            ref_model=model_of(ref_model, ref_model_factory, "ref_model", sent=ray),
            detach=detach,
            assistant_only=assistant_only,
            empty=empty,
            exclude_tokens=exclude_tokens,
            mask_key=mask_key,
            roles=roles,
            tokenizer=tokenizer,
            tokenizer_kwargs=tokenizer_kwargs,
            history_key=history_key,
            padding_side=padding_side,
            device=device,
        )
        kl.take(RayScoringModels(create, what="RetrieveKL", options=actor) if ray else create())
        super().__init__(kl)

    @property
    def penalty(self) -> KLPenalty:
        """The transform that computes it, with `coeff` and `metrics`."""
        return self._models_kl

    @property
    def _models_kl(self) -> _ModelsKL:
        found = self[0]
        assert isinstance(found, _ModelsKL)
        return found

    @property
    def coeff(self) -> Tensor:
        """The coefficient of the penalty in the reward, float32 scalar; a number can be assigned."""
        return self.penalty.coeff

    @coeff.setter
    def coeff(self, value: float) -> None:
        self.penalty.coeff = value  # type: ignore[assignment]  # a number is held in the buffer

    def update_weights(
        self,
        weights: TensorDictBase | Mapping[str, Any],
        which: Literal["gen_model", "ref_model"] = "gen_model",
        version: int | None = None,
    ) -> int:
        """Copy new values into the policy or the reference, in all Ray actors if it runs there.

        Args:
            weights: a state dict of the model that the wrapper is around, or `TensorDict.from_module` of it.
            which: the model.
            version: the number of these weights; if the model has those of this number, nothing happens. None for
                the next one.

        Returns:
            Their number.

        Raises:
            KeyError, ValueError: they do not fit the model, or it has newer ones.
        """
        return self._models_kl.models.update_weights(weights, which, version)

    def weight_versions(self) -> dict[str, int]:
        """The number of each model's weights: 0 for those that it was made with."""
        return self._models_kl.models.weight_versions()


class RayRetrieveKL(RetrieveKL, in_actors=True):
    """A `RetrieveKL` whose models run in actors of a Ray cluster, which several environments can share.

    Factories make the models there. The penalty, the reward and the specs are computed here, of log-probabilities that
    arrive without gradients. `close` ends actors without a name; with one others may use them, and `service.kill()`
    ends them.

    Args:
        kwargs: as for `RetrieveKL`.

    Raises:
        ImportError: Ray is not installed.
        TypeError: a factory can't be pickled.
        ValueError: as `RetrieveKL`; or the actor of that name has other arguments.
        TimeoutError: an actor did not start in time.
        RuntimeError: an actor is gone.
    """

    @property
    def service(self) -> RayService:
        """The actors."""
        models = self._models_kl.models
        assert isinstance(models, RayScoringModels)
        return models.service
