"""Methods that users write anew are called, however quick the way around them would be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std import chains, envs, transforms
from tensordict import TensorDictBase

from tests.support import generate, imported

BASES: dict[str, Any] = {
    "native": envs.Pendulum,
    "over Gymnasium": envs.PendulumGym,
    "chain": chains.PendulumTrain,
    "chain over Gymnasium": chains.PendulumGymTrain,
    "GymEnv": type("OfPendulum", (GymEnv,), {"__init__": lambda self: GymEnv.__init__(self, "Pendulum-v1")}),
}


def nines(data: TensorDictBase) -> TensorDictBase:
    return data.set("reward", torch.full_like(data.get("reward"), 9.0))


def rewards(env: EnvBase[Any]) -> list[torch.Tensor]:
    """Of every way to take steps."""
    root = env.rand_action(env.reset())
    return [
        env.step(root.clone()).get(("next", "reward")),
        env.step_and_maybe_reset(root.clone())[0].get(("next", "reward")),
        env.rand_step().get(("next", "reward")),
        *(env.rollout(3, break_when_any_done=stops).get(("next", "reward")) for stops in (True, False)),
        env.rollout(3, env.rand_action).get(("next", "reward")),
    ]


@pytest.mark.parametrize("base", BASES)
class TestSubclasses:
    def test_step(self, base: str) -> None:
        def _step(self: Any, tensordict: TensorDictBase) -> TensorDictBase:
            return nines(BASES[base]._step(self, tensordict))

        env = type("Nines", (BASES[base],), {"_step": _step})()
        assert all((reward == 9).all() for reward in rewards(env))

    def test_whole_step(self, base: str) -> None:
        def step(self: Any, tensordict: TensorDictBase) -> TensorDictBase:
            result: TensorDictBase = BASES[base].step(self, tensordict)
            nines(result.get("next"))
            return result

        env = type("Nines", (BASES[base],), {"step": step})()
        assert all((reward == 9).all() for reward in rewards(env))

    def test_reset(self, base: str) -> None:
        calls: list[int] = []

        def _reset(self: Any, tensordict: Any, **kwargs: Any) -> TensorDictBase:
            calls.append(1)
            result: TensorDictBase = BASES[base]._reset(self, tensordict, **kwargs)
            return result

        env = type("Counts", (BASES[base],), {"_reset": _reset})()
        env.reset()
        env.rollout(3)
        env.rollout(3, break_when_any_done=False)
        assert len(calls) == 3

    def test_random_actions(self, base: str) -> None:
        def rand_action(self: Any, tensordict: Any = None) -> TensorDictBase:
            drawn = BASES[base].rand_action(self, tensordict)
            return drawn.set("action", torch.zeros_like(drawn.get("action")))

        env = type("Zeros", (BASES[base],), {"rand_action": rand_action})()
        assert not env.rollout(3).get("action").any()
        assert not TransformedEnv(env, Compose()).rollout(3).get("action").any()

    def test_set_on_an_object(self, base: str) -> None:
        env = BASES[base]()
        assert not any((reward == 9).all() for reward in rewards(env))
        original: Callable[..., Any] = env._step
        env._step = lambda tensordict: nines(original(tensordict))
        assert all((reward == 9).all() for reward in rewards(env))


class Halves(Transform):
    """The environment inside is given half of each action, which may be twice as large."""

    def _inv_call(self, tensordict: Any) -> Any:
        return tensordict.set("action", tensordict.get("action") / 2)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        action: TensorSpec = input_spec["full_action_spec", "action"]
        input_spec["full_action_spec", "action"] = type(action)(-4.0, 4.0, action.shape)  # type: ignore[call-arg]
        return input_spec


def test_actions_that_transforms_change_cannot_be_drawn_inside() -> None:
    class Mine(envs.Pendulum):
        def rand_action(self, tensordict: Any = None) -> Any:
            return super().rand_action(tensordict)

    assert TransformedEnv(envs.Pendulum(), Halves()).rollout(100).get("action").abs().max() > 2
    env = TransformedEnv(Mine(), Halves())
    with pytest.raises(RuntimeError, match=r"Mine has a rand_action of its own.*give a policy"):
        env.rollout(3)
    assert env.rollout(3, lambda tensordict: tensordict.set("action", torch.ones(1))).shape == (3,)


def test_transformed_environments_keep_to_masks(tmp_path: Path) -> None:
    schema = Path(__file__).parents[1] / "cases" / "good" / "agent_groups" / "main.yaml"
    with imported(generate({"tag.yaml": schema.read_text(encoding="utf-8")}, "tag_pkg"), "tag_pkg", tmp_path):
        tag: Any = __import__("tag_pkg.tag", fromlist=["Tag"]).Tag
        env = TransformedEnv(tag(batch_size=(8,)), transforms.InitTracker())
        env.set_seed(0)
        torch.manual_seed(0)
        data = env.rollout(40, break_when_any_done=False)
    mask, action = data.get(("hunter", "action_mask")), data.get(("hunter", "action"))
    assert not mask.all()
    assert mask.gather(-1, action.unsqueeze(-1)).all()
