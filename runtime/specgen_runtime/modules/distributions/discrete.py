"""Distributions of one of n choices: one-hot, of choices that are in an order, and of the tokens of a text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions import OneHotCategorical as TorchOneHotCategorical
from torch.nn.functional import cross_entropy, logsigmoid

from specgen_runtime.modules.distributions.categorical import Categorical, index_of, one_hot
from specgen_runtime.modules.distributions.masked import MaskedCategorical, MaskedOneHotCategorical
from specgen_runtime.modules.distributions.relaxed import ReparamGradientStrategy, relaxed_choice

__all__ = [
    "Categorical",
    "LLMMaskedCategorical",
    "MaskedCategorical",
    "MaskedOneHotCategorical",
    "OneHotCategorical",
    "OneHotOrdinal",
    "Ordinal",
    "ReparamGradientStrategy",
]


class OneHotCategorical(TorchOneHotCategorical):
    """One of n choices, one-hot in int64.

    Args:
        logits: log-probabilities up to a constant, shape ``(*batch, n)``. Either these or ``probs``.
        probs: probabilities up to a factor, shape ``(*batch, n)``.
        grad_method: how `rsample` depends on the probabilities.

    Raises:
        ValueError: if not exactly one of ``logits`` and ``probs`` is given.
    """

    num_params: int = 1
    has_rsample = True
    _categorical: Categorical

    def __init__(
        self,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        grad_method: ReparamGradientStrategy = ReparamGradientStrategy.PassThrough,
    ) -> None:
        self.grad_method = grad_method
        self.update(logits, probs)

    def update(self, logits: Tensor | None = None, probs: Tensor | None = None) -> None:
        """Take other parameters.

        Raises:
            ValueError: if not exactly one of the two is given.
        """
        self._categorical = Categorical(probs, logits)
        shape = self._categorical._param.shape
        Distribution.__init__(self, shape[:-1], shape[-1:], validate_args=False)

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> OneHotCategorical:
        """The same with other batch dimensions."""
        shape = torch.Size(batch_shape) + self.event_shape
        return OneHotCategorical(self.logits.expand(shape), grad_method=self.grad_method)

    @property
    def num_samples(self) -> int:
        """The number of choices."""
        return int(self.event_shape[0])

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of one-hot choices, one number for each."""
        return self._categorical.log_prob(index_of(value))

    @property
    def mode(self) -> Tensor:
        """The most likely choice, of equal ones the first."""
        return one_hot(self.logits.argmax(-1), self.num_samples)

    @property
    def deterministic_sample(self) -> Tensor:
        """The most likely choice, of equal ones the first."""
        return self.mode

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Choices, int64 of shape ``(*sample_shape, *batch, n)``."""
        return one_hot(self._categorical.sample(sample_shape), self.num_samples)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Choices that depend on the probabilities as ``grad_method`` says, in the dtype of the probabilities."""
        if self.grad_method is ReparamGradientStrategy.RelaxedOneHot:
            return relaxed_choice(self.logits, sample_shape)
        index = self._categorical.sample(sample_shape)
        chosen = one_hot(index, self.num_samples, self._categorical._param.dtype)
        return (
            chosen + (self.probs - self.probs.detach()) if self._categorical._param.requires_grad else chosen
        )


def _generate_ordinal_logits(scores: Tensor) -> Tensor:
    """Log-probabilities up to a constant of choices in an order (Tang & Agrawal 2020, equation 4).

    Choice k is all of "at least j" for j up to k, and none for j beyond it, each with probability ``sigmoid(scores)``.

    Args:
        scores: shape ``(*batch, n)``.
    """
    reached = logsigmoid(scores).cumsum(-1)
    missed = logsigmoid(-scores)
    beyond = missed.flip(-1).cumsum(-1).flip(-1) - missed
    return reached + beyond


class Ordinal(Categorical):
    """One of n choices that are in an order: neighbours are about as likely (Tang & Agrawal 2020).

    Args:
        scores: shape ``(*batch, n)``.
    """

    def __init__(self, scores: Tensor) -> None:
        super().__init__(logits=_generate_ordinal_logits(scores))


class OneHotOrdinal(OneHotCategorical):
    """`Ordinal`, one-hot.

    Args:
        scores: shape ``(*batch, n)``.
    """

    def __init__(self, scores: Tensor) -> None:
        super().__init__(logits=_generate_ordinal_logits(scores))


class LLMMaskedCategorical(Distribution):
    """The tokens of texts, given what was written before each, of which some don't count.

    A mask of positions says which tokens are answers: others have the log-probability 0. A mask of the vocabulary
    says which tokens may stand at each position: others have the least number of the dtype. What is masked is
    worked out when it is first asked for, which `log_prob` of positions never does.

    Args:
        logits: log-probabilities up to a constant, shape ``(*batch, time, vocabulary)``.
        mask: bool, ``(*batch, time)`` for positions or ``(*batch, time, vocabulary)`` for tokens.
        ignore_index: a token with this index has the log-probability 0.

    Raises:
        ValueError: if the mask has neither of the two shapes.
    """

    arg_constraints = {"logits": constraints.real_vector}  # noqa: RUF012

    def __init__(self, logits: Tensor, mask: Tensor, ignore_index: int = -100) -> None:
        if mask.shape not in (logits.shape, logits.shape[:-1]):
            raise ValueError(
                f"the mask must have the shape of the logits, {tuple(logits.shape)}, or of their positions, "
                f"{tuple(logits.shape[:-1])}, got {tuple(mask.shape)}"
            )
        self.logits = logits
        self.mask = mask
        self.ignore_index = ignore_index
        self.position_level_masking = mask.shape != logits.shape
        self.clear_cache()
        super().__init__(logits.shape[:-1], torch.Size(), validate_args=False)

    def clear_cache(self) -> None:
        """Forget what was worked out."""
        self._masked_logits: Tensor | None = None
        self._masked_dist: Categorical | None = None

    @property
    def probs(self) -> Tensor:
        """Probabilities without the mask."""
        return self.logits.softmax(-1)

    @property
    def masked_logits(self) -> Tensor:
        """The logits, those that are masked replaced by the least number of the dtype."""
        if self._masked_logits is None:
            mask = self.mask.unsqueeze(-1) if self.position_level_masking else self.mask
            self._masked_logits = self.logits.masked_fill(~mask, torch.finfo(self.logits.dtype).min)
        return self._masked_logits

    @property
    def masked_dist(self) -> Categorical:
        """The distribution that is drawn from; where all is masked, each token is as likely as another."""
        if self._masked_dist is None:
            self._masked_dist = Categorical(logits=self.masked_logits)
        return self._masked_dist

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of each token, shape ``(*batch, time)``; 0 where it doesn't count.

        Raises:
            ValueError: if the tokens don't have the shape of the positions.
        """
        if value.shape != self.batch_shape:
            raise ValueError(f"tokens must have shape {tuple(self.batch_shape)}, got {tuple(value.shape)}")
        logits = self.logits if self.position_level_masking else self.masked_logits
        if self.position_level_masking:
            value = value.masked_fill(~self.mask, self.ignore_index)
        loss = cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            value.flatten(),
            reduction="none",
            ignore_index=self.ignore_index,
        )
        return -loss.view(value.shape)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Tokens, int64 of shape ``(*sample_shape, *batch, time)``."""
        return self.masked_dist.sample(sample_shape)

    @property
    def mode(self) -> Tensor:
        """The most likely tokens."""
        return self.masked_logits.argmax(-1)

    @property
    def deterministic_sample(self) -> Tensor:
        """The most likely tokens."""
        return self.mode

    def entropy(self) -> Tensor:
        """The entropy in nats of each token, shape ``(*batch, time)``; 0 where all is masked."""
        possible = self.mask if self.position_level_masking else self.mask.any(-1)
        each: Tensor = self.masked_dist.entropy()  # type: ignore[no-untyped-call]
        return torch.where(possible, each, 0.0)
