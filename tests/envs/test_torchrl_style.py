"""Environments written for TorchRL run after changing the import."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import AutoResetEnv, EnvBase, GymEnv, NotFiniteError, SerialEnv, check_env_specs
from specgen_runtime.specs import Composite, OneHot, Unbounded
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.cartpole import CartPole
from tensordict import LazyStackedTensorDict, TensorDict

from tests.envs.torchrl_style import (
    AnyBatch,
    Bare,
    Early,
    Growing,
    Noting,
    Restless,
    SpecsOnTheClass,
    Terse,
)

MAKERS: dict[str, Any] = {
    "specs on the class": SpecsOnTheClass,
    "specs on the class, batched": lambda: SpecsOnTheClass(batch_size=torch.Size([2])),
    "any batch": AnyBatch,
    "terse": Terse,
    "terse, batched": lambda: Terse((2,)),
    "bare": Bare,
    "bare, batched": lambda: Bare(batch_size=(2,)),
    "early": Early,
    "growing": Growing,
    "noting": Noting,
    "resets itself": lambda: Restless(auto_reset=True),
    "resets itself, batched": lambda: Restless((2,), auto_reset=True),
    "resets itself, side by side": lambda: SerialEnv(2, lambda: Restless(auto_reset=True)),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_specs_are_met(kind: str) -> None:
    env = MAKERS[kind]()
    check_env_specs(env, seed=1)
    env.check_env_specs()


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("stop", [True, False])
def test_rollouts(kind: str, stop: bool) -> None:
    env = MAKERS[kind]()
    data = env.rollout(9, break_when_any_done=stop)
    ends = {
        "any batch": 4,
        "terse": 3,
        "growing": 4,
        "noting": 4,
        "resets itself": 3,
        "specs on the class": 4,
    }
    length = ends.get(kind.removesuffix(", batched").removesuffix(", side by side"), 9) if stop else 9
    assert data.batch_size == (*env.batch_size, length)
    assert data.names[-1] == "time"
    assert not data["done"].any()


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if "resets itself" not in kind])
def test_copies(kind: str) -> None:
    env = MAKERS[kind]()
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.specs == env.specs
        assert twin.batch_locked == env.batch_locked
        twin.rollout(2)


def test_specs_on_the_class_belong_to_the_instance() -> None:
    first, second = SpecsOnTheClass(n=4), SpecsOnTheClass(n=7, batch_size=torch.Size([3]))
    assert first.action_spec == OneHot(4, device="cpu")
    assert (second.batch_size, second.action_spec.shape) == ((3,), (3, 7))
    assert not any(name in vars(SpecsOnTheClass) for name in ("_input_spec", "_output_spec"))
    assert first._output_spec is first.output_spec
    for name in ("_input_spec", "_output_spec"):
        with pytest.raises(AttributeError, match="set env"):
            setattr(first, name, Composite())


def test_any_batch() -> None:
    env = AnyBatch()
    assert not env.batch_locked
    start = env.reset(TensorDict(batch_size=(5,)))
    data = env.rollout(9, auto_reset=False, tensordict=start)
    assert data.batch_size == (5, 4)
    assert Noting().batch_locked
    assert not Terse(locked=False).batch_locked
    assert not EnvBase.__new__(Bare, _batch_locked=False, _inplace_update=True).batch_locked


def test_last_dimensions_are_added() -> None:
    # As TorchRL does; anything else that does not fit is refused.
    data = Terse((2,)).rollout(5)
    assert data["next", "reward"].shape == (2, 3, 1)
    assert data["next", "fell"].shape == (2, 3, 1)

    class Wrong(Terse):
        def _step(self, tensordict: Any) -> TensorDict:
            return super()._step(tensordict).set("reward", torch.zeros(3))

    with pytest.raises(RuntimeError, match=r"batch size \[\], expected \[2\]; found .*'reward' \[3\]"):
        Wrong((2,)).rand_step()


def test_without_rewards_they_are_zero() -> None:
    assert (Bare().rollout(3)["next", "reward"] == 0).all()
    env = Bare(batch_size=(2,))
    env.reward_spec = Composite(shape=(2,))
    assert "reward" not in env.rand_step()["next"]
    assert "reward" not in TransformedEnv(Bare(), lambda td: td).rollout(3).keys(True)
    env.reward_spec = Unbounded((2, 1))
    with pytest.raises(KeyError, match="no 'reward'"):
        env.rand_step()


def test_growing_observations() -> None:
    data = Growing().rollout(9)
    assert isinstance(data, LazyStackedTensorDict)
    assert [step["observation"].shape[1] for step in data.unbind(0)] == [1, 2, 3, 4]


class TestResettingItself:
    def test_it_is_one_environment_inside_another(self) -> None:
        env = Restless((2,), auto_reset=True)
        assert isinstance(env, AutoResetEnv)
        assert isinstance(env.base_env, Restless)
        assert env.output_spec == env.base_env.output_spec
        assert type(Bare(auto_reset=False)) is Bare
        env.base_env.spare = 3
        assert env.spare == 3
        with pytest.raises(AttributeError, match="spair"):
            env.spair  # noqa: B018

        class Asking(Bare):
            def __init__(self) -> None:
                super().__init__(auto_reset=True)

        with pytest.raises(TypeError, match=r"Asking\(auto_reset=True\)"):
            Asking()

    def test_what_waits_for_the_reset(self) -> None:
        data = Restless(auto_reset=True).rollout(7, break_when_any_done=False)
        nan = float("nan")
        torch.testing.assert_close(
            data["next", "x"].flatten(), torch.tensor([1, 2, nan, 1, 2, nan, 1]), equal_nan=True
        )
        assert data["x"].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]
        assert data["next", "n"].flatten().tolist() == [1, 2, -1, 1, 2, -1, 1]
        assert data["n"].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]
        assert not data["next", "flag"].any()
        assert data["next", "reward"].flatten().tolist() == [1, 1, 2, 1, 1, 2, 1]
        assert data["next", "done"].flatten().tolist() == [False, False, True] * 2 + [False]

    def test_without_replacement(self) -> None:
        env = Restless(auto_reset=True, auto_reset_replace=False)
        data = env.rollout(4, break_when_any_done=False)
        assert data["next", "x"].flatten().tolist() == [1, 2, 0, 1]
        assert data["x"].flatten().tolist() == [0, 1, 2, 0]

    def test_each_of_a_batch_by_itself(self) -> None:
        env = Restless((2,), auto_reset=True)
        data = env.rollout(6, break_when_any_done=False)
        assert data["x"][..., 0].tolist() == [[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 0, 1]]
        assert data["next", "x"].isnan()[..., 0].nonzero().tolist() == [[0, 2], [0, 5], [1, 3]]
        assert env.base_env.resets == 1

    def test_inside_transforms(self) -> None:
        env = TransformedEnv(Restless((2,), auto_reset=True), lambda td: td)
        assert env.rollout(5, break_when_any_done=False)["x"][0, :, 0].tolist() == [0, 1, 2, 0, 1]
        check_env_specs(env)

    def test_resets_on_demand(self) -> None:
        env = Restless((2,), auto_reset=True)
        root = env.reset()
        _, root = env.step_and_maybe_reset(env.rand_action(root))
        with pytest.raises(RuntimeError, match="Restless resets itself: '_reset' can select only what ended"):
            env.reset(root.set("_reset", torch.tensor([[True], [False]])))
        assert env.reset()["x"].flatten().tolist() == [0, 0]
        assert env.base_env.resets == 2

    def test_seeds_and_finite_numbers_are_those_of_the_inside(self) -> None:
        env = Restless(auto_reset=True)
        assert env.set_seed(3) == 3
        env.check_finite = True
        assert env.base_env.check_finite
        assert env.rollout(5, break_when_any_done=False)["next", "x"].isnan().any()
        env.base_env.count += torch.inf
        with pytest.raises(NotFiniteError, match=r"Restless\._step: 'x'"):
            env.step(env.rand_action(env.fake_tensordict().exclude("next")))
        env.close()
        assert env.base_env.is_closed
        with pytest.raises(TypeError, match="needs an environment, found int"):
            AutoResetEnv(3)  # type: ignore[arg-type]


class TestKeywordsOfTheCall:
    """What every environment can be made with, though its constructor does not know of it."""

    @pytest.mark.parametrize(
        "make", [Restless, partial(GymEnv, "CartPole-v1"), partial(SerialEnv, 2, Restless), CartPole]
    )
    def test_specs_are_locked_unless_told(self, make: Any) -> None:
        for locked in (True, False):
            env = make(spec_locked=locked)
            assert env.is_spec_locked is locked
            assert env.input_spec.is_locked is locked
            assert env.output_spec.is_locked is locked
        assert make().is_spec_locked

    @pytest.mark.parametrize("make", [Terse, partial(CartPole, batch_size=(3,))])
    def test_steps_are_compiled_if_told(self, make: Any) -> None:
        plain, env = make(), make(compile={"backend": "eager", "warmup": 1})
        expected, found = plain, env
        for each in (plain, env):
            each.set_seed(3)
        root, same = expected.reset(), found.reset()
        for _ in range(4):
            torch.manual_seed(5)
            _, root = expected.step_and_maybe_reset(expected.rand_action(root))
            torch.manual_seed(5)
            _, same = found.step_and_maybe_reset(found.rand_action(same))
            assert (root == same).all()
        assert "step_and_maybe_reset" in vars(env)
        assert env.eager() is env
        assert "step_and_maybe_reset" not in vars(env)

    def test_what_is_no_way_to_compile_is_refused(self) -> None:
        with pytest.raises(TypeError, match="compile must be a bool, or a dict of arguments for it"):
            Terse(compile="fast")

    def test_unknown_keywords_are_refused(self) -> None:
        with pytest.raises(TypeError, match="spec_unlocked"):
            Restless(spec_unlocked=True)
