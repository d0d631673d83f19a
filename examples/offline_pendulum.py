"""Record transitions of Pendulum, then learn from them alone by implicit Q-learning, better than what was recorded.

python examples/offline_pendulum.py                  # TD3 trains a policy first; half of what is recorded are random actions
python examples/offline_pendulum.py --random 0.8     # more of them

What is recorded is `data/pendulum`, where the other pipelines over recorded data look for it, too:
`python -m specgen_std.pipelines.bc_pendulum`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from specgen_runtime.training import stream
from specgen_std.chains.pendulum import PendulumTrain
from specgen_std.pipelines import iql_pendulum, td3_pendulum
from tensordict import TensorDictBase


def expert(folder: Path, seed: int) -> Callable[[TensorDictBase], TensorDictBase]:
    """The policy of a training with TD3, without its noise; goes on with the training in `folder`, if there is one."""
    config = td3_pendulum.TD3PendulumConfig(seed=seed)
    return td3_pendulum.train(config, folder=folder, resume=True).actor_network


def record(
    folder: Path, frames: int, policy: Callable[[TensorDictBase], TensorDictBase], share: float, seed: int
) -> float:
    """Save transitions of a hundred environments side by side.

    Args:
        folder: where they are saved.
        frames: how many, of all environments together; a multiple of 20,000 ends whole episodes.
        policy: who acts.
        share: of actions that are random instead.
        seed: of the environments and of these actions.

    Returns:
        The mean return of the episodes.
    """
    env = PendulumTrain(batch_size=[100])
    env.set_seed(stream(seed, "record"))
    drawing = torch.Generator().manual_seed(stream(seed, "random actions"))

    def act(tensordict: TensorDictBase) -> TensorDictBase:
        action = policy(tensordict)["action"]
        anything = 4 * torch.rand(action.shape, generator=drawing) - 2
        return tensordict.set("action", anything.where(torch.rand(100, 1, generator=drawing) < share, action))

    with torch.no_grad():
        rollout = env.rollout(frames // 100, act, break_when_any_done=False)
    kept = rollout.select("observation", "action", "next")
    kept.memmap(folder)
    ended = rollout["next", "done"].squeeze(-1)
    return float(rollout["next", "episode_reward"].squeeze(-1)[ended].mean())


def main() -> None:
    """Record, unless there are data, and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("data/pendulum"), help="folder of the transitions")
    parser.add_argument("--frames", type=int, default=100_000, help="how many are recorded")
    parser.add_argument("--random", type=float, default=0.5, help="share of random actions")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)  # the tensors are small: a second thread would only be in the way
    if not given.data.exists():
        policy = expert(Path("runs/td3_pendulum"), given.seed)
        found = record(given.data, given.frames, policy, given.random, given.seed)
        print(f"recorded, with a mean return of {found:.0f}")
    config = iql_pendulum.IQLPendulumConfig(seed=given.seed, recorded=str(given.data))
    iql_pendulum.train(config, folder=Path("runs/iql_pendulum"), resume=True)


if __name__ == "__main__":
    main()
