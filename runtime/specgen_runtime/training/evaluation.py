"""`evaluate`: the mean return of a policy, which leaves the training as it is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, overload

import torch
from torch import Tensor, nn

from specgen_runtime.envs import EnvBase, ExplorationType, set_exploration_type
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.envs.policy import as_policy
from specgen_runtime.random_state import policy_generators
from specgen_runtime.training.episode_returns import row_values, sum_dtype
from specgen_runtime.training.state import global_random_state, set_global_random_state
from specgen_runtime.typing import NestedKey

__all__ = ["EPISODE_STEPS", "evaluate", "evaluation_mode"]

EPISODE_STEPS = 30_000
"""Steps of an episode after which `evaluate` goes on, where nothing is said: more than Atari's limit of 27 000."""


@overload
def evaluate(
    env: EnvBase[Any, Any],
    policy: Callable[..., Any],
    *,
    seed: int,
    episodes: int | None = None,
    max_steps: int | None = None,
    returns: NestedKey = "episode_reward",
    exploration: ExplorationType | str = ExplorationType.DETERMINISTIC,
) -> float: ...


@overload
def evaluate(
    env: EnvBase[Any, Any],
    policy: Callable[..., Any],
    *,
    seed: int,
    episodes: int | None = None,
    max_steps: int | None = None,
    returns: Mapping[str, NestedKey],
    exploration: ExplorationType | str = ExplorationType.DETERMINISTIC,
) -> dict[str, float]: ...


@torch.no_grad()
def evaluate(
    env: EnvBase[Any, Any],
    policy: Callable[..., Any],
    *,
    seed: int,
    episodes: int | None = None,
    max_steps: int | None = None,
    returns: NestedKey | Mapping[str, NestedKey] = "episode_reward",
    exploration: ExplorationType | str = ExplorationType.DETERMINISTIC,
) -> float | dict[str, float]:
    """The mean return of whole episodes of a policy.

    A batched environment gives the first episode of each of its rows, so that short episodes count no more than long
    ones; it is reset and run again until there are enough.

    The environment is seeded and is one of its own: a training's environment would go on from elsewhere, and one that
    learns (a normaliser) has to be frozen. Torch's global generators and those of the policy's modules are as before;
    modules are in evaluation mode meanwhile.

    Args:
        env: any environment.
        policy: what `EnvBase.rollout` takes.
        seed: of the environment, and of torch's global generators and those of the policy meanwhile.
        episodes: how many; None is one for each row of the batch.
        max_steps: steps after which an episode counts as it is. None is `EPISODE_STEPS`, with a warning: a policy may
            keep an environment without a step limit going for ever.
        returns: the key of the sum of rewards (`RewardSum`). Where the environment has it not, the reward beside it
            is summed; returns of several agents are averaged. Or such keys by name, one for each group of agents.
        exploration: how stochastic policies choose, or the name of it; by default their deterministic action.

    Returns:
        The mean return; by name, if `returns` has names.

    Warns:
        UserWarning: episodes had no end, and `max_steps` is None.

    Raises:
        ValueError: `episodes` or `max_steps` is less than 1.
        KeyError: the environment has neither returns nor a reward there.
    """
    for name, value in (("episodes", episodes), ("max_steps", max_steps)):
        if value is not None and value < 1:
            raise ValueError(f"evaluate: {name} must be at least 1, found {value}")
    rows = max(env.batch_size.numel(), 1)
    wanted = rows if episodes is None else episodes
    keys = tuple(as_tuple(one) for one in (returns.values() if isinstance(returns, Mapping) else (returns,)))
    with evaluation_mode(policy, seed), set_exploration_type(exploration):
        env.set_seed(seed)
        act = as_policy(env._env_layout, policy)
        most = EPISODE_STEPS if max_steps is None else max_steps
        runs = [_first_episodes(env, act, keys, most) for _ in range(math.ceil(wanted / rows))]
    found = [returns for returns, _ in runs]
    endless = int((~torch.cat([over for _, over in runs])[:wanted]).sum())
    if endless and max_steps is None:
        _warn_of_endless(endless, wanted)
    means = [float(torch.cat(one)[:wanted].mean()) for one in zip(*found, strict=True)]
    return dict(zip(returns, means, strict=True)) if isinstance(returns, Mapping) else means[0]


def _first_episodes(
    env: EnvBase[Any, Any],
    act: Callable[[Any], Any],
    keys: tuple[tuple[str, ...], ...],
    max_steps: int,
) -> tuple[list[Tensor], Tensor]:
    """The returns of the first episode of each row, for each key, and whether it ended: all `[rows]`."""
    root = env.reset()
    over = torch.zeros(env.batch_size, dtype=torch.bool, device=env.device)
    totals = [torch.zeros(env.batch_size, dtype=sum_dtype(over.device), device=env.device) for _ in keys]
    steps = 0
    while not (bool(over.all()) or steps == max_steps):
        step, root = env.step_and_maybe_reset(act(root))
        next_ = step["next"]
        for index, (key, total) in enumerate(zip(keys, totals, strict=True)):
            summed = next_.get(key, None)
            if summed is not None:
                now = row_values(summed, over.dim())
            elif (reward := next_.get((*key[:-1], "reward"), None)) is not None:
                now = total + row_values(reward, over.dim())
            else:
                raise KeyError(_without_return(key, next_))
            totals[index] = torch.where(over, total, now)
        over = over | row_values(next_["done"], over.dim())
        steps += 1
    return [total.reshape(-1).cpu() for total in totals], over.reshape(-1).cpu()


def _warn_of_endless(endless: int, wanted: int) -> None:
    warnings.warn(
        f"evaluate: {endless} of {wanted} episodes did not end in {EPISODE_STEPS} steps, and count with the rewards until "
        "then. Give the environment a step limit (StepCounter(max_steps=...)), or say how long an episode is evaluated: "
        "evaluate(..., max_steps=...), `evaluate: {max_steps: ...}` in a pipeline",
        stacklevel=4,
    )


def _without_return(key: tuple[str, ...], next_: Any) -> str:
    """What is said where a return is missing: rewards that stand elsewhere, as those of groups of agents, have names."""
    found = [as_tuple(one) for one in next_.keys(include_nested=True, leaves_only=True)]
    there = {".".join(one[:-1]) or "root": (*one[:-1], key[-1]) for one in found if one[-1] == "reward"}
    message = f"evaluate: 'next' has neither {key} nor {(*key[:-1], 'reward')}"
    return f"{message}; say which returns are meant: returns={there}" if there else message


@contextmanager
def evaluation_mode(policy: Any, seed: int) -> Iterator[None]:
    """Inside, torch's global generators and those of the policy's modules are seeded, and the modules in evaluation mode;
    behind it all is as before.
    """
    before = global_random_state()
    training = [module for module in _modules(policy) if module.training]
    own = {generator: generator.get_state() for generator in policy_generators(policy)}
    torch.manual_seed(seed)
    for generator in own:
        generator.manual_seed(seed)
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
        for generator, state in own.items():
            generator.set_state(state)
        set_global_random_state(before)


def _modules(policy: Any) -> Iterator[nn.Module]:
    return policy.modules() if isinstance(policy, nn.Module) else iter(())
