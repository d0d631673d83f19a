"""Roles of actions: a step reads them as the policy wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.testing import assert_identical, check_env
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum
from specgen_std.transforms import ActionScaling, FrameSkipTransform

from tests.agreement.test_random_chains import drive, same_specs
from tests.support import generate, imported

TEXTS = {
    "last.yaml": """\
specgen: 1
import: [specgen_std/envs/pendulum, specgen_std/transforms/actions, specgen_std/transforms/time, cart]
transforms:
  LastAction:
    doc: Show the last action.
    in: {a: {each: env.action, type: "any[...]", written_by: policy}}
    out: {last: {each: a, name: "last_{}", type: like(a)}}
    reset: {last: zeros_like(last)}
    step: {next.last: a}
  Smooth:
    doc: Pay for changes of the action.
    params: {price: 0.1}
    in:
      reward: {key: reward, type: "float32[]"}
      a: {key: action, type: "float32[n]", written_by: policy}
    out:
      before: {key: before, type: "float32[n]"}
      shaped: {key: reward, type: "float32[]", group: reward}
    carry: [before]
    reset: {before: zeros_like(before)}
    step:
      next.before: a
      next.shaped: next.reward - price * sum((a - before) ** 2, axis=-1)
chains:
  Last:
    env: Pendulum
    transforms: [{ActionScaling: {in_keys_inv: [action]}}, LastAction, Smooth]
  Repeated:
    env: Pendulum
    allow: [SG328]
    transforms: [LastAction, Smooth, {FrameSkipTransform: {frame_skip: 3}}]
  OverGym:
    env: Cart
    transforms: [LastAction]
""",
    "cart.yaml": "specgen: 1\nenvs: {Cart: {gymnasium: {id: CartPole-v1}}}\n",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate(TEXTS, "last_package")
    with imported(files, "last_package", tmp_path_factory.mktemp("generated")) as module:
        yield module


def alone(package: Any, batch: tuple[int, ...]) -> TransformedEnv:
    scaling = ActionScaling(in_keys_inv=["action"])
    return TransformedEnv(
        Pendulum(batch_size=batch), Compose(scaling, package.LastAction(), package.Smooth())
    )


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_fused_as_one_after_another(package: Any, batch: tuple[int, ...]) -> None:
    """What is shown is the action as the policy wrote it, and not what the environment was given of it."""
    fused, dynamic = package.Last(batch_size=batch), alone(package, batch)
    check_env(lambda: package.Last(batch_size=batch), steps=12)
    check_env(lambda: TransformedEnv(Pendulum(batch_size=batch), package.LastAction()), steps=12)
    same_specs(fused, dynamic)
    drive(fused, dynamic)
    data = fused.rollout(12)
    assert torch.equal(data["next", "last_action"], data["action"])
    assert torch.equal(data["last_action"][..., 1:, :], data["action"][..., :-1, :])
    assert not data["last_action"][..., 0, :].any()
    own = ("last_action", "before")
    replayed = package.LastAction(in_keys=["action"])(data.exclude(*own, *(("next", key) for key in own)))
    for key in ("last_action", ("next", "last_action")):
        assert torch.equal(replayed[key], data[key])


def test_repeated(package: Any) -> None:
    chain = Compose(package.LastAction(), package.Smooth(), FrameSkipTransform(3))
    fused, dynamic = package.Repeated(batch_size=[3]), TransformedEnv(Pendulum(batch_size=[3]), chain)
    same_specs(fused, dynamic)
    drive(fused, dynamic)


def test_over_gymnasium(package: Any) -> None:
    rollouts = []
    for env in (package.OverGym(), TransformedEnv(package.Cart(), package.LastAction())):
        env.set_seed(1)
        torch.manual_seed(2)
        rollouts.append(env.rollout(40, break_when_any_done=False))
    assert_identical(rollouts[0], rollouts[1])
    assert torch.equal(rollouts[0]["next", "last_action"], rollouts[0]["action"])


def test_in_front_of_what_changes_the_action(package: Any) -> None:
    chain = Compose(package.LastAction(), ActionScaling(in_keys_inv=["action"]))
    with pytest.raises(
        ValueError, match="LastAction reads 'action' as the policy wrote it, and ActionScaling"
    ):
        TransformedEnv(Pendulum(), chain).reset()


def test_an_action_that_is_missing(package: Any) -> None:
    env = TransformedEnv(Pendulum(), package.LastAction(in_keys=["push"]))
    with pytest.raises(KeyError, match="LastAction reads 'push', but the environment has only action"):
        env.reset()
