"""Each transform by itself, as a dynamic class: what it adds to a step, against TorchRL's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import specgen_std.transforms as library
from specgen_runtime import transforms as written
from specgen_runtime.envs import GymEnv
from torchrl import envs as theirs

from benchmarks.harness import Budget, Row, Work, paired

CALLS = 50

Make = Callable[[Any], Any]
"""A transform, from what holds the classes of one of the libraries."""

SEEN, MOVED = ["observation"], ["moved"]

TRANSFORMS: dict[str, Make] = {
    "BinarizeReward": lambda t: t.BinarizeReward(),
    "CatFrames": lambda t: t.CatFrames(4, -1, in_keys=SEEN, out_keys=MOVED),
    "CatTensors": lambda t: t.CatTensors(["observation", "observation"], "moved", del_keys=False),
    "ClipTransform": lambda t: t.ClipTransform(in_keys=SEEN, out_keys=MOVED, low=-1.0, high=1.0),
    "InitTracker": lambda t: t.InitTracker(),
    "ObservationNorm": lambda t: t.ObservationNorm(loc=0.5, scale=2.0, in_keys=SEEN, out_keys=MOVED),
    "PermuteTransform": lambda t: t.PermuteTransform((-1,), in_keys=SEEN, out_keys=MOVED),
    "RewardClipping": lambda t: t.RewardClipping(-1.0, 1.0),
    "RewardScaling": lambda t: t.RewardScaling(loc=0.0, scale=1.0),
    "RewardSum": lambda t: t.RewardSum(),
    "SignTransform": lambda t: t.SignTransform(in_keys=["reward"]),
    "StepCounter": lambda t: t.StepCounter(max_steps=200),
    "TargetReturn": lambda t: t.TargetReturn(10.0),
    "TimeMaxPool": lambda t: t.TimeMaxPool(in_keys=SEEN, out_keys=MOVED, T=4),
    "VecNorm": lambda t: t.VecNorm(in_keys=["observation", "reward"]),
    "UnsqueezeTransform": lambda t: t.UnsqueezeTransform(-1, in_keys=SEEN, out_keys=MOVED),
}


def rows(budget: Budget) -> Iterator[Row]:
    """Microseconds that a transform's step takes, where Gymnasium's Pendulum and its base are not counted."""
    for name, make in TRANSFORMS.items():
        ours = _Stepped(make(_Ours), written.TransformedEnv, GymEnv)
        peer = _Stepped(make(theirs), theirs.TransformedEnv, theirs.GymEnv)
        works = [Work(one, CALLS, one.prepare) for one in (ours, peer)]
        yield paired(f"{name}, dynamic", *works, budget)
    yield from _chain_rows(budget)


class _Classes:
    """The classes of this library, wherever they are."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(library, name, None)
        return getattr(written, name) if found is None else found


_Ours = _Classes()


class _Stepped:
    """The `_step` of a transform in its environment, again and again behind the same root.

    Each time it gets a tensordict of its own with what the environment inside returned.
    """

    def __init__(self, transform: Any, around: Any, base: Any) -> None:
        env = around(base("Pendulum-v1"), transform)
        self.transform, self.env = transform, env
        self.root = env.rand_action(env.reset())
        self.following = env.base_env.step(self.root.clone())["next"]
        self.fresh: list[Any] = []

    def prepare(self) -> None:
        self.fresh = [self.following.copy() for _ in range(CALLS)]

    def __call__(self) -> None:
        step, root = self.transform._step, self.root
        for following in self.fresh:
            step(root, following)


def _chain_rows(budget: Budget) -> Iterator[Row]:
    """Microseconds a step and a reset of Gymnasium's Pendulum behind five dynamic transforms."""
    ours, peer = (_five(*each) for each in ((_Ours, written, GymEnv), (theirs, theirs, theirs.GymEnv)))
    for name, do in CHAIN_CALLS.items():
        works = [Work(partial(do, env, env.rand_action(env.reset())), CALLS) for env in (ours, peer)]
        yield paired(f"Compose of five, dynamic, {name}", *works, budget)


def _five(t: Any, around: Any, base: Any) -> Any:
    chain = around.Compose(
        t.InitTracker(),
        t.StepCounter(max_steps=200),
        t.RewardSum(),
        t.ObservationNorm(loc=0.5, scale=2.0, in_keys=SEEN),
        t.RewardScaling(loc=0.0, scale=0.1),
    )
    return around.TransformedEnv(base("Pendulum-v1"), chain)


def _step_and_maybe_reset(env: Any, root: Any) -> None:
    for _ in range(CALLS):
        _, root = env.step_and_maybe_reset(root)


def _reset(env: Any, root: Any) -> None:
    for _ in range(CALLS):
        env.reset()


CHAIN_CALLS: dict[str, Callable[[Any, Any], None]] = {
    "step_and_maybe_reset": _step_and_maybe_reset,
    "rollout": lambda env, root: env.rollout(CALLS),
    "reset": _reset,
}
