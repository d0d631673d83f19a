"""Record transitions of Pendulum, then learn from them alone by implicit Q-learning.

python examples/offline_pendulum.py                        # a random policy records
python examples/offline_pendulum.py --expert runs/td3      # a policy that TD3 trains first, for 20,000 frames
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from specgen_runtime.envs import ExplorationType, set_exploration_type
from specgen_runtime.training import stream
from specgen_std.chains.pendulum import PendulumTrain
from specgen_std.pipelines import iql_pendulum, td3_pendulum


def record(folder: Path, frames: int, expert: Path | None, seed: int) -> float:
    """Save transitions of eight environments side by side.

    Args:
        folder: where they are saved.
        frames: how many, of all environments together.
        expert: the folder of a training with TD3, whose policy acts with its noise; a random policy if None.
        seed: of the environments.

    Returns:
        The mean return of the episodes.
    """
    env = PendulumTrain(batch_size=[8])
    env.set_seed(stream(seed, "record"))
    policy = None
    if expert is not None:
        config = replace(td3_pendulum.TD3PendulumConfig(), total_frames=20_000)
        policy = td3_pendulum.train(config, folder=expert, resume=True).policy
    with set_exploration_type(ExplorationType.RANDOM):
        rollout = env.rollout(frames // 8, policy, break_when_any_done=False)
    rollout.memmap(folder)
    ended = rollout["next", "done"].squeeze(-1)
    return float(rollout["next", "episode_reward"].squeeze(-1)[ended].mean())


def main() -> None:
    """Record, unless there are data, and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("data/pendulum"), help="folder of the transitions")
    parser.add_argument("--frames", type=int, default=100_000, help="how many are recorded")
    parser.add_argument("--expert", type=Path, help="folder of a training with TD3, whose policy records")
    parser.add_argument("--updates", type=int, default=20_000, help="of implicit Q-learning")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not given.data.exists():
        print(
            f"recorded, with a mean return of {record(given.data, given.frames, given.expert, given.seed):.0f}"
        )
    config = iql_pendulum.IQLPendulumConfig(
        seed=given.seed,
        recorded=str(given.data),
        total_updates=given.updates,
        evaluate_every=max(1, given.updates // 10),
    )
    iql_pendulum.train(config, folder=Path("runs/iql_pendulum"), resume=True)


if __name__ == "__main__":
    main()
