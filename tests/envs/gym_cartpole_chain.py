"""A hand-written fused chain: what the generator prints for Gymnasium's CartPole and five transforms.

InitTracker, StepCounter, RewardSum, ObservationNorm and RewardScaling, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from specgen_runtime.envs import EnvSpecs, GeneratedGymEnv
from specgen_runtime.envs.generated.lifting import counts_before, sums_before
from specgen_runtime.specs import Bounded, Categorical, Composite, OneHot, Unbounded
from torch import Tensor

LOW = np.array([-4.8, -np.inf, -0.41887903, -np.inf], dtype=np.float32)


class ChainParams(NamedTuple):
    max_steps: int = 200
    obs_loc: float = 0.1
    obs_scale: float = 2.0
    reward_loc: float = 0.5
    reward_scale: float = 0.1


class ChainRoot(NamedTuple):
    raw_observation: Tensor
    is_init: Tensor
    step_count: Tensor
    episode_reward: Tensor
    done: Tensor
    terminated: Tensor
    truncated: Tensor


class ChainNext(NamedTuple):
    raw_observation: Tensor
    is_init: Tensor
    step_count: Tensor
    episode_reward: Tensor
    done: Tensor
    terminated: Tensor
    truncated: Tensor
    raw_reward: Tensor


def chain_step(
    params: ChainParams, root: ChainRoot, observation: Tensor, reward: Tensor, terminated: Tensor, cut: Tensor
) -> ChainNext:
    step_count = root.step_count + 1
    truncated = cut | (step_count >= params.max_steps)
    return ChainNext(
        raw_observation=observation,
        is_init=torch.zeros_like(root.is_init),
        step_count=step_count,
        episode_reward=root.episode_reward + reward,
        done=terminated | truncated,
        terminated=terminated,
        truncated=truncated,
        raw_reward=reward,
    )


def chain_observe(params: ChainParams, raw_observation: Tensor) -> Tensor:
    return (raw_observation - params.obs_loc) / params.obs_scale


def chain_reward(params: ChainParams, raw_reward: Tensor) -> Tensor:
    return raw_reward * params.reward_scale + params.reward_loc


class CartPoleChain(GeneratedGymEnv):
    _gym_id = "CartPole-v1"
    _gym_max_episode_steps = 500
    one_hot = False

    def __init__(self, *, max_steps: int = 200, device: str | None = None, **gym_kwargs: Any) -> None:
        super().__init__(device=device, **gym_kwargs)
        self.params = ChainParams(max_steps=max_steps)
        self._build()

    def _flags(self, *names: str) -> dict[str, Categorical]:
        return {name: Categorical(2, shape=(1,), dtype=torch.bool, device=self.device) for name in names}

    def _action(self) -> Composite:
        if self.one_hot:
            return Composite(action=OneHot(2, dtype=torch.int64, device=self.device))
        return Composite(action=Categorical(2, device=self.device))

    def _env_specs(self) -> EnvSpecs:
        return EnvSpecs(
            action=self._action(),
            observation=Composite(
                observation=Bounded(
                    torch.from_numpy(LOW), torch.from_numpy(-LOW), shape=(4,), device=self.device
                )
            ),
            reward=Composite(reward=Unbounded(shape=(1,), device=self.device)),
            done=Composite(self._flags("done", "terminated", "truncated")),
        )

    def _specs(self) -> EnvSpecs:
        state = {
            **self._flags("is_init"),
            "step_count": Unbounded(shape=(1,), dtype=torch.int64, device=self.device),
            "episode_reward": Unbounded(shape=(1,), device=self.device),
        }
        return EnvSpecs(
            action=self._action(),
            observation=Composite({"observation": Unbounded(shape=(4,), device=self.device), **state}),
            reward=Composite(reward=Unbounded(shape=(1,), device=self.device)),
            done=Composite(self._flags("done", "terminated", "truncated")),
            state=Composite({key: spec.clone() for key, spec in state.items()}),
        )

    def _read(self, tensordict: Any) -> ChainRoot:
        return ChainRoot(
            raw_observation=tensordict.get("observation"),
            is_init=tensordict.get("is_init"),
            step_count=tensordict.get("step_count"),
            episode_reward=tensordict.get("episode_reward"),
            done=tensordict.get("done"),
            terminated=tensordict.get("terminated"),
            truncated=tensordict.get("truncated"),
        )

    def _fresh(self) -> ChainRoot:
        observation = self._gym_reset()
        done = torch.zeros(1, dtype=torch.bool)
        return ChainRoot(
            raw_observation=observation,
            is_init=torch.ones(1, dtype=torch.bool),
            step_count=torch.zeros(1, dtype=torch.int64),
            episode_reward=torch.zeros(1),
            done=done,
            terminated=done.clone(),
            truncated=done.clone(),
        )

    def _advance(self, root: ChainRoot, actions: tuple[Tensor, ...]) -> ChainNext:
        observation, reward, terminated, truncated = self._gym_step(actions[0])
        return chain_step(self.params, root, observation, reward, terminated, truncated)

    def _root_entries(self, root: ChainRoot) -> dict[str, Any]:
        return {
            "observation": chain_observe(self.params, root.raw_observation),
            "is_init": root.is_init,
            "step_count": root.step_count,
            "episode_reward": root.episode_reward,
            "done": root.done,
            "terminated": root.terminated,
            "truncated": root.truncated,
        }

    def _next_entries(self, root: ChainRoot, actions: tuple[Tensor, ...], next_: ChainNext) -> dict[str, Any]:
        return {
            "observation": chain_observe(self.params, next_.raw_observation),
            "is_init": next_.is_init,
            "step_count": next_.step_count,
            "episode_reward": next_.episode_reward,
            "reward": chain_reward(self.params, next_.raw_reward),
            "done": next_.done,
            "terminated": next_.terminated,
            "truncated": next_.truncated,
        }


class OneHotCartPoleChain(CartPoleChain):
    one_hot = True


class LiftedCartPoleChain(CartPoleChain):
    """The same chain, with what each step carries over a whole episode written out as well."""

    _gym_lifts = True

    def _gym_stop(self, root: ChainRoot) -> int:
        return max(1, self.params.max_steps - int(root.step_count))

    def _gym_lift(
        self,
        firsts: ChainRoot,
        lengths: Sequence[int],
        observation: Tensor,
        reward: Tensor,
        terminated: Tensor,
        truncated: Tensor,
    ) -> ChainNext:
        before = firsts._replace(
            is_init=terminated,
            step_count=counts_before(firsts.step_count, lengths),
            episode_reward=sums_before(firsts.episode_reward, reward, lengths),
        )
        return chain_step(self.params, before, observation, reward, terminated, truncated)
