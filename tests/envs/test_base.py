"""`EnvBase`: specs, keys, reset and step, and what they refuse."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from specgen_std import envs
from tensordict import TensorDict, TensorDictBase

from tests.envs.counting import Counting, Grid, Scripted, Stateful

BATCHES = [(), (1,), (3,), (4, 3)]


@pytest.mark.parametrize("missing", ["_reset", "_step", "_set_seed"])
def test_a_subclass_that_leaves_a_method_out_cannot_be_made(missing: str) -> None:
    methods = {name: lambda self, *args: None for name in ("_reset", "_step", "_set_seed") if name != missing}
    cls = type("Partial", (EnvBase,), methods)
    with pytest.raises(TypeError, match=missing):
        cls()


@pytest.mark.parametrize("batch_size", BATCHES)
@pytest.mark.parametrize("cls", [Counting, Grid, Stateful])
def test_specs_and_data_agree(cls: Any, batch_size: tuple[int, ...]) -> None:
    check_env_specs(cls(batch_size=batch_size), seed=0)


def test_keys() -> None:
    env = Grid()
    assert env.action_key == ("agents", "action")
    assert env.reward_key == ("agents", "reward")
    assert set(env.done_keys) == {"done", "terminated", ("agents", "done"), ("agents", "terminated")}
    assert set(env.reset_keys) == {"_reset", ("agents", "_reset")}
    assert isinstance(env.action_spec, Categorical)
    assert isinstance(env.done_spec, Composite)
    with pytest.raises(KeyError, match="done_keys"):
        _ = env.done_key
    assert Counting().done_key == "done"


def test_a_key_of_several_is_refused() -> None:
    env = Counting()
    env.full_action_spec = Composite(left=Unbounded((1,)), right=Unbounded((1,)))
    assert env.action_keys == ["left", "right"]
    assert isinstance(env.action_spec, Composite)
    with pytest.raises(KeyError, match="action_keys"):
        _ = env.action_key


def test_default_reward_and_done_specs() -> None:
    class Bare(Scripted):
        def __init__(self) -> None:
            EnvBase.__init__(self, batch_size=(2,))

    env = Bare()
    assert env.reward_spec == Unbounded((2, 1))
    assert env.done_keys == ["done", "terminated"]
    assert env.full_done_spec["done"].shape == (2, 1)
    assert env.action_keys == []


def test_specs_are_locked_and_read_only() -> None:
    env = Counting()
    for name in ("input_spec", "output_spec"):
        with pytest.raises(RuntimeError):
            setattr(env, name, Composite())
    with pytest.raises(RuntimeError):
        env.output_spec["full_reward_spec"] = Composite()
    with pytest.raises(RuntimeError):
        env.full_reward_spec["other"] = Unbounded((1,))
    assert set(env.specs.keys()) == {"input_spec", "output_spec"}
    assert env.specs["output_spec", "full_reward_spec", "reward"] == Unbounded((1,))


def test_unbatched_specs() -> None:
    env = Counting(batch_size=(4, 3))
    assert env.action_spec_unbatched.shape == (1,)
    assert env.observation_spec_unbatched["observation"].shape == (1,)
    env.action_spec_unbatched = Bounded(-2.0, 2.0, shape=(5,))
    assert env.action_spec.shape == (4, 3, 5)
    assert env.full_action_spec.shape == (4, 3)
    env.reward_spec_unbatched = Unbounded((2,))
    assert env.reward_spec.shape == (4, 3, 2)
    env.observation_spec_unbatched = Composite(
        pixels=Unbounded((7,)), count=Unbounded((1,), dtype=torch.int64)
    )
    assert env.observation_spec["pixels"].shape == (4, 3, 7)
    assert env.done_spec_unbatched["done"].shape == (1,)
    assert env.state_spec_unbatched["count"].shape == (1,)


def test_a_spec_without_the_batch_size_is_refused() -> None:
    env = Counting(batch_size=(3,))
    before = env.action_spec
    with pytest.raises(ValueError, match=r"batch size \[3\], found shape \[2\]"):
        env.action_spec = Unbounded((2,))
    assert env.action_spec == before


def test_wrong_specs_are_refused() -> None:
    env = Counting()
    with pytest.raises(TypeError, match="TensorSpec"):
        env.action_spec = torch.zeros(1)
    with pytest.raises(TypeError, match="Composite"):
        env.state_spec = Unbounded((1,))
    with pytest.raises(RuntimeError, match="needs a dimension"):
        env.reward_spec = Unbounded(())
    with pytest.raises(ValueError, match=r"must be torch\.bool"):
        env.done_spec = Unbounded((1,))
    with pytest.raises(ValueError, match="name of reset masks"):
        env.full_done_spec = Composite(_reset=Categorical(2, (1,), dtype=torch.bool))


def test_flags_of_a_done_set_share_their_shape() -> None:
    # TorchRL accepts this (checklists-core, E12).
    flag = {name: Categorical(2, (n,), dtype=torch.bool) for name, n in (("done", 1), ("truncated", 3))}
    with pytest.raises(ValueError, match=r"'truncated' has shape \[3\] but 'done' beside it has \[1\]"):
        Counting().full_done_spec = Composite(flag)


def test_one_key_has_one_meaning_whenever_it_is_set() -> None:
    # TorchRL checks at construction only (E13).
    env = Counting()
    with pytest.raises(RuntimeError, match="'observation' is in reward_spec and in observation_spec"):
        env.full_reward_spec = Composite(observation=Unbounded((1,)))
    with pytest.raises(RuntimeError, match="'count' is in action_spec and in state_spec"):
        env.full_action_spec = Composite(count=Unbounded((1,)))
    with pytest.raises(RuntimeError, match="'done' is in observation_spec and in done_spec"):
        env.observation_spec = Composite(done=Unbounded((1,)))


def test_batch_locked_belongs_to_the_instance() -> None:
    # In TorchRL a second instance changes the first (E9).
    class Free(Scripted):
        def __init__(self, locked: bool) -> None:
            EnvBase.__init__(self, batch_locked=locked)

    first, second = Free(True), Free(False)
    assert first.batch_locked
    assert not second.batch_locked
    with pytest.raises(RuntimeError):
        first.batch_locked = False


def test_an_unlocked_env_takes_any_batch() -> None:
    class Free(EnvBase):
        def __init__(self) -> None:
            super().__init__(batch_locked=False)
            self.action_spec = Bounded(-1.0, 1.0, shape=(1,))
            self.observation_spec = Unbounded((2,))

        def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
            size = () if tensordict is None else tensordict.batch_size
            return TensorDict({"observation": torch.zeros(*size, 2)}, batch_size=size)

        def _step(self, tensordict: Any) -> TensorDict:
            size = tensordict.batch_size
            return TensorDict(
                {"observation": tensordict["observation"] + 1, "reward": tensordict["action"]},
                batch_size=size,
            )

        def _set_seed(self, seed: int | None) -> None:
            pass

    env = Free()
    td = env.rand_step(env.reset(TensorDict(batch_size=(5,))))
    assert td["action"].shape == (5, 1)
    assert td["next", "done"].shape == (5, 1)


def test_a_failing_batch_size_changes_nothing() -> None:
    env = Counting(batch_size=(2,))
    with pytest.raises(RuntimeError, match="batch_size"):
        env.batch_size = torch.Size((5,))
    assert env.batch_size == (2,)


def test_device_is_set_by_to() -> None:
    env = Counting(device="cpu")
    env.action_spec = Unbounded((1,), device="cpu")
    with pytest.raises(RuntimeError, match=r"\.to"):
        env.device = "cpu"
    moved = env.to("meta")
    assert moved is env
    assert env.device == torch.device("meta")
    assert env.action_spec.device == torch.device("meta")
    assert env.full_done_spec.device == torch.device("meta")
    assert Counting().to(torch.float64).device is None


def test_reset_returns_its_argument_updated() -> None:
    env = Counting()
    td = TensorDict({"mine": torch.ones(2)})
    assert env.reset(td) is td
    assert set(td.keys()) == {"mine", "count", "observation", "done", "terminated", "truncated"}
    assert td["done"].shape == (1,)


def test_step_returns_its_argument_with_next() -> None:
    env = Counting(batch_size=(3,))
    td = env.rand_action(env.reset())
    assert env.step(td) is td
    assert torch.equal(td["next", "reward"], td["action"] * 2)
    assert td["next", "reward"].shape == (3, 1)
    assert not td["next", "done"].any()
    assert "reward" not in td.keys(True)


def test_values_in_next_prevail() -> None:
    # As documented; TorchRL returns its own (E1).
    env = Counting()
    td = env.rand_action(env.reset())
    td["next"] = TensorDict({"reward": torch.tensor([5.0])})
    assert env.step(td)["next", "reward"].item() == 5.0
    assert td["next", "count"].item() == 1


@pytest.mark.parametrize(
    ("given", "ended"),
    [
        (("truncated",), (True, False, True)),
        (("terminated",), (True, True, False)),
        (("done",), (True, True, False)),
        (("done", "terminated"), (True, True, False)),
        (("terminated", "truncated"), (True, True, True)),
    ],
)
@pytest.mark.parametrize("cls", [Counting, envs.Pendulum])
def test_flags_follow_from_those_in_next(cls: Any, given: tuple[str, ...], ended: tuple[bool, ...]) -> None:
    env = cls()
    td = env.rand_action(env.reset())
    td["next"] = TensorDict({flag: torch.tensor([True]) for flag in given})
    following = env.step(td)["next"]
    assert following["done"].item() is ended[0]
    assert following["terminated"].item() is ended[1]
    assert "truncated" not in env.done_keys or following["truncated"].item() is ended[2]


def test_arguments_must_be_tensordicts() -> None:
    # E19
    env = Counting()
    for method in (env.step, env.reset, env.rand_action):
        with pytest.raises(TypeError, match="needs a tensordict, found dict"):
            method({"action": torch.zeros(1)})


def test_wrong_batch_size_is_refused() -> None:
    env = Counting(batch_size=(3,))
    with pytest.raises(RuntimeError, match=r"batch size \[2\], the environment \[3\]"):
        env.step(TensorDict({"action": torch.zeros(2, 1)}, batch_size=(2,)))


def test_a_missing_action_is_named() -> None:
    # E17
    env = Counting()
    with pytest.raises(KeyError, match="no 'action'"):
        env.step(env.reset())


def test_a_wrong_action_is_described() -> None:
    env = Counting()
    td = env.reset()
    with pytest.raises(
        RuntimeError, match=r"'action' must be torch.float32 \[1\].*found torch.float32 \[2\]"
    ):
        env.step(td.set("action", torch.zeros(2)))
    inexact = torch.full((1,), 2**24 + 1)  # no float32
    with pytest.raises(RuntimeError, match=r"'action' must be torch.float32 \[1\].*found torch.int64 \[1\]"):
        env.step(td.set("action", inexact))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"observation": torch.zeros(7)},
            r"'observation' must be torch.float32 \[2\].*found torch.float32 \[7\]",
        ),
        ({"observation": torch.zeros(2, dtype=torch.float64)}, r"'observation'.*found torch.float64"),
        ({"reward": torch.zeros(3)}, r"'reward' must be torch.float32 \[1\]"),
        ({"reward": None}, r"no 'reward' \(reward_spec\)"),
        ({"terminated": torch.zeros(3, dtype=torch.bool)}, r"'done' must be torch.bool \[1\]"),
    ],
)
def test_what_step_returns_is_compared_with_the_specs(entries: dict[str, Any], message: str) -> None:
    env = Scripted(next=entries)
    env.reward_spec = Unbounded((1,))
    with pytest.raises((RuntimeError, KeyError), match=message):
        env.rand_step()


def test_a_wrong_dtype_is_a_type_error_too() -> None:
    env = Scripted(next={"observation": torch.zeros(2, dtype=torch.float64)})
    for error in (TypeError, RuntimeError):
        with pytest.raises(error, match=r"found torch.float64"):
            env.rand_step()


def test_a_reset_gives_no_reward() -> None:
    # TorchRL lets rollouts of it fall apart into a lazy stack.
    env = Scripted(reset={"observation": torch.zeros(2), "reward": torch.zeros(1)})
    with pytest.raises(RuntimeError, match="_reset returned the reward 'reward'"):
        env.reset()


def test_environments_move_to_devices() -> None:
    # E30
    env = Counting()
    assert env.to("cpu").device == torch.device("cpu")
    with pytest.raises(RuntimeError, match="set at construction"):
        env.device = "cpu"


def test_what_reset_returns_is_compared_with_the_specs() -> None:
    with pytest.raises(RuntimeError, match=r"_reset: 'observation' must be .*\[2\]"):
        Scripted(reset={"observation": torch.zeros(7)}).reset()
    with pytest.raises(KeyError, match=r"_reset: the result has no 'observation'"):
        Scripted(reset={}).reset()


def test_hooks_must_return_new_tensordicts() -> None:
    class Echo(Scripted):
        def _step(self, tensordict: Any) -> TensorDictBase:
            return tensordict

    with pytest.raises(RuntimeError, match="returned its input"):
        Echo().rand_step()


def test_done_right_after_reset_is_refused() -> None:
    with pytest.raises(RuntimeError, match="'done' is True right after reset"):
        Scripted(reset={"observation": torch.zeros(2), "done": torch.tensor([True])}).reset()


def test_reset_passes_keywords_on() -> None:
    td = Scripted().reset(observation=torch.ones(2))
    assert torch.equal(td["observation"], torch.ones(2))


def test_set_seed_returns_the_input() -> None:
    # As documented for a single environment; TorchRL returns another number (E4).
    env = Counting()
    assert env.set_seed(0) == 0
    assert env.seeded == 0
    assert env.set_seed(3, static_seed=True) == 3
    assert env.set_seed() is None


def test_fake_tensordict_looks_like_a_step() -> None:
    env = Grid(batch_size=(3,))
    fake, real = env.fake_tensordict(), env.rand_step()
    assert set(fake.keys(True, True)) == set(real.keys(True, True))
    for key in fake.keys(True, True):
        assert fake[key].shape == real[key].shape
        assert fake[key].dtype == real[key].dtype
        assert not fake[key].any()


def test_a_closed_environment_says_so() -> None:
    env = Counting()
    td = env.rand_action(env.reset())
    env.close()
    assert env.is_closed
    for call in (env.reset, lambda: env.step(td), lambda: env.rollout(2)):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    env.close()
    env.close(raise_if_closed=False)


def test_environments_copy_and_pickle() -> None:
    env = Counting(batch_size=(2,))
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.specs == env.specs
        assert twin.rollout(3).batch_size == (2, 3)


def test_calling_an_environment_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="step"):
        Counting()(TensorDict())
