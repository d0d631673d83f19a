"""`PolicyDistribution`: what losses do with the distribution of a policy, one number or action for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import CompositeDistribution, ProbabilisticTensorDictModule
from torch import Tensor, nn
from torch.distributions import Distribution

from specgen_runtime.modules.distributions import (
    Delta,
    deterministic_sample,
    entropy,
    kl_divergence,
    log_probs,
    probs,
    rsample_and_log_prob,
    sample_and_log_prob,
)
from specgen_runtime.modules.distributions.draws import Draw, sample, sum_of_parts
from specgen_runtime.objectives.composites import as_action, composite_log_prob
from specgen_runtime.objectives.keys import language_wrapping, required
from specgen_runtime.objectives.part_weights import in_order
from specgen_runtime.typing import NestedKey

_THAT_TELL_SHAPES = ("torch.", "specgen_runtime.")
"""Modules whose distributions have the batch and event shapes of what they draw."""


class PolicyDistribution:
    """The distribution that a policy gives for each sample of a batch.

    Log-probabilities and entropies are summed over what a distribution has beyond the batch: a `Normal` over
    ``[*batch, a]`` counts as one distribution over vectors, and a composite as one over actions of several parts.

    Args:
        distribution: as the policy gives it.
        batch_dims: how many dimensions the batch has.
    """

    def __init__(self, distribution: Distribution, batch_dims: int) -> None:
        self.distribution = distribution
        self._event_dims = len(distribution.batch_shape) - batch_dims
        if self._event_dims < 0:
            raise RuntimeError(
                f"a policy gave a {type(distribution).__name__} of shape {list(distribution.batch_shape)} for a batch "
                f"of {batch_dims} dimensions"
            )

    @property
    def drawn_shape(self) -> torch.Size | None:
        """The shape of one draw, ``[*batch, *event]``; None where actions have several, or parts, or nothing tells it."""
        distribution = self.distribution
        if isinstance(distribution, CompositeDistribution):
            return None
        if not type(distribution).__module__.startswith(_THAT_TELL_SHAPES) and not distribution.event_shape:
            # TorchRL's distributions of one-hot vectors have the shapes of those of indices; users leave theirs out
            try:
                return deterministic_sample(distribution).shape
            except NotImplementedError:
                return None
        return distribution.batch_shape + distribution.event_shape

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of a value.

        Args:
            value: shape ``[*axes, *batch, *event]``; of a composite, a tensordict of its parts.

        Returns:
            Shape ``[*axes, *batch]``.
        """
        if isinstance(self.distribution, CompositeDistribution):
            return composite_log_prob(self.distribution, value)
        return self._summed(self.distribution.log_prob(value))

    def rsample(self, n: int | None = None) -> Tensor:
        """A draw with gradients to the parameters: ``[*batch, *event]``, or ``[n, *batch, *event]``.

        Raises:
            NotImplementedError: if the distribution is not reparameterised.
        """
        return _drawn(self.distribution.rsample(_shape(n)))

    def sample(self, n: int | None = None) -> Tensor:
        """A draw without gradients: ``[*batch, *event]``, or ``[n, *batch, *event]``."""
        return _drawn(sample(self.distribution, _shape(n)))

    def rsample_and_log_prob(self, n: int | None = None) -> tuple[Tensor, Tensor]:
        """As `rsample`, with the log-probability of the draw, as it was drawn: ``[*batch]`` or ``[n, *batch]``."""
        draw, log_prob = rsample_and_log_prob(self.distribution, _shape(n))
        return _drawn(draw), self._summed(log_prob)

    def sample_and_log_prob(self, n: int | None = None) -> tuple[Tensor, Tensor]:
        """As `sample`, with the log-probability of the draw, which has gradients to the parameters."""
        draw, log_prob = sample_and_log_prob(self.distribution, _shape(n))
        return _drawn(draw), self._summed(log_prob)

    def mode(self) -> Tensor:
        """What stands for the distribution where nothing is drawn: ``[*batch, *event]``."""
        return _drawn(deterministic_sample(self.distribution))

    def entropy(self, n: int = 1) -> Tensor:
        """The entropy, ``[*batch]``: exact where the class knows it, else the mean of ``n`` draws.

        Draws have gradients to the parameters where the distribution is reparameterised.
        """
        return self._summed(entropy(self.distribution, n))

    def entropies(self, n: int = 1, parts: Sequence[NestedKey] | None = None) -> Tensor:
        """The entropy of each part of the action, ``[*batch, parts]``, as `entropy`; an action of one part has one.

        Args:
            n: how many draws estimate one that is not known.
            parts: names of the parts, in the order that is wanted; None: that of the distribution.

        Raises:
            KeyError: if names and parts do not fit.
        """
        if not isinstance(self.distribution, CompositeDistribution):
            if parts is not None:
                kind = type(self.distribution).__name__
                raise KeyError(
                    f"an action of one part, of a {kind}, is weighed by one number, not by {list(parts)}"
                )
            return self.entropy(n).unsqueeze(-1)
        batch_dims = len(self.distribution.batch_shape) - self._event_dims
        values = {
            name: sum_of_parts([entropy(part, n)], batch_dims)
            for name, part in self.distribution.dists.items()
        }
        return torch.stack(list(values.values()) if parts is None else in_order(values, parts), -1)

    def probs(self) -> Tensor:
        """The probability of each discrete action, ``[*batch, n_actions]``."""
        return probs(self.distribution)

    def log_probs(self) -> Tensor:
        """The log-probability of each discrete action, ``[*batch, n_actions]``."""
        return log_probs(self.distribution)

    def answered(self) -> Tensor:
        """Which samples are of the policy, bool of the shape of `log_prob`: the mask that its distribution carries.

        That of a language model marks the tokens that it answered with. All are, where the distribution has no
        ``mask`` of one truth value for each of its values.
        """
        mask = getattr(self.distribution, "mask", None)
        if not isinstance(mask, Tensor) or mask.shape != self.distribution.batch_shape:
            shape, device = self.distribution.batch_shape, _device_of(self.distribution)
            mask = torch.ones(shape, dtype=torch.bool, device=device)
        return mask.flatten(-self._event_dims).all(-1) if self._event_dims else mask

    def kl(self, other: PolicyDistribution, n: int = 1) -> Tensor:
        """The Kullback-Leibler divergence from ``other`` to this one, ``[*batch]``.

        Exact where it is known, else the mean over ``n`` draws from this one, which have no gradients.
        """
        return self._summed(kl_divergence(self.distribution, other.distribution, n))

    def _summed(self, value: Draw) -> Tensor:
        if not isinstance(value, Tensor):
            return sum_of_parts([value], value.batch_dims)
        return value.flatten(-self._event_dims).sum(-1) if self._event_dims else value


def given_policy(distribution: Distribution) -> PolicyDistribution:
    """What losses do with a distribution that they are given without data: each of its batch shape is a sample."""
    return PolicyDistribution(distribution, len(distribution.batch_shape))


class CertainPolicy(PolicyDistribution):
    """What stands for the distribution of a network that gives none: it is certain of what it writes.

    Actions that are whole numbers are choices, of which it writes the log-probabilities up to a constant.

    Args:
        output: what it writes, ``[*batch, *event]``.
        batch_dims: how many dimensions the batch has.
    """

    def __init__(self, output: Tensor, batch_dims: int) -> None:
        super().__init__(
            Delta(output, batch_shape=output.shape[:batch_dims], event_shape=output.shape[batch_dims:]),
            batch_dims,
        )
        self._output = output

    @property
    def drawn_shape(self) -> None:
        """None: choices are scored by their logits, whether they are indices or one-hot."""

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of a choice.

        Args:
            value: whole numbers: an index, ``[*batch]`` or ``[*batch, 1]``, or one-hot, ``[*batch, n]``.

        Returns:
            Shape ``[*batch]``.

        Raises:
            TypeError: of numbers with a fraction: an action that is certain has no density.
        """
        if value.is_floating_point():
            raise TypeError(
                "a network without a distribution is certain of what it writes: only actions that are whole numbers "
                f"have a likelihood, got {value.dtype}"
            )
        logits = self._output.log_softmax(-1)
        if value.shape == logits.shape and value.shape[-1] > 1:
            return (logits * value).sum(-1)
        index = value if value.ndim == logits.ndim else value.unsqueeze(-1)
        return logits.gather(-1, index.long()).squeeze(-1)


def is_random_policy(module: nn.Module) -> bool:
    """Whether a module gives a distribution that is not certain of one action.

    An `Actor` gives one that is, the action that it writes; TorchRL's does, too.
    """
    giver = next((cls for cls in type(module).__mro__ if "get_dist" in vars(cls)), None)
    if giver is None or giver.__name__ == "Actor":
        return False
    classes = [getattr(part, "distribution_class", None) for part in module.modules()]
    return not any(getattr(one, "__name__", "") in ("Delta", "TanhDelta") for one in classes)


def as_policy(module: nn.Module, name: str, owner: str, *, reparameterized: bool = False) -> nn.Module:
    """The module itself, if it gives a distribution.

    Args:
        module: what the constructor of a loss was given.
        name: the keyword.
        owner: the class of the loss.
        reparameterized: whether the loss needs draws with gradients.

    Raises:
        TypeError: if it has no `get_dist`, or its distribution no `rsample`.
    """
    if not hasattr(module, "get_dist"):
        raise TypeError(
            f"{owner}: `{name}` is a policy, whose `get_dist` gives a distribution; {type(module).__name__} has none. "
            f"{'W' + wrapping[1:] if (wrapping := language_wrapping(module)) else 'Are the networks in their order?'}"
        )
    classes = [getattr(part, "distribution_class", None) for part in module.modules()]
    fixed = next((one for one in classes if getattr(one, "has_rsample", True) is False), None)
    if reparameterized and fixed is not None:
        raise TypeError(
            f"{owner}: `{name}` needs a distribution with gradients through its draws (`rsample`); "
            f"{fixed.__name__} has none"
        )
    return module


def distribution_module(policy: nn.Module, name: str) -> ProbabilisticTensorDictModule:
    """The module of a policy that makes its distribution.

    Args:
        policy: the policy.
        name: what it is called in the loss, for messages.

    Raises:
        TypeError: if the policy makes it itself.
    """
    found = [part for part in policy.modules() if isinstance(part, ProbabilisticTensorDictModule)]
    if not found:
        raise TypeError(
            f"{name}: the distribution that the policy stored is made by a ProbabilisticTensorDictModule of it; "
            f"{type(policy).__name__} has none"
        )
    return found[-1]


def stored_distribution(
    policy: nn.Module,
    record: TensorDictBase,
    name: str,
    samples: int = 0,
) -> PolicyDistribution:
    """The distribution that a policy wrote into a record, without gradients; it is not run.

    Args:
        policy: the policy.
        record: holds the parameters of the distribution.
        name: what the policy is called in the loss, for messages.
        samples: how many dimensions a sample has behind those of the batch.

    Raises:
        KeyError: if the record lacks one of them.
    """
    last = distribution_module(policy, name)
    stored = TensorDict({}, record.batch_size)
    for key in last.in_keys:
        value = record.get(key, None)
        if not isinstance(value, TensorDictBase):  # those of a composite are a tensordict, part by part
            value = required(record, key, owner=name, role="a parameter of the distribution")
        stored.set(key, value.detach())
    made = last.get_dist(stored)
    return PolicyDistribution(made, record.batch_dims + samples)


def _device_of(distribution: Distribution) -> torch.device | None:
    """The device of the parameters of a distribution, those of the one that it is made of included."""
    for value in distribution.__dict__.values():
        found = _device_of(value) if isinstance(value, Distribution) else getattr(value, "device", None)
        if isinstance(found, torch.device):
            return found
    return None


def _drawn(draw: Draw) -> Tensor:
    """A draw as the networks read it; that of a composite is a tensordict, and plays the part of a tensor."""
    return cast("Tensor", as_action(draw) if isinstance(draw, TensorDictBase) else draw)


def _shape(n: int | None) -> torch.Size:
    return torch.Size(() if n is None else (n,))


def policy_of(
    distribution: Distribution, dims: int, agents: NestedKey | None, record: TensorDictBase
) -> PolicyDistribution:
    """What losses do with a distribution, of which each agent of a group may have one.

    Args:
        distribution: as the policy gives it.
        dims: how many dimensions samples have.
        agents: the key of the group; None: there is none.
        record: the data.

    Raises:
        ValueError: if the batch size of the group lacks the dimension of the agents, so that actions seem to have it: their
            probabilities would be multiplied, and paired with values of other samples.
    """
    # one of several parts has a batch shape alone, and no shape of its draws
    if agents is not None and not isinstance(distribution, CompositeDistribution):
        shape = (*distribution.batch_shape, *distribution.event_shape)
        if len(shape) > dims + 1:
            raise ValueError(
                f"a policy gives a distribution of the shape {list(shape)} for the group {agents!r}, whose batch size "
                f"{list(record.get(agents).batch_size)} lacks the dimension of the agents: set the `batch_size` of the "
                "group"
            )
    return PolicyDistribution(distribution, dims)
