"""Tensordict modules that know the specs of what they write, and can keep their outputs inside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import torch
from tensordict import TensorDictBase, unravel_key
from tensordict.nn import (
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
)
from torch import Tensor, nn

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.distributions import Delta
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.typing import NestedKey


def output_specs(spec: TensorSpec | None, out_keys: Iterable[NestedKey]) -> Composite:
    """The specs of what a module writes, by key; None for those that are not known.

    Args:
        spec: of the only output, or a composite; it is not changed.
        out_keys: what the module writes.

    Raises:
        TypeError: if ``spec`` is no spec.
        ValueError: if one spec is given for several outputs, or a composite has a key that is neither written nor
            inside of what is written, as the parts of an action that is a tensordict are.
    """
    keys = [unravel_key(key) for key in out_keys]
    spec = own_spec(spec)
    if spec is None:
        specs = Composite()
    elif not isinstance(spec, TensorSpec):
        raise TypeError(f"spec must be a spec, got {type(spec).__name__}")
    elif isinstance(spec, Composite):
        specs = spec.clone()
    elif len(keys) == 1:
        specs = Composite({keys[0]: spec.clone()})
    else:
        raise ValueError(f"one spec is given for the outputs {keys}; give a Composite that has them by key")
    unknown = [key for key in specs.keys(True, True) if not _is_inside(key, keys) and key != "_"]
    if unknown:
        raise ValueError(f"the spec has {unknown}, which the module does not write; it writes {keys}")
    for key in keys:
        if key not in specs.keys(True):
            specs[key] = None
    return specs


def _is_inside(key: NestedKey, keys: Sequence[NestedKey]) -> bool:
    """Whether a key is one of ``keys``, or an entry of one of them."""
    path = (key,) if isinstance(key, str) else key
    return any(unravel_key(path[:length]) in keys for length in range(1, len(path) + 1))


class OutputSpecs(TensorDictModuleBase):  # type: ignore[misc]
    """Part of a tensordict module that knows the specs of its outputs."""

    out_keys: Sequence[NestedKey]
    safe: bool

    def register_spec(self, safe: bool, spec: TensorSpec | None) -> None:
        """Take the specs of the outputs.

        Args:
            safe: project outputs into their specs after each call.
            spec: of the only output, or a composite of some of them.

        Raises:
            TypeError: if ``spec`` is no spec.
            ValueError: if it does not fit the outputs, or ``safe`` is set and none of them has a spec.
        """
        self._spec = output_specs(spec, self._spec_keys())
        self.safe = safe
        if safe:
            if all(leaf is None for leaf in self._spec.values(True, True)):
                raise ValueError(
                    f"safe=True needs the spec of an output, but none of {list(self.out_keys)} has one"
                )
            self.register_forward_hook(_project_outputs)

    def _spec_keys(self) -> Iterable[NestedKey]:
        return self.out_keys

    @property
    def spec(self) -> Composite:
        """The specs of the outputs by key, None where one is not known."""
        return self._spec

    @spec.setter
    def spec(self, spec: Composite) -> None:
        spec = own_spec(spec)
        if not isinstance(spec, Composite):
            raise TypeError(f"spec must be a Composite of the outputs by key, got {type(spec).__name__}")
        self._spec = spec

    def random(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write a random value of its spec for the first output, whatever the inputs.

        Raises:
            ValueError: if the first output has no spec.
        """
        key = self.out_keys[0]
        leaf = self._spec[key]
        if leaf is None:
            raise ValueError(f"the output {key!r} has no spec to draw from")
        tensordict.set(key, leaf.rand(tensordict.batch_size))
        return tensordict

    def random_sample(self, tensordict: TensorDictBase) -> TensorDictBase:
        """As `random`."""
        return self.random(tensordict)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move or cast the module; the specs are moved along."""
        place = kwargs.get("device", args[0] if args else None)
        if isinstance(place, Tensor):
            place = place.device
        if isinstance(place, (str, int, torch.device)):
            self._spec = self._spec.to(place)
        moved: Self = super().to(*args, **kwargs)
        return moved


def _project_outputs(module: OutputSpecs, _inputs: object, outputs: Any) -> None:
    if not isinstance(outputs, TensorDictBase):
        return
    for key, leaf in module.spec.items(True, True):
        value = None if leaf is None else outputs.get(key, None)
        if value is not None:
            outputs.set(key, leaf.project(value))


class SafeModule(OutputSpecs, TensorDictModule):  # type: ignore[misc]
    """A `tensordict.nn.TensorDictModule` with the specs of its outputs.

    Args:
        module: what is called.
        in_keys: what it is given.
        out_keys: what it writes.
        spec: of the only output, or a composite of some of them.
        safe: project outputs into their specs after each call.
        inplace: write into the tensordict that is read; ``"empty"`` gives an empty one of its kind.

    Raises:
        TypeError: if ``spec`` is no spec.
        ValueError: if it does not fit the outputs, or ``safe`` is set and none of them has a spec.
    """

    def __init__(
        self,
        module: nn.Module,
        in_keys: Any,
        out_keys: Any,
        spec: TensorSpec | None = None,
        safe: bool = False,
        inplace: bool | str = True,
    ) -> None:
        TensorDictModule.__init__(self, module, in_keys, out_keys, inplace=inplace)
        self.register_spec(safe=safe, spec=spec)


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
            `tensordict.nn.set_composite_lp_aggregate`.
        cache_dist: write the parameters of the distribution.
        n_empirical_estimate: draws of which a mean is taken that has no closed form.
        num_samples: leading dimensions of the draws.
        generator: of the draws: a generator, a seed or the key of one. Defaults to torch's.

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
        ProbabilisticTensorDictModule.__init__(
            self,
            in_keys=in_keys,
            out_keys=out_keys,
            default_interaction_type=default_interaction_type,
            distribution_class=distribution_class,
            distribution_kwargs=distribution_kwargs,
            return_log_prob=return_log_prob,
            log_prob_keys=log_prob_keys,
            log_prob_key=log_prob_key,
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


def _only(keys: Sequence[NestedKey], what: str) -> Sequence[NestedKey]:
    if len(keys) != 1:
        raise ValueError(
            f"one spec is given for the {what} {list(keys)}; give a Composite that has them by key"
        )
    return keys


class SafeSequential(OutputSpecs, TensorDictSequential):  # type: ignore[misc]
    """A `tensordict.nn.TensorDictSequential` with the specs of what its modules write.

    Args:
        *modules: called one after another.
        partial_tolerant: leave out modules whose inputs are missing.
        inplace: write into the tensordict that is read; ``"empty"`` gives an empty one of its kind.
    """

    def __init__(
        self, *modules: Any, partial_tolerant: bool = False, inplace: bool | str | None = None
    ) -> None:
        TensorDictSequential.__init__(self, *modules, partial_tolerant=partial_tolerant, inplace=inplace)
        self._collect_specs(modules)

    def _collect_specs(self, modules: Iterable[Any]) -> None:
        specs = Composite()
        for module in modules:
            known = own_spec(getattr(module, "spec", None))
            written = (
                known if isinstance(known, Composite) else output_specs(None, getattr(module, "out_keys", ()))
            )
            specs.update(written.clone())
        self._spec = specs
        self.safe = False


class SafeProbabilisticTensorDictSequential(SafeSequential, ProbabilisticTensorDictSequential):  # type: ignore[misc]
    """A `tensordict.nn.ProbabilisticTensorDictSequential` with the specs of what its modules write.

    ``get_dist`` gives the distribution of its last module.

    Args:
        *modules: called one after another, the last of which draws.
        partial_tolerant: leave out modules whose inputs are missing.
    """

    def __init__(self, *modules: Any, partial_tolerant: bool = False) -> None:
        ProbabilisticTensorDictSequential.__init__(self, *modules, partial_tolerant=partial_tolerant)
        self._collect_specs(modules)
