"""Parameters of transforms that differ between the environments of a batch."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Unbounded
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum

from tests.support import generate, imported
from tests.transforms.envs import Team, Walk, rollouts_alike

SCHEMA = """\
specgen: 1
import: [specgen_std/envs/pendulum]
transforms:
  Limit:
    doc: Truncate episodes at a length of their own.
    params:
      limit: {type: int, per_env: true, min: 1, doc: the length at which an episode is truncated}
      strict: {default: true, per_env: true, doc: whether it is}
    in: {done: {each: env.done, type: "bool[...]"}}
    out:
      age: {each: done, name: age, type: "int64[...]"}
      truncated: {each: done, name: truncated, type: "bool[...]"}
    carry: [age]
    reset: {age: zeros_like(age)}
    step:
      next.age: age + 1
      next.truncated: next.truncated or next.age >= limit and strict
  Clip:
    doc: Clip entries, and count how often that was needed.
    params: {most: {default: 1.0, per_env: true, min: 0, doc: the largest size}}
    in: {x: {each: env.reward, type: "float[...]"}}
    out: {y: {each: x, name: same, type: like(x)}}
    buffers: {clipped: {each: x, type: float64, init: 0.0}}
    update: {next.clipped: "clipped + batch_sum(max(where(abs(x) > most, 1.0, 0.0)))"}
    map: {y: "clip(x, -most, most)"}
  Scale:
    doc: Scale entries.
    params: {factor: {type: float, per_env: true, doc: the factor}}
    in: {x: {each: [observation], type: "float[...]"}}
    out: {y: {each: x, name: scaled, type: like(x)}}
    map: {y: x * factor}
  Push:
    doc: Stronger or weaker actions, and a wind.
    params:
      gain: {type: float, per_env: true, doc: what actions are multiplied by}
      wind: {default: 0.0, per_env: true, doc: what is added}
      flip: {default: false, per_env: true, doc: whether they change their sign}
    in: {u: {each: [action], type: "float[...]", inverse: true}}
    out: {v: {each: u, name: same, type: like(u)}}
    inverse:
      turned: where(flip, -v, v)
      u: clip(gain * turned + wind, -2, 2)
  Returns:
    doc: Discounted sums of rewards, at rates of their own.
    params:
      gamma: {default: 0.5, per_env: true, doc: what later rewards count}
      share: {default: 1.0, per_env: true, doc: what counts of the value of what follows}
    in: {reward: {each: [reward], type: "float[...]"}, value: {key: value, type: "float[...reward]"}}
    out: {togo: {each: reward, name: to_go, type: like(reward)}}
    offline:
      start: {togo: 0.0}
      step: {togo: next.reward + gamma * acc.togo}
      open: {togo: share * next.value}
chains:
  Pushed: {env: Pendulum, transforms: [{Push: {gain: 0.5, flip: true}}, {Limit: {limit: 7}}]}
  Timed: {env: Pendulum, transforms: [{Limit: {limit: 7}}, {Scale: {factor: 0.5}}]}
"""
BATCHES = [(), (3,), (4, 3)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"a.yaml": SCHEMA}, "per_env_params")
    with imported(files, "per_env_params", tmp_path_factory.mktemp("p")):
        yield importlib.import_module("per_env_params.a")


@pytest.mark.parametrize("batch", BATCHES)
def test_each_row_has_its_own(package: ModuleType, batch: tuple[int, ...]) -> None:
    limits = torch.arange(2, 2 + torch.Size(batch).numel()).reshape(batch)
    env = TransformedEnv(Pendulum(batch_size=batch), package.Limit(limits))
    check_env_specs(env)
    env = TransformedEnv(Pendulum(batch_size=batch), transform := package.Limit(limits))
    data = env.rollout(30, break_when_any_done=False)["next"]
    assert torch.equal(data["truncated"], data["age"] == limits.reshape(*batch, 1, 1))
    assert data["age"].max() == limits.max()
    assert torch.equal(transform.state_dict()["limit"], limits)


def test_values_are_broadcast(package: ModuleType) -> None:
    for limit in (3, [3, 3, 3], [[3], [3], [3], [3]], torch.full((4, 3), 3)):
        env = TransformedEnv(Pendulum(batch_size=(4, 3)), package.Limit(limit))
        data = env.rollout(7, break_when_any_done=False)["next"]
        assert torch.equal(data["truncated"], data["age"] == 3)
    first = package.Limit(5, strict=torch.tensor([[True], [False], [False], [True]]))
    data = TransformedEnv(Pendulum(batch_size=(4, 3)), first).rollout(7, break_when_any_done=False)["next"]
    assert data["truncated"].any(-2).squeeze(-1).any(-1).tolist() == [True, False, False, True]


def test_flags_of_groups(package: ModuleType) -> None:
    env = TransformedEnv(Team(3), package.Limit([2, 3, 4]))
    check_env_specs(env)
    data = env.rollout(4, break_when_any_done=False)["next"]
    assert [row.squeeze(-1).tolist().index(True) for row in data["truncated"]] == [1, 2, 3]
    assert torch.equal(data["agents", "truncated"].all(-2), data["truncated"])


def test_entries_of_any_dimensions_and_statistics(package: ModuleType) -> None:
    most = torch.tensor([0.1, 0.5, 2.0])
    env = TransformedEnv(Walk(3), clip := package.Clip(most=most))
    torch.manual_seed(0)
    data = env.rollout(20, break_when_any_done=False)["next"]
    assert (data["reward"].abs() <= most[:, None, None]).all()
    torch.manual_seed(0)
    plain = Walk(3).rollout(20, break_when_any_done=False)["next", "reward"]
    assert torch.equal(data["reward"], plain.clamp(-most[:, None, None], most[:, None, None]))
    assert clip.state_dict()["clipped|reward"] == (plain.abs() > most[:, None, None]).sum()


def test_recorded_data(package: ModuleType) -> None:
    factor = torch.tensor([1.0, 2.0, 4.0])
    for dtype in (torch.float32, torch.float64):
        env = TransformedEnv(Walk(3, dtype=dtype), package.Scale(factor, in_keys=["position"]))
        data = env.rollout(5)
        assert data["scaled"].dtype == dtype
        assert torch.equal(data["next", "scaled"], data["next", "position"] * factor.to(dtype)[:, None, None])
        again = package.Scale(factor, in_keys=["position"])(data.exclude("scaled", ("next", "scaled")))
        assert torch.equal(again["next", "scaled"], data["next", "scaled"])
    data = TransformedEnv(Walk(3), package.Limit([2, 3, 4])).rollout(5, break_when_any_done=False)
    plain = data.exclude("age", ("next", "age"), "truncated", ("next", "truncated"))
    assert torch.equal(package.Limit([2, 3, 4])(plain)["next", "age"], data["next", "age"])


@pytest.mark.parametrize("batch", BATCHES)
def test_actions(package: ModuleType, batch: tuple[int, ...]) -> None:
    rows = torch.Size(batch).numel()
    gain, flip = torch.linspace(0.5, 1.5, rows).reshape(batch), (torch.arange(rows) % 2 == 1).reshape(batch)
    env = TransformedEnv(Pendulum(batch_size=batch), push := package.Push(gain, wind=0.25, flip=flip))
    check_env_specs(env)
    assert env.action_spec == Unbounded((*batch, 1))
    root = env.reset()
    root["action"] = torch.linspace(-1, 1, rows).reshape(*batch, 1)
    after = env.step(root.clone())["next"]
    signs = torch.where(flip, -1.0, 1.0).unsqueeze(-1)
    given = (gain.unsqueeze(-1) * signs * root["action"] + 0.25).clamp(-2, 2)
    assert torch.equal(push.inv(root.clone())["action"], given)
    plain = Pendulum(batch_size=batch).step(root.clone().set("action", given))["next"]
    assert torch.equal(after["observation"], plain["observation"])
    assert torch.equal(package.Push(gain, wind=0.25, flip=flip).inv(root.clone())["action"], given)
    times = torch.stack([root, root], -1)  # recorded data, with a dimension of time
    assert torch.equal(push.inv(times)["action"], torch.stack([given, given], -2))


def test_chains_give_all_rows_one_action_parameter(package: ModuleType) -> None:
    chain = Compose(package.Push(0.5, flip=True), package.Limit(7))
    rollouts_alike((package.Pushed(batch_size=(3,)), TransformedEnv(Pendulum(batch_size=(3,)), chain)), 9)
    assert package.Pushed().action_spec == Unbounded((1,))


@pytest.mark.parametrize("batch", BATCHES)
def test_recursions_over_recorded_data(package: ModuleType, batch: tuple[int, ...]) -> None:
    rows = torch.Size(batch).numel()
    gamma, share = torch.linspace(0.1, 0.9, rows).reshape(batch), torch.linspace(1, 2, rows).reshape(batch)
    torch.manual_seed(0)
    data = TransformedEnv(Walk(*batch), package.Limit(4)).rollout(11, break_when_any_done=False)
    data["next", "value"] = torch.rand(*batch, 11, 1)
    found = package.Returns(gamma=gamma, share=share)(data.clone())["next", "to_go"].reshape(rows, 11)
    flat = data["next"].reshape(rows, 11)
    for row in range(rows):
        togo = share.flatten()[row] * flat["value"][row, -1, 0]
        for t in reversed(range(11)):
            togo = torch.zeros(()) if flat["done"][row, t, 0] else togo
            togo = flat["reward"][row, t, 0] + gamma.flatten()[row] * togo
            torch.testing.assert_close(found[row, t], togo)
    with pytest.raises(ValueError, match="gamma"):
        package.Returns(gamma=torch.rand(*batch, 7))(data)


def test_values_that_do_not_fit(package: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"limit must be >= 1, got \[1, 0\]"):
        package.Limit([1, 0])
    with pytest.raises(TypeError, match=r"limit is int64, got torch\.float32"):
        package.Limit(1.5)
    with pytest.raises(TypeError, match=r"strict is bool, got torch\.int64"):
        package.Limit(1, strict=1)
    with pytest.raises(ValueError, match=r"Limit has 'limit' of the shape \[2\], and a batch of \[3\]"):
        TransformedEnv(Pendulum(batch_size=[3]), package.Limit([1, 2])).rollout(2)


@pytest.mark.parametrize("batch", BATCHES)
def test_a_chain_gives_all_the_same(package: ModuleType, batch: tuple[int, ...]) -> None:
    dynamic = TransformedEnv(Pendulum(batch_size=batch), Compose(package.Limit(7), package.Scale(0.5)))
    rollouts_alike((dynamic, package.Timed(batch_size=batch)), 30)
