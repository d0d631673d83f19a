"""Roles that are a done flag: that of the root-most done set on the path of another role, in its dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import StepCounter

from tests.support import generate, imported
from tests.transforms.envs import Team, Walk

SCHEMA = """\
specgen: 1
transforms:
  Last:
    doc: Show rewards and positions where an episode ends, and zeros elsewhere.
    in:
      x: {each: [reward], type: "float[...]"}
      ends: {flag: done, of: x, doc: the episode ends}
    out: {last: {each: x, name: "last_{}", type: like(x)}}
    reset: {last: zeros_like(last)}
    step: {next.last: "where(next.ends, next.x, 0.0)"}
  Ends:
    doc: Count the ends of each kind that were met so far.
    in:
      x: {key: position, type: "float32[n]"}
      fell: {flag: terminated, of: x}
      late: {flag: truncated, of: x}
    out: {reasons: {key: reasons, type: "int64[2]"}}
    reset: {reasons: "zeros((2,), dtype=int64)"}
    step: {next.reasons: "stack(int64(any(next.fell)), int64(any(next.late)))"}
"""
BATCHES = [(), (3,), (4, 3)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"a.yaml": SCHEMA}, "flag_roles")
    with imported(files, "flag_roles", tmp_path_factory.mktemp("f")) as found:
        yield found


@pytest.mark.parametrize("batch", BATCHES)
def test_in_the_dimensions_of_the_role(package: ModuleType, batch: tuple[int, ...]) -> None:
    last = package.Last(in_keys=["reward", "position"], out_keys=["last_reward", "last_position"])
    env = TransformedEnv(Walk(*batch), Compose(StepCounter(6), last))
    check_env_specs(env)
    torch.manual_seed(0)
    data = env.rollout(30, break_when_any_done=False)["next"]
    for name in ("reward", "position"):
        expected = torch.where(data["done"], data[name], 0.0)
        assert torch.equal(data[f"last_{name}"], expected)
    assert data["done"].any()
    assert not data["done"].all()


@pytest.mark.parametrize("batch", BATCHES)
def test_flags_of_the_root_for_agents(package: ModuleType, batch: tuple[int, ...]) -> None:
    keys = [("agents", "reward"), ("agents", "x")]
    last = package.Last(in_keys=keys, out_keys=[("agents", "last_reward"), ("agents", "last_x")])
    env = TransformedEnv(Team(*batch), Compose(StepCounter(4), last))
    check_env_specs(env)
    data = env.rollout(9, break_when_any_done=False)["next"]
    for name in ("reward", "x"):
        expected = torch.where(data["done"].unsqueeze(-1), data["agents", name], 0.0)
        assert torch.equal(data["agents", f"last_{name}"], expected)
    assert data["done"].any()


def test_each_flag_by_itself(package: ModuleType) -> None:
    env = TransformedEnv(Walk(16), Compose(StepCounter(5), package.Ends()))
    check_env_specs(env)
    data = env.rollout(20, break_when_any_done=False)["next"]
    kinds = torch.cat([data["terminated"], data["truncated"]], -1)
    assert torch.equal(data["reasons"], kinds.long())
    assert kinds.any(0).any(0).all()


def test_offline_equals_online(package: ModuleType) -> None:
    chain = Compose(StepCounter(4), package.Last(in_keys=[("agents", "reward")]))
    data = TransformedEnv(Team(3), chain).rollout(9, break_when_any_done=False)
    made = ("agents", "last_reward")
    replayed = package.Last(in_keys=[("agents", "reward")])(data.exclude(made, ("next", *made)))
    assert torch.equal(replayed["next", made], data["next", made])


def test_flags_that_nobody_has(package: ModuleType) -> None:
    with pytest.raises(
        KeyError, match=r"Ends reads 'truncated' of 'position', and nothing on its path has that flag"
    ):
        TransformedEnv(Walk(2), package.Ends()).reset()
