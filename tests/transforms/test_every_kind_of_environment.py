"""Every transform in a single environment, inside and around batches of environments, cloned, pickled and in a state dict."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import specgen_runtime.transforms as transforms
import torch
from specgen_runtime.envs import ParallelEnv, SerialEnv, check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import StepCounter
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn

from tests.transforms.envs import Team, Walk


def far(data: TensorDictBase) -> torch.Tensor:
    return (data["position"].abs() > 2.5).any(-1)


def still(data: TensorDictBase) -> TensorDictBase:
    return data.set("action", torch.zeros_like(data["position"]))


def square(value: torch.Tensor) -> torch.Tensor:
    return value**2


def half() -> TensorDictModule:
    return TensorDictModule(nn.Linear(3, 2), in_keys=["position"], out_keys=["feature"])


def unchanged(data: TensorDictBase) -> TensorDictBase:
    return data


EVERY: dict[str, Callable[[], Transform]] = {
    "ActionChunkTransform": lambda: transforms.ActionChunkTransform(3),
    "BatchSizeTransform": lambda: transforms.BatchSizeTransform(reshape_fn=lambda data: data.unsqueeze(0)),
    "Compose": lambda: Compose(transforms.FiniteTensorDictCheck(), StepCounter()),
    "ConditionalPolicySwitch": lambda: transforms.ConditionalPolicySwitch(still, far),
    "ConditionalSkip": lambda: transforms.ConditionalSkip(far),
    "DeviceCastTransform": lambda: transforms.DeviceCastTransform("cpu"),
    "ExpandAs": lambda: transforms.ExpandAs("done", "position", "over"),
    "FiniteTensorDictCheck": lambda: transforms.FiniteTensorDictCheck(),
    "FixedNorm": lambda: transforms.FixedNorm(torch.ones(3), torch.full((3,), 2.0), ["position"]),
    "FunctionTransform": lambda: transforms.FunctionTransform(unchanged),
    "Hash": lambda: transforms.Hash(["position"], ["hash"]),
    "ModuleTransform": lambda: transforms.ModuleTransform(module_factory=half),
    "PinMemoryTransform": lambda: transforms.PinMemoryTransform(),
    "PolicyAgeFilter": lambda: transforms.PolicyAgeFilter(3, 1),
    "RemoveEmptySpecs": lambda: transforms.RemoveEmptySpecs(),
    "gSDENoise": lambda: transforms.gSDENoise(state_dim=3, action_dim=2),
    "TensorDictPrimer": lambda: transforms.TensorDictPrimer(hidden=Bounded(-1.0, 1.0, (4,)), random=True),
    "TerminateTransform": lambda: transforms.TerminateTransform(far),
    "Timer": lambda: transforms.Timer(),
    "UnaryTransform": lambda: transforms.UnaryTransform(["position"], ["square"], fn=square),
    "VecNormV2": lambda: transforms.VecNormV2(["position"]),
}
# Base classes, transforms of recorded data, those that need pictures or a Ray cluster: they have tests of their own.
OTHERS = {
    "BurnInTransform",
    "CommonStatistics",
    "FlattenTensorDict",
    "GeneratedTransform",
    "MultiStepTransform",
    "NextObservationDelta",
    "NextStateReconstructor",
    "PixelRenderTransform",
    "RandomCropTensorDict",
    "RayModuleTransform",
    "ReplayTransform",
    "Tokenizer",
    "Transform",
    "TransformedEnv",
}


def test_none_is_forgotten() -> None:
    assert {*EVERY} | OTHERS >= {*transforms.__all__} - {"FunctionTransform"}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_alone(name: str, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(
        Walk(*batch), Compose(EVERY[name](), StepCounter(max_steps=5, step_count_key="steps"))
    )
    check_env_specs(env)
    data = env.rollout(12, break_when_any_done=False)
    assert data["next", "steps"].max() <= 5


@pytest.mark.parametrize("name", EVERY)
def test_in_a_batch(name: str) -> None:
    env = SerialEnv(2, lambda: TransformedEnv(Walk(), EVERY[name]()))
    check_env_specs(env)
    env.close()


@pytest.mark.slow
@pytest.mark.usefixtures("forked_processes")
@pytest.mark.parametrize("name", EVERY)
def test_in_processes(name: str) -> None:
    env = ParallelEnv(2, lambda: TransformedEnv(Walk(), EVERY[name]()))
    try:
        check_env_specs(env)
    finally:
        env.close(raise_if_closed=False)


@pytest.mark.parametrize("name", EVERY)
def test_around_a_batch(name: str) -> None:
    env = TransformedEnv(SerialEnv(2, Walk), EVERY[name]())
    check_env_specs(env)
    env.close()


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("ConditionalPolicySwitch",)])
def test_around_groups(name: str) -> None:
    made = EVERY[name]()
    if name in (
        "ConditionalSkip",
        "ExpandAs",
        "FixedNorm",
        "Hash",
        "ModuleTransform",
        "UnaryTransform",
        "TerminateTransform",
        "VecNormV2",
    ):
        pytest.skip("reads the position of the walk")
    check_env_specs(TransformedEnv(Team(2), made))


@pytest.mark.parametrize("name", EVERY)
def test_copies(name: str) -> None:
    env = TransformedEnv(Walk(2), EVERY[name]())
    before = env.transform.parent
    assert before is not None
    twin = env.transform.clone()
    assert twin.container is None
    assert twin.parent is None
    other = TransformedEnv(Walk(2), twin)
    check_env_specs(other)
    assert env.transform.container is env
    assert env.transform.parent.base_env is env.base_env
    assert twin.parent.base_env is other.base_env
    deep = copy.deepcopy(env)
    assert deep.transform.container is deep
    torch.manual_seed(0)
    expected = env.rollout(3)
    torch.manual_seed(0)
    found = deep.rollout(3)
    keys = [key for key in expected.keys(True, True) if "time" not in str(key)]
    assert all(torch.equal(found[key], expected[key]) for key in keys)
    twin.load_state_dict(env.transform.state_dict())
    if name not in ("BatchSizeTransform",):  # a lambda
        assert type(pickle.loads(pickle.dumps(EVERY[name]()))) is type(env.transform)
