"""`python -m` of a pipeline whose file declares what classes of users do."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime.training import read_log

from tests.python_processes import run_python
from tests.support import generate

PIPELINE = """\
pipelines:
  Learner:
    doc: A training.
    env: PlaceTrain
    networks: {actor_network: {mlp: [8]}, critic_network: {mlp: [8]}}
    loss: {ClipPPOLoss: {entropy_bonus: false}}
    value_estimator: {gae: {gamma: 0.9, lmbda: 0.9}}
    data: {on_policy: {num_envs: 16, num_steps: 16, minibatches: 2}}
    optimizer: {adam: {lr: 1.0e-3}}
    stop: {frames: 256}
"""
HEAD = "specgen: 1\nimport: [specgen_std/losses/ppo, specgen_std/transforms/step_counter, specgen_std/envs/pendulum]\n"
ENV = """\
envs:
  Place:
    doc: A point that is moved.
    python: places_of_tests:Dynamics
    state: {x: "float32[1]"}
    action: {action: "float32[1] in [-1, 1]"}
    observation: {observation: "float32[1]"}
chains: {PlaceTrain: {env: Place, transforms: [{StepCounter: {max_steps: 6}}]}}
"""
DYNAMICS = """\
import torch
from run_here.learner import PlaceProtocol, PlaceReset, PlaceStep


class Dynamics(PlaceProtocol):
    def __init__(self, setup):
        pass

    def reset(self, rows, generator):
        return PlaceReset(x=torch.zeros(rows, 1), observation=torch.ones(rows, 1))

    def step(self, state, action, generator):
        x, never = state.x + action, torch.zeros(len(action), dtype=torch.bool)
        return PlaceStep(x=x, observation=1 - x, reward=-x[:, 0].abs(), terminated=never, truncated=never)
"""
TRANSFORM = """\
transforms:
  Halved:
    doc: Half of what is observed.
    python: places_of_tests:Halving
    phases: [map]
    in: {x: {key: observation, type: "float32[n]"}}
    out: {y: {key: half, type: "float32[3]"}}
chains: {PlaceTrain: {env: Pendulum, transforms: [{StepCounter: {max_steps: 6}}, Halved]}}
"""
HALVING = """\
from run_here.learner import HalvedMap, HalvedProtocol


class Halving(HalvedProtocol):
    def __init__(self, setup):
        pass

    def map(self, inputs):
        return HalvedMap(y=inputs.x / 2)
"""


@pytest.mark.parametrize(
    ("declared", "written"), [(ENV, DYNAMICS), (TRANSFORM, HALVING)], ids=["environment", "transform"]
)
def test_records_are_those_of_the_module_that_runs(tmp_path: Path, declared: str, written: str) -> None:
    for path, text in generate({"learner.yaml": HEAD + declared + PIPELINE}, "run_here").items():
        file = tmp_path / "run_here" / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    (tmp_path / "places_of_tests.py").write_text(written)
    few = ["--evaluate-episodes", "2", "--folder", "run"]
    done = run_python("-m", "run_here.learner", *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["frames"] for row in read_log(tmp_path / "run" / "log.csv")] == [256]


def test_it_is_run_when_all_of_it_is_defined() -> None:
    module = generate({"learner.yaml": HEAD + ENV + PIPELINE}, "run_here")["learner.py"]
    assert 0 < module.index("\nelse:\n    ") < module.index('\nif __name__ == "__main__":')
    assert module.endswith(".main()\n")
