"""Steps of NumPy's, and rollouts whose policy is called with tensors, give what the general ways give, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from specgen_runtime.envs import GeneratedGymEnv
from specgen_runtime.testing import assert_identical
from specgen_std.chains.cartpole import CartPoleGymTrain
from specgen_std.chains.pendulum import PendulumGymTrain
from specgen_std.envs.cartpole import CartPoleGym
from specgen_std.envs.pendulum import PendulumGym
from tensordict.nn import TensorDictModule
from torch import nn

from tests.support import generate, imported

SCHEMA = """
specgen: 1
import: [specgen_std/envs/cartpole, specgen_std/transforms/reward_scaling, specgen_std/transforms/reward_sum, specgen_std/transforms/step_counter]
transforms:
  Track:
    doc: What has been seen of a reward so far.
    in:
      reward: {each: [reward], type: "float[...]"}
    out:
      slow: {each: reward, name: slow, type: like(reward), doc: a moving average}
      fading: {each: reward, name: fading, type: like(reward), doc: it gets less}
      last: {each: reward, name: last, type: like(reward), doc: that of the step before}
      first: {each: reward, name: first, type: like(reward), doc: what never changes}
      gain: {each: reward, name: gain, type: like(reward), doc: how much more it is than before}
      fell: {each: reward, name: fell, type: "bool[...]", doc: whether it is less than before}
    carry: [slow, fading, last, first]
    reset:
      slow: zeros_like(slow)
      fading: ones_like(fading)
      last: zeros_like(last)
      first: ones_like(first)
      gain: zeros_like(gain)
      fell: zeros_like(gain) > 0
    step:
      next.slow: 0.9 * slow + 0.1 * next.reward
      next.fading: -(fading / 3) * (1 - fading)
      next.last: next.reward
      next.first: first
      next.gain: next.reward - last
      next.fell: not (next.reward >= last) and next.reward != 2.0
chains:
  Tracked:
    env: CartPoleGym
    transforms: [{RewardScaling: {loc: 0.5, scale: 0.25}}, Track, {StepCounter: {max_steps: 30}}]
  Bent:
    env: CartPoleGym
    transforms: [{RewardScaling: {loc: 0.5, scale: 0.25}}, Bend]
  Huge:
    env: CartPoleGym
    transforms: [{RewardScaling: {loc: 0.0, scale: 2.0e+38}}, RewardSum]
"""
BEND = """
  Bend:
    doc: Something that NumPy may round otherwise.
    in:
      reward: {each: [reward], type: "float[...]"}
    out:
      bent: {each: reward, name: same}
    map:
      bent: exp(reward)
chains:
"""


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    files = generate({"rows.yaml": SCHEMA.replace("\nchains:\n", BEND, 1)}, "rows_package")
    with imported(files, "rows_package", tmp_path_factory.mktemp("rows")):
        from rows_package import rows  # type: ignore[import-not-found]

        yield rows


Made = Callable[[], GeneratedGymEnv[Any, Any]]


@pytest.fixture(params=[CartPoleGymTrain, PendulumGymTrain, CartPoleGym, PendulumGym, "Tracked"])
def made(request: pytest.FixtureRequest, tracked: Any) -> Made:
    cls = tracked.Tracked if request.param == "Tracked" else request.param

    def make() -> GeneratedGymEnv[Any, Any]:
        torch.manual_seed(1)
        limit = {"max_episode_steps": 40} if cls in (PendulumGymTrain, PendulumGym) else {}
        env: GeneratedGymEnv[Any, Any] = cls(**limit)
        env.set_seed(3)
        return env

    return make


def generally(env: GeneratedGymEnv[Any, Any]) -> GeneratedGymEnv[Any, Any]:
    """The environment, without steps of NumPy's."""
    env.__dict__["_rows"] = None
    return env


def transitions(env: Any, steps: int = 120) -> Any:
    torch.manual_seed(2)
    root, records = env.reset(), []
    for _ in range(steps):
        record, root = env.step_and_maybe_reset(env.rand_action(root))
        records.append(record.clone())
    return torch.stack(records)


def test_they_are_taken_where_there_are_any(made: Made, tracked: Any) -> None:
    assert made()._row_steps() is not None
    assert tracked.Bent()._row_steps() is None  # `exp` is torch's
    assert CartPoleGymTrain(device="meta")._row_steps() is None


def test_steps_and_resets(made: Made) -> None:
    found = transitions(made())
    assert found["next", "done"].any()
    assert_identical(found, transitions(generally(made())))


def test_single_steps(made: Made) -> None:
    env, other = made(), generally(made())
    root, same = env.reset(), other.reset()
    for _ in range(5):
        action = env.action_spec.rand()
        record, expected = env.step(root.set("action", action)), other.step(same.set("action", action))
        assert_identical(record, expected)
        root, same = env.step_mdp(record), other.step_mdp(expected)


@pytest.mark.filterwarnings("error")
def test_what_overflows_is_infinite_and_nobody_is_told(tracked: Any) -> None:
    env = tracked.Huge()
    assert env._row_steps() is not None
    assert transitions(env, 5)["next", "episode_reward"].isinf().any()


def test_no_step_changes_another(made: Made) -> None:
    env = made()
    root, kept, copies = env.reset(), [], []
    for _ in range(60):
        record, root = env.step_and_maybe_reset(env.rand_action(root))
        kept.append(record)
        copies.append(record.clone())
    for record, copy in zip(kept, copies, strict=True):
        assert_identical(record, copy)
    for record in kept:  # and each tensor is in memory of its own, but what the next root takes on
        for _, value in record["next"].items():
            value.fill_(1)
        changed = [other for other in kept if other is not record]
        places = {value.data_ptr() for value in record["next"].values()}
        assert places.isdisjoint(value.data_ptr() for other in changed for value in other["next"].values())


def test_tensors_are_of_the_mode_that_a_step_is_taken_in() -> None:
    env = CartPoleGymTrain()
    root = env.reset()
    for _ in range(5):  # several steps' tensors are made in one go
        with torch.inference_mode():
            inside, root = env.step_and_maybe_reset(env.rand_action(root.clone()))
        outside, root = env.step_and_maybe_reset(env.rand_action(root.clone()))
        assert all(value.is_inference() for value in (inside["action"], *inside["next"].values()))
        assert not any(value.is_inference() for value in (outside["action"], *outside["next"].values()))


def test_a_tensor_has_a_storage_of_its_own_size() -> None:
    found = transitions_of(CartPoleGymTrain(), 20)
    for value in found["next"].values():
        assert value.untyped_storage().nbytes() == value.nbytes


def transitions_of(env: Any, steps: int) -> Any:
    root = env.reset()
    for _ in range(steps):
        record, root = env.step_and_maybe_reset(env.rand_action(root))
    return record


def test_a_step_set_on_gymnasiums_wrappers_is_called() -> None:
    env = CartPoleGymTrain()
    root, limit = env.reset(), env._gym
    _, root = env.step_and_maybe_reset(env.rand_action(root))
    assert limit._elapsed_steps == 1
    step = limit.step
    limit.step = lambda action: (*step(action)[:3], True, {})
    assert env.step(env.rand_action(root))["next", "truncated"]
    assert limit._elapsed_steps == 2


# rollouts by a policy -----------------------------------------------------------------------------------------------


class Chosen(nn.Module):
    """An action of a discrete or a continuous space, of scores."""

    def __init__(self, env: Any) -> None:
        super().__init__()
        self.discrete = env.action_spec.dtype is torch.int64

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.argmax(-1) if self.discrete else scores[:1].tanh()


def network(env: Any) -> nn.Sequential:
    torch.manual_seed(0)
    size = env.observation_spec["observation"].shape[-1]
    return nn.Sequential(
        nn.Linear(size, 16), nn.Tanh(), nn.Sequential(nn.Linear(16, 2), nn.ReLU()), Chosen(env)
    )


class Whole(nn.Module):
    """A network that is not a sequence of others."""

    def __init__(self, env: Any) -> None:
        super().__init__()
        self.layers = network(env)

    def forward(self, *observations: torch.Tensor) -> Any:
        return self.layers(next(one for one in observations if one.ndim and len(one) > 2))


def as_module(network: nn.Module) -> TensorDictModule:
    return TensorDictModule(network, in_keys=["observation"], out_keys=["action"])


POLICIES: dict[str, Callable[[Any], nn.Module]] = {
    "sequence": lambda env: as_module(network(env)),
    "whole": lambda env: as_module(Whole(env)),
    "of observations": Whole,
    "of flags too": lambda env: TensorDictModule(
        Whole(env), in_keys=["observation", "done"], out_keys=["action"]
    ),
}


class TestPolicies:
    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("stops", [True, False])
    def test_rollouts(self, made: Made, policy: str, stops: bool) -> None:
        env, other = made(), made()
        act = POLICIES[policy](env)
        assert env._rollout_steps(options(act)).flat(None) is not None
        with torch.no_grad():
            found = env.rollout(90, act, break_when_any_done=stops)
            # who asks for single transitions gets them: the general way
            expected = other.rollout(90, act, lambda *_: None, break_when_any_done=stops)
        assert stops or found["next", "done"].any()
        assert_identical(found, expected)
        assert found.names == expected.names
        assert_identical(env.rollout(3, act), other.rollout(3, act, lambda *_: None))

    def test_from_a_root(self) -> None:
        found = []
        for callback in (None, lambda *_: None):
            env = CartPoleGymTrain()
            env.set_seed(3)
            root = env.reset().set("step_count", torch.tensor([5]))
            act = as_module(network(env))
            found.append(env.rollout(20, act, callback, tensordict=root, auto_reset=False))
        assert found[0]["step_count"][0] == 5
        assert_identical(*found)

    def test_gradients(self) -> None:
        env = PendulumGymTrain()
        act = as_module(network(env))
        env.rollout(4, act)["action"].sum().backward()
        assert all(parameter.grad is not None for parameter in act.parameters())

    def test_hooks_are_called(self) -> None:
        env, called = CartPoleGymTrain(), []
        for place in (lambda act: act, lambda act: act.module, lambda act: act.module[0]):
            act = as_module(network(env))
            place(act).register_forward_hook(lambda *_: called.append(1))
            env.rollout(4, act)
        assert len(called) == 12

    @pytest.mark.parametrize("kind", ["several keys", "function", "subclass", "unknown key"])
    def test_others_see_the_tensordict(self, kind: str) -> None:
        env = CartPoleGymTrain()

        class Named(TensorDictModule):
            pass

        act: Any = {
            "several keys": TensorDictModule(
                lambda x: (x.new_zeros((), dtype=torch.int64), x), ["observation"], ["action", "seen"]
            ),
            "function": lambda td: env.rand_action(td),
            "subclass": Named(network(env), ["observation"], ["action"]),
            "unknown key": TensorDictModule(
                lambda _: torch.tensor(1), in_keys=["absent"], out_keys=["action"], strict=False
            ),
        }[kind]
        assert env._rollout_steps(options(act)).flat(None) is None
        assert env.rollout(4, act, break_when_any_done=False).shape == (4,)

    def test_numbers_of_another_dtype_are_taken_alike(self) -> None:
        found = []
        for callback in (None, lambda *_: None):
            env = CartPoleGymTrain()
            env.set_seed(3)
            act = TensorDictModule(lambda _: torch.tensor(1.0), ["observation"], ["action"])
            found.append(env.rollout(4, act, callback))
        assert_identical(*found)

    @pytest.mark.parametrize(
        ("wrong", "error"), [(torch.tensor([1]), RuntimeError), (torch.tensor(7), ValueError)]
    )
    def test_wrong_actions_are_refused_alike(self, wrong: Any, error: type[Exception]) -> None:
        env, said = CartPoleGymTrain(), []
        act = TensorDictModule(lambda _: wrong, in_keys=["observation"], out_keys=["action"])
        for callback in (None, lambda *_: None):
            with pytest.raises(error) as caught:
                env.rollout(4, act, callback)
            said.append(caught.value)
        assert type(said[0]) is type(said[1])
        assert "7" in str(said[0]) or str(said[0]) == str(said[1])

    def test_outside_the_spec(self) -> None:
        env = PendulumGymTrain()
        act = TensorDictModule(lambda _: torch.tensor([9.0]), in_keys=["observation"], out_keys=["action"])
        with pytest.raises(ValueError, match="step 0"):
            env.rollout(4, act)


def options(act: Any) -> Any:
    from specgen_runtime.envs.rollout import RolloutOptions

    return RolloutOptions(4, act)
