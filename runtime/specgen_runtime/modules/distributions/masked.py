"""Distributions of one of n choices of which some are not allowed."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from specgen_runtime.modules.distributions.categorical import Categorical, index_of, one_hot
from specgen_runtime.modules.distributions.relaxed import ReparamGradientStrategy, relaxed_choice


class MaskedCategorical(Categorical):
    """One of n choices of which some are not allowed.

    What is allowed is said by a mask over all choices, or by the indices of those that are. With indices the
    logits and probabilities are those of the indices, in their order, and draws are made among them alone.

    Args:
        logits: log-probabilities up to a constant, shape ``(*batch, n)``. Either these or ``probs``.
        probs: probabilities up to a factor, shape ``(*batch, n)``.
        mask: bool, True where a choice is allowed; it broadcasts with the logits. Either this or ``indices``.
        indices: int64, the choices that are allowed, shape ``(*batch, k)`` or ``(k,)``.
        neg_inf: log-probability of what is not allowed, before the others are normalised with it.
        padding_value: where ``indices`` have this value, no choice is meant. Defaults to None: all are meant.
        use_cross_entropy: no effect; there is one way to score.
        padding_side: on which side the indices are padded; kept for the reader.

    Raises:
        ValueError: if not exactly one of ``mask`` and ``indices``, or of ``logits`` and ``probs``, is given.
    """

    num_params: int = 1

    def __init__(
        self,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        indices: Tensor | None = None,
        neg_inf: float = float("-inf"),
        padding_value: int | None = None,
        use_cross_entropy: bool = True,
        padding_side: str = "left",
    ) -> None:
        if (mask is None) == (indices is None):
            raise ValueError("Either a `mask` or `indices` must be provided, but not both")
        if (logits is None) == (probs is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both")
        self.neg_inf = neg_inf
        self.padding_side = padding_side
        self._padding_value = padding_value
        self._mask: Tensor | None = mask
        self._indices: Tensor | None = None
        self._allowed: Tensor
        given = logits if probs is None else probs
        assert given is not None
        self.num_samples: int = given.shape[-1]
        if indices is not None:
            meant = torch.ones_like(indices, dtype=torch.bool)
            if padding_value is not None:
                meant = indices != padding_value
                indices = indices.masked_fill(~meant, 0)
            shape = _broadcast(given[..., 0], indices[..., 0])
            self._indices = indices.expand(*shape, indices.shape[-1])
            self._allowed = meant.expand(self._indices.shape)
            given = given.expand(*shape, self.num_samples).gather(-1, self._indices)
        else:
            assert mask is not None
            self._allowed = mask if mask.shape == given.shape else mask.expand(_broadcast(mask, given))
        logits = given if probs is None else _log_of_allowed(given, self._allowed)
        super().__init__(logits=torch.where(self._allowed, logits, neg_inf))

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> MaskedCategorical:
        """The same with other batch dimensions."""
        batch = torch.Size(batch_shape)
        new = copy.copy(self)
        super().expand(batch, _instance=new)
        new._allowed = self._allowed.expand(*batch, self._allowed.shape[-1])
        if self._indices is not None:
            new._indices = self._indices.expand(new._allowed.shape)
        return new

    @property
    def padding_value(self) -> int:
        """What the indices are padded with; 0 where nothing was said."""
        return 0 if self._padding_value is None else self._padding_value

    @property
    def mask(self) -> Tensor:
        """True where a choice is allowed, over all of them: as it was given, or ``(*batch, n)`` from the indices."""
        if self._indices is None:
            assert self._mask is not None
            return self._mask
        found = torch.zeros(
            *self._indices.shape[:-1], self.num_samples, dtype=torch.int64, device=self._indices.device
        )
        return found.scatter_add(-1, self._indices, self._allowed.long()) > 0

    def over_all_choices(self, x: Tensor, fill: float) -> Tensor:
        """Logits or probabilities of this distribution, over all n choices.

        Args:
            x: shape ``(*batch, n)``, or ``(*batch, k)`` with indices.
            fill: what choices get that are not among the indices.
        """
        if self._indices is None:
            return x
        # padding is put behind the last choice, where it is cut off
        place = self._indices.masked_fill(~self._allowed, self.num_samples)
        full = torch.full((*x.shape[:-1], self.num_samples + 1), fill, dtype=x.dtype, device=x.device)
        return full.scatter(-1, place.expand(x.shape), x)[..., :-1]

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Choices, int64 of shape ``(*sample_shape, *batch)``.

        Raises:
            RuntimeError: if the mask of a row allows no choice, on the CPU, where torch checks the weights as it draws.
        """
        if torch.compiler.is_compiling():
            return self._choice(super().sample(sample_shape))
        try:
            return self._choice(super().sample(sample_shape))
        except RuntimeError as error:
            if self._allowed.is_cuda or bool(self._allowed.any(-1).all()):
                raise
            message = "cannot draw: the mask of a row allows no choice; an environment has to allow one in every state"
            raise RuntimeError(message) from error

    def _choice(self, place: Tensor) -> Tensor:
        if self._indices is None:
            return place
        indices = self._indices.expand(*place.shape, self._indices.shape[-1])
        return indices.gather(-1, place.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of choices of shape ``(*sample, *batch)``; ``neg_inf`` for those not among the indices."""
        place = value
        if self._indices is not None:
            found = (self._indices == value.unsqueeze(-1)) & self._allowed
            place = found.int().argmax(-1)
        result = super().log_prob(place)
        return result if self._indices is None else result.masked_fill(~found.any(-1), self.neg_inf)

    def entropy(self) -> Tensor:
        """The entropy in nats of the choices that are allowed, shape ``batch``."""
        lowest = torch.finfo(self.logits.dtype).min
        logits = self.logits.masked_fill(~self._allowed, -torch.inf).log_softmax(-1).clamp_min(lowest)
        return -(logits * logits.exp()).sum(-1)

    @property
    def mode(self) -> Tensor:
        """The most likely choice, of equal ones the first."""
        return self._choice(self.logits.argmax(-1))

    @property
    def deterministic_sample(self) -> Tensor:
        """The most likely choice, of equal ones the first."""
        return self.mode


class MaskedOneHotCategorical(Distribution):
    """`MaskedCategorical` whose choices are one-hot, in int64.

    Args:
        logits: log-probabilities up to a constant, shape ``(*batch, n)``. Either these or ``probs``.
        probs: probabilities up to a factor, shape ``(*batch, n)``.
        mask: bool, True where a choice is allowed; it broadcasts with the logits. Either this or ``indices``.
        indices: int64, the choices that are allowed, shape ``(*batch, k)`` or ``(k,)``.
        neg_inf: log-probability of what is not allowed, before the others are normalised with it.
        padding_value: where ``indices`` have this value, no choice is meant. Defaults to None: all are meant.
        grad_method: how `rsample` depends on the probabilities.

    Raises:
        ValueError: if not exactly one of ``mask`` and ``indices``, or of ``logits`` and ``probs``, is given.
    """

    arg_constraints = {"logits": constraints.real_vector}  # noqa: RUF012
    has_rsample = True
    num_params: int = 1

    def __init__(
        self,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        mask: Tensor | None = None,
        indices: Tensor | None = None,
        neg_inf: float = float("-inf"),
        padding_value: int | None = None,
        grad_method: ReparamGradientStrategy = ReparamGradientStrategy.PassThrough,
    ) -> None:
        self._categorical = MaskedCategorical(
            logits, probs, mask=mask, indices=indices, neg_inf=neg_inf, padding_value=padding_value
        )
        self.grad_method = grad_method
        self._take_shapes()

    def _take_shapes(self) -> None:
        super().__init__(self._categorical.batch_shape, torch.Size([self.num_samples]), validate_args=False)

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> MaskedOneHotCategorical:
        """The same with other batch dimensions."""
        new = copy.copy(self)
        new._categorical = self._categorical.expand(batch_shape)
        new._take_shapes()
        return new

    @property
    def num_samples(self) -> int:
        """The number of choices, allowed or not."""
        return self._categorical.num_samples

    @property
    def neg_inf(self) -> float:
        """The log-probability of what is not allowed."""
        return self._categorical.neg_inf

    @property
    def mask(self) -> Tensor:
        """True where a choice is allowed."""
        return self._categorical.mask

    @property
    def logits(self) -> Tensor:
        """Log-probabilities, of all choices or of the indices."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities, of all choices or of the indices."""
        return self._categorical.probs

    def over_all_choices(self, x: Tensor, fill: float) -> Tensor:
        """As that of `MaskedCategorical`."""
        return self._categorical.over_all_choices(x, fill)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Choices, int64 of shape ``(*sample_shape, *batch, n)``."""
        return one_hot(self._categorical.sample(sample_shape), self.num_samples)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Choices that depend on the probabilities as ``grad_method`` says, in the dtype of the probabilities."""
        if self.grad_method is ReparamGradientStrategy.RelaxedOneHot:
            return relaxed_choice(self.over_all_choices(self.logits, self.neg_inf), sample_shape)
        index = self._categorical.sample(sample_shape)
        chosen = one_hot(index, self.num_samples, self.logits.dtype)
        if not self.logits.requires_grad:
            return chosen
        probs = self.over_all_choices(self.probs, 0.0)
        return chosen + (probs - probs.detach())

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of one-hot choices, one number for each."""
        return self._categorical.log_prob(index_of(value))

    def entropy(self) -> Tensor:
        """The entropy in nats of the choices that are allowed, shape ``batch``."""
        return self._categorical.entropy()

    @property
    def mode(self) -> Tensor:
        """The most likely choice, of equal ones the first."""
        return one_hot(self._categorical.mode, self.num_samples)

    @property
    def deterministic_sample(self) -> Tensor:
        """The most likely choice, of equal ones the first."""
        return self.mode

    @property
    def support(self) -> constraints.Constraint:
        """One-hot vectors."""
        return constraints.one_hot


def _log_of_allowed(probs: Tensor, allowed: Tensor) -> Tensor:
    """Logarithms of probabilities that are made to sum to 1 over what is allowed, with finite gradients."""
    possible = allowed & (probs > 0)
    logs = torch.where(possible, probs, 1.0).log().masked_fill(~possible, -torch.inf)
    return logs - logs.logsumexp(-1, keepdim=True)


def _broadcast(a: Tensor, b: Tensor) -> torch.Size:
    shape: torch.Size = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    return shape
