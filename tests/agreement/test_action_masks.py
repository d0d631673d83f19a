"""Random actions keep to the masks that a schema declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.envs import CartPoleGym
from specgen_std.transforms import ActionMask, ExcludeTransform, StepCounter, UnsqueezeTransform

from tests.agreement.test_random_chains import shown
from tests.support import generate, imported

SCHEMA = Path(__file__).parent / "schemas" / "grid_world.yaml"


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)], ids=str)
def test_rollouts_take_allowed_actions_only(batch: tuple[int, ...], tmp_path: Path) -> None:
    files = generate({"grid_world.yaml": SCHEMA.read_text(encoding="utf-8")}, "masked_grid")
    with imported(files, "masked_grid", tmp_path) as package:
        env = package.GridWorld(batch_size=batch)
        env.set_seed(0)
        torch.manual_seed(0)
        data = env.rollout(60, break_when_any_done=False)
        chosen = data["agents", "action"].unsqueeze(-1)
        assert data["agents", "action_mask"].gather(-1, chosen).all()
        assert not data["agents", "action_mask"].all(), "a mask that allows everything proves nothing"

        env.set_seed(0)
        torch.manual_seed(0)
        root = env.reset()
        for step in range(60):
            now, root = env.step_and_maybe_reset(env.rand_action(root))
            row = (*(slice(None) for _ in batch), step)
            assert torch.equal(now["agents", "action"], data["agents", "action"][row])
            assert torch.equal(now["next", "pos"], data["next", "pos"][row])


CELLS = """\
specgen: 1
import: [specgen_std/transforms/actions, specgen_std/transforms/keys, specgen_std/transforms/shapes, specgen_std/transforms/step_counter, specgen_std/envs/cartpole]
envs:
  Cells:
    doc: Each class can be taken once, for a reward of 1.
    action: {action: categorical(5)}
    state: {free: "bool[5]"}
    observation: {}
    reset: {free: "full((5,), true)"}
    step:
      next.free: free and one_hot(action, 5) == 0
      reward: float32(free[action])
      terminated: not any(next.free)
  Own:
    doc: The same, with a mask of its own.
    action: {action: categorical(5)}
    state: {left: "bool[5]"}
    observation: {free: "bool[5]"}
    reset: {left: "full((5,), true)"}
    step:
      next.left: left and one_hot(action, 5) == 0
      reward: float32(left[action])
      terminated: not any(next.left)
    observe: {free: left}
    masks: {action: free}
transforms:
  Turn:
    doc: The classes from behind, under other keys, and the mask with them.
    in:
      m: {key: free, type: "bool[5]"}
      u: {key: action, type: "int64[]", inverse: true}
    out:
      v: {each: u, name: turned, type: categorical(5)}
      n: {key: seen}
    map: {n: "flip(m, axis=-1)"}
    inverse: {u: 4 - v}
  Behind:
    in:
      mask: {key: seen, type: "bool[5]"}
      u: {key: turned, type: "int64[]", inverse: true}
    masks: {u: mask}
  Mirror:
    doc: The classes from behind, and a mask of what is written.
    in:
      m: {key: free, type: "bool[5]"}
      u: {key: action, type: "int64[]", inverse: true}
    out:
      v: {each: u, type: categorical(5)}
      free: {key: free}
    map: {free: "flip(m, axis=-1)"}
    inverse: {u: 4 - v}
    masks: {v: m}
  Leaning:
    doc: Pushes against the fall only.
    in: {x: {key: observation, type: "float32[4]"}}
    out: {allowed: {key: action_mask}}
    map: {allowed: "stack(x[2] < 0, x[2] >= 0)"}
chains:
  Masked: {env: Cells, transforms: [{ActionMask: {mask_key: free}}, {StepCounter: {max_steps: 4}}]}
  Turned: {env: Cells, allow: [SG358], transforms: [{ActionMask: {mask_key: free}}, Turn, Behind]}
  Mirrored: {env: Own, transforms: [StepCounter, Mirror]}
  Kept: {env: Own, transforms: [StepCounter]}
  Lost: {env: Own, allow: [SG358], transforms: [{ExcludeTransform: {in_keys: [free]}}]}
  Longer: {env: Own, allow: [SG358], transforms: [{UnsqueezeTransform: {in_keys: [free], dim: -1}}]}
  Balanced: {env: CartPoleGym, transforms: [Leaning, ActionMask, {StepCounter: {max_steps: 9}}]}
"""

MASKED: dict[str, Callable[[ModuleType], tuple[EnvBase[Any], list[Transform]]]] = {
    "Masked": lambda made: (made.Cells, [ActionMask(mask_key="free"), StepCounter(4)]),
    "Turned": lambda made: (made.Cells, [ActionMask(mask_key="free"), made.Turn(), made.Behind()]),
    "Mirrored": lambda made: (made.Own, [StepCounter(), made.Mirror()]),
    "Kept": lambda made: (made.Own, [StepCounter()]),
    "Lost": lambda made: (made.Own, [ExcludeTransform("free")]),
    "Longer": lambda made: (made.Own, [UnsqueezeTransform(-1, in_keys=["free"])]),
    "Balanced": lambda made: (CartPoleGym, [made.Leaning(), ActionMask(), StepCounter(9)]),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"cells.yaml": CELLS}, "masked_cells")
    with imported(files, "masked_cells", tmp_path_factory.mktemp("generated")) as package:
        yield package


def both(made: ModuleType, name: str, batch: tuple[int, ...]) -> list[EnvBase[Any]]:
    """A chain, and the same transforms around the environment."""
    env, _ = MASKED[name](made)
    makes = [
        lambda **size: getattr(made, name)(**size),
        lambda **size: TransformedEnv(env(**size), Compose(*MASKED[name](made)[1])),
    ]
    if name != "Balanced":
        return [make(batch_size=batch) for make in makes]

    def several(make: Callable[[], EnvBase[Any]], sizes: tuple[int, ...]) -> EnvBase[Any]:
        return SerialEnv(sizes[0], lambda: several(make, sizes[1:])) if sizes else make()

    return [several(make, batch) for make in makes]


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)], ids=str)
@pytest.mark.parametrize("name", MASKED)
def test_chains_keep_to_masks(made: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    """As the dynamic classes do: the same masks, the same random actions of the same numbers."""
    fused, dynamic = both(made, name, batch)
    assert fused._action_masks == dynamic._action_masks
    assert bool(fused._action_masks) is (name not in ("Lost", "Longer"))
    found = []
    for env in (fused, dynamic):
        env.set_seed(1)
        torch.manual_seed(1)
        found.append(env.rollout(20, break_when_any_done=False))
        root = env.reset()
        for step in range(12):
            data, root = env.step_and_maybe_reset(env.rand_action(root))
            if step % 4 == 1:
                root = env.reset(root.set("_reset", torch.rand(env.full_done_spec["done"].shape) < 0.5))
        found.append(data)
    assert_identical(shown(found[0]), shown(found[2]), "a rollout")
    assert_identical(shown(found[1]), shown(found[3]), "steps")
    for (action, mask), data in ((pair, data) for pair in fused._action_masks for data in found):
        assert data[mask].gather(-1, data[action].unsqueeze(-1)).all()
    if name != "Balanced":
        assert bool(found[0]["next", "reward"].eq(1).all()) is (name not in ("Lost", "Longer"))
