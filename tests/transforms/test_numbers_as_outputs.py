"""Outputs that are a number in each place of their role: a statistic, a parameter, a truth value."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import: [specgen_std/envs/pendulum]
transforms:
  Learned:
    in: {x: {each: [observation], type: "float32[...]"}}
    out: {y: {each: x, name: average}}
    buffers:
      count: {each: x, type: float64, init: 0.0}
      mean: {each: x, type: "float64[...]", init: 0.0}
    update:
      next.count: count + batch_count()
      next.mean: mean + batch_sum(x - mean) / next.count
    map: {y: mean}
  Known:
    params: {wide: {default: 2.5}}
    in: {x: {each: [observation], type: "float32[...]"}}
    out:
      there: {each: x, name: there}
      half: {each: x, name: half}
      twice: {each: x, name: twice}
      fresh: {each: x, name: fresh}
      itself: {each: x, name: itself}
    map: {there: true, half: wide, twice: float64(2 * wide), seen: x, itself: seen}
    reset: {fresh: true}
    step: {next.fresh: false}
chains:
  Train: {env: Pendulum, transforms: [Learned, Known]}
"""


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_chain_gives_what_the_classes_give(batch: tuple[int, ...], tmp_path: Path) -> None:
    with imported(generate({"made.yaml": SCHEMA}, "bare_numbers"), "bare_numbers", tmp_path) as package:
        chain = Compose(package.Learned(), package.Known())
        envs = TransformedEnv(Pendulum(batch_size=batch), chain), package.Train(batch_size=batch)
        found = []
        for env in envs:
            env.set_seed(3)
            torch.manual_seed(1)
            found.append(env.rollout(6, break_when_any_done=False))
        data, fused = found
        for env in envs:
            check_env_specs(env)
    names = {
        "average": torch.float64,
        "there": torch.bool,
        "half": torch.float32,
        "twice": torch.float64,
        "fresh": torch.bool,
        "itself": torch.float32,
    }
    for name, dtype in names.items():
        assert data[name].dtype is fused[name].dtype is dtype
        assert data[name].shape == data["observation"].shape
        torch.testing.assert_close(fused["next", name], data["next", name])
    seen = torch.cat([data["observation"][..., :1, :], data["next", "observation"]], -2).double()
    expected = seen.flatten(0, -2).mean(0)
    last = data["next", "average"][..., -1, :]
    torch.testing.assert_close(last, expected.expand_as(last))
    assert envs[0].observation_spec["itself"] == Pendulum(batch_size=batch).observation_spec["observation"]
