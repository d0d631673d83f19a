"""Each transform by itself, as a dynamic class: what it adds to a step, against TorchRL's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        yield paired(f"{name}, dynamic", Work(ours, CALLS), Work(peer, CALLS), budget)


class _Classes:
    """The classes of this library, wherever they are."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(library, name, None)
        return getattr(written, name) if found is None else found


_Ours = _Classes()


class _Stepped:
    """The `_step` of a transform in its environment, again and again behind the same root."""

    def __init__(self, transform: Any, around: Any, base: Any) -> None:
        env = around(base("Pendulum-v1"), transform)
        self.transform, self.env = transform, env
        self.root = env.rand_action(env.reset())
        self.following = env.base_env.step(self.root.clone())["next"]

    def __call__(self) -> None:
        step, root, following = self.transform._step, self.root, self.following
        for _ in range(CALLS):
            step(root, following)
