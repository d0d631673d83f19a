"""One action in place of several, in chains: what reaches the environment, and the specs, as with the dynamic classes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import ActionScaling, Stack, UnsqueezeTransform

from tests.agreement.interpreted import interpreted, printed_programs
from tests.agreement.test_random_chains import same_chains
from tests.support import generate, imported

SCHEMA = """
specgen: 1
import: [specgen_std/transforms/actions, specgen_std/transforms/keys, specgen_std/transforms/shapes]
envs:
  Hands:
    doc: Two hands with two joints each, two tools and two switches.
    action:
      left: "float32[2] in [[-1, -2], [1, 2]]"
      right: "float32[2] in [[-3, -4], [3, 4]]"
      grips.one: categorical(3)
      grips.two: categorical(3)
      tools.one: onehot(4)
      tools.two: onehot(4)
      free: "float32[2]"
      switch: bool
    state: {x: "float32[2]", used: float32}
    observation: {seen: "float32[2]"}
    reset: {x: "uniform(-1, 1, shape=2)", used: 0.0}
    step:
      next.x: x + 0.1 * left - 0.2 * right + where(switch, free, 0 * free)
      next.used: used + float32(grips.one) + 2 * float32(grips.two) + float32(argmax(tools.one)) - float32(argmax(tools.two))
      reward: sum(next.x) + next.used
      terminated: any(abs(next.x) > 9.0)
    observe:
      seen: 2 * x
transforms:
  Joined:
    doc: Puts actions of one size behind one another.
    in: {parts: {all: [left, right], type: "float32[n]", inverse: true}}
    out: {whole: {key: both, inverse: true, keyword: whole_key, type: "like(concat(*parts, axis=-1))"}}
    inverse: {parts: "narrow(whole, nth * n, n, axis=-1)"}
  Halved:
    doc: Gives each hand a share of what is written for it.
    params: {share: {default: 0.5, above: 0}, first: {default: true, static: true}}
    in: {parts: {all: [left, right], type: "float[...]", inverse: true}}
    out:
      moves: {key: moves, inverse: true, keyword: moves_key, type: "like(stack(*parts, axis=0) / share)", when: first}
      behind: {key: moves, inverse: true, keyword: moves_key, type: "like(stack(*parts, axis=-1) / share)", when: not first}
    inverse:
      parts: "share * where(first, select(moves, nth, axis=0), select(behind, nth, axis=-1))"
chains:
  Both: {env: Hands, transforms: [{Stack: {in_keys: [], out_keys_inv: [left, right]}}]}
  Front: {env: Hands, transforms: [{Stack: {out_keys_inv: [right, left], in_key_inv: hands.move, dim: -2}}]}
  First: {env: Hands, transforms: [{Stack: {out_keys_inv: [left, right], dim: 0, allow_positive_dim: true}}]}
  Grips: {env: Hands, transforms: [{Stack: {out_keys_inv: [grips.one, grips.two], in_key_inv: hold}}]}
  Tools: {env: Hands, transforms: [{Stack: {out_keys_inv: [tools.two, tools.one], in_key_inv: left_tool, dim: -2}}]}
  Mixed: {env: Hands, transforms: [{Stack: {out_keys_inv: [left, free, right], in_key_inv: left}}]}
  Shown: {env: Hands, transforms: [{Stack: {in_keys: [seen, x], out_key: all, out_keys_inv: [left, right], in_key_inv: move}}]}
  Scaled:
    env: Hands
    transforms:
      - ActionScaling: {in_keys_inv: [left, right]}
      - Stack: {out_keys_inv: [left, right], in_key_inv: move}
      - UnsqueezeTransform: {in_keys: [], dim: 0, allow_positive_dim: true, in_keys_inv: [move]}
  Halves: {env: Hands, transforms: [Halved]}
  Least: {env: Hands, transforms: [{Halved: {share: 0.25, first: false, moves_key: less}}]}
  Behind: {env: Hands, transforms: [Joined]}
"""

DYNAMIC: dict[str, Callable[[ModuleType], list[Transform]]] = {
    "Both": lambda _: [Stack([], out_keys_inv=["left", "right"])],
    "Front": lambda _: [Stack(in_key_inv=("hands", "move"), out_keys_inv=["right", "left"], dim=-2)],
    "First": lambda _: [Stack(out_keys_inv=["left", "right"], dim=0, allow_positive_dim=True)],
    "Grips": lambda _: [Stack(in_key_inv="hold", out_keys_inv=[("grips", "one"), ("grips", "two")])],
    "Tools": lambda _: [
        Stack(in_key_inv="left_tool", out_keys_inv=[("tools", "two"), ("tools", "one")], dim=-2)
    ],
    "Mixed": lambda _: [Stack(in_key_inv="left", out_keys_inv=["left", "free", "right"])],
    "Shown": lambda _: [Stack(["seen", "x"], "all", "move", ["left", "right"])],
    "Scaled": lambda _: [
        ActionScaling(in_keys_inv=["left", "right"]),
        Stack(in_key_inv="move", out_keys_inv=["left", "right"]),
        UnsqueezeTransform(dim=0, allow_positive_dim=True, in_keys=[], in_keys_inv=["move"]),
    ],
    "Halves": lambda made: [made.Halved()],
    "Least": lambda made: [made.Halved(moves_key="less", share=0.25, first=False)],
    "Behind": lambda made: [made.Joined()],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"stacked.yaml": SCHEMA}, "stacked")
    with imported(files, "stacked", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("stacked.stacked")


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", DYNAMIC)
def test_a_chain_is_as_the_classes(made: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    fused = getattr(made, name)(batch_size=batch)
    dynamic = TransformedEnv(made.Hands(batch_size=batch), Compose(*DYNAMIC[name](made)))
    assert fused.full_action_spec == dynamic.full_action_spec
    same_chains(fused, dynamic)


def test_functions_are_as_they_are_interpreted(tmp_path_factory: pytest.TempPathFactory) -> None:
    with printed_programs() as programs:
        files = generate({"stacked.yaml": SCHEMA}, "stacked_again")
    folder = tmp_path_factory.mktemp("interpreted")
    with imported(files, "stacked_again", folder):
        module = importlib.import_module("stacked_again.stacked")
        for name in ("Shown", "Least", "Behind"):
            prefix = name.lower()
            with interpreted(module, programs, prefix) as counts:
                getattr(module, name)(batch_size=(2,)).rollout(4)
            assert sum(counts.values()) > 0, name


def test_what_the_policy_may_write(made: ModuleType) -> None:
    env = TransformedEnv(made.Hands(), Stack(out_keys_inv=["left", "right"]))
    spec = env.full_action_spec["action"]
    assert torch.equal(spec.high, torch.tensor([[1.0, 3.0], [2.0, 4.0]]))
    assert "left" not in list(env.full_action_spec)
    grips = TransformedEnv(made.Hands(), *DYNAMIC["Grips"](made)).full_action_spec["hold"]
    assert (grips.n, grips.shape) == (3, (2,))
    tools = TransformedEnv(made.Hands(), *DYNAMIC["Tools"](made)).full_action_spec["left_tool"]
    assert (tools.n, tools.shape) == (4, (2, 4))


def test_recorded_actions_are_taken_apart(made: ModuleType) -> None:
    env = made.Shown(batch_size=(2,))
    data = env.rollout(3, break_when_any_done=False)
    stack = Stack(["seen", "x"], "all", "move", ["left", "right"])
    found = stack.inv(data)
    assert torch.equal(found["left"], data["move"][..., 0])
    assert torch.equal(found["right"], data["move"][..., 1])
    assert torch.equal(torch.stack([found["left"], found["right"]], -1), data["move"])


def test_what_is_refused(made: ModuleType) -> None:
    with pytest.raises(ValueError, match="in_key_inv is what the policy writes in place of out_keys_inv"):
        Stack(["a"], in_key_inv="move")
    env = TransformedEnv(made.Hands(), Stack(out_keys_inv=["left", "right"]))
    root = env.rand_action(env.reset())
    root["action"] = torch.zeros(2, 3)
    with pytest.raises(
        RuntimeError, match=r"'action' of the shape \[2, 3\].*'left', 'right' stands \[2, 2\]"
    ):
        env.transform.inv(root)
    with pytest.raises(RuntimeError, match=r"makes 2 entries of 'action'.*too small"):
        Stack(out_keys_inv=["left", "right"]).inv(root.update({"action": torch.zeros(2, 1)}))
    other = TransformedEnv(made.Hands(), Stack(out_keys_inv=[("grips", "one"), "switch"]))
    with pytest.raises(ValueError, match="no choices among as many classes"):
        _ = other.action_spec
    sizes = TransformedEnv(made.Hands(), Stack(out_keys_inv=["left", "switch"]))
    with pytest.raises(ValueError, match="Stack can't be applied to 'left', 'switch'"):
        _ = sizes.action_spec
