"""Environments over users' classes keep the contract of all, and hand the classes what their Protocols say."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import SerialEnv
from specgen_runtime.interop import from_gymnasium, from_torchrl, to_gymnasium, to_torchrl
from specgen_runtime.testing import assert_identical, check_env
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import DoubleToFloat, RewardScaling, RewardSum, StepCounter
from torch import nn

from tests.python_envs.support import envs

BATCHES: list[tuple[int, ...]] = [(), (2,), (3,), (4, 3)]

Modules = tuple[ModuleType, ModuleType]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Modules]:
    with envs(tmp_path_factory.mktemp("python_envs")) as made:
        yield made


@pytest.mark.parametrize("name", ["Walk", "WalkTrain"])
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_vectorised(modules: Modules, name: str, batch: tuple[int, ...]) -> None:
    check_env(partial(getattr(modules[0], name), batch_size=batch), steps=15)


@pytest.mark.parametrize("name", ["Counter", "CounterTrain"])
def test_stateful(modules: Modules, name: str) -> None:
    check_env(getattr(modules[0], name))


AROUND: dict[str, Any] = {
    "transformed": lambda make: TransformedEnv(
        make(), Compose(StepCounter(max_steps=4), RewardScaling(0, 2))
    ),
    "SerialEnv": lambda make: SerialEnv(2, make),
    "Gymnasium": lambda make: from_gymnasium(to_gymnasium(make())),
    "TorchRL": lambda make: from_torchrl(torchrl().TransformedEnv(to_torchrl(make()), torchrl().Compose())),
}


def torchrl() -> Any:
    return pytest.importorskip("torchrl.envs", reason="the extra `peers`")


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", ["Walk", "Counter"])
def test_in_other_environments(modules: Modules, name: str, around: str) -> None:
    if (name, around) == ("Walk", "Gymnasium"):
        pytest.skip("it has several rewards")
    # TorchRL can't move specs of some kinds to meta
    devices = ("cpu",) if around == "TorchRL" else None
    check_env(partial(AROUND[around], getattr(modules[0], name)), steps=12, devices=devices)


def test_the_chain_is_the_environment_with_its_transforms(modules: Modules) -> None:
    steps = [DoubleToFloat(in_keys=["x"], in_keys_inv=["push"]), StepCounter(max_steps=7), RewardSum()]
    assert_chain(
        modules[0].WalkTrain(batch_size=(3,)),
        TransformedEnv(modules[0].Walk(batch_size=(3,)), Compose(*steps)),
    )


def test_the_chain_over_a_simulator_too(modules: Modules) -> None:
    steps = [RewardScaling(loc=0.5, scale=2.0), StepCounter(max_steps=3), RewardSum()]
    assert_chain(modules[0].CounterTrain(), TransformedEnv(modules[0].Counter(), Compose(*steps)))


def assert_chain(chain: Any, dynamic: Any) -> None:
    found = []
    for env in (chain, dynamic):
        torch.manual_seed(0)
        env.set_seed(3)
        found.append(env.rollout(20, break_when_any_done=False).exclude("_carry", ("next", "_carry")))
    assert_identical(found[0], found[1])


def test_a_class_sees_rows_whatever_the_batch(modules: Modules) -> None:
    seen = modules[1].Walk.rows
    seen.clear()
    for batch in BATCHES:
        env = modules[0].Walk(batch_size=batch)
        env.step(env.rand_action(env.reset()))
    assert seen == [1, 1, 2, 2, 3, 3, 12, 12]


def test_rewards_and_flags_are_stored_with_a_trailing_one(modules: Modules) -> None:
    after = modules[0].Walk(batch_size=(4,)).rand_step()["next"]
    assert after["reward"].shape == (4, 1)
    assert after["walkers", "reward"].shape == (4, 2, 1)
    assert after["walkers", "done"].shape == (4, 2, 1)


def test_where_the_root_ends_all_of_a_group_does(modules: Modules) -> None:
    env = modules[0].Walk(batch_size=(2,))
    root = env.reset()
    root["x"] = torch.tensor([9.0, 0.0], dtype=torch.float64)
    root["walkers", "y"] = torch.zeros(2, 2, 3)
    root["push"], root["walkers", "action"] = (
        torch.zeros(2, 1, dtype=torch.float64),
        torch.ones(2, 2, dtype=torch.int64),
    )
    after = env.step(root)["next"]
    assert after["terminated"].tolist() == [[True], [False]]
    assert after["walkers", "terminated"].squeeze(-1).tolist() == [[True, True], [False, False]]
    assert torch.equal(after["walkers", "done"], after["walkers", "terminated"])


def test_the_class_is_made_from_what_is_declared(modules: Modules) -> None:
    env = modules[0].WalkTrain(speed=2.0, device="cpu")
    setup = env.dynamics.python.setup
    assert setup.params.speed == 2.0
    assert setup.dims.size == 3
    assert setup.consts.drift.tolist() == [-1.0, 0.0, 1.0]
    assert setup.device == torch.device("cpu")


def test_ranges_of_parameters_are_checked(modules: Modules) -> None:
    with pytest.raises(ValueError, match="speed must be > 0"):
        modules[0].Walk(speed=0.0)


def test_gradients_flow_through_a_step(modules: Modules) -> None:
    env = modules[0].Walk(batch_size=(4, 3))
    root = env.rand_action(env.reset())
    push = root["push"].requires_grad_()
    env.step(root)["next", "reward"].sum().backward()
    assert torch.equal(push.grad, torch.full_like(push, 0.5))


def test_a_vectorised_object_is_made_anew_where_the_environment_moves_to(modules: Modules) -> None:
    env = modules[0].Walk()
    before, made = env.dynamics.python, modules[1].Walk.made
    env.to("cpu")
    assert env.dynamics.python is not before
    assert modules[1].Walk.made == made + 1
    assert env.dynamics.python.setup.device == torch.device("cpu")


def test_a_module_is_part_of_the_environment(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    plain: Any = modules[1].Walk

    class Learned(nn.Module, plain):  # type: ignore[misc]
        def __init__(self, setup: Any) -> None:
            nn.Module.__init__(self)
            plain.__init__(self, setup)
            self.weight = nn.Parameter(torch.ones(2))

    monkeypatch.setattr(modules[1], "Walk", Learned)
    env = modules[0].Walk(batch_size=(3,))
    python = env.dynamics.python
    assert [name for name, _ in env.named_parameters()] == ["python.weight"]
    with torch.no_grad():
        python.weight.fill_(5.0)
    env.to("cpu")
    assert env.dynamics.python is python
    assert env.state_dict()["python.weight"].tolist() == [5.0, 5.0]
    env.rollout(3)


def test_a_simulator_is_kept_where_the_environment_moves_to(modules: Modules) -> None:
    env = modules[0].Counter()
    env.set_seed(11)
    before = env.dynamics.python
    env.to("cpu")
    assert env.dynamics.python is before
    modules[1].Counter.seeds.clear()
    env.reset()
    assert modules[1].Counter.seeds == [11]


def test_seeds_of_a_simulator(modules: Modules) -> None:
    seeds = modules[1].Counter.seeds
    seeds.clear()
    for _ in range(2):
        torch.manual_seed(5)
        env = modules[0].Counter()
        env.reset()
        env.reset()
    env.set_seed(3)
    env.reset()
    env.reset()
    first = seeds[0]
    assert isinstance(first, int)
    assert seeds == [first, None, first, None, 3, None]


def test_a_simulator_gets_copies_of_the_actions(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    step = modules[1].Counter.step

    def greedy(self: Any, action: Any) -> Any:
        assert not action.requires_grad
        action.fill_(1)
        return step(self, action)

    monkeypatch.setattr(modules[1].Counter, "step", greedy)
    env = modules[0].Counter()
    root = env.reset()
    root["action"] = torch.tensor(0)
    env.step(root)
    assert root["action"] == 0


def test_a_simulator_is_closed_once(modules: Modules) -> None:
    env = modules[0].CounterTrain()
    before = modules[1].Counter.closed
    env.close()
    env.close(raise_if_closed=False)
    assert modules[1].Counter.closed == before + 1


def test_several_simulators_differ(modules: Modules) -> None:
    torch.manual_seed(0)
    first, second = modules[0].Counter(), modules[0].Counter()
    assert first.dynamics.python is not second.dynamics.python
    assert first.reset()["level"] != second.reset()["level"]


def test_the_same_seed_gives_the_same_rollout_after_a_move(modules: Modules) -> None:
    data = []
    for device in (None, "cpu"):
        env = modules[0].Walk(batch_size=(3,))
        if device is not None:
            env.to(device)
        torch.manual_seed(1)
        env.set_seed(1)
        data.append(env.rollout(5, break_when_any_done=False))
    assert_identical(data[0].to("cpu"), data[1])


def test_a_step_can_be_mapped(modules: Modules) -> None:
    env = modules[0].Walk(batch_size=(4,))
    root = env.rand_action(env.reset())
    inputs = [root[key] for key in ("done", "x", ("walkers", "y"), "push", ("walkers", "action"))]
    expected = modules[0].walk_advance(env.dynamics, *inputs)
    found = torch.vmap(
        lambda *given: tuple(modules[0].walk_advance(env.dynamics, *given)), randomness="different"
    )(*[value[:, None] for value in inputs])
    assert [value.squeeze(1).shape for value in found] == [value.shape for value in expected]
    assert torch.equal(found[1].squeeze(1), expected.walkers_y)
