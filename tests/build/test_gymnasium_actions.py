"""Environments of Gymnasium whose actions are a Dict or a Tuple: their parts are several actions."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.envs import GymSpaceMismatch, GymWrapper, check_env_specs
from specgen_runtime.specs import Binary, Bounded, Categorical, MultiCategorical, TensorSpec
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms.actions import ActionScaling
from specgen_std.transforms.reward_sum import RewardSum
from specgen_std.transforms.time import FrameSkipTransform
from tensordict import TensorDict, TensorDictBase

from specgen.diagnostics import Sink
from specgen.project.gymnasium_lock import lock_text, record, record_missing
from specgen.source import parse_yaml
from specgen.source.gymnasium_uses import find_uses
from specgen.source.spaces import Record, Space, records_from_json
from tests.support import generate, imported

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces

MOVE, AHEAD, FORCE = spaces.Discrete(3), spaces.Discrete(3, start=-1), spaces.Box(0, 1, (1,), np.float32)
DIALS, LAMPS = spaces.MultiDiscrete([3, 2], start=[1, 0]), spaces.MultiBinary(2)
SPACES = {
    "dict": spaces.Dict({"move": MOVE, "force": FORCE}),
    "nested": spaces.Dict({"engine": spaces.Dict({"move": MOVE, "force": FORCE}), "lamps": LAMPS}),
    "tuple": spaces.Tuple((AHEAD, FORCE)),
    "mixed": spaces.Tuple((spaces.Dict({"dials": DIALS}), spaces.Tuple((LAMPS, FORCE)))),
    "alone": spaces.Dict({"force": FORCE}),
}
LEAF: dict[str, TensorSpec] = {
    "move": Categorical(3),
    "ahead": Categorical(3),
    "force": Bounded(0, 1, (1,)),
    "dials": MultiCategorical([3, 2]),
    "lamps": Binary(shape=(2,)),
}
ACTIONS: dict[str, dict[tuple[str, ...], str]] = {
    "dict": {("force",): "force", ("move",): "move"},
    "nested": {("engine", "force"): "force", ("engine", "move"): "move", ("lamps",): "lamps"},
    "tuple": {("part_0",): "ahead", ("part_1",): "force"},
    "mixed": {("part_0", "dials"): "dials", ("part_1", "part_0"): "lamps", ("part_1", "part_1"): "force"},
    "alone": {("force",): "force"},
}
"""The keys below `action`, in the order of the class, and what each is."""


class Boats(gymnasium.Env):  # type: ignore[misc, name-defined]
    """Is moved by what it is given, keeps that, and drifts at random."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, form: str) -> None:
        self.action_space = SPACES[form]
        self.taken: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = self.np_random.normal(size=2).astype(np.float32)
        return self.place.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.taken.append(action)
        moved = spaces.flatten(self.action_space, action).sum()
        self.place = (self.place + moved + self.np_random.normal(size=2)).astype(np.float32)
        return self.place.copy(), float(self.place[0]), False, False, {}


for form in SPACES:
    gymnasium.register(f"Boats{form.capitalize()}-v0", Boats, kwargs={"form": form}, max_episode_steps=5)


def _id(form: str) -> str:
    return f"Boats{form.capitalize()}-v0"


@pytest.fixture(scope="module")
def records() -> dict[str, Record]:
    return {_id(form): record(_id(form), {}) for form in SPACES}


@pytest.fixture(scope="module")
def made(records: dict[str, Record], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    head = "specgen: 1\nimport: [specgen_std/transforms/actions, specgen_std/transforms/reward_sum, specgen_std/transforms/time]\n"
    envs, chains = "envs:\n", "chains:\n"
    for form in SPACES:
        envs += (
            f"  {form.capitalize()}:\n    gymnasium: {{id: {_id(form)}, categorical_action_encoding: true}}\n"
        )
        forces = [key for key, kind in ACTIONS[form].items() if kind == "force"]
        scaled = ".".join(("action", *forces[0]))
        chains += f"  {form.capitalize()}Scaled: {{env: {form.capitalize()}, transforms: [{{ActionScaling: {{in_keys_inv: [{scaled}]}}}}, RewardSum]}}\n"
        chains += f"  {form.capitalize()}Skipping: {{env: {form.capitalize()}, transforms: [{{ActionScaling: {{in_keys_inv: [{scaled}]}}}}, {{FrameSkipTransform: {{frame_skip: 2}}}}]}}\n"
    files = generate({"boats.yaml": head + envs + chains}, "boats_made", records)
    with imported(files, "boats_made", tmp_path_factory.mktemp("boats")) as package:
        yield importlib.import_module(f"{package.__name__}.boats")


def _actions(form: str) -> list[Any]:
    space = SPACES[form]
    space.seed(3)
    return [space.sample() for _ in range(5)]


def _part(action: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        action = action[int(name.removeprefix("part_")) if isinstance(action, tuple) else name]
    return action


def _tensor(value: Any, kind: str) -> torch.Tensor:
    """A value of Gymnasium's, as its spec has it: classes are counted from 0."""
    start = {"ahead": -1, "dials": np.array([1, 0])}.get(kind, 0)
    return torch.as_tensor(np.asarray(value) - start).to(LEAF[kind].dtype)


def _given(form: str) -> TensorDictBase:
    """All actions, as a policy writes them."""
    steps = [
        TensorDict({("action", *key): _tensor(_part(one, key), kind) for key, kind in ACTIONS[form].items()})
        for one in _actions(form)
    ]
    return torch.stack(steps)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return set(one) == set(other) and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(np.array_equal(one, other))


@pytest.mark.parametrize("form", SPACES)
def test_spaces_come_back_exactly(form: str, records: dict[str, Record]) -> None:
    text = lock_text(records)
    assert records_from_json(text) == records
    assert lock_text(records_from_json(text)) == text
    assert not isinstance(records[_id(form)].action, Space)


@pytest.mark.parametrize("form", SPACES)
def test_parts_are_actions(form: str, made: ModuleType) -> None:
    env = getattr(made, form.capitalize())()
    assert env.action_keys == [("action", *key) for key in ACTIONS[form]]
    for key, kind in ACTIONS[form].items():
        assert env.full_action_spec["action", *key] == LEAF[kind]
    check_env_specs(env)
    check_env_specs(getattr(made, f"{form.capitalize()}Scaled")())
    assert env.rollout(20, break_when_any_done=False).batch_size == (20,)


@pytest.mark.parametrize("form", SPACES)
def test_an_episode_is_that_of_gymnasium(form: str, made: ModuleType) -> None:
    """The same seed and actions give the same observations, rewards and ends."""
    env = getattr(made, form.capitalize())()
    env.set_seed(7)
    found = env.rollout(5, actions=_given(form))
    raw = gymnasium.make(_id(form))
    seen, _ = raw.reset(seed=7)
    for at, action in enumerate(_actions(form)):
        assert np.array_equal(found["observation"][at].numpy(), seen)
        seen, reward, terminated, truncated, _ = raw.step(action)
        assert np.array_equal(found["next", "observation"][at].numpy(), seen)
        assert found["next", "reward"][at].item() == np.float32(reward)
        assert (bool(found["next", "terminated"][at]), bool(found["next", "truncated"][at])) == (terminated, truncated)  # fmt: skip
    for taken, action in zip(env._gym.unwrapped.taken, _actions(form), strict=True):
        assert _alike(taken, action)


@pytest.mark.parametrize("form", SPACES)
def test_a_chain_is_the_environment_and_its_transforms(form: str, made: ModuleType) -> None:
    """Bit by bit, with an action that is scaled on its way."""
    (force,) = (("action", *key) for key, kind in ACTIONS[form].items() if kind == "force")
    base = getattr(made, form.capitalize())()
    plain = TransformedEnv(TransformedEnv(base, ActionScaling(in_keys_inv=[force])), RewardSum())
    fused = getattr(made, f"{form.capitalize()}Scaled")()
    given = _given(form)
    given[force] = 2 * given[force] - 1
    results = []
    for env in (plain, fused):
        assert env.full_action_spec[force] == Bounded(-1, 1, (1,))
        env.set_seed(7)
        results.append(env.rollout(5, actions=given))
    for key in results[0].keys(True, True):
        assert torch.equal(results[0][key], results[1][key]), key


@pytest.mark.parametrize("form", SPACES)
def test_a_chain_takes_two_steps_as_one(form: str, made: ModuleType) -> None:
    """Bit by bit as the classes do; the last of five steps is a step alone."""
    (force,) = (("action", *key) for key, kind in ACTIONS[form].items() if kind == "force")
    base = getattr(made, form.capitalize())()
    plain = TransformedEnv(base, Compose(ActionScaling(in_keys_inv=[force]), FrameSkipTransform(2)))
    fused = getattr(made, f"{form.capitalize()}Skipping")()
    check_env_specs(fused)
    fused._gym.unwrapped.taken.clear()
    given = _given(form)[:3]
    given[force] = 2 * given[force] - 1
    results = []
    for env in (plain, fused):
        env.set_seed(7)
        results.append(env.rollout(3, actions=given))
    assert len(base._gym.unwrapped.taken) == len(fused._gym.unwrapped.taken) == 5
    for key in results[0].keys(True, True):
        assert torch.equal(results[0][key], results[1][key]), key
    assert results[1]["next", "truncated"].flatten().tolist() == [False, False, True]


@pytest.mark.peers
@pytest.mark.parametrize("form", ["dict", "nested"])
def test_steps_are_torchrls(form: str, made: ModuleType) -> None:
    """Their names stand below `action`, which TorchRL's have at the root."""
    libs = pytest.importorskip("torchrl.envs.libs.gym")
    theirs = libs.GymWrapper(gymnasium.make(_id(form)), categorical_action_encoding=True)
    assert {key if isinstance(key, tuple) else (key,) for key in theirs.action_keys} == set(ACTIONS[form])
    ours = getattr(made, form.capitalize())()
    given = _given(form)
    results = []
    for env in (ours, theirs):
        root, rows = env.reset(seed=7), []
        for at in range(5):
            if env is ours:
                root["action"] = given["action"][at]
            else:
                root.update(given["action"][at].to_dict())
            step = env.step(root)["next"]
            rows.append([step["observation"].clone(), step["reward"].clone(), step["done"].clone()])
            root = env.step_mdp(root) if env is ours else step.clone()
        results.append(rows)
    for ours_, theirs_ in zip(*results, strict=True):
        for one, other in zip(ours_, theirs_, strict=True):
            assert torch.equal(one, other.reshape(one.shape))


@pytest.mark.peers
def test_torchrl_has_no_tuples_of_unlike_parts() -> None:
    """Their names would have nowhere to come from."""
    libs = pytest.importorskip("torchrl.envs.libs.gym")
    with pytest.raises(RuntimeError, match="Stacking specs cannot occur"):
        libs.GymWrapper(gymnasium.make(_id("tuple")))
    with pytest.raises(RuntimeError, match="cannot be stacked"):
        GymWrapper(gymnasium.make(_id("tuple")))


@pytest.mark.parametrize(
    ("form", "other", "key"),
    [("dict", "alone", ("action", "move")), ("alone", "dict", ("action", "move")), ("tuple", "dict", ("action", "part_0"))],
)  # fmt: skip
def test_another_space_is_told(form: str, other: str, key: tuple[str, ...], made: ModuleType) -> None:
    with pytest.raises(GymSpaceMismatch) as raised:
        getattr(made, form.capitalize())(form=other)
    assert raised.value.key == key


def test_an_environment_is_sent_to_processes(made: ModuleType) -> None:
    env = pickle.loads(pickle.dumps(made.Nested()))
    assert env.rollout(3).batch_size == (3,)


def test_an_empty_space_is_refused() -> None:
    SPACES["empty"] = spaces.Dict({"engine": spaces.Dict({}), "move": MOVE})
    gymnasium.register("BoatsEmpty-v0", Boats, kwargs={"form": "empty"}, disable_env_checker=True)
    sink = Sink()
    root = parse_yaml("a.yaml", "envs:\n  A:\n    gymnasium: {id: BoatsEmpty-v0}\n", sink)
    assert root is not None
    try:
        record_missing(list(find_uses(root)), {}, (), sink)
    finally:
        del SPACES["empty"]
    assert [str(one.message) for one in sink.items] == [
        "the action 'engine' space of 'BoatsEmpty-v0' holds nothing"
    ]
