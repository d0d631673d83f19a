"""Policies that explore by noise which depends on the state (gSDE): the head of their network, and what acts."""

from __future__ import annotations

import math
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from specgen_runtime.envs.traced import is_traced
from specgen_runtime.modules.actors import ProbabilisticActor
from specgen_runtime.modules.exploration import ExplorationNumbers, draws_for, episodes_begin, explores
from specgen_runtime.modules.gsde import gSDEModule
from specgen_runtime.typing import NestedKey

NOISE_KEY = "_gsde_noise"
STEPS_KEY = "_gsde_steps"


class GSDEHead(nn.Module):
    """The last layer of a policy whose noise is linear in its features ("Smooth Exploration for Robotic Reinforcement
    Learning", Raffin et al. 2021): the mean of an action, and the standard deviation of that noise.

    The noise in features z is `(sigma * epsilon) @ z` with a matrix epsilon of normal numbers, so that for one z it is normal
    with the deviation `sqrt(sigma**2 @ z**2)`. Losses see that distribution; `GSDEPolicy` acts with an epsilon that it keeps
    for several steps. Gradients of the deviation go to sigma, and not to the features.

    Args:
        num_features: the numbers that it reads.
        action_dim: size of the action.
        sigma: the deviation of the noise at first, where the mean square of the features is 1.
    """

    def __init__(self, num_features: int, action_dim: int, *, sigma: float = 1.0) -> None:
        super().__init__()
        self.loc = nn.Linear(num_features, action_dim)
        self.exploration = gSDEModule(
            action_dim, num_features, sigma_init=sigma / math.sqrt(num_features), scale_min=0.0
        )

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the standard deviation, `(*batch, action_dim)`, from features `(*batch, num_features)`."""
        return self.loc(features), self.exploration.deviation(features.detach())


class GSDEPolicy(ExplorationNumbers, TensorDictModuleBase):  # type: ignore[misc]
    """Acts with a policy whose head is a `GSDEHead`: its noise is a function of the state that stays for several steps.

    Explores when the exploration type is `RANDOM` or not set; otherwise it is the policy that it is given. What it writes is
    what that writes: the action, and its log-probability in the distribution that losses see.

    The matrix epsilon is kept in the tensordict, as `"_gsde_noise"`, `(*batch, action_dim, num_features)`, with the number of
    steps that it has been there, `"_gsde_steps"`, int64 `(*batch,)`. It is drawn where `is_init`, which `InitTracker` writes,
    says that an episode begins.

    Args:
        actor: the policy; its distribution is a `TanhNormal` or an `IndependentNormal`.
        every: steps after which epsilon is drawn within an episode, too; None: it stays.
        is_init_key: bool, `(*batch, 1)` or `(*batch,)`: whether a step is the first of its episode.
        generator: what epsilon is drawn from, on the device of the actor. Defaults to torch's. Set `generator` to another after
            a move to another device; the state dict lacks it.

    Raises:
        TypeError: `generator` is no generator.
        ValueError: the actor has no `GSDEHead`, or several; `every` is no integer, or less than 1.

    Example:
        >>> head = SafeModule(GSDEHead(64, 1), in_keys=["features"], out_keys=["loc", "scale"])
        >>> actor = ProbabilisticActor(SafeSequential(encoder, head), ["loc", "scale"], distribution_class=TanhNormal)
        >>> policy = GSDEPolicy(actor, every=16)
    """

    actor: ProbabilisticActor
    every: int | None
    _head: Any

    def __init__(
        self,
        actor: ProbabilisticActor,
        *,
        every: int | None = None,
        is_init_key: NestedKey = "is_init",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        heads = [one for one in actor.modules() if isinstance(getattr(one, "module", None), GSDEHead)]
        if len(heads) != 1:
            raise ValueError(
                f"GSDEPolicy needs a policy with one GSDEHead in a module of its own, and it has {len(heads)}"
            )
        if every is not None and (not isinstance(every, int) or isinstance(every, bool) or every < 1):
            raise ValueError(f"GSDEPolicy: every must be an integer of at least 1, got {every!r}")
        self.actor = actor
        self.every = every
        self.is_init_key = is_init_key
        self.generator = generator
        self.in_keys = list(actor.in_keys)
        self.out_keys = [*actor.out_keys, NOISE_KEY, STEPS_KEY]
        self.__dict__["_head"] = heads[0]  # it is a part of the actor, and no second one

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write an action, and what the policy writes besides.

        Raises:
            ValueError: `is_init` does not fit the batch.
            RuntimeError: the generator is on another device than the actor.
        """
        if not explores():
            return self.actor(tensordict)
        *front, last = self.actor.module
        for module in front:
            tensordict = module(tensordict)
        features = tensordict.get(self._head.in_keys[0])
        epsilon = self._epsilon(tensordict, features)
        dist = last.get_dist(tensordict)
        action = dist.action_of(dist.loc + self._head.module.exploration.noise(features, epsilon))
        tensordict.set(last.out_keys[0], action)
        if last.return_log_prob:
            tensordict.set(last.log_prob_key, dist.log_prob(action))
        return tensordict

    def _epsilon(self, tensordict: TensorDictBase, features: Tensor) -> Tensor:
        """The matrix of this step, which the next one finds."""
        batch, sigma = features.shape[:-1], self._head.module.exploration.sigma
        epsilon: Tensor | None = tensordict.get(NOISE_KEY, None)
        begins = episodes_begin(tensordict, self.is_init_key, batch, "GSDEPolicy")
        if epsilon is None:
            epsilon = self._drawn(batch, sigma)
            steps = torch.zeros(batch, dtype=torch.int64, device=sigma.device)
        else:
            steps = tensordict.get(STEPS_KEY)
            over = torch.zeros_like(steps, dtype=torch.bool) if begins is None else begins
            over = over if self.every is None else over | (steps >= self.every)
            if is_traced() or bool(over.any()):
                epsilon = torch.where(over[..., None, None], self._drawn(batch, sigma), epsilon)
                steps = steps.masked_fill(over, 0)
        tensordict.set(NOISE_KEY, epsilon)
        tensordict.set(STEPS_KEY, steps + 1)
        return epsilon

    def _drawn(self, batch: torch.Size, sigma: Tensor) -> Tensor:
        with draws_for(self.generator, sigma.device, "GSDEPolicy"):
            drawn: Tensor = torch.randn((*batch, *sigma.shape), device=sigma.device, dtype=sigma.dtype)
        return drawn
