"""Train the standard library's pipeline of PPO on CartPole until it balances, then try the policy in Gymnasium's own.

    python examples/demo_cartpole.py [--seed 0]

The pipeline is declared in `schemas/pipelines/ppo_cartpole.yaml`: environment, networks, loss, data, optimizers, when it
ends. `train` was generated from it, with all that it calls but the small runtime. The run, with its log, its curve and its
checkpoints, is in `runs/demo_cartpole`.
Exit code 0 if the mean return of 50 greedy episodes is at least 450 of 500 in both environments, else 1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import torch
from specgen_runtime.envs import ExplorationType, set_exploration_type
from specgen_runtime.training import evaluate, read_log
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.pipelines.ppo_cartpole import PPOCartPoleConfig, train
from tensordict import TensorDict
from tensordict.nn import TensorDictModuleBase

EPISODES = 50
SOLVED = 450.0
FOLDER = Path("runs/demo_cartpole")


@torch.no_grad()
def gymnasium_return(policy: TensorDictModuleBase, seed: int) -> float:
    """Mean return of greedy episodes in Gymnasium's CartPole-v1, which knows nothing of specgen; all at once."""
    running = [gymnasium.make("CartPole-v1") for _ in range(EPISODES)]
    seen = [env.reset(seed=seed + episode)[0] for episode, env in enumerate(running)]
    total = 0.0
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        while running:
            observation = torch.as_tensor(np.stack(seen))
            actions = policy(TensorDict({"observation": observation}, [len(running)]))["action"].tolist()
            steps = [env.step(action) for env, action in zip(running, actions, strict=True)]
            total += sum(float(step[1]) for step in steps)
            going = [place for place, step in enumerate(steps) if not (step[2] or step[3])]
            running, seen = [running[place] for place in going], [steps[place][0] for place in going]
    return total / EPISODES


def main() -> int:
    """Train, evaluate in both environments, say what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    seed: int = parser.parse_args().seed
    torch.set_num_threads(1)  # the tensors are small: a second thread would only be in the way

    config = PPOCartPoleConfig(seed=seed)
    print(
        f"training until a mean return of {config.stop_return:.0f} of 500, "
        f"at most {config.total_frames:,} steps; {config.num_envs} environments side by side"
    )
    shutil.rmtree(FOLDER, ignore_errors=True)
    started = time.monotonic()
    parts = train(config, folder=FOLDER)
    seconds = time.monotonic() - started
    last = read_log(FOLDER / "log.csv")[-1]
    print(
        f"trained for {last['frames']:,.0f} environment steps in {seconds:.0f} s; "
        f"the learning curve is {FOLDER / 'curve.png'}"
    )

    env = CartPoleTrain(batch_size=[EPISODES])
    results = {
        "specgen_std.chains.CartPoleTrain": evaluate(env, parts.policy, seed=1_000_000 + seed),
        "gymnasium's CartPole-v1": gymnasium_return(parts.policy, seed=1_000_000 + seed),
    }
    print(f"mean return of {EPISODES} fresh greedy episodes (at least {SOLVED:.0f} of 500 is asked):")
    for name, result in results.items():
        print(f"  {name:<34} {result:6.1f}  {'solved' if result >= SOLVED else 'NOT SOLVED'}")
    return 0 if all(result >= SOLVED for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
