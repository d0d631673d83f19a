"""`PolicyDistribution`: what losses do with the distribution of a policy, one number or action for each sample."""

from __future__ import annotations

from typing import cast

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import ProbabilisticTensorDictModule
from torch import Tensor, nn
from torch.distributions import Distribution

from specgen_runtime.modules.distributions import (
    deterministic_sample,
    entropy,
    kl_divergence,
    log_probs,
    probs,
    rsample_and_log_prob,
    sample_and_log_prob,
)
from specgen_runtime.objectives.keys import required
from specgen_runtime.random_state import drawing_from


class PolicyDistribution:
    """The distribution that a policy gives for each sample of a batch.

    Log-probabilities and entropies are summed over what a distribution has beyond the batch: a `Normal` over
    ``[*batch, a]`` counts as one distribution over vectors.

    Args:
        distribution: as the policy gives it.
        batch_dims: how many dimensions the batch has.
        generator: what draws take their random numbers from; None for torch's default.
    """

    def __init__(
        self, distribution: Distribution, batch_dims: int, generator: torch.Generator | None = None
    ) -> None:
        self.distribution = distribution
        self._event_dims = len(distribution.batch_shape) - batch_dims
        self._generator = generator
        if self._event_dims < 0:
            raise RuntimeError(
                f"a policy gave a {type(distribution).__name__} of shape {list(distribution.batch_shape)} for a batch "
                f"of {batch_dims} dimensions"
            )

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of a value.

        Args:
            value: shape ``[*axes, *batch, *event]``.

        Returns:
            Shape ``[*axes, *batch]``.
        """
        return self._summed(self.distribution.log_prob(value))

    def rsample(self, n: int | None = None) -> Tensor:
        """A draw with gradients to the parameters: ``[*batch, *event]``, or ``[n, *batch, *event]``.

        Raises:
            NotImplementedError: if the distribution is not reparameterised.
        """
        with drawing_from(self._generator):
            return self.distribution.rsample(_shape(n))

    def sample(self, n: int | None = None) -> Tensor:
        """A draw without gradients: ``[*batch, *event]``, or ``[n, *batch, *event]``."""
        with drawing_from(self._generator):
            return self.distribution.sample(_shape(n))

    def rsample_and_log_prob(self, n: int | None = None) -> tuple[Tensor, Tensor]:
        """As `rsample`, with the log-probability of the draw, as it was drawn: ``[*batch]`` or ``[n, *batch]``."""
        with drawing_from(self._generator):
            draw, log_prob = rsample_and_log_prob(self.distribution, _shape(n))
        return cast("Tensor", draw), self._summed(cast("Tensor", log_prob))

    def sample_and_log_prob(self, n: int | None = None) -> tuple[Tensor, Tensor]:
        """As `sample`, with the log-probability of the draw, which has gradients to the parameters."""
        with drawing_from(self._generator):
            draw, log_prob = sample_and_log_prob(self.distribution, _shape(n))
        return cast("Tensor", draw), self._summed(cast("Tensor", log_prob))

    def mode(self) -> Tensor:
        """What stands for the distribution where nothing is drawn: ``[*batch, *event]``."""
        return cast("Tensor", deterministic_sample(self.distribution))

    def entropy(self, n: int = 1) -> Tensor:
        """The entropy, ``[*batch]``: exact where the class knows it, else the mean of ``n`` draws.

        Draws have gradients to the parameters where the distribution is reparameterised.
        """
        with drawing_from(self._generator):
            return self._summed(entropy(self.distribution, n))

    def probs(self) -> Tensor:
        """The probability of each discrete action, ``[*batch, n_actions]``."""
        return probs(self.distribution)

    def log_probs(self) -> Tensor:
        """The log-probability of each discrete action, ``[*batch, n_actions]``."""
        return log_probs(self.distribution)

    def kl(self, other: PolicyDistribution, n: int = 1) -> Tensor:
        """The Kullback-Leibler divergence from ``other`` to this one, ``[*batch]``.

        Exact where it is known, else the mean over ``n`` draws from this one, which have no gradients.
        """
        with drawing_from(self._generator):
            return self._summed(kl_divergence(self.distribution, other.distribution, n))

    def _summed(self, value: Tensor) -> Tensor:
        return value.flatten(-self._event_dims).sum(-1) if self._event_dims else value


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
            "Are the networks in their order?"
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
    generator: torch.Generator | None,
    samples: int = 0,
) -> PolicyDistribution:
    """The distribution that a policy wrote into a record, without gradients; it is not run.

    Args:
        policy: the policy.
        record: holds the parameters of the distribution.
        name: what the policy is called in the loss, for messages.
        generator: what draws take their random numbers from.
        samples: how many dimensions a sample has behind those of the batch.

    Raises:
        KeyError: if the record lacks one of them.
    """
    last = distribution_module(policy, name)
    stored = {
        key: required(record, key, owner=name, role="a parameter of the distribution") for key in last.in_keys
    }
    made = last.get_dist(TensorDict({key: value.detach() for key, value in stored.items()}))
    return PolicyDistribution(made, record.batch_dims + samples, generator)


def _shape(n: int | None) -> torch.Size:
    return torch.Size(() if n is None else (n,))
