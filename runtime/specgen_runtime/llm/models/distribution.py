"""`TokenDistribution`: what losses are given of a language model, without logits of all tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.distributions import Distribution

from specgen_runtime.llm.models.chosen import Chosen

__all__ = ["TokenDistribution"]


class TokenDistribution(Distribution):
    """The distributions that the tokens of sequences are from, each given the tokens before it.

    The model is run when something is asked for; log-probabilities and entropies come from one run, or from one each.

    Args:
        ids: int64 ``[*batch, time]``, the tokens.
        attention: bool ``[*batch, time]``, tokens that are no padding.
        scored: bool ``[*batch, time]``, tokens that the model answered with and that have a predecessor.
        run: gives the log-probabilities of the scored tokens and, given True, their entropies, ``[*batch, time]`` each.
        with_entropy: whether the run for log-probabilities is one for entropies, too.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_rsample = False

    def __init__(
        self,
        ids: Tensor,
        attention: Tensor,
        scored: Tensor,
        run: Callable[[bool], Chosen],
        with_entropy: bool = True,
    ) -> None:
        super().__init__(ids.shape, validate_args=False)
        self._ids, self._attention, self._run, self._with_entropy = ids, attention, run, with_entropy
        self.mask = scored

    @cached_property
    def _both(self) -> Chosen:
        return self._run(True)

    @cached_property
    def _log_probs(self) -> Tensor:
        known = self._with_entropy or "_both" in self.__dict__
        return (self._both if known else self._run(False)).log_probs

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of each token, float32 ``[*batch, time]``; 0.0 where none is scored.

        Raises:
            ValueError: other tokens are asked for than those that the distribution was made with.
        """
        same = value.shape == self._ids.shape and (value == self._ids) | ~self._attention
        if not isinstance(same, Tensor) or not bool(same.all()):
            raise ValueError(
                f"the distribution is over tokens {list(self._ids.shape)} that it was made with; others, "
                f"{list(value.shape)}, can't be scored. A model that reads conversations renders them anew: let it "
                "read the tokens (input_mode='tokens', or prefer_tokens=True)"
            )
        return self._log_probs

    def entropy(self) -> Tensor:
        """The exact entropy in nats of the distribution that each token is from; 0.0 where none is scored."""
        return cast("Tensor", self._both.entropy)

    def sample(self, sample_shape: torch.Size | tuple[int, ...] = ()) -> Tensor:  # type: ignore[override]
        """Refused: a token depends on those before it; a wrapper with ``generate=True`` draws answers."""
        raise NotImplementedError(
            "tokens are drawn one after the other: use a wrapper with generate=True (get_new_version(generate=True))"
        )
