"""`ActionMask`: random actions keep to what an observation allows."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv, check_env_specs
from specgen_runtime.specs import Binary, Bounded, Categorical, Composite, OneHot, Unbounded
from specgen_runtime.transforms import Compose, ModuleTransform, TransformedEnv
from specgen_std.transforms import ActionMask, InitTracker, RenameTransform, RewardSum, StepCounter
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule

from tests.compiled_cases import ROOT
from tests.support import generate, imported


class Cells(EnvBase):
    """Each class can be taken once; an episode ends when one is taken again, or all are."""

    def __init__(self, *batch: int, one_hot: bool = False) -> None:
        super().__init__(batch_size=batch)
        self.one_hot = one_hot
        free = Binary(shape=(*batch, 5), dtype=torch.bool)
        self.observation_spec = Composite(free=free, count=Unbounded((*batch, 1)), shape=batch)
        self.state_spec = self.observation_spec.clone()
        self.action_spec = OneHot(5, shape=(*batch, 5)) if one_hot else Categorical(5, shape=batch)
        self.reward_spec = Unbounded((*batch, 1))

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        free = torch.ones(*self.batch_size, 5, dtype=torch.bool)
        return TensorDict(free=free, count=torch.zeros(*self.batch_size, 1), batch_size=self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = tensordict["action"]
        taken = action.bool() if self.one_hot else torch.nn.functional.one_hot(action, 5).bool()
        allowed = (tensordict["free"] & taken).any(-1, keepdim=True)
        free = tensordict["free"] & ~taken
        over = ~allowed | ~free.any(-1, keepdim=True)
        entries = {
            "free": free,
            "count": tensordict["count"] + 1,
            "reward": allowed.float(),
            "terminated": over,
        }
        return TensorDict({**entries, "done": over.clone()}, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        del seed


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
@pytest.mark.parametrize("one_hot", [False, True])
def test_random_actions_are_allowed(batch: tuple[int, ...], one_hot: bool) -> None:
    """After partial resets too: there TorchRL has the mask of a fresh state in every row."""
    chain = Compose(ActionMask(mask_key="free"), StepCounter(), RewardSum())
    env = TransformedEnv(Cells(*batch, one_hot=one_hot), chain)
    check_env_specs(env)
    data = env.rollout(40, break_when_any_done=False)
    assert data["next", "reward"].eq(1).all()
    assert data["next", "done"].sum() == 8 * data.batch_size[:-1].numel()
    unmasked = TransformedEnv(Cells(*batch, one_hot=one_hot)).rollout(40, break_when_any_done=False)
    assert unmasked["next", "reward"].eq(0).any()


def test_the_mask_is_that_of_the_tensordict() -> None:
    """TorchRL takes the newest one, whatever it is asked about."""
    env = TransformedEnv(Cells(), ActionMask(mask_key="free"))
    old = env.reset()
    old["free"] = torch.tensor([False, False, True, False, False])
    env.reset()
    assert {env.rand_action(old.copy())["action"].item() for _ in range(20)} == {2}
    assert {env.rand_action(env.reset())["action"].item() for _ in range(100)} == {0, 1, 2, 3, 4}
    assert env.action_spec.mask is None


def test_in_and_around_batches() -> None:
    inside = SerialEnv(2, lambda: TransformedEnv(Cells(), ActionMask(mask_key="free")))
    assert inside.rollout(20, break_when_any_done=False)["next", "reward"].eq(1).all()
    around = TransformedEnv(SerialEnv(2, Cells), ActionMask(mask_key="free"))
    assert around.rollout(20, break_when_any_done=False)["next", "reward"].eq(1).all()


def test_a_later_change_of_the_action_ends_it() -> None:
    turned = ModuleTransform(
        module=TensorDictModule(lambda action: 4 - action, ["action"], ["action"]), inverse=True
    )
    before = TransformedEnv(Cells(), Compose(ActionMask(mask_key="free"), turned))
    assert before._action_masks == ()
    after = TransformedEnv(Cells(), Compose(turned.clone(), ActionMask(mask_key="free")))
    assert after._action_masks == (("action", "free"),)


def test_refusals() -> None:
    with pytest.raises(KeyError, match="reads 'action_mask', but the environment has only count, done, free"):
        _ = TransformedEnv(Cells(), ActionMask()).observation_spec
    with pytest.raises(KeyError, match="reads 'move', but the environment has only action"):
        _ = TransformedEnv(Cells(), ActionMask("move", "free")).observation_spec
    with pytest.raises(TypeError, match="needs bool, but 'count' is float32"):
        _ = TransformedEnv(Cells(), ActionMask(mask_key="count")).observation_spec
    begun = Compose(InitTracker(), ActionMask(mask_key="is_init"))
    with pytest.raises(ValueError, match=r"'is_init' is \[1\], and a mask of 'action' is \[5\]"):
        _ = TransformedEnv(Cells(), begun).action_spec

    class Continuous(Cells):
        def __init__(self) -> None:
            super().__init__()
            self.action_spec = Bounded(-1.0, 1.0, (2,))

    with pytest.raises(TypeError, match="'action' is no action of classes"):
        _ = TransformedEnv(Continuous(), ActionMask(mask_key="free")).action_spec
    with pytest.raises(NotImplementedError, match="in environments only"):
        ActionMask()(TensorDict())


class TwoCells(EnvBase):
    """Two actions, each with cells of its own that can be taken once."""

    def __init__(self, *batch: int) -> None:
        super().__init__(batch_size=batch)
        free = Binary(shape=(*batch, 3), dtype=torch.bool)
        self.observation_spec = Composite(left_mask=free, right_mask=free.clone(), shape=batch)
        self.state_spec = self.observation_spec.clone()
        action = Categorical(3, shape=batch)
        self.action_spec = Composite(left=action, right=action.clone(), shape=batch)
        self.reward_spec = Unbounded((*batch, 1))

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        free = torch.ones(*self.batch_size, 3, dtype=torch.bool)
        left = free.clone()
        left[..., 0] = False
        return TensorDict(left_mask=left, right_mask=free, batch_size=self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        entries: dict[str, Any] = {}
        allowed = torch.ones(*self.batch_size, 1, dtype=torch.bool)
        for name in ("left", "right"):
            taken = torch.nn.functional.one_hot(tensordict[name], 3).bool()
            free = tensordict[f"{name}_mask"]
            allowed &= (free & taken).any(-1, keepdim=True)
            entries[f"{name}_mask"] = free & ~taken
        over = ~(entries["left_mask"].any(-1, keepdim=True) & entries["right_mask"].any(-1, keepdim=True))
        entries |= {"reward": allowed.float(), "terminated": over, "done": over.clone()}
        return TensorDict(entries, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        del seed


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    name = "masks_of_several_actions"
    schema = (ROOT / "good" / name / "main.yaml").read_text(encoding="utf-8")
    with imported(generate({"main.yaml": schema}, name), name, tmp_path_factory.mktemp("generated")):
        yield importlib.import_module(f"{name}.main")


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
@pytest.mark.parametrize("named", [True, False])
def test_each_action_has_its_mask(declared: ModuleType, batch: tuple[int, ...], named: bool) -> None:
    keys = {"in_keys_inv": ["left", "right"]} if named else {}
    env = TransformedEnv(TwoCells(*batch), declared.Allowed(in_keys=["left_mask", "right_mask"], **keys))
    check_env_specs(env)
    assert env._action_masks == (("left", "left_mask"), ("right", "right_mask"))
    assert env.rollout(40, break_when_any_done=False)["next", "reward"].eq(1).all()


def test_one_mask_of_all_actions(declared: ModuleType) -> None:
    env = TransformedEnv(TwoCells(3), declared.OneForAll())
    assert env._action_masks == (("left", "left_mask"), ("right", "left_mask"))
    root = env.reset()
    drawn = torch.stack([env.rand_action(root.copy())["right"] for _ in range(50)])
    assert {*drawn.flatten().tolist()} == {1, 2}


def test_masks_and_actions_of_other_numbers(declared: ModuleType) -> None:
    with pytest.raises(ValueError, match="needs as many in_keys_inv as in_keys, got 2 and 1"):
        _ = TransformedEnv(TwoCells(), declared.Allowed(["left_mask"], ["left", "right"])).action_spec


RENAMED = """\
specgen: 1
import: [specgen_std/transforms/actions, specgen_std/transforms/keys, specgen_std/transforms/step_counter]
envs:
  Pair:
    action: {left: categorical(3), right: categorical(3)}
    state: {left_free: "bool[3]", right_free: "bool[3]"}
    observation: {left_mask: "bool[3]", right_mask: "bool[3]"}
    reset: {left_free: arange(3) != 1, right_free: "full((3,), true)"}
    step:
      next.left_free: left_free and one_hot(left, 3) == 0
      next.right_free: right_free and one_hot(right, 3) == 0
      reward: where(left_free[left] and right_free[right], 1.0, 0.0)
      terminated: not (any(next.left_free) and any(next.right_free))
    observe: {left_mask: left_free, right_mask: right_free}
    masks: {left: left_mask, right: right_mask}
chains:
  Masks: {env: Pair, transforms: [RenameTransform: {in_keys: [left_mask], out_keys: [left_allowed]}]}
  Moves: {env: Pair, transforms: [RenameTransform: {in_keys: [], in_keys_inv: [left], out_keys_inv: [move]}]}
  Both:
    env: Pair
    transforms:
      - RenameTransform: {in_keys: [left_mask], out_keys: [left_allowed], in_keys_inv: [left], out_keys_inv: [move]}
      - StepCounter
      - RenameTransform: {in_keys: [left_allowed], out_keys: [allowed], in_keys_inv: [move], out_keys_inv: [choice]}
  Swapped:
    env: Pair
    transforms: [RenameTransform: {in_keys: [left_mask, right_mask], out_keys: [right_mask, left_mask]}]
  SwappedActions:
    env: Pair
    transforms: [RenameTransform: {in_keys: [], in_keys_inv: [left, right], out_keys_inv: [right, left]}]
  Copied:
    env: Pair
    transforms: [RenameTransform: {in_keys: [left_mask], out_keys: [allowed], create_copy: true}]
  Told:
    env: Pair
    transforms:
      - ActionMask: {action_key: left, mask_key: right_mask}
      - RenameTransform: {in_keys: [right_mask], out_keys: [seen]}
"""
PAIRS = {
    "Masks": {"left": "left_allowed", "right": "right_mask"},
    "Moves": {"move": "left_mask", "right": "right_mask"},
    "Both": {"choice": "allowed", "right": "right_mask"},
    "Swapped": {"left": "right_mask", "right": "left_mask"},
    "SwappedActions": {"right": "left_mask", "left": "right_mask"},
    "Copied": {"left": "left_mask", "right": "right_mask"},
    "Told": {"left": "seen", "right": "seen"},
}
BY_CLASSES: dict[str, list[Any]] = {
    "Masks": [RenameTransform(["left_mask"], ["left_allowed"])],
    "Moves": [RenameTransform([], [], ["left"], ["move"])],
    "Both": [
        RenameTransform(["left_mask"], ["left_allowed"], ["left"], ["move"]),
        StepCounter(),
        RenameTransform(["left_allowed"], ["allowed"], ["move"], ["choice"]),
    ],
    "Swapped": [RenameTransform(["left_mask", "right_mask"], ["right_mask", "left_mask"])],
    "SwappedActions": [RenameTransform([], [], ["left", "right"], ["right", "left"])],
    "Copied": [RenameTransform(["left_mask"], ["allowed"], create_copy=True)],
    "Told": [ActionMask("left", "right_mask"), RenameTransform(["right_mask"], ["seen"])],
}


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"a.yaml": RENAMED}, "renamed_masks")
    with imported(files, "renamed_masks", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("renamed_masks.a")


@pytest.mark.parametrize("name", [*PAIRS])
def test_masks_and_actions_of_other_names_go_together(renamed: ModuleType, name: str) -> None:
    chain = Compose(*(one.clone() for one in BY_CLASSES[name]))
    for env in (
        getattr(renamed, name)(batch_size=(5,)),
        TransformedEnv(renamed.Pair(batch_size=(5,)), chain),
    ):
        assert dict(env._action_masks) == PAIRS[name]
        check_env_specs(env)
        if name != "Told":
            assert env.rollout(40, break_when_any_done=False)["next", "reward"].eq(1).all()


def test_a_chain_keeps_to_each_mask(declared: ModuleType) -> None:
    env = declared.Both(batch_size=(5,))
    assert env._action_masks == (("left", "left_mask"), ("right", "right_mask"))
    assert env.rollout(40, break_when_any_done=False)["next", "reward"].ge(1).all()
    assert declared.Counted(batch_size=(5,))._action_masks == (("left", "left_mask"), ("right", "left_mask"))


def test_a_mask_that_is_only_given_to_the_environment() -> None:
    class Given(Cells):
        def __init__(self) -> None:
            super().__init__()
            self.observation_spec = Composite(count=Unbounded((1,)))

    env = TransformedEnv(Given(), ActionMask(mask_key="free"))
    with pytest.raises(KeyError, match="'free', which the environment is given and does not return: add it"):
        env.observation_spec["count"]
