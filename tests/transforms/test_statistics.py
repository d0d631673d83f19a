"""Transforms that learn: VecNorm alone, with rows that stand still, frozen, saved, shared by processes, against TorchRL's."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, ParallelEnv
from specgen_runtime.specs import Categorical, Composite, Unbounded
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import StepCounter, VecNorm
from tensordict import TensorDict, TensorDictBase

from tests.compiled_cases import ROOT
from tests.support import generate, imported
from tests.transforms.envs import Team, Walk

BATCHES = [(), (3,), (4, 3)]


def beside(**options: Any) -> VecNorm:
    """Positions and rewards stay as they are, so that what was seen can be looked up."""
    return VecNorm(["position", "reward"], ["normed", "normed_reward"], **options)


def statistics(transform: VecNorm) -> dict[str, torch.Tensor]:
    return dict(transform.state_dict())


def weighted(values: list[torch.Tensor], decay: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weight, mean and variance of the values in their order, the last with the weight 1."""
    weights = torch.tensor([decay ** (len(values) - 1 - k) for k in range(len(values))], dtype=torch.float64)
    stacked = torch.stack(values).double()
    share = (weights / weights.sum()).reshape(-1, *(1,) * (stacked.ndim - 1))
    mean = (share * stacked).sum(0)
    return weights.sum(), mean, (share * (stacked - mean) ** 2).sum(0)


class Replay(EnvBase):
    """Gives rows of numbers that were drawn before, one after the other; ends in some rows."""

    def __init__(self, values: torch.Tensor, ends: torch.Tensor) -> None:
        batch = values.shape[1:-1]
        super().__init__(batch_size=batch)
        self.observation_spec = Composite(
            position=Unbounded(values.shape[1:], dtype=values.dtype), shape=batch
        )
        self.action_spec = Unbounded((*batch, 1))
        self.reward_spec = Unbounded((*batch, 1), dtype=values.dtype)
        flag = Categorical(2, shape=(*batch, 1), dtype=torch.bool)
        self.done_spec = Composite(done=flag, terminated=flag.clone(), shape=batch)
        self.values, self.ends, self.time = values, ends, -1
        self.seen: list[torch.Tensor] = []

    def _now(self) -> torch.Tensor:
        self.time += 1
        return self.values[self.time % len(self.values)].clone()

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        new = torch.ones(*self.batch_size, 1, dtype=torch.bool)
        if tensordict is not None and "_reset" in tensordict:
            new = tensordict["_reset"]
        value = self._now()
        self.seen += list(value[new.squeeze(-1)])
        # What is computed for other rows is nobody's value.
        return TensorDict({"position": torch.where(new, value, torch.nan)}, self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        value = self._now()
        self.seen += list(value.reshape(-1, value.shape[-1]))
        done = self.ends[self.time % len(self.ends)].clone()
        reward = value.sum(-1, keepdim=True)
        return TensorDict(
            {"position": value, "reward": reward, "done": done, "terminated": done}, self.batch_size
        )

    def _set_seed(self, seed: int | None) -> None:
        del seed


def replay(*batch: int, length: int = 50) -> Replay:
    torch.manual_seed(0)
    return Replay(10 + torch.randn(length, *batch, 2), torch.rand(length, *batch, 1) < 0.2)


@pytest.mark.parametrize("decay", [1.0, 0.99, 0.9])
def test_one_row_after_the_other(decay: float) -> None:
    env = replay()
    transformed = TransformedEnv(env, beside(decay=decay))
    transformed.rollout(30, break_when_any_done=False)
    learned = statistics(transformed.transform)
    weight, mean, spread = weighted(env.seen, decay)
    torch.testing.assert_close(learned["count|position"], weight)
    torch.testing.assert_close(learned["loc|position"], mean)
    torch.testing.assert_close(learned["var|position"], spread)
    assert all(value.dtype == torch.float64 for value in learned.values())


@pytest.mark.parametrize("batch", [(3,), (4, 3)])
def test_rows_that_stand_still_do_not_count(batch: tuple[int, ...]) -> None:
    env = replay(*batch)
    data = TransformedEnv(env, transform := beside(decay=1.0)).rollout(30, break_when_any_done=False)
    learned = statistics(transform)
    seen = torch.stack(env.seen).double()
    rows = torch.Size(batch).numel()
    assert rows * 31 < len(seen) < rows * 61  # some rows were reset, and not all at once
    assert learned["count|position"] == len(seen)
    assert learned["count|reward"] == rows * 30  # a reset has no reward
    torch.testing.assert_close(learned["loc|position"], seen.mean(0))
    torch.testing.assert_close(learned["var|position"], seen.var(0, correction=0))
    assert data["normed"].isfinite().all()


def test_a_mask_of_those_who_step() -> None:
    env = TransformedEnv(Walk(4), transform := beside(decay=1.0))
    root = env.reset()
    before = statistics(transform)["count|position"].clone()
    assert before == 4
    mask = torch.tensor([True, False, True, False])
    env.step(env.rand_action(root).set("_step", mask))
    assert statistics(transform)["count|position"] == 6
    assert statistics(transform)["count|reward"] == 2
    env.step(env.rand_action(root).set("_step", torch.zeros(4, dtype=torch.bool)))
    assert statistics(transform)["count|position"] == 6


class EverySecond(Transform):
    """Lets every second environment step."""

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict.set("_step", torch.arange(tensordict.batch_size[0]) % 2 == 0)


def test_a_transform_says_who_steps() -> None:
    env = TransformedEnv(Walk(4), Compose(transform := beside(decay=1.0), EverySecond()))
    root = env.reset()
    following = env.step(env.rand_action(root))["next"]
    assert torch.equal(following["position"][1::2], root["position"][1::2])
    assert transform.state_dict()["count|position"] == 6
    assert transform.state_dict()["count|reward"] == 2


def test_many_rows_at_once_weigh_as_one_by_one() -> None:
    torch.manual_seed(0)
    values = (10 + torch.randn(960)).split(1)
    for decay in (0.9999, 0.99, 1.0):
        found = []
        for rows in (1, 8, 64):
            env = Replay(torch.stack(values).reshape(-1, rows, 1), torch.zeros(1, rows, 1, dtype=torch.bool))
            TransformedEnv(env, transform := beside(decay=decay)).rollout(960 // rows - 1)
            found.append(statistics(transform))
        for other in found[1:]:
            torch.testing.assert_close(other["count|position"], found[0]["count|position"])
            torch.testing.assert_close(other["loc|position"], found[0]["loc|position"], rtol=0, atol=0.05)
        assert all(0.9 < learned["var|position"].sqrt() < 1.1 for learned in found)


def test_what_is_shown_follows_from_what_is_learned() -> None:
    env = replay(3)
    transformed = TransformedEnv(env, transform := beside())
    root = transformed.reset()
    following = transformed.step(transformed.rand_action(root))["next"]
    learned = statistics(transform)
    deviation = learned["var|position"].sqrt().clamp(min=1e-4)
    expected = ((following["position"].double() - learned["loc|position"]) / deviation).float()
    assert torch.equal(following["normed"], expected)
    assert transformed.observation_spec["normed"].dtype == torch.float32
    in_place = TransformedEnv(replay(3), VecNorm(["position", "reward"]))
    data = in_place.rollout(5)
    assert data["next", "position"].abs().mean() < 3


def test_data_from_elsewhere_teach_nothing() -> None:
    env = TransformedEnv(replay(3), transform := VecNorm(["position", "reward"]))
    env.rollout(10, break_when_any_done=False)
    before = statistics(transform)
    data = replay(3).rollout(8)
    result = transform(data.copy())
    assert statistics(transform).keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in statistics(transform).items())
    for place in ("position", ("next", "position")):
        deviation = before["var|position"].sqrt()
        assert torch.equal(
            result[place], ((data[place].double() - before["loc|position"]) / deviation).float()
        )


def test_frozen() -> None:
    env = TransformedEnv(replay(3), transform := beside())
    env.rollout(5)
    kept = transform.frozen_copy()
    transform.freeze()
    assert transform.frozen
    before = statistics(transform)
    env.rollout(5)
    assert all(torch.equal(value, before[name]) for name, value in statistics(transform).items())
    transform.unfreeze()
    env.rollout(5)
    assert not torch.equal(statistics(transform)["loc|position"], before["loc|position"])
    assert kept.frozen
    assert torch.equal(statistics(kept)["loc|position"], before["loc|position"])
    other = TransformedEnv(replay(3), kept)
    other.rollout(5)
    assert torch.equal(statistics(kept)["loc|position"], before["loc|position"])
    env.eval()  # environments put transforms in eval mode; that stops nothing
    env.rollout(5)
    assert statistics(transform)["count|position"] > before["count|position"]


@pytest.mark.parametrize("bound", [True, False])
def test_saved_and_loaded(bound: bool) -> None:
    env = TransformedEnv(replay(3), beside())
    env.rollout(5, break_when_any_done=False)
    saved, time = env.state_dict(), env.base_env.time
    assert set(saved) == {
        f"{name}|{key}" for name in ("count", "loc", "var") for key in ("position", "reward")
    }
    expected = env.rollout(5, break_when_any_done=False)

    fresh = beside()
    source = replay(3)
    if bound:
        other = TransformedEnv(source, fresh)
        other.load_state_dict(saved)
    else:
        fresh.load_state_dict(saved)
        other = TransformedEnv(source, fresh)
    source.time = time
    assert torch.equal(
        other.rollout(5, break_when_any_done=False)["next", "normed"], expected["next", "normed"]
    )
    untouched = copy.deepcopy(saved)
    other.rollout(3)
    assert all(torch.equal(saved[name], untouched[name]) for name in saved)


def test_what_does_not_fit_is_refused() -> None:
    small, large = TransformedEnv(replay(3), beside()), TransformedEnv(Walk(3), beside())
    small.rollout(3)
    late = beside()
    late.load_state_dict(small.state_dict())
    with pytest.raises(ValueError, match=r"'loc\|position' of the shape \[2\], .* asks for \[3\]"):
        TransformedEnv(Walk(3), late).reset()
    large.reset()
    with pytest.raises(RuntimeError, match=r"'loc\|position' has the shape \[2\], where \[3\] is wanted"):
        large.load_state_dict(small.state_dict())
    with pytest.raises(RuntimeError, match="Missing key"):
        large.load_state_dict(VecNorm().state_dict())
    with pytest.raises(RuntimeError, match="learns from what passes through it"):
        beside().learn(TensorDict({}, []))
    with pytest.raises(RuntimeError, match="into an environment first"):
        beside().share_memory()


def test_casts_leave_statistics_alone() -> None:
    env = TransformedEnv(replay(3), transform := beside())
    env.rollout(5)
    before = statistics(transform)
    transform.float()
    env.to(torch.float32)
    assert all(value.dtype == torch.float64 for value in statistics(transform).values())
    assert all(torch.equal(value, before[name]) for name, value in statistics(transform).items())


def test_copies_have_their_own() -> None:
    env = TransformedEnv(replay(3), beside())
    env.rollout(5)
    before = statistics(env.transform)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        twin.rollout(5)
        assert all(torch.equal(value, before[name]) for name, value in statistics(env.transform).items())
        assert statistics(twin.transform)["count|position"] > before["count|position"]


def test_nested_keys() -> None:
    keys = [("agents", "x"), ("agents", "reward")]
    env = TransformedEnv(Team(3), Compose(StepCounter(max_steps=4), VecNorm(keys, decay=1.0)))
    env.rollout(9, break_when_any_done=False)
    learned = env.state_dict()
    names = {"|".join((name, *key)) for name in ("count", "loc", "var") for key in keys}
    assert {name.removeprefix("transforms.1.") for name in learned} == names
    assert learned["transforms.1.loc|agents|x"].shape == (2, 1)
    assert learned["transforms.1.count|agents|reward"] == 27


def shared_env(transform: VecNorm, seed: int) -> TransformedEnv:
    torch.manual_seed(seed)
    values = 10 + torch.randn(40, 2)
    return TransformedEnv(Replay(values, torch.zeros(1, 1, dtype=torch.bool)), transform.clone())


@pytest.mark.parametrize("whose", ["transform", "chain", "environment", "environment around it"])
def test_four_processes_learn_together(whose: str) -> None:
    first = TransformedEnv(replay(), Compose(transform := beside(decay=1.0)))
    around = TransformedEnv(first, Compose(), auto_unwrap=False)
    shared = {"transform": transform, "chain": first.transform, "environment": first}.get(whose, around)
    assert shared.share_memory() is shared
    workers = ParallelEnv(4, [partial(shared_env, transform.clone(), seed) for seed in range(4)])
    data = workers.rollout(20, break_when_any_done=False)
    workers.close()
    seen = torch.cat([data["position"][:, :1], data["next", "position"]], 1).reshape(-1, 2).double()
    learned = statistics(transform)
    assert learned["count|position"] >= len(seen)
    assert learned["count|reward"] == 80
    torch.testing.assert_close(learned["loc|reward"], data["next", "reward"].double().mean((0, 1)))
    spread = data["next", "reward"].double().reshape(-1).var(correction=0)
    torch.testing.assert_close(learned["var|reward"][0], spread)
    alone = copy.deepcopy(transform)
    before = statistics(transform)["count|reward"]
    TransformedEnv(replay(), alone.frozen_copy()).rollout(3)
    assert statistics(transform)["count|reward"] == before


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    name = "transform_that_learns"
    schema = (ROOT / "good" / name / "transforms.yaml").read_text(encoding="utf-8")
    with imported(generate({"transforms.yaml": schema}, name), name, tmp_path_factory.mktemp("generated")):
        yield importlib.import_module(f"{name}.transforms")


def test_one_for_all_keys(declared: ModuleType) -> None:
    env = TransformedEnv(Walk(3), transform := declared.Seen(["position"]))
    assert torch.equal(env.reset()["least_position"], torch.zeros(3, 3))
    assert {name: value.tolist() for name, value in transform.state_dict().items()} == {
        "seen": 3,
        "begun": True,
    }
    root = env.reset()
    assert torch.equal(root["least_position"], root["position"])
    root["_reset"] = torch.tensor([[True], [False], [False]])
    env.reset(root)
    assert transform.state_dict()["seen"] == 7
    both = TransformedEnv(
        Walk(3), Compose(StepCounter(), several := declared.Seen(["position", "position"], ["a", "b"]))
    )
    both.reset()
    assert several.state_dict()["seen"] == 3
    data = Walk(3).rollout(4)
    transform(data)
    assert transform.state_dict()["seen"] == 7


def test_learned_when_called(declared: ModuleType) -> None:
    transform = declared.Centre(["position"])
    env = TransformedEnv(Walk(3), transform)
    with pytest.raises(RuntimeError, match=r"no 'mean' of 'position' yet: .* `init_stats"):
        env.reset()
    assert not transform.state_dict()
    torch.manual_seed(0)
    transform.init_stats(20)
    torch.manual_seed(0)
    seen = Walk(3).rollout(20, break_when_any_done=False)["next", "position"]
    expected = (0.9 * seen.double().mean((0, 1))).float()
    assert torch.equal(transform.state_dict()["mean|position"], expected)
    data = env.rollout(5)
    assert torch.equal(transform.state_dict()["mean|position"], expected)
    assert torch.equal(data["next", "position"], data["next", "_carry", "e0", "position"] - expected)
    with pytest.raises(RuntimeError, match="already; they are learned once"):
        transform.init_stats(3)
    given = declared.Centre(["position"], loc=[1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="already"):
        given.learn(Walk(3).rollout(3))
    assert torch.equal(
        given(Walk(3).reset())["position"], Walk(3).reset()["position"] - torch.tensor([1.0, 2.0, 3.0])
    )
    alone = declared.Centre(["position"])
    alone.learn(data["next"].exclude("_carry"), "position")
    assert alone.state_dict()["mean|position"].dtype == torch.float32
    with pytest.raises(KeyError, match="does not work on 'speed'"):
        alone.learn(data, "speed")
    with pytest.raises(RuntimeError, match="needs an environment"):
        declared.Centre(["position"]).init_stats(3)
    with pytest.raises(ValueError, match=r"with the shape \[2\], but a row of it has \[3\]"):
        declared.Centre(["position"], loc=[1.0, 2.0])(data)


@pytest.mark.peers
def test_agrees_with_torchrl() -> None:
    theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
    torch.manual_seed(0)
    env = Replay(
        torch.randn(50, 2), torch.zeros(1, 1, dtype=torch.bool)
    )  # far from zero the peer's sums cancel
    for decay in (0.99, 1.0):
        data = TransformedEnv(env, beside(decay=decay, eps=1e-4)).rollout(20)
        shown = torch.cat([data["normed"][:1], data["next", "normed"]])
        peer = theirs.VecNorm(["position"], decay=decay, eps=1e-4, new_api=False)
        seen = torch.cat([data["position"][:1], data["next", "position"]])
        # Offline, the peer learns as well; one row at a time nobody stands still.
        expected = torch.stack([peer(TensorDict({"position": value}, []))["position"] for value in seen])
        torch.testing.assert_close(shown[2:], expected[2:], rtol=1e-3, atol=1e-3)
