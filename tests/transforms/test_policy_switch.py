"""`ConditionalPolicySwitch`: another policy acts where a condition holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime import transforms
from specgen_runtime.envs import GymEnv, check_env_specs
from specgen_runtime.transforms import Compose, ConditionalPolicySwitch, TransformedEnv
from specgen_std.transforms import RewardSum, StepCounter
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule

from tests.transforms.envs import Walk, walk_reset, walk_step


def back(data: TensorDictBase) -> TensorDictBase:
    """Moves half of the way back."""
    return data.set("action", -data["position"] / 2)


def far(data: TensorDictBase) -> torch.Tensor:
    return data["position"][..., 0] > 0.4


def ahead(data: TensorDictBase) -> TensorDictBase:
    return data.set("action", torch.full_like(data["position"], 0.3))


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_row_by_row(batch: tuple[int, ...]) -> None:
    """Against a loop over the rows, with resets in between."""
    chain = Compose(
        StepCounter(step_count_key="all"),
        ConditionalPolicySwitch(back, far),
        StepCounter(step_count_key="main"),
    )
    env = TransformedEnv(Walk(*batch), chain)
    check_env_specs(env)
    data = env.rollout(25, ahead, break_when_any_done=False)
    size = torch.Size(batch)
    starts = walk_reset(size).reshape(-1, 3)
    flat = data.reshape(-1, 25)

    def acted(position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return walk_step(position, -position / 2)

    for row, start in zip(flat, starts, strict=True):
        first, steps = (acted(start)[0], 1) if start[0] > 0.4 else (start, 0)
        position, total, main = first, steps, 0
        for moment in row.unbind(0):
            assert torch.allclose(moment["position"], position)
            assert moment["all"] == total
            assert moment["main"] == main
            position, reward, over = walk_step(position, torch.full((3,), 0.3))
            total, main = total + 1, main + 1
            if not over and position[0] > 0.4:
                position, reward, over = acted(position)
                total += 1
            assert torch.allclose(moment["next", "position"], position)
            assert torch.allclose(moment["next", "reward"], reward)
            assert moment["next", "done"] == over
            assert moment["next", "all"] == total
            assert moment["next", "main"] == main
            if over:
                position, total, main = first, steps, 0


def test_the_policy_gets_its_rows_only() -> None:
    seen: list[torch.Tensor] = []

    def watching(data: TensorDictBase) -> TensorDictBase:
        seen.append(data["position"])
        return back(data)

    env = TransformedEnv(Walk(5), ConditionalPolicySwitch(watching, far))
    env.reset()
    assert all((positions[:, 0] > 0.4).all() for positions in seen)
    assert [len(positions) for positions in seen] == [1]


def test_truth_values() -> None:
    env = TransformedEnv(Walk(2), Compose(StepCounter(), ConditionalPolicySwitch(back, lambda data: True)))
    data = env.rollout(3)
    assert data["step_count"][:, :2, 0].tolist() == [[1, 3], [1, 3]]
    never = TransformedEnv(Walk(2), Compose(StepCounter(), ConditionalPolicySwitch(back, lambda data: False)))
    assert never.rollout(3)["step_count"][0, :, 0].tolist() == [0, 1, 2]


def test_a_simulator() -> None:
    """An environment that keeps its state: what does not step stands still."""

    def still(data: TensorDictBase) -> TensorDictBase:
        return data.set("action", torch.tensor([1, 0]))

    def odd(data: TensorDictBase) -> Any:
        return (data["step_count"] % 2 == 1).squeeze(-1)

    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(StepCounter(), ConditionalPolicySwitch(still, odd)))
    env.set_seed(0)
    data = env.rollout(6, still, break_when_any_done=False)
    assert data["step_count"].squeeze(-1)[:3].tolist() == [0, 2, 4]
    plain = GymEnv("CartPole-v1")
    plain.set_seed(0)
    expected = plain.rollout(12, still)
    assert torch.equal(data["observation"][:3], expected["observation"][:6:2])


def test_refusals() -> None:
    with pytest.raises(TypeError, match="condition is a function of a tensordict, got True"):
        ConditionalPolicySwitch(back, True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"the condition has the shape \[5\], and the batch is \[2\]"):
        TransformedEnv(Walk(2), ConditionalPolicySwitch(back, lambda data: torch.ones(5))).reset()
    alone = ConditionalPolicySwitch(back, lambda data: True)
    with pytest.raises(RuntimeError, match="what is recorded can't be stepped"):
        alone(TensorDict())
    with pytest.raises(RuntimeError, match="it is part of none"):
        alone._step(TensorDict(), TensorDict())


@pytest.mark.peers
def test_against_torchrl() -> None:
    theirs = pytest.importorskip("torchrl.envs")
    from tests.transforms.test_against_torchrl import TheirWalk

    def toward(position: torch.Tensor) -> torch.Tensor:
        return -position / 2 + 0.1

    policy = TensorDictModule(toward, in_keys=["position"], out_keys=["action"])

    def condition(data: Any) -> bool:
        return bool(data["step_count"] % 3 == 1)

    found, expected = (
        library.TransformedEnv(
            walk,
            library.Compose(
                counter(), library.ConditionalPolicySwitch(policy=policy, condition=condition), total()
            ),
        ).rollout(20, policy)
        for library, walk, counter, total in (
            (transforms, Walk(), StepCounter, RewardSum),
            (theirs, TheirWalk(), theirs.StepCounter, theirs.RewardSum),
        )
    )
    assert found.shape == expected.shape == (20,)
    for key in ("position", "step_count", "episode_reward"):
        assert torch.equal(found[key], expected[key]), key
        assert torch.equal(found["next", key], expected["next", key]), key
    assert torch.equal(found["next", "reward"], expected["next", "reward"])
