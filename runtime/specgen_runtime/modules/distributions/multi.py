"""Distributions of several choices at once, each independent of the others, and of several bits."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Independent, constraints
from torch.distributions.kl import register_kl
from torch.nn.functional import pad

from specgen_runtime.modules.distributions.categorical import Categorical, index_of, one_hot
from specgen_runtime.modules.distributions.choices import kl_of_choices, log_probs
from specgen_runtime.modules.distributions.masked import MaskedCategorical


class MultiCategorical(Distribution):
    """Several choices, each of its own number of classes and independent of the others, as indices in int64.

    Log-probabilities and entropies are summed over the choices.

    Args:
        logits: log-probabilities up to a constant, those of one choice behind those of another, shape ``(*batch, sum(nvec))``.
        nvec: how many classes each choice has.
        mask: bool, True where a class is allowed, in the order of the logits; it broadcasts with them. Each choice has one.
        stacked: the mask has a row for each choice, ``(*batch, len(nvec), n)``, where all have n classes.

    Raises:
        ValueError: if there are no choices, the logits or the mask have another size, the mask is not bool, or rows are asked
            of choices that differ.
    """

    num_params: int = 1
    arg_constraints = {"logits": constraints.real_vector}  # noqa: RUF012

    def __init__(
        self, logits: Tensor, *, nvec: Sequence[int], mask: Tensor | None = None, stacked: bool = False
    ) -> None:
        if not nvec or min(nvec) < 1:
            raise ValueError(f"each choice must have a class at least, got nvec={list(nvec)}")
        if logits.ndim == 0 or logits.shape[-1] != sum(nvec):
            raise ValueError(
                f"the logits must have a last dimension of {sum(nvec)}, for nvec={list(nvec)}, got shape {tuple(logits.shape)}"
            )
        if stacked and len(set(nvec)) > 1:
            raise ValueError(
                f"rows of one size are of choices that have as many classes, got nvec={list(nvec)}"
            )
        self.nvec = tuple(nvec)
        self.stacked = stacked
        if mask is not None:
            self._check_mask(mask)
        rows = self._rows(logits, -torch.inf)
        if mask is None:
            self._each = Categorical(logits=rows)
        else:
            self._each = MaskedCategorical(logits=rows, mask=mask if stacked else self._rows(mask, False))
        Distribution.__init__(self, self._each.batch_shape[:-1], self._event(), validate_args=False)

    def _check_mask(self, mask: Tensor) -> None:
        last = (len(self.nvec), self.nvec[0]) if self.stacked else (sum(self.nvec),)
        if mask.dtype != torch.bool or mask.shape[-len(last) :] != last:
            raise ValueError(
                f"the mask must be bool with {', '.join(map(str, last))} as its last dimensions, for nvec={list(self.nvec)}, "
                f"got {mask.dtype} of shape {tuple(mask.shape)}"
            )

    def _event(self) -> torch.Size:
        return torch.Size((len(self.nvec),))

    def _rows(self, x: Tensor, fill: float) -> Tensor:
        """A row for each choice, filled up to the longest: ``(*batch, len(nvec), max(nvec))``."""
        longest = max(self.nvec)
        if min(self.nvec) == longest:
            return x.reshape(*x.shape[:-1], len(self.nvec), longest)
        parts = torch.split(x, list(self.nvec), -1)
        return torch.stack([pad(part, (0, longest - part.shape[-1]), value=fill) for part in parts], -2)

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> MultiCategorical:
        """The same with other batch dimensions."""
        new = copy.copy(self)
        new._each = self._each.expand((*batch_shape, len(self.nvec)))
        Distribution.__init__(new, torch.Size(batch_shape), self._event_shape, validate_args=False)
        return new

    @property
    def choices(self) -> Categorical:
        """All choices side by side, as one distribution of shape ``(*batch, len(nvec))``, with classes up to the longest."""
        return self._each

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Choices, int64 of shape ``(*sample_shape, *batch, len(nvec))``."""
        logits = self._each.logits.detach()
        dtype = torch.promote_types(logits.dtype, torch.float32)
        # one random number for each choice: `multinomial` takes one for each class, and those that fill rows up
        up_to = logits.to(dtype).exp().cumsum(-1)
        whole = up_to[..., -1:]
        if not torch._C._functorch.is_batchedtensor(whole):  # whose values `torch.vmap` hides
            torch._assert_async(
                (whole > 0).all(), "a choice has no class that is allowed, or logits that are NaN"
            )
        place = whole * torch.rand((*sample_shape, *up_to.shape[:-1], 1), dtype=dtype, device=logits.device)
        # as numbers are rounded, the place may be the whole, which the last class that there may be ends at
        return self._written(torch.minimum((up_to <= place).sum(-1), (up_to < whole).sum(-1)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of choices of shape ``(*sample, *batch, len(nvec))``, the sum over all of them."""
        return self._each.log_prob(self._read(value)).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy in nats, summed over the choices, shape ``batch``."""
        each: Tensor = self._each.entropy()  # type: ignore[no-untyped-call]
        return each.sum(-1)

    @property
    def mode(self) -> Tensor:
        """The most likely class of each choice, of equal ones the first."""
        return self._written(self._each.deterministic_sample)

    @property
    def deterministic_sample(self) -> Tensor:
        """The most likely class of each choice, of equal ones the first."""
        return self.mode

    @property
    def mean(self) -> Tensor:
        """Not of choices.

        Raises:
            ValueError: always; a mean of class numbers is none of a choice.
        """
        raise ValueError(
            f"{type(self).__name__} has no mean, since classes are no amounts: act by InteractionType.MODE or DETERMINISTIC,"
            " the likeliest ones, or RANDOM"
        )

    @property
    def support(self) -> constraints.Constraint:
        """Whole numbers from 0."""
        highest = torch.tensor([n - 1 for n in self.nvec], device=self._each._param.device)
        return constraints.independent(constraints.integer_interval(0, highest), 1)  # type: ignore[no-untyped-call]

    def _written(self, index: Tensor) -> Tensor:
        """What stands for indices of shape ``(*batch, len(nvec))``."""
        return index

    def _read(self, value: Tensor) -> Tensor:
        """The indices of choices, ``(*batch, len(nvec))``."""
        return value


class MultiOneHotCategorical(MultiCategorical):
    """`MultiCategorical` whose choices are one-hot vectors in int64, side by side in one row.

    Args:
        logits: log-probabilities up to a constant, those of one choice behind those of another, shape ``(*batch, sum(nvec))``.
        nvec: how many classes each choice has.
        mask: bool, True where a class is allowed, in the order of the logits; it broadcasts with them. Each choice has one.
        stacked: choices, and the mask, have a row for each choice, ``(*batch, len(nvec), n)``, where all have n classes.

    Raises:
        ValueError: as `MultiCategorical`.
    """

    def _event(self) -> torch.Size:
        return torch.Size((len(self.nvec), self.nvec[0]) if self.stacked else (sum(self.nvec),))

    @property
    def mean(self) -> Tensor:
        """The probability of each class of each choice, as `OneHotCategorical` has it."""
        return self._joined(self._each.probs)

    def _written(self, index: Tensor) -> Tensor:
        return self._joined(one_hot(index, max(self.nvec)))

    def _joined(self, rows: Tensor) -> Tensor:
        """A row for each choice as what stands for them."""
        if self.stacked:
            return rows
        return torch.cat([rows[..., at, :n] for at, n in enumerate(self.nvec)], -1)

    def _read(self, value: Tensor) -> Tensor:
        return index_of(value if self.stacked else self._rows(value, 0))

    @property
    def support(self) -> constraints.Constraint:
        """Zeros and ones."""
        return constraints.independent(constraints.boolean, len(self._event_shape))  # type: ignore[no-untyped-call]


class IndependentBernoulli(Independent[Bernoulli]):
    """Several bits, each independent of the others, as 0 and 1 in int64.

    Args:
        logits: logarithms of the odds of 1, shape ``(*batch, *event)``. Either these or ``probs``.
        probs: probabilities of 1, shape ``(*batch, *event)``.
        event_dim: number of dimensions of an action.

    Raises:
        ValueError: if not exactly one of ``logits`` and ``probs`` is given.
    """

    num_params: int = 1

    def __init__(self, logits: Tensor | None = None, probs: Tensor | None = None, event_dim: int = 1) -> None:
        super().__init__(Bernoulli(probs, logits, validate_args=False), event_dim, validate_args=False)

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> IndependentBernoulli:
        """The same with other batch dimensions."""
        logits = self.base_dist.logits
        shape = (*batch_shape, *self._event_shape)
        return IndependentBernoulli(logits.expand(shape), event_dim=self.reinterpreted_batch_ndims)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Bits, int64 of shape ``(*sample_shape, *batch, *event)``."""
        return super().sample(torch.Size(sample_shape)).long()

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of bits of shape ``(*sample, *batch, *event)``, one number for each action."""
        found: Tensor = super().log_prob(value.to(self.base_dist.logits.dtype))  # type: ignore[no-untyped-call]
        return found

    @property
    def mode(self) -> Tensor:
        """The likelier of both, 0 where they are as likely."""
        return (self.base_dist.logits > 0).long()

    @property
    def deterministic_sample(self) -> Tensor:
        """The likelier of both, 0 where they are as likely."""
        return self.mode


@register_kl(MultiCategorical, MultiCategorical)  # type: ignore[no-untyped-call, untyped-decorator]
def _kl_of_several_choices(p: MultiCategorical, q: MultiCategorical) -> Tensor:
    if p.nvec != q.nvec:
        raise ValueError(f"the choices have other numbers of classes: {list(p.nvec)} and {list(q.nvec)}")
    return kl_of_choices(log_probs(p.choices), log_probs(q.choices)).sum(-1)
