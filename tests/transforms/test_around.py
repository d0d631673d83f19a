"""Transforms that step the environment before them, against a loop over single rows."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import GymEnv, SerialEnv, check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import SimpleTag
from specgen_std.transforms import (
    FrameSkipTransform,
    InitTracker,
    MultiAction,
    ObservationNorm,
    RewardScaling,
    RewardSum,
    StepCounter,
)

from tests.compiled_cases import ROOT
from tests.support import generate, imported
from tests.transforms.envs import Team, Walk, walk_reset, walk_step
from tests.transforms.simulators import Counter, flat_rows

BATCHES = [(), (3,), (4, 3)]


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    schema = ROOT / "good" / "around" / "transforms.yaml"
    files = generate({"transforms.yaml": schema.read_text(encoding="utf-8")}, "around_case")
    with imported(files, "around_case", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("around_case.transforms")


def walk_repeated(position: torch.Tensor, action: torch.Tensor, count: int) -> tuple[Any, ...]:
    """One row: its position, summed reward, whether it is over, and how often it stepped."""
    total, taken = torch.zeros(1), 0
    for _ in range(count):
        position, reward, over = walk_step(position, action)
        total, taken = total + reward, taken + 1
        if over.item():
            break
    return position, total, over, taken


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_frame_skip_is_a_loop_of_each_row(batch: tuple[int, ...], count: int) -> None:
    chain = Compose(StepCounter(), RewardSum(), FrameSkipTransform(count), InitTracker())
    env = TransformedEnv(Walk(*batch), chain)
    check_env_specs(env)
    torch.manual_seed(0)
    root, ended, cut = env.reset(), 0, 0
    counted = torch.zeros((*batch, 1), dtype=torch.int64)
    returned = torch.zeros((*batch, 1))
    for _ in range(40):
        root = env.rand_action(root)
        before = root.clone()
        _, following = env.step_and_maybe_reset(root)
        after = root["next"]
        flat = max(1, torch.Size(batch).numel())
        rows = [
            walk_repeated(p, a, count)
            for p, a in zip(
                before["position"].reshape(flat, 3), before["action"].reshape(flat, 3), strict=True
            )
        ]
        positions, rewards, overs, taken = zip(*rows, strict=True)
        assert torch.equal(after["position"], torch.stack(positions).reshape(*batch, 3))
        assert torch.equal(after["reward"], torch.stack(rewards).reshape(*batch, 1))
        assert torch.equal(after["terminated"], torch.stack(overs).reshape(*batch, 1))
        counted = counted + torch.tensor(taken).reshape(*batch, 1)
        assert torch.equal(after["step_count"], counted)
        torch.testing.assert_close(after["episode_reward"], returned + after["reward"])
        done = after["done"]
        ended += int(done.sum())
        cut += sum(steps < count for steps in taken)
        counted = torch.where(done, 0, counted)
        returned = torch.where(done, 0.0, after["episode_reward"])
        root = following
    assert ended
    assert cut or count == 1


@pytest.mark.parametrize("batch", BATCHES)
def test_simulators_stay_where_they_are_done(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Counter(*batch), Compose(StepCounter(), FrameSkipTransform(4)))
    check_env_specs(env)
    root = env.reset()
    _, root = env.step_and_maybe_reset(env.rand_action(root))
    transition, _ = env.step_and_maybe_reset(env.rand_action(root))
    after = transition["next"]
    ends = env.base_env.ends.clamp(max=8)
    assert torch.equal(after["count"], ends)
    assert torch.equal(after["step_count"], ends)
    assert torch.equal(after["reward"], sum(torch.where(ends >= n, n, 0) for n in range(5, 9)).float())
    assert torch.equal(after["done"], env.base_env.ends <= 8)


def test_rows_of_a_simulator_that_cannot_stay_are_refused() -> None:
    env = TransformedEnv(Counter(3, partial=False), FrameSkipTransform(4))
    root = env.step_mdp(env.step(env.rand_action(env.reset())))
    with pytest.raises(NotImplementedError, match=r"FrameSkipTransform: the environments \[0\] stay"):
        env.step(env.rand_action(root))


def test_environments_in_a_list_stay_where_they_are_done() -> None:
    env = TransformedEnv(SerialEnv(3, [lambda n=n: Walk() for n in range(3)]), FrameSkipTransform(5))
    torch.manual_seed(0)
    data = env.rollout(30, break_when_any_done=False)
    for row in data.unbind(0):
        for moment in row.unbind(0):
            position, reward, over, _ = walk_repeated(moment["position"], moment["action"], 5)
            assert torch.equal(moment["next", "position"], position)
            assert torch.equal(moment["next", "reward"], reward)
            assert torch.equal(moment["next", "done"], over)


def test_steps_of_some_rows() -> None:
    env = TransformedEnv(Walk(3), Compose(StepCounter(), FrameSkipTransform(3), RewardSum()))
    root = env.rand_action(env.reset())
    whole = env.step(root.clone())["next"]
    mask = torch.tensor([True, False, True])
    after = env.step(root.clone().set("_step", mask))["next"]
    assert torch.equal(after[mask]["position"], whole[mask]["position"])
    assert (after["reward"][1] == 0).all()
    assert torch.equal(after["position"][1], root["position"][1])
    assert after["step_count"].squeeze(-1).tolist() == [3, 0, 3]


def test_bounds_of_a_sum() -> None:
    class Bounded1(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.reward_spec = Bounded(-1.0, 2.0, (1,))

    env = TransformedEnv(Bounded1(), FrameSkipTransform(4))
    assert (float(env.reward_spec.low), float(env.reward_spec.high)) == (-4.0, 8.0)


def test_nested_groups_and_two_loops() -> None:
    env = TransformedEnv(Team(3), Compose(FrameSkipTransform(2), StepCounter(), FrameSkipTransform(3)))
    check_env_specs(env)
    data = env.rollout(1)
    assert (data["next", "step_count"] <= 3).all()


def test_later_rewriting_does_not_reach_the_repetitions() -> None:
    chain = Compose(
        RewardSum(),
        FrameSkipTransform(3),
        ObservationNorm(5.0, 2.0, ["position"]),
        RewardScaling(1.0, 0.5),
    )
    env = TransformedEnv(Walk(3), chain)
    check_env_specs(env)
    torch.manual_seed(0)
    data = env.rollout(10, break_when_any_done=False)
    position = walk_reset(torch.Size([3]))
    for moment in data.unbind(-1):
        rows = [walk_repeated(p, a, 3) for p, a in zip(position, moment["action"], strict=True)]
        position = torch.stack([row[0] for row in rows])
        assert torch.equal(moment["next", "position"], position * 2.0 + 5.0)
        assert torch.equal(moment["next", "reward"], torch.stack([row[1] for row in rows]) * 0.5 + 1.0)
        over = torch.stack([row[2] for row in rows])
        position = torch.where(over, walk_reset(torch.Size([3])), position)


def test_recorded_data_are_refused() -> None:
    env = TransformedEnv(Walk(), FrameSkipTransform(2))
    with pytest.raises(NotImplementedError, match="FrameSkipTransform steps the environment before it"):
        env.transform(env.rollout(3))


@pytest.mark.parametrize("batch", BATCHES)
def test_rows_stop_where_they_are_told_to(declared: ModuleType, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), Compose(declared.SkipFrames(count=2, bright=1.5), StepCounter()))
    check_env_specs(env)
    torch.manual_seed(1)
    data = env.rollout(12, break_when_any_done=False)
    lengths = set()
    positions = flat_rows(walk_reset(torch.Size(batch)), batch)
    for moment in data.unbind(-1):
        shown = flat_rows(moment["next", "position"], batch)
        actions = flat_rows(moment["action"], batch)
        rewards, overs = (flat_rows(moment["next", name], batch) for name in ("reward", "done"))
        for row, action in enumerate(actions):
            here = flat_rows(moment["position"], batch)[
                row
            ]  # as it is shown: the brightest of the last frames
            own, frames = positions[row], []
            for nth in range(4):
                own, reward, over = walk_step(own, action)
                frames.append(own)
                if over or ((own > 1.5) | (own > 4 * here.abs() + nth)).any():
                    break
            lengths.add(len(frames))
            assert torch.equal(shown[row], torch.stack(frames).amax(0))
            assert torch.equal(rewards[row], reward)
            assert torch.equal(overs[row], over)
            positions[row] = flat_rows(walk_reset(torch.Size(batch)), batch)[row] if over else own
    assert len(lengths) > 1


@pytest.mark.parametrize("batch", BATCHES)
def test_each_repetition_may_have_an_action_of_its_own(declared: ModuleType, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), declared.Ramp())
    check_env_specs(env)
    torch.manual_seed(0)
    root = env.rand_action(env.reset())
    action = root["action"].clone()
    after = env.step(root)["next"]
    position, total = root["position"], 0.0
    for nth in range(3):
        position, reward, _ = walk_step(position, 0.25 * (nth + 1) * action)
        total = total + reward
    assert torch.equal(after["position"], position)
    assert torch.equal(after["reward"], total)
    assert torch.equal(root["action"], action)


@pytest.mark.parametrize("batch", BATCHES)
def test_what_is_collected(declared: ModuleType, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), declared.Collected(count=3))
    check_env_specs(env)
    assert env.observation_spec["rewards"].shape == (*batch, 3, 1)
    torch.manual_seed(0)
    data = env.rollout(12, break_when_any_done=False)
    first = data.select("rewards", "lengths").unbind(-1)[0]
    assert (first["rewards"] == 0).all()
    assert (first["lengths"] == 0).all()
    stopped = 0
    for moment in data.unbind(-1):
        after = moment["next"]
        rows = zip(
            *(flat_rows(moment[name], batch) for name in ("position", "action")),
            *(flat_rows(after[name], batch) for name in ("rewards", "lengths", "reward")),
            strict=True,
        )
        for position, action, rewards, length, total in rows:
            given, own = [], position
            for _ in range(3):
                own, reward, over = walk_step(own, action)
                given.append(reward)
                if over:
                    break
            stopped += len(given) < 3
            assert length.item() == len(given)
            assert torch.equal(rewards, torch.stack(given + [torch.zeros(1)] * (3 - len(given))))
            torch.testing.assert_close(total, sum(0.5**n * reward for n, reward in enumerate(given)))
    assert stopped


@pytest.mark.peers
def test_a_simulator_that_goes_on_agrees_with_torchrl() -> None:
    peer_envs = pytest.importorskip("torchrl.envs")
    env = TransformedEnv(GymEnv("Pendulum-v1"), FrameSkipTransform(3))
    peer = peer_envs.TransformedEnv(peer_envs.GymEnv("Pendulum-v1"), peer_envs.FrameSkipTransform(3))
    env.set_seed(0, static_seed=True)
    peer.set_seed(0, static_seed=True)
    env.reset()  # TorchRL's set_seed resets; ours seeds the next reset
    root, other = env.reset(), peer.reset()
    torch.manual_seed(0)
    for _ in range(10):
        action = torch.rand(1) * 4 - 2
        after = env.step(root.set("action", action))["next"]
        expected = peer.step(other.set("action", action))["next"]
        assert torch.equal(after["observation"], expected["observation"])
        assert torch.equal(after["reward"], expected["reward"])
        root, other = env.step_mdp(root), peer.step_mdp(other)


TAG = [("adversary", "action"), ("agent", "action")]


def test_several_actions_of_groups() -> None:
    """Each chunk stands at the root: in the group it would have no dimension of the agents in front."""
    keys = {"in_keys_inv": TAG, "out_keys_inv": ["adversary_chunk", "agent_chunk"]}
    base = SimpleTag(batch_size=[2])
    base.set_seed(0)
    env = TransformedEnv(base, MultiAction(2, stack_rewards=False, **keys))
    check_env_specs(env)
    fresh = env.reset()
    chosen = env.rand_action(fresh.clone())
    assert chosen["adversary_chunk"].shape == (2, 2, 3)
    found = env.step(chosen.clone())["next"]
    moment = fresh.clone()
    for nth in range(2):
        for key, chunk in zip(TAG, keys["out_keys_inv"], strict=True):
            moment.set(key, chosen[chunk][:, nth])
        moment = base.step_mdp(base.step(moment))
    torch.testing.assert_close(found["agent", "position"], moment["agent", "position"])
    torch.testing.assert_close(found["adversary", "position"], moment["adversary", "position"])


@pytest.mark.parametrize(
    ("steps", "given", "told"),
    [
        (4, {}, r"MultiAction: \('adversary', 'action'\) has the shape \[2, 4, 3\]"),
        (
            2,
            {"in_keys_inv": TAG[1:]},
            r"\('agent', 'action'\) has the shape \[2, 2, 1\], .* starts with \[2, 1\]; name",
        ),
        (2, {"in_keys_inv": TAG[1:], "out_keys_inv": ["chunk"]}, r"\('adversary', 'rewards'\) has the shape"),
    ],
)
def test_what_has_no_place_in_a_group_is_refused(steps: int, given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        TransformedEnv(SimpleTag(batch_size=[2]), MultiAction(steps, **given)).rollout(2)
