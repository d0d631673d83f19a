"""`TokenDistribution`: what losses are given of a language model, without logits of all tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.distributions import Distribution

from specgen_runtime.llm.chosen import Chosen

__all__ = ["TokenDistribution"]


class TokenDistribution(Distribution):
    """The distributions that the tokens of sequences are from, each given the tokens before it.

    The model is run when something is asked for, once; log-probabilities and entropies come from that run.

    Args:
        ids: int64 ``[*batch, time]``, the tokens.
        attention: bool ``[*batch, time]``, tokens that are no padding.
        scored: bool ``[*batch, time]``, tokens that the model answered with and that have a predecessor.
        run: gives the log-probabilities and the entropies of the scored tokens, ``[*batch, time]`` each.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_rsample = False

    def __init__(self, ids: Tensor, attention: Tensor, scored: Tensor, run: Callable[[], Chosen]) -> None:
        super().__init__(ids.shape, validate_args=False)
        self._ids, self._attention, self._run = ids, attention, run
        self.mask = scored

    @cached_property
    def _chosen(self) -> Chosen:
        return self._run()

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
        return self._chosen.log_probs

    def entropy(self) -> Tensor:
        """The exact entropy in nats of the distribution that each token is from; 0.0 where none is scored."""
        return cast("Tensor", self._chosen.entropy)

    def sample(self, sample_shape: torch.Size | tuple[int, ...] = ()) -> Tensor:  # type: ignore[override]
        """Refused: a token depends on those before it; a wrapper with ``generate=True`` draws answers."""
        raise NotImplementedError(
            "tokens are drawn one after the other: use a wrapper with generate=True (get_new_version(generate=True))"
        )
