"""`DeployedPolicy` does with raw observations what the policy does behind the transforms of its training."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.deployment import DeployedPolicy
from specgen_runtime.envs import EnvBase, ExplorationType, SerialEnv, set_exploration_type
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.modules import (
    EGreedyModule,
    GRUModule,
    MultiAgentMLP,
    QValueActor,
    get_primers_from_module,
)
from specgen_runtime.transforms import CommonStatistics, Compose, Transform, TransformedEnv, VecNormV2
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms import (
    ActionScaling,
    CatFrames,
    InitTracker,
    ObservationNorm,
    VecNorm,
)
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from tests.deployment.chains import SCHEMA
from tests.deployment.programs import ProgramOfAnyNumber
from tests.support import generate, imported

STEPS = 12


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(
        generate({"deployed.yaml": SCHEMA}, "deployed_rl"), "deployed_rl", tmp_path_factory.mktemp("deployed")
    ):
        yield importlib.import_module("deployed_rl.deployed")


def learned(env: EnvBase[Any]) -> EnvBase[Any]:
    """An environment that has seen something, and learns no more."""
    env.set_seed(7)
    env.rollout(20, break_when_any_done=False)
    for part in env.modules():
        if hasattr(part, "freeze"):
            part.freeze()  # type: ignore[operator]
    return env


def linear(inputs: int, outputs: int, key: Any = "observation", out: Any = "action") -> TensorDictModule:
    torch.manual_seed(3)
    return TensorDictModule(
        nn.Sequential(nn.Linear(inputs, outputs), nn.Tanh()), in_keys=[key], out_keys=[out]
    )


def acts_alike(env: EnvBase[Any], raw: EnvBase[Any], policy: nn.Module, **given: Any) -> DeployedPolicy:
    """Roll the policy out behind the transforms, and let it act on the raw observations of the same episodes."""
    env.set_seed(5)
    with set_exploration_type(ExplorationType.DETERMINISTIC), torch.no_grad():
        data = env.rollout(STEPS, policy, break_when_any_done=False)
    raw.set_seed(5)
    root = raw.reset()
    agent = DeployedPolicy(policy, env, batch_size=raw.batch_size, **given)
    program = agent.export()
    exported, state = program.module(), program.example_inputs[0][1]
    of_any_number = ProgramOfAnyNumber(agent)
    for step in range(STEPS):
        observation = {name: root[tuple(name.split("."))] for name in agent.in_keys}
        action = agent.act(observation)
        again, state = exported(observation, state)
        for name in agent.out_keys:
            key = tuple(name.split("."))
            assert torch.allclose(action[name], again[name], atol=1e-6)
            root.set(key, action[name])
        of_any_number.acts_alike(observation, action)
        root = raw.step(root)
        for state_key in raw.state_keys:
            path = as_tuple(state_key)
            assert torch.allclose(root.get(("next", *path)), data.get(("next", *path))[:, step], atol=1e-5), (
                step,
                path,
            )
        root = raw.step_mdp(root)
    return agent


def choosing() -> TensorDictModule:
    torch.manual_seed(3)
    net = nn.Linear(3, 5)
    return TensorDictModule(
        lambda x: net(x).argmax(-1, keepdim=True), in_keys=["observation"], out_keys=["action"]
    )


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("Stacked", lambda: linear(9, 1)),
        ("NormedFrames", lambda: linear(19, 1, "all")),
        ("Choices", choosing),
    ],
)
def test_a_fused_chain(made: ModuleType, name: str, policy: Any) -> None:
    agent = acts_alike(learned(getattr(made, name)(batch_size=[4])), Pendulum(batch_size=[4]), policy())
    assert agent.in_keys == ["observation"]
    assert agent.out_keys == ["action"]


def test_groups_of_agents(made: ModuleType) -> None:
    torch.manual_seed(0)
    net = MultiAgentMLP(4, 2, n_agents=3, centralized=True, share_params=False, num_cells=[8])
    policy = TensorDictModule(net, in_keys=[("boat", "observation")], out_keys=[("boat", "action")])
    agent = acts_alike(learned(made.Fleet(batch_size=[4])), made.Boats(batch_size=[4]), policy)
    assert agent.in_keys == ["boat.observation"]
    assert agent.initial_state()["boat.observation"].shape == (4, 3, 4)


def test_observations_of_groups_may_be_dicts_in_dicts(made: ModuleType) -> None:
    torch.manual_seed(0)
    policy = TensorDictModule(
        nn.Linear(4, 2), in_keys=[("boat", "observation")], out_keys=[("boat", "action")]
    )
    agent = DeployedPolicy(policy, learned(made.Fleet()))
    seen = torch.rand(3, 2)
    expected = agent.act({"boat.observation": seen})["boat.action"]
    for nested in ({"boat": {"observation": seen}}, {("boat", "observation"): seen}):
        agent.reset()
        assert torch.equal(agent.act(nested)["boat.action"], expected)
    with pytest.raises(KeyError, match=r"is given \['boat.observation', 'boat.observation'\], and reads"):
        agent.act({"boat": {"observation": seen}, "boat.observation": seen})


def remembering() -> TensorDictSequential:
    torch.manual_seed(1)
    memory = GRUModule(
        3, 8, in_keys=["observation", "memory_h", "is_init"], out_keys=["features", ("next", "memory_h")]
    )
    return TensorDictSequential(memory, linear(8, 1, "features"))


def test_states_of_recurrent_networks_are_handed_on(made: ModuleType) -> None:
    policy = remembering()
    primer = get_primers_from_module(policy)
    assert primer is not None
    env = TransformedEnv(Pendulum(batch_size=[4]), Compose(InitTracker(), primer))
    agent = acts_alike(env, Pendulum(batch_size=[4]), policy)
    assert agent.in_keys == ["observation"]
    assert set(agent.initial_state()) == {"begins", "memory_h"}


def test_transforms_around_an_environment_by_hand() -> None:
    chain = Compose(
        ObservationNorm(loc=0.5, scale=2.0, in_keys=["observation"]),
        CatFrames(N=2, dim=-1, in_keys=["observation"]),
        VecNorm(in_keys=["observation"]),
        ActionScaling(in_keys_inv=["action"]),
    )
    env = learned(TransformedEnv(Pendulum(batch_size=[4]), chain))
    acts_alike(env, Pendulum(batch_size=[4]), linear(6, 1))


def test_networks_of_a_chain(made: ModuleType) -> None:
    torch.manual_seed(2)
    env = learned(made.Seen(shown=nn.Linear(3, 2), batch_size=[4]))
    agent = acts_alike(env, Pendulum(batch_size=[4]), linear(2, 1, "feature"))
    assert agent.in_keys == ["observation"]


def test_an_environment_without_transforms() -> None:
    acts_alike(Pendulum(batch_size=[4]), Pendulum(batch_size=[4]), linear(3, 1))


def test_one_observation_without_a_batch(made: ModuleType) -> None:
    env = learned(made.Stacked(batch_size=[4]))
    one, row = DeployedPolicy(linear(9, 1), env), DeployedPolicy(linear(9, 1), env, batch_size=(1,))
    for value in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]):
        action = one.act({"observation": value})["action"]
        assert action.shape == (1,)
        assert torch.equal(action, row.act({"observation": [value]})["action"][0])


def test_a_new_episode_forgets_the_one_before(made: ModuleType) -> None:
    agent = DeployedPolicy(linear(9, 1), learned(made.Stacked(batch_size=[4])))
    first = agent.act({"observation": [0.1, 0.2, 0.3]})["action"]
    agent.act({"observation": [0.9, 0.2, 3.0]})
    assert not torch.equal(agent.act({"observation": [0.1, 0.2, 0.3]})["action"], first)
    agent.reset()
    assert torch.equal(agent.act({"observation": [0.1, 0.2, 0.3]})["action"], first)


def test_rows_begin_by_themselves(made: ModuleType) -> None:
    env = learned(made.Stacked(batch_size=[4]))
    agent, single = DeployedPolicy(linear(9, 1), env, batch_size=[2]), DeployedPolicy(linear(9, 1), env)
    seen = torch.randn(4, 2, 3)
    _, state = agent({"observation": seen[0]}, agent.initial_state())
    state["begins"][1] = True  # the second client begins anew
    action, _ = agent({"observation": seen[1]}, state)
    single.act({"observation": seen[0, 0]})
    assert torch.allclose(action["action"][0], single.act({"observation": seen[1, 0]})["action"], atol=1e-6)
    single.reset()
    assert torch.allclose(action["action"][1], single.act({"observation": seen[1, 1]})["action"], atol=1e-6)


def test_what_is_learned_later_changes_nothing(made: ModuleType) -> None:
    env, policy = made.Stacked(batch_size=[4]), linear(9, 1)
    env.rollout(10)
    agent = DeployedPolicy(policy, env)
    before = agent.act({"observation": [0.1, 0.2, 0.3]})["action"]
    env.rollout(30)
    with torch.no_grad():
        policy.module[0].weight.zero_()
    agent.reset()
    assert torch.equal(agent.act({"observation": [0.1, 0.2, 0.3]})["action"], before)
    assert env.frozen is False


def test_statistics_go_with_the_state_dict(made: ModuleType, tmp_path: Path) -> None:
    agent = DeployedPolicy(linear(9, 1), learned(made.Stacked(batch_size=[4])))
    torch.save(agent.state_dict(), tmp_path / "agent.pt")
    torch.manual_seed(99)
    other = DeployedPolicy(linear(9, 1), made.Stacked())
    seen = {"observation": [0.5, 0.2, 3.0]}
    assert not torch.equal(other.act(seen)["action"], agent.act(seen)["action"])
    other.load_state_dict(torch.load(tmp_path / "agent.pt"))
    for one in (other, agent):
        one.reset()
    assert torch.equal(other.act(seen)["action"], agent.act(seen)["action"])


def test_a_saved_program_needs_torch_alone(made: ModuleType, tmp_path: Path) -> None:
    agent = DeployedPolicy(linear(9, 1), learned(made.Stacked(batch_size=[4])))
    torch.export.save(agent.export(), tmp_path / "policy.pt2")
    seen = {"observation": torch.tensor([0.5, 0.2, 3.0])}
    wanted = [agent.act(seen)["action"] for _ in range(2)]
    program = torch.export.load(tmp_path / "policy.pt2")
    (_, state), _ = program.example_inputs
    act = program.module()
    for each in wanted:
        action, state = act(seen, state)
        assert torch.allclose(action["action"], each)
    text = str(program.graph_module.code)
    assert "specgen" not in text


def test_torch_compile_takes_a_whole_call(made: ModuleType) -> None:
    agent = DeployedPolicy(linear(9, 1), learned(made.Stacked(batch_size=[4])))
    compiled = torch.compile(agent, fullgraph=True, backend="eager")
    state = agent.initial_state()
    for value in torch.randn(3, 3):
        action, state = compiled({"observation": value}, state)
        assert torch.allclose(action["action"], agent.act({"observation": value})["action"])


def test_exploration_is_left_out(made: ModuleType) -> None:
    env = CartPoleTrain()
    actor = QValueActor(nn.Linear(4, 2), in_keys=["observation"], spec=env.action_spec)
    policy = TensorDictSequential(actor, EGreedyModule(env.action_spec, eps_init=1.0, eps_end=1.0))
    agent = DeployedPolicy(policy, env)
    seen = {"observation": torch.tensor([0.3, 0.1, 0.2, -0.1])}
    best = int(actor.module[0].module(seen["observation"]).argmax())
    assert {int(agent.act(seen)["action"]) for _ in range(30)} == {best}
    drawn = DeployedPolicy(policy, env, deterministic=False)
    assert {int(drawn.act(seen)["action"]) for _ in range(30)} == {0, 1}


def test_threads_do_not_let_each_other_draw() -> None:
    env = CartPoleTrain()
    actor = QValueActor(nn.Linear(4, 2), in_keys=["observation"], spec=env.action_spec)
    agent = DeployedPolicy(
        TensorDictSequential(actor, EGreedyModule(env.action_spec, eps_init=1.0, eps_end=1.0)), env
    )
    seen = {"observation": torch.tensor([0.3, 0.1, 0.2, -0.1])}
    found: list[int] = []

    def serve() -> None:
        for _ in range(60):
            found.append(int(agent(seen, agent.initial_state())[0]["action"]))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=serve) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(found) == 240
    assert len(set(found)) == 1


def test_environments_one_after_the_other(made: ModuleType) -> None:
    env = SerialEnv(2, CommonStatistics(made.Stacked))
    env.rollout(20, break_when_any_done=False)
    agent = DeployedPolicy(linear(9, 1), env)
    assert agent.in_keys == ["observation"]
    one = DeployedPolicy(linear(9, 1), env.envs[1])
    assert torch.equal(*(each.act({"observation": [0.1, 0.2, 0.3]})["action"] for each in (agent, one)))


class Speed(Transform):
    """Written by hand, with the moment before."""

    def __init__(self) -> None:
        super().__init__(in_keys=["observation"], out_keys=["speed"])

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return tensordict_reset.set("speed", torch.zeros_like(tensordict_reset["observation"]))

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        return next_tensordict.set("speed", next_tensordict["observation"] - tensordict["observation"])

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        return observation_spec.set("speed", observation_spec["observation"].clone())


def test_a_transform_written_by_hand() -> None:
    env = TransformedEnv(Pendulum(batch_size=[4]), Speed())
    acts_alike(env, Pendulum(batch_size=[4]), linear(3, 1, "speed"))


def test_statistics_of_an_episode() -> None:
    env = TransformedEnv(Pendulum(batch_size=[4]), VecNormV2(["observation"], stateful=False))
    acts_alike(env, Pendulum(batch_size=[4]), linear(3, 1))
