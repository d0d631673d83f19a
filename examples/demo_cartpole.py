"""Train the generated CartPole with the generated DQN loss until it balances, then try it in Gymnasium's own.

    python examples/demo_cartpole.py [--seed 0]

`CartPoleTrain` is a chain declared in `schemas/chains/cartpole.yaml`, `DQNLoss` a loss declared in
`schemas/losses/dqn.yaml`; what is imported here was generated from them. The rest is a plain training loop.
Exit code 0 if the mean return of 50 greedy episodes is at least 450 of 500 in both environments, else 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import gymnasium
import matplotlib
import torch
from specgen_runtime.modules import EGreedyModule, QValueActor
from specgen_runtime.objectives import SoftUpdate
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.losses.dqn import DQNLoss
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictSequential
from torch import Tensor, nn
from tqdm import tqdm

matplotlib.use("Agg")
from matplotlib import pyplot

ENVS = 8  # steps of different episodes, taken at once
BATCH = 256
CAPACITY = 100_000
WARM_UP = 1_000  # random steps before the first update
MAX_ITERATIONS = 30_000
EVALUATE_EVERY = 125
EPISODES = 50
SOLVED = 450.0
STOP = 475.0  # train a little beyond what is asked, so that fresh episodes hold as well
PICTURE = Path("runs/demo_cartpole.png")


class Scale(nn.Module):
    """Multiplies by constants."""

    def __init__(self, *factors: float) -> None:
        super().__init__()
        self.register_buffer("factors", torch.tensor(factors))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factors


class Replay:
    """The last ``capacity`` steps, in a ring of preallocated tensors."""

    KEYS = ("observation", "action", ("next", "observation"), ("next", "reward"), ("next", "terminated"))

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.written = 0
        self.steps: TensorDict | None = None

    def __len__(self) -> int:
        return min(self.written, self.capacity)

    def extend(self, steps: TensorDictBase) -> None:
        """Add a batch of steps over the oldest."""
        kept = steps.select(*self.KEYS)
        if self.steps is None:
            self.steps = kept[0].expand(self.capacity).clone()
        where = torch.arange(self.written, self.written + len(kept)) % self.capacity
        self.steps[where] = kept
        self.written += len(kept)

    def sample(self, size: int) -> TensorDictBase:
        """A batch of steps, each drawn from all that are held."""
        assert self.steps is not None, "nothing was added yet"
        return self.steps[torch.randint(len(self), (size,))]


def make_network() -> nn.Module:
    """Values of the two actions; inputs and outputs are scaled to about one."""
    return nn.Sequential(
        Scale(1 / 2.4, 0.5, 5.0, 0.5),
        nn.Linear(4, 128),
        nn.ReLU(),
        nn.Linear(128, 128),
        nn.ReLU(),
        nn.Linear(128, 2),
        Scale(10.0),
    )


@torch.no_grad()
def native_return(actor: QValueActor, seed: int) -> float:
    """Mean return of greedy episodes in the generated environment, all at once."""
    env = CartPoleTrain(batch_size=[EPISODES])
    env.set_seed(seed)
    rollout = env.rollout(500, actor, break_when_any_done=False)
    first_end = rollout["next", "done"].int().argmax(dim=1, keepdim=True)
    return float(rollout["next", "episode_reward"].gather(1, first_end).mean())


@torch.no_grad()
def gymnasium_return(network: nn.Module, seed: int) -> float:
    """Mean return of greedy episodes in Gymnasium's CartPole-v1, without any of specgen."""
    env = gymnasium.make("CartPole-v1")
    total = 0.0
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=seed + episode)
        over = False
        while not over:
            action = int(network(torch.as_tensor(observation)).argmax())
            observation, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            over = terminated or truncated
    env.close()
    return total / EPISODES


def train(network: nn.Module, seed: int) -> list[tuple[int, float]]:
    """Double DQN; returns the learning curve as (environment steps, mean greedy return)."""
    env = CartPoleTrain(batch_size=[ENVS])
    env.set_seed(seed)
    actor = QValueActor(network, in_keys=["observation"], spec=env.action_spec)
    egreedy = EGreedyModule(env.action_spec, eps_init=1.0, eps_end=0.1, annealing_num_steps=10_000)
    explore = TensorDictSequential(actor, egreedy)

    loss_module = DQNLoss(actor, loss_function="l2", delay_value=True, double_dqn=True)
    loss_module.make_value_estimator(gamma=0.99)
    target_updater = SoftUpdate(loss_module, tau=0.01)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=1e-3)

    replay = Replay(CAPACITY)
    curve: list[tuple[int, float]] = []
    data = env.reset()
    with tqdm(total=MAX_ITERATIONS, unit=" updates", desc="training", disable=None) as progress:
        for iteration in range(1, MAX_ITERATIONS + 1):
            with torch.no_grad():
                step, data = env.step_and_maybe_reset(explore(data))
            egreedy.step(ENVS)
            replay.extend(step)
            if len(replay) >= WARM_UP:
                loss = loss_module(replay.sample(BATCH))["loss"]
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                target_updater.step()
            progress.update()
            if iteration % EVALUATE_EVERY == 0:
                curve.append((iteration * ENVS, native_return(actor, seed=seed + iteration)))
                progress.set_postfix_str(f"return {curve[-1][1]:.0f} of 500")
                if curve[-1][1] >= STOP:
                    break
    return curve


def draw(curve: list[tuple[int, float]], path: Path) -> None:
    """Save the learning curve as a picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(*zip(*curve, strict=True), marker=".")
    axes.axhline(SOLVED, linestyle="--", color="grey", label=f"solved: {SOLVED:.0f}")
    axes.set(xlabel="environment steps", ylabel=f"mean return of {EPISODES} greedy episodes", ylim=(0, 510))
    axes.set_title("Double DQN on the generated CartPole")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot.close(figure)


def main() -> int:
    """Train, evaluate in both environments, say what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    seed: int = parser.parse_args().seed
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the tensors are small: a second thread would only be in the way

    network = make_network()
    curve = train(network, seed)
    draw(curve, PICTURE)

    actor = QValueActor(network, in_keys=["observation"], spec=CartPoleTrain().action_spec)
    results = {
        "specgen_std.chains.CartPoleTrain": native_return(actor, seed=1_000_000 + seed),
        "gymnasium's CartPole-v1": gymnasium_return(network, seed=1_000_000 + seed),
    }
    print(f"trained for {curve[-1][0]} environment steps; the learning curve is in {PICTURE}")
    print(f"mean return of {EPISODES} fresh greedy episodes (at least {SOLVED:.0f} of 500 is asked):")
    for name, result in results.items():
        print(f"  {name:<34} {result:6.1f}  {'solved' if result >= SOLVED else 'NOT SOLVED'}")
    return 0 if all(result >= SOLVED for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
