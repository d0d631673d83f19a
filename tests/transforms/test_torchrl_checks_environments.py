"""TorchRL's `check_env_specs` on environments of ours, alone and transformed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import specgen_std.transforms as std
from specgen_runtime.envs import EnvBase, SerialEnv
from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms import Compose, TensorDictPrimer, Transform, TransformedEnv

from tests.transforms.envs import Team, Walk

pytestmark = pytest.mark.peers

TRANSFORMS: dict[str, Callable[[], Transform]] = {
    "ActionDiscretizer": lambda: std.ActionDiscretizer(5),
    "CatFrames": lambda: std.CatFrames(3, -1, ["position"]),
    "CatTensors": lambda: std.CatTensors(["position"], "vector"),
    "FrameSkipTransform": lambda: std.FrameSkipTransform(2),
    "MultiAction": lambda: std.MultiAction(3),
    "RandomTruncationTransform": lambda: Compose(std.StepCounter(), std.RandomTruncationTransform(2, 5)),
    "RenameTransform": lambda: std.RenameTransform(["position"], [("of", "x")]),
    "RewardSum": lambda: std.RewardSum(),
    "TensorDictPrimer": lambda: TensorDictPrimer(Composite(memory=Unbounded((4,)))),
    "TimeMaxPool": lambda: std.TimeMaxPool(["position"], T=3),
    "VecNorm": lambda: std.VecNorm(["position", "reward"]),
}


def check(env: EnvBase) -> None:
    pytest.importorskip("torchrl.envs.utils", reason="the extra `peers`").check_env_specs(env)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformed(name: str, batch: tuple[int, ...]) -> None:
    check(TransformedEnv(Walk(*batch), TRANSFORMS[name]()))


def test_batches_and_groups() -> None:
    check(TransformedEnv(SerialEnv(2, Walk), std.StepCounter(4)))
    check(TransformedEnv(Team(2), std.RewardSum()))


def test_a_dimension_of_any_size_is_known() -> None:
    env = Walk()
    assert not env._has_dynamic_specs
    env.observation_spec = Composite(position=Unbounded((3,)), seen=Unbounded((-1,)))
    assert env._has_dynamic_specs
