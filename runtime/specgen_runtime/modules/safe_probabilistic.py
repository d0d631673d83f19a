"""Draws from distributions, with the specs of what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import torch
from tensordict import TensorDictBase, unravel_key
from tensordict.nn import (
    CompositeDistribution,
    InteractionType,
    ProbabilisticTensorDictModule,
    dispatch,
    set_skip_existing,
)
from tensordict.nn.probabilistic import interaction_type
from torch import Tensor
from torch.distributions import Distribution

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.distributions import Delta
from specgen_runtime.modules.distributions.draws import sum_of_parts
from specgen_runtime.modules.exploration import checked_generator, draws_for
from specgen_runtime.modules.safe import OutputSpecs, given_first
from specgen_runtime.plain_calls import TensorFunction, is_ordinary_call, is_plain
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.typing import NestedKey

# torch.compile does not follow a property of `super()`
_log_prob_key: Any = ProbabilisticTensorDictModule.log_prob_key.fget
_log_prob_keys: Any = ProbabilisticTensorDictModule.log_prob_keys.fget


class SafeProbabilisticModule(OutputSpecs, ProbabilisticTensorDictModule):  # type: ignore[misc]
    """A `tensordict.nn.ProbabilisticTensorDictModule` with the specs of what it draws.

    It builds a distribution from its inputs and writes a draw, or what else the interaction type asks for.

    Args:
        in_keys: parameters of the distribution: their last parts are its keywords, or a dict gives the keys by
            keyword.
        out_keys: what is drawn. A composite distribution knows them itself.
        spec: of the only draw, or a composite of some of them.
        safe: project draws into their specs after each call; log-probabilities stay those of what was drawn.
        default_interaction_type: what is written where `tensordict.nn.set_interaction_type` says nothing.
        distribution_class: the class, or a function of its keywords.
        distribution_kwargs: more keywords of it.
        return_log_prob: write the log-probability of the draw.
        log_prob_keys: where, for the parts of a composite.
        log_prob_key: where, for one draw. Defaults to ``"<out_key>_log_prob"``, or to ``"sample_log_prob"`` under
            `tensordict.nn.set_composite_lp_aggregate`. With several ``out_keys`` the sum over the parts of a composite,
            whatever that says, one number for each row of the tensordict's batch. A call with tensors in place of a
            tensordict has no batch: its rows are the first dimensions that the distributions of all parts share.
        cache_dist: write the parameters of the distribution.
        n_empirical_estimate: draws of which a mean is taken that has no closed form.
        num_samples: leading dimensions of the draws.
        generator: what draws take their random numbers from: a generator on the device of the parameters, a seed, or
            the key of one in the tensordict. Defaults to torch's. After the module is moved to another device, set
            `generator` to one of that device; neither is in the state dict.

    Raises:
        TypeError: if ``spec`` is no spec.
        ValueError: if it does not fit the draws, or ``safe`` is set and none of them has a spec.
    """

    def __init__(
        self,
        in_keys: Any,
        out_keys: Any = None,
        spec: TensorSpec | None = None,
        *,
        safe: bool = False,
        default_interaction_type: InteractionType = InteractionType.DETERMINISTIC,
        distribution_class: Any = Delta,
        distribution_kwargs: dict[str, Any] | None = None,
        return_log_prob: bool = False,
        log_prob_keys: list[NestedKey] | None = None,
        log_prob_key: NestedKey | None = None,
        cache_dist: bool = False,
        n_empirical_estimate: int = 1000,
        num_samples: int | torch.Size | None = None,
        generator: torch.Generator | int | NestedKey | None = None,
    ) -> None:
        several = isinstance(out_keys, list) and len(out_keys) > 1
        self._sum_key = unravel_key(log_prob_key) if several and log_prob_key is not None else None
        ProbabilisticTensorDictModule.__init__(
            self,
            in_keys=in_keys,
            out_keys=out_keys,
            default_interaction_type=default_interaction_type,
            distribution_class=distribution_class,
            distribution_kwargs=distribution_kwargs,
            return_log_prob=return_log_prob,
            log_prob_keys=log_prob_keys,
            log_prob_key=log_prob_key if self._sum_key is None else None,
            cache_dist=cache_dist,
            n_empirical_estimate=n_empirical_estimate,
            num_samples=num_samples,
            generator=generator,
        )
        spec = own_spec(spec)
        if isinstance(spec, TensorSpec) and not isinstance(spec, Composite):
            (key,) = _only(self.dist_sample_keys, "draws")
            spec = Composite({key: spec})
        self.register_spec(safe=safe, spec=spec)
        self._keywords = [key if isinstance(key, str) else key[-1] for key in self.dist_keys]

    @property
    def generator(self) -> torch.Generator | None:
        """What draws take their random numbers from; None for torch's default, or where a key says it."""
        return self._generator

    @generator.setter
    def generator(self, generator: torch.Generator | None) -> None:
        self._generator = checked_generator(generator)
        self._generator_key = None

    @property
    def log_prob_key(self) -> NestedKey:
        """Where the log-probability is written; of a composite, the sum over its parts.

        Raises:
            RuntimeError: if those of several parts are written each by itself.
        """
        return _log_prob_key(self) if self._sum_key is None else self._sum_key  # type: ignore[no-any-return]

    @property
    def log_prob_keys(self) -> list[NestedKey]:
        """Where log-probabilities are written."""
        return list(_log_prob_keys(self)) if self._sum_key is None else [self._sum_key]

    def log_prob(self, tensordict: TensorDictBase, *, dist: Any = None) -> Any:
        """The log-probability of what a tensordict holds as drawn: a tensor, or a tensordict of those of several parts.

        Args:
            tensordict: the parameters, and what was drawn.
            dist: the distribution, instead of that of the parameters.
        """
        if self._sum_key is None:
            return super().log_prob(tensordict, dist=dist)
        dist = self.get_dist(tensordict) if dist is None else dist
        return _sum_of_log_probs(dist, tensordict, len(dist.batch_shape))

    @property
    def sums_parts(self) -> bool:
        """Whether one key is given for the log-probabilities of several draws."""
        return self._sum_key is not None and self.return_log_prob

    def rows_of_parts(self, tensordict: TensorDictBase) -> torch.Size:
        """The first dimensions that the distributions of all parts share; none of what is no composite."""
        dist = self.get_dist(tensordict)
        if not isinstance(dist, CompositeDistribution):
            return torch.Size(())
        shapes = zip(*(part.batch_shape for part in dist.dists.values()), strict=False)
        return torch.Size([sizes[0] for sizes in takewhile(lambda sizes: len({*sizes}) == 1, shapes)])

    def get_dist(self, tensordict: TensorDictBase) -> Any:
        """The distribution of the parameters in a tensordict.

        Raises:
            TypeError: if the parameters are not the keywords of the distribution.
        """
        if torch.compiler.is_compiling():
            return super().get_dist(tensordict)
        parameters = {
            name: tensordict.get(key, None) for name, key in zip(self._keywords, self.in_keys, strict=True)
        }
        try:
            return self.distribution_class(**parameters, **self.distribution_kwargs)
        except TypeError:
            return super().get_dist(tensordict)  # which says what does not fit

    build_dist_from_params = get_dist

    def forward(self, tensordict: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Write a draw, or what else the interaction type asks for, and its log-probability if that is asked for.

        Raises:
            TypeError: if the parameters are not the keywords of the distribution.
            RuntimeError: if the generator is on another device than the parameters.
        """
        if self.sums_parts:
            return self._forward_with_sum(*given_first(tensordict), *args, **kwargs)
        if not is_ordinary_call(tensordict, args or kwargs) or self.num_samples is not None:
            return super().forward(*given_first(tensordict), *args, **kwargs)
        dist = self.get_dist(tensordict)
        if isinstance(dist, CompositeDistribution):
            return super().forward(tensordict)
        generator, write_back = self._resolve_generator(tensordict)
        written = self._written(dist, generator)
        if write_back is not None:
            write_back(generator)
        for key, value in zip(self._written_keys(), written, strict=True):
            tensordict.set(key, value)
        return tensordict

    @dispatch(auto_batch_size=False)  # type: ignore[untyped-decorator]
    @set_skip_existing(None)  # type: ignore[untyped-decorator]
    def _forward_with_sum(
        self,
        tensordict: TensorDictBase,
        tensordict_out: TensorDictBase | None = None,
        _requires_sample: bool = True,
    ) -> TensorDictBase:
        """`forward` with one key for the log-probabilities of several draws; arguments as tensordict's own has them."""
        dist = self.get_dist(tensordict)
        if not isinstance(dist, CompositeDistribution):
            written: TensorDictBase = super().forward(tensordict, tensordict_out, _requires_sample)
            return written
        written = tensordict if tensordict_out is None else tensordict_out
        draws, rank = tensordict, len(dist.batch_shape)
        if _requires_sample:
            generator, write_back = self._resolve_generator(tensordict)
            draws = self._dist_sample(dist, interaction_type(), generator=generator)
            if write_back is not None:
                write_back(generator)
            if self.num_samples is not None:
                rank += len(self.num_samples)
                written = written.expand(self.num_samples + written.shape)
        for key in self._out_keys:
            written.set(key, draws.get(key))
        return written.set(self._sum_key, _sum_of_log_probs(dist, draws, rank))

    def _written_keys(self) -> tuple[NestedKey, ...]:
        """Where it is written."""
        return (*self._out_keys, self.log_prob_key) if self.return_log_prob else tuple(self._out_keys)

    def _written(self, dist: Any, generator: torch.Generator | None) -> tuple[Any, ...]:
        """What is written of a distribution, in the order of `_written_keys`."""
        drawn = self._dist_sample(dist, interaction_type(), generator=generator)
        draws = drawn if isinstance(drawn, tuple) else (drawn,)
        return (*draws, dist.log_prob(*draws)) if self.return_log_prob else draws

    def tensor_function(self) -> TensorFunction | None:
        """What the module makes of tensors; None where it does more, or reads its generator from the tensordict."""
        kind = self.distribution_class
        if (
            type(self).forward is not SafeProbabilisticModule.forward
            or not is_plain(self)
            or self.num_samples is not None
            or self._generator_key is not None
            or not isinstance(kind, type)
            or issubclass(kind, CompositeDistribution)
        ):
            return None
        in_keys = tuple(self.in_keys)

        def call(*values: Any) -> tuple[Any, ...]:
            dist = self.get_dist(dict(zip(in_keys, values, strict=True)))
            return self._written(dist, self._generator)

        return TensorFunction(in_keys, self._written_keys(), call)

    def _dist_sample(
        self,
        dist: Any,
        interaction_type: InteractionType | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> Any:
        mode = self.default_interaction_type if interaction_type is None else interaction_type
        if mode not in _DRAWN:
            return super()._dist_sample(dist, mode)
        with draws_for(generator, _device_of(dist) if generator is not None else None, type(self).__name__):
            if mode is InteractionType.RANDOM and isinstance(dist, Distribution):
                shape = torch.Size(()) if self.num_samples is None else self.num_samples
                return dist.rsample(shape) if dist.has_rsample else dist.sample(shape)
            return super()._dist_sample(dist, mode)


def _sum_of_log_probs(dist: CompositeDistribution, drawn: TensorDictBase, rank: int) -> Tensor:
    """The log-probability of what a composite drew, of ``rank`` dimensions: the sum over its parts."""
    parts = [part.log_prob(drawn.get(name)) for name, part in dist.dists.items()]
    return sum_of_parts(parts, rank)


_DRAWN = (InteractionType.RANDOM, InteractionType.MEAN)
"""Interaction types for which numbers are drawn; for means only where a distribution has no closed form of them."""


def _device_of(dist: Any) -> torch.device | None:
    """Where the parameters of a distribution are; None if that is not known."""
    parts = dist.dists.values() if isinstance(dist, CompositeDistribution) else [dist]
    for part in parts:
        inner = part
        while isinstance(getattr(inner, "base_dist", None), Distribution):
            inner = inner.base_dist
        for value in vars(inner).values():
            if isinstance(value, Tensor):
                return value.device
    return None


def _only(keys: Sequence[NestedKey], what: str) -> Sequence[NestedKey]:
    if len(keys) != 1:
        raise ValueError(
            f"one spec is given for the {what} {list(keys)}; give a Composite that has them by key"
        )
    return keys
