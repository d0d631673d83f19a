"""Steps that are left out, and steps after a reset."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, ConditionalSkip, TransformedEnv
from specgen_runtime.transforms.around import SkipTransform
from specgen_std.envs import CartPole, Pendulum
from specgen_std.transforms import (
    FrameSkipTransform,
    InitTracker,
    MultiAction,
    NoopResetEnv,
    RewardSum,
    StepCounter,
)
from tensordict import TensorDictBase

from tests.compiled_cases import ROOT
from tests.support import generate, imported
from tests.transforms.envs import Walk, walk_reset, walk_step
from tests.transforms.simulators import Counter, flat_rows

BATCHES = [(), (3,), (4, 3)]


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    schema = ROOT / "good" / "around" / "transforms.yaml"
    files = generate({"transforms.yaml": schema.read_text(encoding="utf-8")}, "around_case")
    with imported(files, "around_case", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("around_case.transforms")


@pytest.fixture(scope="module")
def skips(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    schema = Path(__file__).parent / "schemas" / "skips.yaml"
    files = generate({"a.yaml": schema.read_text(encoding="utf-8")}, "skips_case")
    with imported(files, "skips_case", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("skips_case.a")


class FreezeCount(SkipTransform[Any, Any]):
    """Rows stay where they are once they have counted far enough; as one writes it by hand."""

    def __init__(self, far: float) -> None:
        super().__init__()
        self.far = far

    def _skips(self, tensordict: TensorDictBase) -> Iterator[torch.Tensor]:
        yield tensordict["count"] > self.far


@pytest.mark.parametrize("simulated", [False, True])
def test_a_condition_of_ones_own(simulated: bool) -> None:
    key, limit = ("count", 2.0) if simulated else ("position", 1.0)
    env = TransformedEnv(
        Counter(3) if simulated else Walk(3),
        Compose(ConditionalSkip(lambda td: (td[key].abs() > limit).any(-1)), StepCounter()),
    )
    check_env_specs(env)
    torch.manual_seed(0)
    data = env.rollout(8, break_when_any_done=False)
    rows = (data[key].abs() > limit).any(-1)
    assert rows.any()
    assert not rows.all()
    after = data["next"]
    assert torch.equal(after[key][rows], data[key][rows])
    assert torch.equal(after["step_count"][rows], data["step_count"][rows])
    assert (after["reward"][rows] == 0).all()
    assert torch.equal(after["step_count"][~rows], data["step_count"][~rows] + 1)


def test_conditions_that_are_none() -> None:
    refused: list[tuple[Any, str]] = [
        (
            lambda td: td["position"] > 0,
            r"needs a bool for each row, \[3\] or \[3, 1\], got torch.bool \[3, 3\]",
        ),
        (
            lambda td: td["position"][..., 0],
            r"needs a bool for each row, \[3\] or \[3, 1\], got torch.float32",
        ),
        (lambda td: True, r"needs a bool for each row, \[3\] or \[3, 1\], got bool"),
    ]
    for wrong, message in refused:
        env = TransformedEnv(Walk(3), ConditionalSkip(wrong))
        with pytest.raises(TypeError, match=f"the condition of ConditionalSkip {message}"):
            env.step(env.rand_action(env.reset()))
    with pytest.raises(TypeError, match="cond is called with the root of a step, got 3"):
        ConditionalSkip(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("simulated", [False, True])
def test_rows_that_are_skipped_keep_everything(
    declared: ModuleType, batch: tuple[int, ...], simulated: bool
) -> None:
    key, limit = ("count", 2.0) if simulated else ("position", 1.0)
    base = Counter(*batch) if simulated else Walk(*batch)
    freeze = declared.Freeze([key], far=limit) if not simulated else FreezeCount(limit)
    env = TransformedEnv(base, Compose(StepCounter(), freeze, RewardSum(), InitTracker()))
    check_env_specs(env)
    torch.manual_seed(0)
    root, skipped = env.reset(), 0
    for _ in range(8):
        root = env.rand_action(root)
        before = root.clone()
        _, following = env.step_and_maybe_reset(root)
        rows = (before[key].abs() > limit).flatten(len(batch)).any(-1)
        after = root["next"]
        skipped += int(rows.sum())
        for name in (key, "step_count", "episode_reward", "is_init", "done"):
            assert torch.equal(after[name][rows], before[name][rows]), name
        assert (after["reward"][rows] == 0).all()
        assert torch.equal(after["step_count"][~rows], before["step_count"][~rows] + 1)
        root = following
    assert skipped


def test_skips_are_joined_by_or(declared: ModuleType) -> None:
    chain = Compose(declared.Freeze(["position"], far=0.5), declared.Freeze(["step_count"], far=1.0))
    with pytest.raises(TypeError, match="Freeze needs float32 or float64, but 'step_count' is int64"):
        TransformedEnv(Walk(3), Compose(StepCounter(), chain)).rollout(1)
    env = TransformedEnv(
        Walk(3), Compose(declared.Freeze(["position"], far=0.2), declared.Freeze(["position"], far=0.1))
    )
    root = env.rand_action(env.reset())
    after = env.step(root.clone())["next"]
    rows = (root["position"].abs() > 0.1).any(-1)
    assert torch.equal(after["position"][rows], root["position"][rows])
    assert rows.tolist() == [False, True, True]


def test_a_skip_before_a_loop_is_asked_at_each_repetition(declared: ModuleType) -> None:
    env = TransformedEnv(
        Walk(), Compose(declared.Freeze(["position"], far=1.0), StepCounter(), FrameSkipTransform(4))
    )
    root = env.reset().set("action", torch.full((3,), 0.6))
    after = env.step(root)["next"]
    assert torch.equal(
        after["position"], walk_step(walk_step(root["position"], root["action"])[0], root["action"])[0]
    )
    assert after["step_count"].item() == 2


def limited(skips: ModuleType, name: str) -> list[Any]:
    """The classes of a chain."""
    if name == "FrozenSums":
        return [skips.Freeze(), StepCounter(), skips.Sums()]
    return [StepCounter(), skips.Freeze(), skips.Freeze(far=4.0), MultiAction(4), FrameSkipTransform(2)]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", ["FrozenSums", "FrozenSkip"])
def test_loops_around_skips_are_as_in_chains(skips: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    found = []
    for env in (
        TransformedEnv(Pendulum(batch_size=batch), Compose(*limited(skips, name))),
        getattr(skips, name)(batch_size=batch),
    ):
        check_env_specs(env)
        env.set_seed(3)
        torch.manual_seed(2)
        root, steps = env.reset(), []
        for number in range(12):
            step = env.step(env.rand_action(root))
            steps.append(step.exclude("_carry", ("next", "_carry")))
            root = env.step_mdp(step)
            if number % 4 == 3:
                rows = torch.zeros((*batch, 1), dtype=torch.bool)
                rows.view(-1)[0] = True
                root = env.reset(root.set("_reset", rows))
        found.append(torch.stack(steps))
    assert_identical(found[0], found[1])


def test_rows_that_stand_in_a_loop_fold_nothing(skips: ModuleType) -> None:
    env = skips.FrozenSums(batch_size=(50,))
    env.set_seed(0)
    torch.manual_seed(0)
    data = env.rollout(6)
    after, length = data["next"], data["next", "length"].squeeze(-1)
    assert {*length.flatten().tolist()} == {0, 1, 2, 3}
    steps = after["step_count"].squeeze(-1) - data["step_count"].squeeze(-1)
    assert torch.equal(steps, length)
    stands = length == 0
    assert torch.equal(after["observation"][stands], data["observation"][stands])
    assert (after["reward"][stands] == 0).all()
    torch.testing.assert_close(after["observation"][~stands], after["xs"].sum(-2)[~stands])
    taken = torch.arange(3) < length[..., None]
    rewards = after["rewards"].squeeze(-1)
    assert ((rewards == 0) == ~taken).all()
    best = rewards.masked_fill(~taken, -torch.inf).amax(-1)
    assert torch.equal(after["reward"].squeeze(-1)[~stands], best[~stands])


def test_a_fold_begins_where_a_row_steps_first(skips: ModuleType) -> None:
    class Late(SkipTransform[Any, Any]):
        """Rows stand in another number of repetitions each, which only a class written by hand can say."""

        asked = -1

        def _skips(self, tensordict: TensorDictBase) -> Iterator[torch.Tensor]:
            self.asked += 1
            yield torch.tensor([self.asked < n for n in range(4)])

    env = TransformedEnv(Pendulum(batch_size=(4,)), Compose(Late(), skips.Sums()))
    root = env.rand_action(env.reset())
    after = env.step(root.clone())["next"]
    assert after["length"].flatten().tolist() == [3, 2, 1, 0]
    rewards, state = [], root.clone()
    for _ in range(3):
        state = env.base_env.step(state)
        rewards.append(state["next", "reward"])
        state = env.base_env.step_mdp(state)
    for row, length in enumerate((3, 2, 1)):
        expected = [reward[row] for reward in rewards[:length]]
        assert torch.equal(after["rewards"][row], torch.stack([torch.zeros(1)] * row + expected))
        assert torch.equal(after["reward"][row], torch.stack(expected).amax(0))
    assert torch.equal(after["observation"][3], root["observation"][3])


@pytest.mark.parametrize("batch", BATCHES)
def test_a_simulator_stands_in_a_loop(skips: ModuleType, batch: tuple[int, ...]) -> None:
    counter = Counter(*batch)
    env = TransformedEnv(counter, Compose(FreezeCount(5), MultiAction(4)))
    root = env.reset()
    root = env.step_mdp(env.step(env.rand_action(root)))
    after = env.step(env.rand_action(root))["next"]
    # a row whose end is 5 steps ends there; all others stand at 6
    ends = counter.ends.clamp(max=6)
    assert torch.equal(after["count"], ends)
    expected = torch.stack([torch.where(ends >= n, n, 0) for n in range(5, 9)], len(batch)).float()
    assert torch.equal(after["rewards"], expected)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("noops", [0, 1, 7])
def test_noops_are_steps_of_each_row(batch: tuple[int, ...], noops: int) -> None:
    env = TransformedEnv(
        Walk(*batch), Compose(StepCounter(), NoopResetEnv(noops, random=False), InitTracker())
    )
    check_env_specs(env)
    torch.manual_seed(0)
    root = env.reset()
    assert not root["done"].any()
    assert root["is_init"].all()
    assert "action" not in root
    positions = flat_rows(walk_reset(torch.Size(batch)), batch)
    torch.manual_seed(0)
    counts = [0] * len(positions)
    for _ in range(noops):
        actions = flat_rows(env.base_env.rand_action()["action"], batch)
        for row, action in enumerate(actions):
            positions[row], _, over = walk_step(positions[row], action)
            counts[row] += 1
            if over:
                positions[row], counts[row] = flat_rows(walk_reset(torch.Size(batch)), batch)[row], 0
    assert torch.equal(root["position"], torch.stack(positions).reshape(*batch, 3))
    assert root["step_count"].flatten().tolist() == counts


def test_random_numbers_of_noops() -> None:
    env = TransformedEnv(CartPole(batch_size=(400,)), Compose(StepCounter(), NoopResetEnv(2)))
    torch.manual_seed(0)
    counts = env.reset()["step_count"].flatten()
    assert set(counts.tolist()) == {0, 1, 2}
    assert (torch.bincount(counts) > 80).all()


def test_noops_begin_no_episode_where_none_has_ended() -> None:
    begun = []

    class Counted(Walk):
        def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
            begun.append(1)
            return super()._reset(tensordict, **kwargs)

    env = TransformedEnv(Counted(2), NoopResetEnv(2, random=False))
    start = env.reset()
    assert len(begun) == 1
    assert not start["done"].any()
    assert not torch.equal(start["position"], walk_reset(env.batch_size))


def test_noops_follow_the_seed_of_the_environment() -> None:
    env = TransformedEnv(CartPole(batch_size=(50,)), Compose(StepCounter(), NoopResetEnv(5)))
    counts = []
    for seed in (3, 3, 4):
        env.set_seed(seed)
        torch.manual_seed(0)
        counts.append(env.reset()["step_count"])
    assert torch.equal(counts[0], counts[1])
    assert not torch.equal(counts[0], counts[2])


@pytest.mark.parametrize("batch", BATCHES)
def test_noops_of_rows_that_are_reset(batch: tuple[int, ...]) -> None:
    counter = Counter(*batch)
    env = TransformedEnv(counter, Compose(NoopResetEnv(7, random=False), StepCounter()))
    root = env.reset()
    # rows end after 5, 6, 7 … steps, and begin anew on the way
    ends = counter.ends
    assert torch.equal(root["count"], torch.where(ends <= 7, 7 % ends, 7))
    root = env.step_mdp(env.step(env.rand_action(root)))
    before = root.clone()
    mask = torch.zeros((*batch, 1), dtype=torch.bool)
    mask.view(-1)[0] = True
    after = env.reset(root.set("_reset", mask))
    assert after["count"].view(-1)[0] == 2
    assert torch.equal(after["count"][~mask], before["count"][~mask])
    assert torch.equal(after["step_count"], torch.where(mask, 0, before["step_count"]))
