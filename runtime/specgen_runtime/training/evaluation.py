"""`evaluate`: the mean return of a policy, which leaves the training as it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from specgen_runtime.envs import EnvBase, ExplorationType, set_exploration_type
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.envs.policy import as_policy
from specgen_runtime.training.episode_returns import row_values, sum_dtype
from specgen_runtime.training.state import global_random_state, set_global_random_state
from specgen_runtime.typing import NestedKey

__all__ = ["evaluate", "evaluation_mode"]


@torch.no_grad()
def evaluate(
    env: EnvBase[Any, Any],
    policy: Callable[..., Any],
    *,
    seed: int,
    episodes: int | None = None,
    max_steps: int | None = None,
    returns: NestedKey = "episode_reward",
    exploration: ExplorationType = ExplorationType.DETERMINISTIC,
) -> float:
    """The mean return of whole episodes of a policy.

    A batched environment gives the first episode of each of its rows, so that short episodes count no more than long
    ones; it is reset and run again until there are enough.

    The environment is seeded and is one of its own: a training's environment would go on from elsewhere, and one that
    learns (a normaliser) has to be frozen. Torch's global generators are as before; modules are in evaluation mode
    meanwhile.

    Args:
        env: any environment.
        policy: what `EnvBase.rollout` takes.
        seed: of the environment, and of torch's global generators meanwhile.
        episodes: how many; None is one for each row of the batch.
        max_steps: steps after which an episode counts as it is. None waits for its end.
        returns: the key of the sum of rewards (`RewardSum`). Where the environment has it not, the reward beside it
            is summed.
        exploration: how stochastic policies choose; by default their deterministic action.

    Raises:
        ValueError: `episodes` or `max_steps` is less than 1.
        KeyError: the environment has neither returns nor a reward there.
    """
    for name, value in (("episodes", episodes), ("max_steps", max_steps)):
        if value is not None and value < 1:
            raise ValueError(f"evaluate: {name} must be at least 1, found {value}")
    rows = max(env.batch_size.numel(), 1)
    wanted = rows if episodes is None else episodes
    with evaluation_mode(policy, seed), set_exploration_type(exploration):
        env.set_seed(seed)
        act = as_policy(env._env_layout, policy)
        found = [
            _first_episodes(env, act, as_tuple(returns), max_steps) for _ in range(math.ceil(wanted / rows))
        ]
    return float(torch.cat(found)[:wanted].mean())


def _first_episodes(
    env: EnvBase[Any, Any], act: Callable[[Any], Any], key: tuple[str, ...], max_steps: int | None
) -> Tensor:
    """The return of the first episode of each row: `[rows]`."""
    root = env.reset()
    over = torch.zeros(env.batch_size, dtype=torch.bool, device=env.device)
    total = torch.zeros(env.batch_size, dtype=sum_dtype(over.device), device=env.device)
    steps = 0
    while not (bool(over.all()) or steps == max_steps):
        step, root = env.step_and_maybe_reset(act(root))
        next_ = step["next"]
        summed = next_.get(key, None)
        if summed is not None:
            now = row_values(summed, over.dim())
        elif (reward := next_.get((*key[:-1], "reward"), None)) is not None:
            now = total + row_values(reward, over.dim())
        else:
            raise KeyError(f"evaluate: 'next' has neither {key} nor {(*key[:-1], 'reward')}")
        total = torch.where(over, total, now)
        over = over | row_values(next_["done"], over.dim())
        steps += 1
    return total.reshape(-1).cpu()


@contextmanager
def evaluation_mode(policy: Any, seed: int) -> Iterator[None]:
    """Inside, torch's global generators are seeded and the policy's modules in evaluation mode; behind it all is as before."""
    before = global_random_state()
    training = [module for module in _modules(policy) if module.training]
    torch.manual_seed(seed)
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
        set_global_random_state(before)


def _modules(policy: Any) -> Iterator[nn.Module]:
    return policy.modules() if isinstance(policy, nn.Module) else iter(())
