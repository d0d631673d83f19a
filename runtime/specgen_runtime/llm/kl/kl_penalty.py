"""The KL penalty of log-probabilities, and what it does to the reward."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, ClassVar, Literal, Unpack, cast

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.conversations.entries import in_places
from specgen_runtime.llm.kl.generated.kl_estimators import log_ratio
from specgen_runtime.llm.kl.generated.penalties import (
    adapted_coefficient,
    clipped_fraction,
    last_scored,
    penalised_reward,
    penalised_token_reward,
    scored_max,
    scored_mean,
    sequence_value,
    spread_reward,
)
from specgen_runtime.llm.kl.log_probs import moment_after, put_rows
from specgen_runtime.llm.kl.options import Level, PenaltyOptions, Spread, split_options
from specgen_runtime.llm.kl_estimators import Estimator, check_estimator, kl_estimate
from specgen_runtime.objectives.keys import listed
from specgen_runtime.ragged import Ragged, rows_at, sizes_of
from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms import Transform
from specgen_runtime.transforms.keys import normal_keys
from specgen_runtime.typing import NestedKey

__all__ = ["KLComputation", "KLPenalty"]


class KLPenalty(Transform):
    """What all transforms with a KL penalty do with log-probabilities: the penalty, the reward, specs and metrics.

    Args:
        add_to_reward: whether ``coeff`` times the penalty is subtracted from the reward: of one reward for a
            conversation, ``[*batch, 1]`` or ``[*batch, 1, 1]``, the sum over its tokens; of one for each token,
            ``[*batch, time, 1]``, that token's. Data without a reward are left without.
        coeff: of the penalty in the reward.
        estimator: how the KL is estimated; see `kl_estimators`.
        level: of what: ``"token"``, the distribution of each token; ``"sequence"``, that of whole answers, from the sum
            of their log-ratios: the estimate is the last scored token's, and that of all others is 0.
        bound: of the log-ratio in exponentials.
        spread: what becomes of one reward for a conversation: ``"sum"`` keeps it one; ``"tokens"`` makes one for each
            token, ``[*batch, time, 1]``: the reward at the last scored one, and each one's penalty.
        check_finite: whether log-probabilities of scored tokens that are not finite are an error.
        target_kl: if given, `coeff` grows while the KL of a conversation is above it, and falls below.
        horizon: over how many conversations `coeff` follows.

    Attributes:
        coeff: a buffer, float32 scalar. A number that is assigned to it is held in it.
        metrics: of the last data: the mean (``kl``) and the largest (``kl_max``) of scored tokens, or of answers
            (`level`), and the fraction whose log-ratio was out of bounds (``kl_clipped``); scalars.

    Raises:
        TypeError: `coeff` is no number.
        ValueError: a `coeff` that is negative or not finite, or 0 with a `target_kl`; a `bound`, `horizon` or `target_kl`
            that is not positive; or an unknown word.
    """

    coeff: Tensor
    knows_distributions = False
    """Whether those of all tokens are known, and not only the probabilities of those that were drawn."""
    kl_place: ClassVar[int] = 0
    """Which of `out_keys` is the penalty's."""

    def __init__(
        self,
        *,
        add_to_reward: bool = True,
        coeff: float = 1.0,
        estimator: Estimator = "k1",
        level: Level = "token",
        bound: float = 10.0,
        spread: Spread = "sum",
        check_finite: bool = True,
        target_kl: float | None = None,
        horizon: float = 10_000.0,
    ) -> None:
        super().__init__()
        check_estimator(estimator, self.knows_distributions)
        for name, value in (("bound", bound), ("horizon", horizon), ("target_kl", target_kl)):
            if value is not None and not value > 0:
                raise ValueError(f"{name} is above 0, got {value}")
        if spread not in ("sum", "tokens"):
            raise ValueError(f"spread is 'sum' or 'tokens', got {spread!r}")
        if level not in ("token", "sequence"):
            raise ValueError(f"level is 'token' or 'sequence', got {level!r}")
        if level == "sequence" and estimator == "full":
            raise ValueError("estimator 'full' is of the distribution of each token: level='token'")
        if target_kl is not None and coeff == 0:
            raise ValueError("coeff=0 stays 0, since target_kl multiplies it: give one to begin with")
        self.level = level
        self.add_to_reward, self.spread = add_to_reward, spread
        self.estimator: Estimator = estimator
        self.bound, self.check_finite = bound, check_finite
        self.target_kl, self.horizon = target_kl, horizon
        self.register_buffer("coeff", torch.tensor(_checked_coefficient(coeff)))
        self.metrics: dict[str, Tensor] = {}

    @property
    def kl_key(self) -> NestedKey:
        """Where the penalty is written, float32 ``[*batch, time]``."""
        return self.out_keys[self.kl_place]

    def check_keys(self, name: str, keys: list[NestedKey]) -> None:
        """Refuse keys that are assigned.

        Args:
            name: ``"in_keys"`` or ``"out_keys"``.
            keys: what they are to be.

        Raises:
            AttributeError: they are not the transform's own.
            ValueError: there are too many or too few, or two are the same.
        """

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "coeff" and "coeff" in self._buffers and not isinstance(value, Tensor):
            self.coeff.fill_(_checked_coefficient(value))
        elif name in ("in_keys", "out_keys"):
            value = normal_keys(() if value is None else value)
            self.check_keys(name, value)
            super().__setattr__(name, value)
            if (container := self.container) is not None:  # its specs name the keys
                container.empty_cache()
        else:
            super().__setattr__(name, value)

    def penalise(
        self,
        data: TensorDictBase,
        gen: Tensor,
        ref: Tensor,
        scored: Tensor,
        kept: Tensor,
        padded: bool,
        full: Tensor | None = None,
    ) -> Tensor:
        """Write the penalty, and the reward with it.

        Args:
            data: with the reward; both are written here.
            gen: the policy's log-probabilities, ``[rows, width]``.
            ref: the reference's, the same.
            scored: bool ``[rows, width]``, the tokens that count; what is elsewhere has no effect.
            kept: bool ``[rows, width]``, what is no padding.
            padded: whether results are as wide, or each row as long as it is.
            full: the KL of each token's distribution, ``[rows, width]``, 0 where none counts: the estimator ``full``.

        Returns:
            The penalty, ``[rows, width]``.

        Raises:
            ValueError: a log-probability is not finite, or the reward is of another shape.
            RuntimeError: a log-probability is not finite, where it is compiled.
        """
        if self.check_finite:
            for name, values in (("the policy", gen), ("the reference", ref)):
                _refuse_not_finite(name, values, scored)
        ratio, own = log_ratio(gen, ref, scored), gen.where(scored, 0.0)
        if self.level == "sequence":
            scored = last_scored(scored)
            ratio, own = (sequence_value(value, scored) for value in (ratio, own))
        kl = kl_estimate(ratio, self.estimator, bound=self.bound, log_probs=own) if full is None else full
        put_rows(data, self.kl_key, kl, kept, padded)
        if self.add_to_reward:
            self._add_to_reward(data, kl, scored, kept)
        self._follow(kl.detach(), ratio.detach(), scored)
        return kl

    def _add_to_reward(self, data: TensorDictBase, kl: Tensor, scored: Tensor, kept: Tensor) -> None:
        in_key, out_key = self.reward_keys
        reward = rows_at(data, in_key)
        if reward is None:
            return
        coeff = self.coeff.to(kl.device)
        if isinstance(reward, list):  # a reward for each token, of rows of different lengths
            padded = in_places([row.flatten() for row in reward], kept)
            if padded is None:
                raise ValueError(
                    f"rewards of {sizes_of(reward)} tokens, but rows of {kept.sum(-1).tolist()} tokens"
                )
            whole = penalised_token_reward(padded, kl, coeff).to(padded)
            put_rows(data, out_key, whole[..., None], kept, padded=False)
            return
        batch = list(data.batch_size)
        width = kl.shape[-1]
        one = list(reward.shape) in ([*batch, 1], [*batch, 1, 1])
        if not one and list(reward.shape) != [*batch, width, 1]:
            raise ValueError(
                f"the reward is {list(reward.shape)}: neither one for each conversation, {[*batch, 1]} or "
                f"{[*batch, 1, 1]}, nor one for each token, {[*batch, width, 1]}"
            )
        if one and self.spread == "sum":
            whole = penalised_reward(reward.reshape(-1), kl, coeff)
        elif one:
            whole = spread_reward(reward.reshape(-1), kl, last_scored(scored), coeff)
        else:
            whole = penalised_token_reward(reward.reshape(kl.shape), kl, coeff)
        shape = [*batch, width, 1] if one and self.spread == "tokens" else reward.shape
        data.set(out_key, whole.reshape(shape).to(reward.dtype))

    def _follow(self, kl: Tensor, ratio: Tensor, scored: Tensor) -> None:
        self.metrics = {
            "kl": scored_mean(kl, scored),
            "kl_max": scored_max(kl, scored) if kl.numel() else kl.sum(),
            "kl_clipped": clipped_fraction(ratio, scored, bound=self.bound),
        }
        if self.target_kl is not None and len(kl):
            mean = kl.sum(-1).mean().to(self.coeff.device)
            limits = {"target": self.target_kl, "horizon": self.horizon}
            self.coeff.copy_(adapted_coefficient(self.coeff, mean, **limits, rows=len(kl)))

    @property
    def reward_keys(self) -> tuple[NestedKey, NestedKey]:
        """Where the reward is read, and where it is written."""
        return "reward", "reward"

    def row_width(self) -> int:
        """How many tokens rows have in an environment; -1 if it is not known."""
        return -1

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """The reward specs: with `add_to_reward` without bounds, with `spread` one for each token."""
        read, written = self.reward_keys
        if not self.add_to_reward or (spec := reward_spec.get(read, None)) is None:
            return reward_spec
        shape = (*reward_spec.shape, self.row_width(), 1) if self.spread == "tokens" else spec.shape
        reward_spec[written] = Unbounded(shape, dtype=spec.dtype, device=spec.device)
        return reward_spec


def _refuse_not_finite(name: str, log_probs: Tensor, scored: Tensor) -> None:
    """ValueError for a log-probability that is not finite; compiled a RuntimeError, since no branch depends on numbers there."""
    bad = scored & ~log_probs.isfinite()
    if torch.compiler.is_compiling():
        torch._assert_async(~bad.any(), f"{name} gives a token a log-probability that is not finite")
    elif bool(bad.any()):
        row, token = bad.nonzero()[0].tolist()
        value = float(log_probs[row, token].detach())
        raise ValueError(f"{name} gives row {row}, token {token} a log-probability of {value}")


def _checked_coefficient(value: float) -> float:
    """The coefficient of a penalty; ValueError for a negative one, and for one that is not finite; TypeError for no number."""
    if not isinstance(cast("object", value), Real):
        raise TypeError(f"coeff is a number, got {value!r}")
    if value < 0:
        raise ValueError(f"coeff={value}: a negative coefficient rewards distance from the reference")
    if not math.isfinite(value):
        raise ValueError(f"coeff={value}: rewards would not be finite")
    return float(value)


class KLComputation(KLPenalty):
    """Writes the KL penalty of log-probabilities that are there already, such as two `RetrieveLogProb` wrote.

    They are read next to the reward, under ``"next"`` where there is one, and results are written there.

    Args:
        gen_log_probs_full_key: of the policy's log-probabilities, ``[*batch, time]`` or rows of different lengths.
        ref_log_probs_full_key: of the reference's.
        kl_key: of the penalty, float32 ``[*batch, time]``.
        padding_side: of rows of different lengths while they are computed with; results are of the same lengths.
        mask_key: of a mask of the tokens that count, bool ``[*batch, time]``, there or with the policy's action; None for
            those one of whose log-probabilities is not 0.
        penalty: keywords of `KLPenalty`, and so are `add_to_reward` and `coeff`.

    Raises:
        ValueError: see `KLPenalty`.
    """

    def __init__(
        self,
        gen_log_probs_full_key: NestedKey = ("log_probs", "full"),
        ref_log_probs_full_key: NestedKey = ("ref_log_probs", "full"),
        *,
        kl_key: NestedKey = "kl_penalty",
        add_to_reward: bool = True,
        coeff: float = 1.0,
        padding_side: Literal["left", "right"] = "left",
        mask_key: NestedKey | None = None,
        **penalty: Unpack[PenaltyOptions],
    ) -> None:
        split_options(type(self), penalty)
        super().__init__(add_to_reward=add_to_reward, coeff=coeff, **penalty)
        self.in_keys, self.out_keys = [gen_log_probs_full_key, ref_log_probs_full_key], [kl_key]
        self.padding_side, self.mask_key = padding_side, mask_key

    def check_keys(self, name: str, keys: list[NestedKey]) -> None:
        """`in_keys` are those of the log-probabilities, policy and reference; `out_keys` is that of the penalty."""
        if name == "out_keys" and len(keys) != 1:
            raise ValueError(f"out_keys is the key of the penalty, got {keys}")
        if name == "in_keys" and len(keys) != 2:
            raise ValueError(
                f"in_keys are those of the policy's and the reference's log-probabilities, got {keys}"
            )
        if name == "in_keys" and keys[0] == keys[1]:
            raise ValueError(f"both log-probabilities are read at {keys[0]!r}")
        if taken := {*keys} & {*(self.out_keys if name == "in_keys" else self.in_keys)}:
            raise ValueError(f"the penalty would stand in the place of log-probabilities, at {taken.pop()!r}")

    @property
    def gen_log_probs_full_key(self) -> NestedKey:
        """Where the policy's log-probabilities are read."""
        return self.in_keys[0]

    @property
    def ref_log_probs_full_key(self) -> NestedKey:
        """Where the reference's log-probabilities are read."""
        return self.in_keys[1]

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        data = next_tensordict
        keys = self.in_keys if self.mask_key is None else [*self.in_keys, self.mask_key]
        found: list[Tensor | list[Tensor]] = []
        for key in keys:
            value = rows_at(data, key)
            if value is None and key == self.mask_key:  # which a policy wrote
                value = rows_at(tensordict, key)
            if value is None:
                raise KeyError(
                    f"KLComputation reads {key!r}, which is not in the tensordict (it holds {listed(data)})"
                )
            found.append(value)
        first, second, *masks = found
        if isinstance(first, Tensor) != isinstance(second, Tensor):
            which = self.in_keys[0 if isinstance(second, Tensor) else 1]
            raise ValueError(
                f"{which!r} has rows of different lengths, the other is padded: pad_output is to be the same"
            )
        sizes = list(map(sizes_of, found))
        if any(size != sizes[0] for size in sizes):
            names = [f"{key!r} is {size}" for key, size in zip(keys, sizes, strict=True)]
            raise ValueError(f"{', '.join(names)}: they are not of the same tokens")
        gen, ref = self._wide(first), self._wide(second)
        kept = (
            Ragged.of(first).mask(self.padding_side)
            if isinstance(first, list)
            else torch.ones_like(gen).bool()
        )
        scored = self._wide(masks[0]).bool() if masks else (gen != 0) | (ref != 0)
        self.penalise(data, gen, ref, scored & kept, kept, isinstance(first, Tensor))
        return data

    def _wide(self, value: Any) -> Tensor:
        """The rows as a tensor ``[rows, width]``."""
        if isinstance(value, list):
            return Ragged.of(value).padded(0, self.padding_side)
        return value.reshape(-1, value.shape[-1])  # type: ignore[no-any-return]

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        like = tensordict_reset.get(self.in_keys[0], None)
        if like is not None:
            tensordict_reset.set(self.kl_key, torch.zeros_like(like))
        return tensordict_reset

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._step(tensordict, moment_after(tensordict))
        return tensordict

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs with the penalty, of the shape of the log-probabilities.

        Raises:
            KeyError: the environment does not observe them.
        """
        for key in self.in_keys:
            if key not in observation_spec.keys(True, True):
                raise KeyError(
                    f"KLComputation reads {key!r}, which the environment does not observe: put RetrieveLogProb in front, "
                    "which scores. Log-probabilities that a policy writes as it samples are read by KLRewardTransform"
                )
        observation_spec[self.kl_key] = observation_spec[self.in_keys[0]].clone()
        return observation_spec

    def row_width(self) -> int:
        """That of the log-probabilities which the environment observes."""
        parent = self.parent
        like = None if parent is None else parent.full_observation_spec.get(self.in_keys[0], None)
        return -1 if like is None else int(like.shape[-1])
