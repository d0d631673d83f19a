"""`env.params`: another record takes its place between steps, through what is around an environment, too."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from specgen_runtime.envs import EnvBase, GymWrapper, ParallelEnv, SerialEnv
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms import StepCounter

from tests.compiled_cases import compiled_case
from tests.support import generate, imported

GOOD = Path(__file__).parents[1] / "cases" / "good"


class MoreParams(NamedTuple):
    g: float
    m: float
    l: float  # noqa: E741
    dt: float
    training: float = 2.0
    check_finite: float = 3.0


def _around(env: EnvBase[Any]) -> list[EnvBase[Any]]:
    once = TransformedEnv(env, StepCounter())
    return [env, once, TransformedEnv(once, StepCounter(step_count_key="again"), auto_unwrap=False)]


@pytest.mark.parametrize("depth", range(3))
def test_steps_read_the_record_that_was_assigned(depth: int) -> None:
    inside = Pendulum(batch_size=(2,))
    env = _around(inside)[depth]
    env.params = env.params._replace(g=0.0)
    assert inside.params.g == env.params.g == 0.0
    assert copy.deepcopy(env).params.g == pickle.loads(pickle.dumps(env)).params.g == 0.0
    still = env.reset().update({"th": torch.ones(2), "thdot": torch.zeros(2), "action": torch.zeros(2, 1)})
    assert torch.equal(env.step(still)["next", "thdot"], torch.zeros(2))


@pytest.mark.parametrize("depth", range(3))
def test_what_no_step_would_read_is_refused(depth: int) -> None:
    env: Any = _around(Pendulum())[depth]
    with pytest.raises(
        AttributeError, match=r"g is one of the parameters: write env\.params = env\.params\._replace\(g="
    ):
        env.g = 3.0
    for wrong in (None, 3.0, {"g": 3.0}):
        with pytest.raises(TypeError, match="params must be a record of g, m, l, dt, such as"):
            env.params = wrong
    assert env.params == Pendulum().params


def test_numbers_are_read_as_the_constructor_reads_them() -> None:
    env: Any = _around(Pendulum(dt=0.1))[1]
    env.params = env.params._replace(dt=torch.tensor(0.25), g=3)
    assert [type(number) for number in env.params] == [float] * 4
    assert env.params[0] == 3.0
    assert env.params.dt == 0.25
    wrong = {"dt must be > 0, got -1.0": -1.0, "dt must be > 0, got nan": math.nan}
    for said, number in wrong.items():
        with pytest.raises(ValueError, match=said):
            env.params = env.params._replace(dt=number)
    for kind in ("fast", True, None):
        with pytest.raises(TypeError, match="dt must be a real number"):
            env.params = env.params._replace(dt=kind)
    assert env.params.dt == 0.25


def test_numbers_of_each_environment_stay_so(tmp_path: Path) -> None:
    with imported(compiled_case(GOOD / "per_env_params").files, "generated", tmp_path):
        module = importlib.import_module("generated.main")
    for kind in (module.Point, module.PointTrain):
        env = copy.deepcopy(kind(batch_size=(2,), dt=torch.tensor([1.0, 2.0])))
        env.params = env.params._replace(dt=torch.tensor([3.0, 4.0]))
        wrong = {
            "5.0": 5.0,
            r"tensor of torch.float32 and shape \[3\]": torch.ones(3),
            r"tensor of torch.float64 and shape \[2\]": torch.ones(2).double(),
        }
        for said, value in wrong.items():
            with pytest.raises(
                TypeError,
                match=rf"parameter dt must be a tensor of torch.float32 and shape \[2\], got {said}",
            ):
                env.params = env.params._replace(dt=value)
        with pytest.raises(ValueError, match=r"dt must be > 0, got -2.0"):
            env.params = env.params._replace(dt=torch.tensor([3.0, -2.0]))
        with pytest.raises(ValueError, match=r"spread must be <= 0.9, got 1"):
            env.params = env.params._replace(spread=1)
        assert env.params.dt.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("depth", range(3))
def test_what_environments_have_may_be_set_though_a_parameter_is_called_so(depth: int) -> None:
    inside: Any = Pendulum()
    inside.params = MoreParams(*inside.params)
    env = _around(inside)[depth].eval()
    env.check_finite = True
    assert (env.training, env.check_finite) == (False, True)
    assert (env.params.training, env.params.check_finite) == (2.0, 3.0)


@pytest.mark.parametrize("kind", [SerialEnv, ParallelEnv])
def test_environments_side_by_side_have_their_own(kind: type[SerialEnv] | type[ParallelEnv]) -> None:
    env = kind(2, Pendulum, create_env_kwargs=[{"g": 1.0}, {"g": 2.0}])
    try:
        for each in (env, TransformedEnv(env, StepCounter())):
            assert [params.g for params in each.params] == [1.0, 2.0]
            with pytest.raises(AttributeError, match=rf"{kind.__name__}\(\.\.\., create_env_kwargs="):
                each.params = Pendulum().params
    finally:
        env.close()


def test_other_environments_keep_what_they_call_so() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    made = gymnasium.make("CartPole-v1").unwrapped
    made.params = {"length": 0.5}
    assert GymWrapper(made).params == {"length": 0.5}
    assert not hasattr(GymWrapper(gymnasium.make("CartPole-v1")), "params")


LEARNING = """\
specgen: 1
import: [specgen_std/envs/pendulum, specgen_std/transforms/vec_norm]
chains:
  Named:
    env: Pendulum
    params: {slow: 0.99, least: {default: 0.01}}
    transforms: [{VecNorm: {in_keys: [observation], decay: slow, eps: least}}]
  Said:
    env: Pendulum
    transforms: [{VecNorm: {in_keys: [observation], decay: 0.9, eps: 0.5}}]
"""


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("batch", [(), (4,)])
def test_transforms_that_learn_read_parameters_of_their_chain(
    batch: tuple[int, ...], later: bool, tmp_path: Path
) -> None:
    """Those of their update and those of what they write, given to the constructor, or assigned: as if they were said."""
    with imported(
        generate({"learning.yaml": LEARNING}, "learning_chain"), "learning_chain", tmp_path
    ) as made:
        module: Any = importlib.import_module(f"{made.__name__}.learning")
        env = module.Named(batch_size=batch) if later else module.Named(slow=0.9, least=0.5, batch_size=batch)
        if later:
            env.params = env.params._replace(slow=0.9, least=0.5)
        said = module.Said(batch_size=batch)
        rollouts = []
        for one in (copy.deepcopy(env), said, pickle.loads(pickle.dumps(env))):
            torch.manual_seed(0)
            one.set_seed(0)
            rollouts.append(one.rollout(20)["observation"])
        assert torch.equal(rollouts[0], rollouts[1])
        assert torch.equal(rollouts[2], rollouts[1])
        with pytest.raises(ValueError, match="slow must be <= 1, got 2"):
            module.Named(slow=2.0)
        with pytest.raises(ValueError, match="slow must be <= 1, got 2"):
            env.params = env.params._replace(slow=2.0)


OBJECTS = """\
specgen: 1
import: [specgen_std/envs/pendulum, specgen_std/transforms/step_counter]
transforms:
  Scaled:
    doc: A class scales what is observed.
    python: scales_of_tests:Scale
    phases: [map]
    params: {rate: 0.25}
    in: {x: {each: [observation], type: "float32[n]"}}
    out: {scaled: {each: x, name: same, type: "float32[n]"}}
chains:
  ScaledTask:
    env: Pendulum
    params: {factor: {default: 0.5, max: 4}, max_steps: 9}
    transforms: [{Scaled: {rate: factor}}, {StepCounter: {max_steps: max_steps}}]
"""


class Scale:
    """Multiplies with the rate that it was made with."""

    def __init__(self, setup: Any) -> None:
        self.rate = setup.params.rate

    def map(self, inputs: Any) -> Any:
        made: Any = importlib.import_module("object_chain.objects")
        return made.ScaledMap(self.rate * inputs.x)


def test_objects_are_made_with_parameters_of_their_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scales_of_tests", sys.modules[__name__])
    with imported(generate({"objects.yaml": OBJECTS}, "object_chain"), "object_chain", tmp_path) as made:
        module: Any = importlib.import_module(f"{made.__name__}.objects")
        seen = []
        for env in (module.ScaledTask(factor=2.0, batch_size=(2,)), module.ScaledTask(batch_size=(2,))):
            env.set_seed(0)
            seen.append(env.reset()["observation"])
        assert torch.equal(seen[0], 4 * seen[1])
        env.params = env.params._replace(max_steps=3)
        assert env.params == (*Pendulum().params, 0.5, 3)
        with pytest.raises(
            AttributeError,
            match=r"the class behind Scaled was made with factor: .* ScaledTask\(factor=\.\.\.\)",
        ):
            env.params = env.params._replace(factor=2.0)
        with pytest.raises(ValueError, match="factor must be <= 4, got 5"):
            module.ScaledTask(factor=5.0)
