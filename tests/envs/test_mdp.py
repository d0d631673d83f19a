"""`step_mdp`."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from specgen_runtime.envs import step_mdp, utils
from specgen_runtime.envs.utils import StepMDP
from specgen_runtime.envs.utils import step_mdp as same
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase

from tests.envs.counting import Counting, Grid


def transition() -> TensorDict:
    env = Counting()
    td = env.reset()
    td["other"] = torch.ones(1)
    return env.rand_step(td)


def test_next_becomes_the_root() -> None:
    td = transition()
    root = step_mdp(td)
    assert same is step_mdp
    assert set(root.keys()) == {"count", "observation", "done", "terminated", "truncated", "other"}
    assert root["count"].item() == 1
    assert root["count"] is td["next", "count"]
    assert td["count"].item() == 0


def test_flags() -> None:
    td = transition()
    assert set(step_mdp(td, keep_other=False).keys()) == {
        "count",
        "observation",
        "done",
        "terminated",
        "truncated",
    }
    assert step_mdp(td, exclude_reward=False)["reward"] is td["next", "reward"]
    assert step_mdp(td, exclude_action=False)["action"] is td["action"]
    kept = step_mdp(td, keep_other=False, exclude_action=False)
    assert "action" in kept.keys(True)
    assert "other" not in kept.keys(True)


def test_exclude_done_leaves_no_flag() -> None:
    # TorchRL keeps terminated (E32).
    root = step_mdp(transition(), exclude_done=True)
    assert set(root.keys()) == {"count", "observation", "other"}


def test_without_next() -> None:
    # TorchRL: AttributeError (E19).
    with pytest.raises(KeyError, match="needs a 'next' entry"):
        step_mdp(TensorDict({"observation": torch.zeros(1)}))
    with pytest.raises(TypeError, match="found dict"):
        step_mdp({"next": {}})


def test_a_given_tensordict_is_written_to() -> None:
    target = TensorDict({"mine": torch.zeros(1)})
    assert step_mdp(transition(), target) is target
    assert target["count"].item() == 1
    assert "mine" in target.keys(True)


def test_nested_keys() -> None:
    env = Grid(batch_size=(3,))
    td = env.reset()
    td["agents", "other"] = torch.ones(3)
    env.rand_step(td)
    keys = {"reward_keys": env.reward_keys, "action_keys": env.action_keys, "done_keys": env.done_keys}
    root = step_mdp(td, **keys)
    assert ("agents", "other") in root.keys(True)
    assert ("agents", "reward") not in root.keys(True)
    assert ("agents", "action") not in root.keys(True)
    assert ("agents", "observation") in root.keys(True)
    root["agents", "observation"] = torch.full((3, 2, 4), -1.0)
    assert (td["next", "agents", "observation"] >= 0).all()
    assert ("agents", "action") in td.keys(True)
    assert ("agents", "action") in env.step_mdp(td).keys(True)


def test_a_container_is_left_out_with_all_that_is_in_it() -> None:
    env = Grid(batch_size=(3,))
    td = env.rand_step(env.reset())
    root = step_mdp(td, action_keys=["agents", ("agents", "action")], reward_keys=env.reward_keys)
    assert "agents" not in root


def ragged(sizes: tuple[int, ...], dim: int = 0) -> Any:
    """Transitions side by side whose entries differ in size, and in keys: the last one has its own."""
    rows = []
    for size in sizes:
        following = {
            "observation": torch.full((1, size), 1.0),
            "reward": torch.ones(1, 1),
            "done": torch.zeros(1, 1, dtype=torch.bool),
            "agents": TensorDict(
                {"seen": torch.full((1, size), 3.0), "reward": torch.ones(1, size)}, batch_size=[1, size]
            ),
        }
        root = {
            "observation": torch.zeros(1, size),
            "done": torch.zeros(1, 1, dtype=torch.bool),
            "other": torch.full((1, size), 2.0),
            "action": torch.full((1, size), size),
            "agents": TensorDict(
                {
                    "seen": torch.zeros(1, size),
                    "action": torch.ones(1, size),
                    "held": torch.ones(1, size),
                    "deep": TensorDict({"action": torch.ones(1, size, 2)}, batch_size=[1, size]),
                },
                batch_size=[1, size],
            ),
            "next": TensorDict(following, batch_size=[1]),
        }
        rows.append(TensorDict(root, batch_size=[1]))
    rows[-1]["next", "only", "here"] = torch.ones(1)
    rows[-1]["mine"] = torch.ones(1)
    return LazyStackedTensorDict.lazy_stack(rows, dim)


KEYS: dict[str, Any] = {
    "action_keys": ["action", ("agents", "action"), ("agents", "deep", "action")],
    "reward_keys": ["reward", ("agents", "reward")],
}
FLAGS = [
    dict(zip(("keep_other", "exclude_reward", "exclude_done", "exclude_action"), flags, strict=True))
    for flags in itertools.product((True, False), repeat=4)
]


def assert_same(found: TensorDictBase, expected: TensorDictBase) -> None:
    assert found.batch_size == expected.batch_size
    if isinstance(expected, LazyStackedTensorDict):
        assert isinstance(found, LazyStackedTensorDict)
        assert found.stack_dim == expected.stack_dim
        for one, other in zip(found.tensordicts, expected.tensordicts, strict=True):
            assert_same(one, other)
        return
    assert set(found.keys()) == set(expected.keys())
    for name, value in expected.items():
        if isinstance(value, TensorDictBase):
            assert_same(found.get(name), value)
        else:
            assert torch.equal(found.get(name), value), name


class TestAgainstTorchRL:
    """The same entries in containers of the same batch sizes, whatever is kept."""

    @pytest.mark.parametrize("flags", FLAGS, ids=str)
    @pytest.mark.parametrize("dim", [0, 1])
    def test_lazy_stacks_whose_rows_differ(self, dim: int, flags: dict[str, bool]) -> None:
        peer = pytest.importorskip("torchrl.envs.utils")
        td = ragged((2, 3, 4), dim)
        assert_same(step_mdp(td, **flags, **KEYS), peer.step_mdp(td, **flags, **KEYS))

    @pytest.mark.parametrize("flags", FLAGS, ids=str)
    def test_plain_tensordicts(self, flags: dict[str, bool]) -> None:
        peer = pytest.importorskip("torchrl.envs.utils")
        td = ragged((3, 3)).tensordicts[1]
        assert_same(step_mdp(td, **flags, **KEYS), peer.step_mdp(td, **flags, **KEYS))
        named = td.copy()
        named.names = ["row"]  # another way through the function
        assert_same(step_mdp(named, **flags, **KEYS), step_mdp(td, **flags, **KEYS))

    def test_a_lazy_stack_is_written_to(self) -> None:
        peer = pytest.importorskip("torchrl.envs.utils")
        td, target, other = ragged((2, 3)), ragged((2, 3)), ragged((2, 3))
        assert step_mdp(td, target, **KEYS) is target
        assert_same(target, peer.step_mdp(td, other, **KEYS))


def test_groups_that_are_lazy_stacks_in_a_plain_root() -> None:
    """Agents of different kinds: the stack is inside, and entries of its own sizes are in both roots."""

    def agents(value: float, *names: str) -> LazyStackedTensorDict:
        kinds = [TensorDict({name: torch.full((2, n), value) for name in names}, [2]) for n in (3, 4)]
        return LazyStackedTensorDict(*kinds, stack_dim=1)

    td = TensorDict({"agents": agents(0.0, "seen", "action"), "done": torch.zeros(2, 1)}, [2])
    td["next"] = TensorDict({"agents": agents(1.0, "seen", "reward"), "done": torch.ones(2, 1)}, [2])
    keys: dict[str, Any] = {"action_keys": ("agents", "action"), "reward_keys": ("agents", "reward")}
    for keep_other, exclude_action in itertools.product((True, False), repeat=2):
        root = step_mdp(td, keep_other=keep_other, exclude_action=exclude_action, **keys)
        assert root["agents"].batch_size == (2, 2)
        for place, size in enumerate((3, 4)):
            item = root["agents"][:, place]
            assert torch.equal(item["seen"], torch.ones(2, size))
            assert ("action" in item) is not exclude_action
            assert "reward" not in item


def test_locked_input() -> None:
    td = transition().lock_()
    assert not step_mdp(td).is_locked


FLAGS = ("keep_other", "exclude_reward", "exclude_done", "exclude_action")


@pytest.mark.parametrize("env", [Counting(), Counting(batch_size=(2,)), Grid(batch_size=(2,))], ids=repr)
@pytest.mark.parametrize("chosen", list(itertools.product([False, True], repeat=4)), ids=str)
def test_the_keys_of_an_environment(env: Any, chosen: tuple[bool, ...]) -> None:
    td = env.rand_step(env.reset().set("other", torch.ones(*env.batch_size, 1)))
    flags = dict(zip(FLAGS, chosen, strict=True))
    keys = {"reward_keys": env.reward_keys, "done_keys": env.done_keys, "action_keys": env.action_keys}
    expected = step_mdp(td, **flags, **keys)
    found = StepMDP(env, **flags)(td)
    assert set(found.keys(True, True)) == set(expected.keys(True, True))
    for key in found.keys(True, True):
        assert found[key] is expected[key]
    for key in env.action_keys:
        assert (key in found.keys(True)) is not flags["exclude_action"]
    for key in env.reward_keys:
        assert (key in found.keys(True)) is not flags["exclude_reward"]
    for key in env.done_keys:
        assert (key in found.keys(True)) is not flags["exclude_done"]
    assert ("other" in found.keys()) is flags["keep_other"]  # noqa: SIM118


def test_the_keys_of_an_environment_without_next() -> None:
    assert utils._StepMDP is StepMDP  # the name that TorchRL's users import
    with pytest.raises(KeyError, match="needs a 'next' entry"):
        StepMDP(Counting())(TensorDict({"observation": torch.zeros(1)}))
