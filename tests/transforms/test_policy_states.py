"""States of a policy: a reset begins them, the policy writes them under `next`, a step keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv
from specgen_runtime.specs import Unbounded
from specgen_runtime.testing import assert_identical, check_env
from specgen_runtime.transforms import Compose, TensorDictPrimer, TransformedEnv, gSDENoise
from specgen_std.envs import Pendulum
from specgen_std.transforms import (
    CatTensors,
    ExcludeTransform,
    GSDENoise,
    InitTracker,
    RecurrentState,
    StepCounter,
)
from tensordict import TensorDict, TensorDictBase

from tests.agreement.test_random_chains import drive, same_specs
from tests.support import compile_texts, generate, imported
from tests.transforms.test_against_torchrl import theirs

CHAIN = """\
specgen: 1
import: [specgen_std/envs/pendulum, specgen_std/transforms/policy_states, specgen_std/transforms/step_counter]
chains:
  Fused:
    env: Pendulum
    transforms:
      - StepCounter: {max_steps: 5}
      - RecurrentState: {size: 3}
      - GSDENoise: {state_dim: 3, action_dim: 1}
"""

READING = """\
specgen: 1
import: [specgen_std/envs/pendulum, specgen_std/transforms/policy_states, specgen_std/transforms/keys, specgen_std/transforms/step_counter, cart]
transforms:
  Drift:
    doc: How far the policy moves its state, and what that costs.
    params: {price: 0.5}
    in: {reward: {key: reward, type: "float32[]"}}
    out:
      hidden: {key: hidden, type: "float32[3]", written_by: policy}
      drift: {key: drift, type: "float32[3]"}
      twice: {key: twice, type: "float32[3]"}
      shaped: {key: reward, type: "float32[]", group: reward}
    carry: [drift]
    reset: {hidden: "zeros((3,))", drift: "zeros((3,))"}
    step:
      next.drift: drift + next.hidden - hidden
      next.shaped: next.reward - price * sum(next.hidden, axis=-1)
    map: {twice: 2 * hidden}
  Behind:
    doc: What a transform behind the one with the state reads of it.
    in: {h: {key: hidden, type: "float32[n]"}, d: {key: drift, type: "float32[n]"}}
    out: {both: {key: both, type: "float32[n]"}, more: {key: more, type: "float32[n]"}}
    reset: {more: zeros_like(more)}
    step: {next.more: next.h - h + next.d}
    map: {both: h * d}
  Entropy:
    doc: What the policy writes at the root, beside its action.
    params: {scale: 0.1}
    in: {reward: {key: reward, type: "float32[]"}}
    out:
      log_prob: {key: log_prob, type: "float32[]", written_by: policy}
      bonus: {key: bonus, type: "float32[]", group: reward}
    reset: {log_prob: 0.0}
    step: {next.bonus: next.reward - scale * log_prob}
chains:
  Scored:
    env: Pendulum
    transforms: [Entropy]
  Reading:
    env: Pendulum
    transforms:
      - StepCounter: {max_steps: 5}
      - Drift
      - Behind
      - CatTensors: {in_keys: [hidden, observation], del_keys: false}
  OverGym:
    env: Cart
    transforms:
      - Drift
      - Behind
"""
CART = """\
specgen: 1
envs: {Cart: {gymnasium: {id: CartPole-v1}}}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    texts = {"chain.yaml": CHAIN, "reading.yaml": READING, "cart.yaml": CART}
    files = generate(texts, "policy_package")
    with imported(files, "policy_package", tmp_path_factory.mktemp("generated")) as module:
        yield module


def dynamic(batch: tuple[int, ...]) -> TransformedEnv:
    chain = Compose(StepCounter(max_steps=5), RecurrentState(3), GSDENoise(3, 1))
    return TransformedEnv(Pendulum(batch_size=batch), chain)


def policy(data: TensorDictBase) -> TensorDictBase:
    """Counts its own calls since the reset in its state, and pushes with its noise."""
    noise = data["gsde_noise"]
    data["action"] = (noise @ data["observation"].unsqueeze(-1)).squeeze(-1).clamp(-2, 2)
    return data.set(("next", "hidden"), data["hidden"] + 1)


def both(package: Any, batch: tuple[int, ...]) -> tuple[EnvBase[Any], EnvBase[Any]]:
    return package.Fused(batch_size=batch), dynamic(batch)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_fused_as_one_after_another(package: Any, batch: tuple[int, ...]) -> None:
    check_env(lambda: package.Fused(batch_size=batch), steps=12)
    check_env(lambda: dynamic(batch), steps=12)
    same_specs(*both(package, batch))
    drive(*both(package, batch))
    rollouts = []
    for env in both(package, batch):
        env.set_seed(1)
        rollouts.append(env.rollout(12, policy, break_when_any_done=False))
    assert_identical(rollouts[0], rollouts[1])
    data = rollouts[0]
    assert data["hidden"].shape == (*batch, 12, 3)
    assert torch.equal(data["next", "hidden"], data["hidden"] + 1)
    assert torch.equal(data["hidden"][..., 0], data["step_count"][..., 0].float())
    assert torch.equal(data["next", "gsde_noise"], data["gsde_noise"])
    assert not torch.equal(data["gsde_noise"][..., 5, :, :], data["gsde_noise"][..., 4, :, :])


def test_a_root_that_was_stepped_keeps_its_value(package: Any) -> None:
    """What stands under `next` is then the result of that step, and not the policy's word."""
    for env in both(package, (2,)):
        root = env.reset().set("action", torch.zeros(2, 1))
        root["next"] = TensorDict(hidden=torch.ones(2, 3), batch_size=[2])
        stepped = env.step(root)
        assert stepped["next", "hidden"].eq(1).all()
        stepped["hidden"] = torch.full((2, 3), 7.0)
        assert env.step(stepped)["next", "hidden"].eq(7).all()


def moving(data: TensorDictBase) -> TensorDictBase:
    """Moves its state by what it sees."""
    action = data["observation"].sum(-1, keepdim=True).clamp(-2, 2)
    return data.set("action", action).set(("next", "hidden"), 0.5 * data["hidden"] + data["observation"])


def reading(package: Any, batch: tuple[int, ...]) -> TransformedEnv:
    own = (package.Drift(), package.Behind())
    joined = CatTensors(in_keys=["hidden", "observation"], del_keys=False)
    return TransformedEnv(Pendulum(batch_size=batch), Compose(StepCounter(max_steps=5), *own, joined))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_what_the_policy_leaves_is_read(package: Any, batch: tuple[int, ...]) -> None:
    """Under `next`, by the transform that has the state and by those behind it."""
    fused, alone = package.Reading(batch_size=batch), reading(package, batch)
    check_env(lambda: package.Reading(batch_size=batch), steps=12)
    check_env(lambda: reading(package, batch), steps=12)
    same_specs(fused, alone)
    drive(fused, alone)
    rollouts = []
    for env in (fused, alone):
        env.set_seed(1)
        rollouts.append(env.rollout(12, moving, break_when_any_done=False))
    assert_identical(rollouts[0], rollouts[1])
    data = rollouts[0]
    moved = data["next", "hidden"] - data["hidden"]
    assert bool(moved.any())
    torch.testing.assert_close(data["next", "drift"], data["drift"] + moved)
    torch.testing.assert_close(data["next", "more"], moved + data["next", "drift"])
    assert torch.equal(data["next", "twice"], 2 * data["next", "hidden"])
    assert torch.equal(data["next", "observation_vector"][..., :3], data["next", "hidden"])
    seen = ("drift", "twice", "both", "more", "observation_vector")
    replayed = data.exclude(*seen, *(("next", key) for key in seen))
    for transform in alone.transform:
        replayed = transform(replayed) if type(transform).__name__ != "StepCounter" else replayed
    for key in seen:
        assert torch.equal(replayed["next", key], data["next", key]), key
        assert torch.equal(replayed[key], data[key]), key


def test_what_the_policy_writes_at_the_root(package: Any) -> None:
    def act(td: TensorDictBase) -> TensorDictBase:
        return td.update({"action": torch.zeros(3, 1), "log_prob": td["observation"].sum(-1)})

    rollouts = []
    for env in (package.Scored(batch_size=[3]), TransformedEnv(Pendulum(batch_size=[3]), package.Entropy())):
        env.set_seed(1)
        rollouts.append(env.rollout(6, act))
    data, alone = rollouts
    assert_identical(data, alone)
    assert bool(data["log_prob"].any())
    expected = data["next", "reward"] - 0.1 * data["log_prob"].unsqueeze(-1)
    torch.testing.assert_close(data["next", "bonus"], expected)
    replayed = package.Entropy()(data.exclude(("next", "bonus")))
    assert torch.equal(replayed["next", "bonus"], data["next", "bonus"])


@pytest.mark.parametrize("fused", [True, False])
def test_in_batches_of_environments(package: Any, fused: bool) -> None:
    """What a policy leaves reaches each environment, behind transforms of the batch as well."""
    make = package.Reading if fused else lambda: reading(package, ())
    for env in (SerialEnv(2, make), TransformedEnv(SerialEnv(2, make), InitTracker())):
        root = env.reset().set("action", torch.zeros(2, 1)).set(("next", "hidden"), torch.ones(2, 3))
        following = env.step(root)["next"]
        assert torch.equal(following["drift"], following["hidden"])
        assert following["hidden"].eq(1).all()


def test_recorded_data_without_the_state(package: Any) -> None:
    """A replay gives what a policy without a state leaves."""
    env = TransformedEnv(Pendulum(batch_size=[2]), Compose(StepCounter(max_steps=5), package.Drift()))
    data = env.rollout(12, break_when_any_done=False)
    keys = ("hidden", "drift", "twice")
    replayed = package.Drift()(data.exclude(*keys, *(("next", key) for key in keys)))
    for key in (*keys, *(("next", key) for key in keys)):
        assert torch.equal(replayed[key], data[key]), key


def test_over_gymnasium(package: Any) -> None:
    fused = package.OverGym()
    alone = TransformedEnv(package.Cart(), Compose(package.Drift(), package.Behind()))

    def policy(data: TensorDictBase) -> TensorDictBase:
        data["action"] = torch.tensor([1, 0])
        return data.set(("next", "hidden"), data["hidden"] + data["observation"][..., :3])

    rollouts = []
    for env in (fused, alone):
        for given in (policy, None):
            env.set_seed(1)
            torch.manual_seed(2)
            rollouts.append(env.rollout(30, given, break_when_any_done=False))
    assert_identical(rollouts[0], rollouts[2])
    assert_identical(rollouts[1], rollouts[3])
    assert bool(rollouts[0]["next", "drift"].any())
    assert not rollouts[1]["next", "drift"].any()


def test_a_state_of_another_shape_is_refused(package: Any) -> None:
    env = package.Reading(batch_size=(2,))
    root = env.reset().set("action", torch.zeros(2, 1))
    root["next"] = TensorDict(hidden=torch.ones(2, 4), batch_size=[2])
    with pytest.raises(RuntimeError, match=r"hidden.*\[2, 3\]"):
        env.step(root)


def test_as_a_primer() -> None:
    """The primer that is given the same spec at run time."""
    primed = TransformedEnv(
        Pendulum(batch_size=[3]), Compose(StepCounter(max_steps=5), TensorDictPrimer(hidden=Unbounded(4)))
    )
    declared = TransformedEnv(Pendulum(batch_size=[3]), Compose(StepCounter(max_steps=5), RecurrentState(4)))
    assert primed.full_observation_spec == declared.full_observation_spec
    assert primed.full_state_spec == declared.full_state_spec

    def push(td: TensorDictBase) -> TensorDictBase:
        return td.set("action", torch.zeros(3, 1)).set(("next", "hidden"), td["hidden"] + 1)

    rollouts = []
    for env in (primed, declared):
        env.set_seed(0)
        rollouts.append(env.rollout(12, push, break_when_any_done=False))
    assert_identical(rollouts[0], rollouts[1])


@pytest.mark.peers
def test_noise_of_torchrl() -> None:
    """An entry of the same shape and law."""
    peer = theirs.TransformedEnv(theirs.GymEnv("Pendulum-v1"), theirs.gSDENoise(state_dim=3, action_dim=1))
    ours = TransformedEnv(Pendulum(), GSDENoise(3, 1))
    found, expected = ours.reset()["gsde_noise"], peer.reset()["_eps_gSDE"]
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    many = TransformedEnv(Pendulum(batch_size=[4000]), GSDENoise(3, 1)).reset()["gsde_noise"]
    assert abs(many.mean()) < 0.05
    assert abs(many.std() - 1) < 0.05


@pytest.mark.peers
@pytest.mark.parametrize("sizes", [{}, {"state_dim": 3, "action_dim": 1}])
@pytest.mark.parametrize("shape", [None, (2,)])
def test_the_primer_of_noise(sizes: dict[str, int], shape: tuple[int, ...] | None) -> None:
    peer = theirs.TransformedEnv(
        theirs.SerialEnv(2, lambda: theirs.GymEnv("Pendulum-v1")), theirs.gSDENoise(**sizes, shape=(2,))
    )
    ours = TransformedEnv(Pendulum(batch_size=(2,)), gSDENoise(**sizes, shape=shape))
    check_env(lambda: TransformedEnv(Pendulum(batch_size=(2,)), gSDENoise(**sizes, shape=shape)))
    found, expected = ours.reset()["_eps_gSDE"], peer.reset()["_eps_gSDE"]
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert bool(found.any()) is bool(sizes)


def test_what_is_behind_it_leaves_it_alone() -> None:
    env = TransformedEnv(Pendulum(), Compose(RecurrentState(3), ExcludeTransform("hidden")))
    with pytest.raises(ValueError, match="RecurrentState leaves 'hidden' to the policy, and a later"):
        env.reset()


@pytest.mark.parametrize(
    ("transform", "code"),
    [
        ("ExcludeTransform: {in_keys: [hidden]}", "SG339"),
        ("ObservationNorm: {in_keys: [hidden], loc: 0.0, scale: 2.0}", "SG339"),
        ("CatTensors: {in_keys: [hidden, observation]}", "SG339"),
    ],
)
def test_chains_say_so(transform: str, code: str) -> None:
    chain = CHAIN.replace("GSDENoise: {state_dim: 3, action_dim: 1}", transform)
    imports = (
        "specgen_std/transforms/keys, specgen_std/transforms/observation_norm, specgen_std/transforms/step"
    )
    files, said, codes = compile_texts(
        {"chain.yaml": chain.replace("specgen_std/transforms/step", imports)}, "no"
    )
    assert not files
    assert codes == {code}, said
    assert "`hidden`" in said
