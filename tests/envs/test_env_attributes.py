"""What an environment offers besides resets, steps and rollouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv, check_env_specs
from specgen_runtime.specs import Categorical, Composite, Unbounded
from specgen_runtime.transforms import TransformedEnv
from specgen_std.transforms import InitTracker
from tensordict import TensorDict
from torch import nn

from tests.envs.counting import Counting, Grid, Scripted
from tests.envs.torchrl_style import Early

REFUSED = {
    "auto_complete_done_specs": "done flags are always completed; losses and rollouts rely on it",
    "collector": "there are no collectors for it to point to",
    "register_collector": "the same",
    "configure_parallel": "an argument of the constructor says it, before there is something to configure",
    "make_parallel": "ParallelEnv is called by its name",
    "register_gym": "a registry that importing fills; `to_gymnasium` gives the environment itself",
}


@pytest.mark.peers
def test_every_public_attribute_of_the_peer_is_here_or_refused() -> None:
    from torchrl.envs import EnvBase as Peer

    theirs = {name for name in set(dir(Peer)) - set(dir(nn.Module)) if not name.startswith("_")}
    assert theirs - set(dir(EnvBase)) == set(REFUSED)


@pytest.mark.peers
def test_every_keyword_of_the_peer_is_taken() -> None:
    import inspect

    from torchrl.envs import EnvBase as Peer
    from torchrl.envs.utils import check_env_specs as peer_check

    def names(function: Any) -> set[str]:
        return set(inspect.signature(function).parameters)

    for name in (
        "rollout",
        "reset",
        "set_seed",
        "auto_specs_",
        "close",
        "rand_action",
        "all_actions",
        "__init__",
    ):
        assert names(getattr(Peer, name)) <= names(getattr(EnvBase, name)) | {"self"}, name
    assert names(peer_check) == names(check_env_specs)


class TestLocks:
    def test_specs_that_stay_open(self) -> None:
        env = Counting()
        held = env.input_spec
        assert env.is_spec_locked
        assert env.set_spec_lock_(False) is env
        env.observation_spec["more"] = Unbounded((2,))
        assert env.observation_keys[-1] == "more"
        del env.observation_spec["more"]
        env.full_action_spec["extra"] = Unbounded((2,))
        assert env.action_keys == ["action", "extra"]
        assert env.rand_action()["extra"].shape == (2,)
        assert not env.input_spec.is_locked
        env.is_spec_locked = True
        assert env.input_spec.is_locked
        assert held["full_action_spec"].keys() == {"action"}
        with pytest.raises(RuntimeError, match="locked"):
            env.full_action_spec["late"] = Unbounded((2,))
        assert env.rollout(2)["extra"].shape == (2, 2)

    def test_from_the_start(self) -> None:
        class Open(Counting):
            def __init__(self) -> None:
                EnvBase.__init__(self, spec_locked=False)
                self.action_spec = Unbounded((1,))

        env = Open()
        assert env.action_keys == ["action"]
        env.full_action_spec["late"] = Unbounded((2,))
        assert env.action_keys == ["action", "late"]

    def test_setters_work_on_locked_specs(self) -> None:
        env = Counting()
        env.rand_step()
        env.observation_spec = Composite(count=Unbounded((1,), dtype=torch.int64), x=Unbounded((2,)))
        assert env.observation_keys == ["count", "x"]
        env.empty_cache()
        assert env.observation_keys == ["count", "x"]


def test_groups_without_the_batch() -> None:
    env = Counting(batch_size=(3,))
    for group in ("action", "observation", "reward", "done", "state"):
        whole, one = f"full_{group}_spec", f"full_{group}_spec_unbatched"
        before = getattr(env, whole).clone()
        assert getattr(env, one) == before[0]
        setattr(env, one, getattr(env, one).clone())
        assert getattr(env, whole) == before
    assert env.input_spec_unbatched == env.input_spec[0]
    assert env.output_spec_unbatched == env.output_spec[0]
    assert env.batch_dims == env.ndim == 1


class TestEnds:
    def test_keys(self) -> None:
        env = Grid()
        assert env.reset_keys == ["_reset", ("agents", "_reset")]
        assert [set(group) for group in env.done_keys_groups] == [
            {"done", "terminated"},
            {("agents", "done"), ("agents", "terminated")},
        ]

    def test_any_done(self) -> None:
        env = Counting(batch_size=(2,))
        root = env.reset()
        assert not env.any_done(root)
        assert "_reset" not in root
        root["done"] = torch.tensor([[False], [True]])
        assert env.any_done(root)
        assert torch.equal(root["_reset"], root["done"])

        root = Grid(root_done=False).reset()
        root["agents", "done"] = torch.tensor([[False], [True]])
        assert Grid(root_done=False).any_done(root)
        assert torch.equal(root["agents", "_reset"], root["agents", "done"])

    def test_truncation_can_be_declared(self) -> None:
        env = Grid(limit=9)
        with pytest.raises(RuntimeError, match="set_truncated"):
            env.rollout(2, set_truncated=True)
        assert env.add_truncated_keys() is env
        assert {"truncated", ("agents", "truncated")} <= set(env.done_keys)
        ended = env.rollout(2, set_truncated=True)["next"]
        for key in ("truncated", "done", ("agents", "truncated"), ("agents", "done")):
            assert ended[key][-1].all()
            assert not ended[key][0].any()
        assert not ended["agents", "terminated"].any()
        check_env_specs(env)

    def test_truncation_is_declared_inside(self) -> None:
        env = TransformedEnv(Grid(limit=9), InitTracker())
        assert env.add_truncated_keys() is env
        assert {"truncated", ("agents", "truncated")} <= set(env.done_keys)
        assert env.rollout(2, set_truncated=True)["next", "truncated"][-1].all()
        check_env_specs(env)
        with pytest.raises(
            RuntimeError, match="call add_truncated_keys on those, in the functions that make them"
        ):
            SerialEnv(2, Counting).add_truncated_keys()


class TestActions:
    def test_all_there_are(self) -> None:
        env = Counting()
        env.action_spec = Categorical(3)
        assert env.all_actions()["action"].tolist() == [0, 1, 2]
        assert env.cardinality() == 3
        seen = []

        class Listening(Counting):
            def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
                seen.append(tensordict["hint"].item())
                return super()._reset(tensordict)

        listening = Listening()
        listening.action_spec = Categorical(2)
        assert listening.all_actions(TensorDict(hint=torch.tensor([7])))["action"].tolist() == [0, 1]
        assert seen == [7]

    def test_of_infinitely_many(self) -> None:
        assert Counting().cardinality() == float("inf")
        with pytest.raises(NotImplementedError):
            Counting().all_actions()


class TestSpecsFromData:
    class Blank(Counting):
        """Says nothing of itself."""

        def __init__(self, batch_size: tuple[int, ...] = ()) -> None:
            EnvBase.__init__(self, batch_size=batch_size)
            self.limit = 5

    @pytest.mark.parametrize("batch_size", [(), (2,)])
    def test_they_hold(self, batch_size: tuple[int, ...]) -> None:
        env = self.Blank(batch_size)
        keys = ["observation", "count"]
        found = env.auto_specs_(lambda td: td.set("action", torch.ones(*batch_size, 1)), observation_key=keys)
        assert found is env
        assert env.action_spec.shape == (*batch_size, 1)
        assert (env.observation_keys, env.state_keys) == (keys, keys)
        assert set(env.done_keys) == {"done", "terminated", "truncated"}
        assert env.reward_keys == ["reward"]
        check_env_specs(env)
        assert env.rollout(9).batch_size == (*batch_size, 5)

    def test_what_nobody_accounts_for(self) -> None:
        with pytest.raises(RuntimeError, match="_step gives 'count', which no argument says"):
            self.Blank().auto_specs_(lambda td: td.set("action", torch.ones(1)))

    def test_sizes_that_differ(self) -> None:
        class Growing(self.Blank):  # type: ignore[name-defined, misc]
            def _step(self, tensordict: Any) -> TensorDict:
                following = super()._step(tensordict)
                return following.set("observation", torch.zeros(int(following["count"]), 2))

        env = Growing().auto_specs_(
            lambda td: td.set("action", torch.ones(1)),
            tensordict=TensorDict(count=torch.tensor([1]), observation=torch.zeros(1, 2)),
            observation_key=["count", "observation"],
        )
        assert env.observation_spec["observation"].shape == (-1, 2)


def test_settings() -> None:
    env = Scripted()
    assert (env.run_type_checks, env.check_finite, env.is_closed) == (False, False, False)
    env.run_type_checks = True
    assert env.run_type_checks
    with pytest.raises(NotImplementedError, match="set_state"):
        env.set_state()


def test_state_dicts() -> None:
    class Stateful(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(1))
            self.net = nn.Linear(1, 1)

    env, twin = Stateful(), Stateful()
    env.total += 3
    assert set(env.state_dict()) == {"total", "net.weight", "net.bias"}
    twin.load_state_dict(env.state_dict())
    assert twin.total == 3
    assert Early().state_dict() == {}
