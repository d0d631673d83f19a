"""Trainings with Stable-Baselines3, whose hyper-parameters follow from the configuration of a printed one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from specgen_runtime.training import stream
from specgen_runtime.training.run_log import RunLog
from stable_baselines3 import DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise


class Held(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes several steps with the same action as one, as `FrameSkipTransform`."""

    def __init__(self, env: gymnasium.Env[Any, Any], steps: int) -> None:
        super().__init__(env)
        self.steps = steps

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """As the environment, with the sum of the rewards."""
        total = 0.0
        for _ in range(self.steps):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


class _Evaluations(BaseCallback):
    """Evaluates on our environment when the printed training would, logs it, and ends the training at the threshold."""

    def __init__(self, env: Any, config: Any, log: RunLog, clock: Any) -> None:
        super().__init__()
        self.env, self.config, self.log, self.clock = env, config, log, clock
        self.seen = 0

    def policy(self, tensordict: Any) -> Any:
        action, _ = self.model.predict(tensordict["observation"].numpy(), deterministic=True)
        return tensordict.set("action", torch.as_tensor(action))

    def _on_step(self) -> bool:
        config, frames = self.config, self.num_timesteps
        if frames // config.evaluate_every == self.seen:
            return True
        self.seen = frames // config.evaluate_every
        score = self.clock.evaluate(
            self.env,
            self.policy,
            seed=stream(config.seed, f"evaluate/{frames}"),
            episodes=config.evaluate_episodes,
        )
        self.log.add({"frames": frames, "evaluation": score})
        return bool(score < config.stop_return)


def train(model: BaseAlgorithm, template: Any, config: Any, folder: Path, clock: Any) -> None:
    """Train until the threshold or the last frame; the log is that of a run."""
    folder.mkdir(parents=True)
    env = template.evaluation_env(config)
    model.learn(config.total_frames, callback=_Evaluations(env, config, RunLog(folder / "log.csv"), clock))


def _envs(name: str, config: Any, held: int = 1) -> Any:
    wrapper: Callable[..., Any] | None = None if held == 1 else lambda env: Held(env, held)
    return make_vec_env(name, config.num_envs, seed=config.seed, wrapper_class=wrapper)


def _replay(config: Any) -> dict[str, Any]:
    """What all algorithms with a replay buffer have in common."""
    return {
        "buffer_size": config.capacity,
        "batch_size": config.batch_size,
        "gamma": config.gamma,
        "learning_starts": max(config.warm_up_frames, getattr(config, "random_frames", 0)),
        "train_freq": (config.num_steps, "step"),
        "gradient_steps": config.updates,
        "seed": config.seed,
        "device": "cpu",
    }


def dqn(name: str, width: list[int], config: Any) -> DQN:
    """Deep Q-learning without its double form; targets move once behind each round of updates, by as much as in all of them."""
    return DQN(
        "MlpPolicy",
        _envs(name, config),
        learning_rate=config.lr,
        tau=1 - (1 - config.tau) ** config.updates,
        target_update_interval=config.num_envs * config.num_steps,
        exploration_initial_eps=config.eps,
        exploration_final_eps=config.eps_end,
        exploration_fraction=config.eps_frames / config.total_frames,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs={"net_arch": width},
        **_replay(config),
    )


def sac(name: str, width: list[int], held: int, config: Any) -> SAC:
    """Soft actor-critic, with one step size for all."""
    return SAC(
        "MlpPolicy",
        _envs(name, config, held),
        learning_rate=config.critic_lr,
        tau=config.tau,
        policy_kwargs={"net_arch": width},
        **_replay(config),
    )


def td3(name: str, width: list[int], config: Any) -> TD3:
    """Twin delayed policy gradients; noise is of actions in [-1, 1]."""
    return TD3(
        "MlpPolicy",
        _envs(name, config),
        learning_rate=config.critic_lr,
        tau=config.tau,
        policy_delay=config.delay,
        target_policy_noise=config.policy_noise / 2,
        target_noise_clip=config.noise_clip / 2,
        action_noise=_noise(config),
        policy_kwargs={"net_arch": width},
        **_replay(config),
    )


def ddpg(name: str, width: list[int], config: Any) -> DDPG:
    """Deep deterministic policy gradients; noise is of actions in [-1, 1]."""
    return DDPG(
        "MlpPolicy",
        _envs(name, config),
        learning_rate=config.critic_lr,
        tau=config.tau,
        action_noise=_noise(config),
        policy_kwargs={"net_arch": width},
        **_replay(config),
    )


def _noise(config: Any) -> NormalActionNoise:
    return NormalActionNoise(np.zeros(1), np.full(1, config.sigma / 2))


def ppo(name: str, width: list[int], config: Any, activation: type[torch.nn.Module]) -> PPO:
    """Proximal policy optimization, with one step size for all, that of the actor, and one norm of gradients."""
    lr, falls = (config.lr, hasattr(config, "lr_end")) if hasattr(config, "lr") else (config.actor_lr, True)
    return PPO(
        "MlpPolicy",
        _envs(name, config),
        learning_rate=(lambda left: lr * left) if falls else lr,
        n_steps=config.num_steps,
        batch_size=config.minibatch_size,
        n_epochs=config.epochs,
        gamma=config.gamma,
        gae_lambda=config.lmbda,
        clip_range=config.clip_epsilon,
        ent_coef=getattr(config, "entropy_coeff", 0.0),
        max_grad_norm=getattr(config, "max_grad_norm", None) or config.actor_max_grad_norm,
        policy_kwargs={"net_arch": width, "activation_fn": activation},
        seed=config.seed,
        device="cpu",
    )
