"""Transforms around environments that keep rows themselves at a reset: batches of environments, and simulators."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv, check_env_specs
from specgen_runtime.specs import Composite
from specgen_runtime.transforms import BatchSizeTransform, Compose, Transform, TransformedEnv
from specgen_std.transforms import CatFrames, DoubleToFloat, InitTracker, UnsqueezeTransform
from tensordict import TensorDict, TensorDictBase

from tests.transforms.envs import Walk
from tests.transforms.simulators import Counter

IN_PLACE: dict[str, Callable[[], Transform]] = {
    "shape": lambda: UnsqueezeTransform(-1, in_keys=["position"]),
    "size": lambda: CatFrames(N=3, dim=-1, in_keys=["position"]),
    "dtype": lambda: DoubleToFloat(in_keys=["position"], in_keys_inv=["action"]),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_rows_that_are_kept_have_another_shape_inside(name: str) -> None:
    def make() -> EnvBase:
        return Walk(dtype=torch.float64)

    around = TransformedEnv(SerialEnv(2, make), IN_PLACE[name]())
    check_env_specs(around)
    inside = SerialEnv(2, lambda: TransformedEnv(make(), IN_PLACE[name]()))
    torch.manual_seed(0)
    data = around.rollout(20, break_when_any_done=False)
    assert data["next", "done"].any()
    again = inside.rollout(20, policy=_played(data), break_when_any_done=False)
    assert torch.equal(again["next", "position"], data["next", "position"])
    around.close()
    inside.close()


def _played(data: TensorDictBase) -> Callable[[TensorDictBase], TensorDictBase]:
    actions = iter(data["action"].unbind(1))
    return lambda td: td.set("action", next(actions))


class Unseen(Counter):
    """Counts, and shows nothing of it: no observation tells that rows are kept."""

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        following = super()._step(tensordict)
        return following.set("count", torch.zeros_like(following["count"]))

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: object) -> TensorDictBase:
        super()._reset(tensordict)
        return TensorDict({"count": torch.zeros_like(self.counts)}, self.batch_size)


def test_what_a_transform_adds_is_not_kept_by_a_simulator() -> None:
    check_env_specs(TransformedEnv(Unseen(3), InitTracker()))


class Drawn(Walk):
    """Of any batch size, without state: each row begins anywhere."""

    batch_locked = False

    def __init__(self) -> None:
        super().__init__()
        self.state_spec = Composite()

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: object) -> TensorDictBase:
        size = torch.Size([]) if tensordict is None else tensordict.batch_size
        return TensorDict({"position": torch.rand(*size, 3)}, size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        size = tensordict.batch_size
        entries = {key: torch.zeros(*size, 1, dtype=torch.bool) for key in ("done", "terminated")}
        return TensorDict({**entries, "position": torch.rand(*size, 3), "reward": torch.rand(*size, 1)}, size)


def test_rows_of_another_batch_size_are_not_kept_inside() -> None:
    check_env_specs(TransformedEnv(Drawn(), BatchSizeTransform(batch_size=[4])))


class Forgetful(Counter):
    """Resets all rows whenever one is reset."""

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: object) -> TensorDict:
        fresh = super()._reset(None)
        return fresh.set("count", fresh["count"] + 0)


def test_a_simulator_that_forgets_is_found_behind_transforms() -> None:
    with pytest.raises(AssertionError, match="ignores its '_reset' mask"):
        check_env_specs(TransformedEnv(Forgetful(3), InitTracker()))


def test_the_environment_before_a_transform_that_does_not_fit() -> None:
    env = TransformedEnv(
        Walk(), Compose(UnsqueezeTransform(-1, in_keys=["position"]), CatFrames(N=2, dim=-1))
    )
    with pytest.raises(KeyError, match="pixels"):
        _ = env.observation_spec
    before = env.transform[1].parent
    assert before.base_env is env.base_env
    assert before.observation_spec["position"].shape == (3, 1)


def test_device() -> None:
    env = TransformedEnv(Walk(2), InitTracker(), device="meta")
    assert env.device == env.base_env.device == torch.device("meta")
