"""`TensorDictPrimer`: what a reset fills, and who keeps it up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import SerialEnv, check_env_specs
from specgen_runtime.specs import Bounded, Categorical, Composite, NonTensor, Unbounded
from specgen_runtime.testing import check_env
from specgen_runtime.transforms import Compose, TensorDictPrimer, TransformedEnv
from specgen_std.envs import Pendulum
from specgen_std.transforms import RewardSum
from tensordict import TensorDict, TensorDictBase

from tests.envs.counting import Grid
from tests.transforms.envs import Team, Walk


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
@pytest.mark.parametrize("expand", [None, True])
def test_specs_get_the_batch_size(batch: tuple[int, ...], expand: bool | None) -> None:
    env = TransformedEnv(Walk(*batch), TensorDictPrimer(hidden=Unbounded(5), expand_specs=expand))
    check_env_specs(env)
    assert env.observation_spec["hidden"] == Unbounded((*batch, 5))
    assert env.state_spec["hidden"] == Unbounded((*batch, 5))
    assert env.reset()["hidden"].eq(0).all()
    assert env.rollout(2)["next", "hidden"].shape == (*batch, 2, 5)


def test_specs_that_have_the_batch_size() -> None:
    for primer in (
        TensorDictPrimer(hidden=Unbounded((3, 5))),
        TensorDictPrimer(hidden=Unbounded((3, 5)), expand_specs=False),
        TensorDictPrimer(Composite(hidden=Unbounded((3, 5)), shape=(3,)), expand_specs=True),
        TensorDictPrimer(hidden=Unbounded((3, 5)), shape=(3,)),
    ):
        env = TransformedEnv(Walk(3), primer)
        assert env.observation_spec["hidden"].shape == (3, 5)
        check_env_specs(env)
    with pytest.raises(ValueError, match=r"do not begin with the batch size \[3\]"):
        _ = TransformedEnv(
            Walk(3), TensorDictPrimer(hidden=Unbounded(5), expand_specs=False)
        ).observation_spec
    whole = TransformedEnv(Walk(3), TensorDictPrimer(hidden=Unbounded((3, 5)), expand_specs=True))
    assert whole.observation_spec["hidden"].shape == (3, 3, 5)


def test_the_policy_keeps_it_up() -> None:
    """What stands under `next` before the step wins; an end starts anew."""
    env = TransformedEnv(Walk(3), TensorDictPrimer(hidden=Unbounded(1), default_value=0.5))

    def policy(data: TensorDictBase) -> TensorDictBase:
        data["action"] = torch.full((3, 3), 0.9)
        return data.set(("next", "hidden"), data["hidden"] + 1)

    data = env.rollout(12, policy, break_when_any_done=False)
    done = data["next", "done"]
    assert done.any()
    assert torch.equal(data["next", "hidden"], data["hidden"] + 1)
    assert torch.equal(data["hidden"][:, 1:], torch.where(done[:, :-1], 0.5, data["next", "hidden"][:, :-1]))
    kept = env.rollout(3)
    assert torch.equal(kept["next", "hidden"], torch.full((3, kept.shape[1], 1), 0.5))


def test_a_root_that_was_stepped_keeps_its_value() -> None:
    env = TransformedEnv(Walk(2), TensorDictPrimer(hidden=Unbounded(1)))
    root = env.reset().set("action", torch.zeros(2, 3))
    root["next"] = TensorDict(hidden=torch.ones(2, 1), batch_size=[2])
    stepped = env.step(root)
    assert stepped["next", "hidden"].eq(1).all()
    stepped["hidden"] = torch.full((2, 1), 7.0)
    assert env.step(stepped)["next", "hidden"].eq(7).all()


def test_defaults() -> None:
    def ones() -> torch.Tensor:
        return torch.ones(2, 3)

    specs: dict[str, Any] = {"a": Unbounded(3), "b": Categorical(4, dtype=torch.int64)}
    env = TransformedEnv(Walk(2), TensorDictPrimer(specs, default_value={"a": ones, "b": 2}))
    check_env_specs(env)
    data = env.reset()
    assert data["a"].eq(1).all()
    assert data["b"].tolist() == [2, 2]
    nested = TensorDictPrimer({"x": Composite(y=Unbounded(3))}, default_value={"x": {"y": torch.arange(3)}})
    assert TransformedEnv(Walk(2), nested).reset()["x", "y"].tolist() == [[0.0, 1.0, 2.0]] * 2
    drawn = TransformedEnv(Walk(2), TensorDictPrimer(a=Bounded(-3.0, 3.0, (4,)), random=True))
    check_env_specs(drawn)
    assert drawn.reset()["a"].unique().numel() == 8
    texts = TransformedEnv(Walk(2), TensorDictPrimer(text=NonTensor(shape=(2,), example_data="hello")))
    assert texts.reset()["text"] == "hello"
    with pytest.raises(ValueError, match="is no value of"):
        TransformedEnv(Walk(2), TensorDictPrimer(b=Categorical(4), default_value=9)).reset()
    with pytest.raises(ValueError, match=r"has the keys 'a', 'b', and default values for 'a'"):
        TensorDictPrimer(specs, default_value={"a": 1.0})
    with pytest.raises(ValueError, match="draws values"):
        TensorDictPrimer(specs, random=True, default_value=1.0)
    with pytest.raises(TypeError, match="takes specs, got 3 for 'a'"):
        TensorDictPrimer(a=3)
    with pytest.raises(TypeError, match="primers and a"):
        TensorDictPrimer(specs, a=Unbounded(3))
    with pytest.raises(TypeError, match="default_value that can be called"):
        TensorDictPrimer(specs, single_default_value=True)


def test_one_function_for_all_entries() -> None:
    seen: list[Any] = []

    def load(reset: torch.Tensor | None = None) -> TensorDict:
        seen.append(reset)
        rows = 3 if reset is None else int(reset.sum())
        return TensorDict(question=torch.full((rows, 2), float(len(seen))), batch_size=[rows])

    primer = TensorDictPrimer(question=Unbounded((3, 2)), default_value=load, single_default_value=True)
    env = TransformedEnv(Walk(3), primer)
    _ = env.observation_spec
    data = env.reset()
    assert seen == [None]
    assert data["question"].eq(1).all()
    again = env.reset(data.set("_reset", torch.tensor([[False], [True], [False]])))
    assert seen[1].tolist() == [False, True, False]
    assert again["question"][:, 0].tolist() == [1.0, 2.0, 1.0]


def test_groups_and_several_reset_keys() -> None:
    primer = TensorDictPrimer({"agents": Composite(hidden=Unbounded((2, 4)), shape=(2,))})
    env = TransformedEnv(Team(3), primer)
    check_env_specs(env)
    assert env.observation_spec["agents", "hidden"].shape == (3, 2, 4)
    assert env.observation_spec["agents"].shape == (3, 2)
    assert TransformedEnv(Team(3), TensorDictPrimer(h=Unbounded(1), reset_key="_reset")).reset()[
        "h"
    ].shape == (3, 1)
    with pytest.raises(ValueError, match=r"'other' is no reset key of the environment, which has '_reset'"):
        _ = TransformedEnv(Team(3), TensorDictPrimer(h=Unbounded(1), reset_key="other")).observation_spec


@pytest.mark.parametrize("batch", [(), (2,)])
def test_beside_agents_that_end_on_their_own(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(
        Grid(batch_size=batch, root_done=False), TensorDictPrimer(hidden=Unbounded(4), default_value=1.0)
    )
    check_env_specs(env)
    assert env.rollout(8, break_when_any_done=False)["hidden"].eq(1).all()


def test_draws_follow_the_seed() -> None:
    def make() -> TransformedEnv:
        return TransformedEnv(Pendulum(batch_size=(2,)), TensorDictPrimer(hidden=Unbounded(3), random=True))

    check_env(make)
    env = make()
    drawn = []
    for noise in (0, 1):
        torch.manual_seed(noise)
        env.set_seed(7)
        drawn.append(env.reset()["hidden"])
    assert torch.equal(*drawn)


def test_an_action_stays_an_action() -> None:
    env = TransformedEnv(Walk(2), TensorDictPrimer(action=Unbounded((2, 3)), default_value=0.25))
    assert env.full_action_spec == env.base_env.full_action_spec
    assert env.observation_keys == ["position"]
    assert env.reset()["action"].eq(0.25).all()
    assert not env.rollout(3)["action"].eq(0.25).any()


def test_before_the_environment() -> None:
    class Echo(Walk):
        def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
            made = super()._reset(tensordict, **kwargs)
            assert tensordict is not None
            return made.set("text", tensordict["text"])

        def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
            return super()._step(tensordict)

    primer = TensorDictPrimer(text=Unbounded(1), default_value=3.0, call_before_env_reset=True)
    env = TransformedEnv(Echo(2), primer)
    assert env.reset()["text"].eq(3).all()
    assert env.rollout(2)["next", "text"].eq(3).all()


def test_offline_and_in_batches() -> None:
    data = TensorDictPrimer(hidden=Unbounded(3))(TensorDict(a=torch.zeros(10), batch_size=[10]))
    assert data["hidden"].shape == (10, 3)
    assert TensorDictPrimer(hidden=Unbounded(3))(TensorDict())["hidden"].shape == (3,)
    env = SerialEnv(
        2, lambda: TransformedEnv(Walk(), Compose(TensorDictPrimer(hidden=Unbounded(3)), RewardSum()))
    )
    check_env_specs(env)
    assert env.rollout(3)["hidden"].shape == (2, 3, 3)
    env.close()
    outer = TransformedEnv(SerialEnv(2, Walk), TensorDictPrimer(hidden=Unbounded(3)))
    check_env_specs(outer)
    assert outer.reset()["hidden"].shape == (2, 3)
