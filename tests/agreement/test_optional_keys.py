"""Transforms with keys that may be missing: fused, dynamic, interpreted and offline, with and without each key."""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import RenameTransform
from tensordict import TensorDictBase

from tests.agreement.interpreted import interpreted, printed_programs
from tests.agreement.test_random_chains import same_specs, shown
from tests.support import compile_texts, imported

TRANSFORMS = Path("tests/cases/good/transform_with_optional_keys/transforms.yaml").read_text()

ENV = """\
specgen: 1
doc: A point that is pushed.
import: [specgen_std/transforms/keys, transforms]

envs:
  Point:
    state:
      x: float32[2]
      aim: float32[2]
    action:
      push: float32[2] in [-1, 1]
    observation:
      observation: float32[2]
      target: float32[2]
      mass: float32
      tip: float32[3]
    reset:
      x: uniform(-1, 1, shape=(2,))
      aim: uniform(-1, 1, shape=(2,))
    step:
      next.x: x + 0.5 * push
      terminated: max(abs(next.x), axis=-1) > 1.5
      reward: -sum(abs(next.x), axis=-1)
    observe:
      observation: x
      target: aim - x
      mass: x[0] + 2
      tip: stack(x[0], aim[1], 1)

transforms:
  Centred:
    doc: How far the goal, or the input itself, is from the mean of the input.
    in:
      goal: {key: goal, type: "float32[n]", optional: true}
      x: {each: [observation], type: "float32[n]"}
    out: {y: {each: x, name: centred, type: like(x)}}
    buffers: {mean: {each: x, type: "float64[...]", init: 0.0}}
    update: {next.mean: 0.5 * mean + 0.5 * batch_mean(x)}
    map: {y: "where(given(goal), float32(goal - mean), float32(x - mean))"}

chains:
  Centring:
    env: Point
    transforms: [Centred]
  CentringGoals:
    env: Point
    transforms: [{RenameTransform: {in_keys: [target], out_keys: [goal]}}, Centred]
"""

SOURCES = {"goal": "target", "weight": "mass", "hint": "tip"}
"""Each optional key of `Toward`, with the entry that has its type."""

Subset = tuple[str, ...]
SUBSETS: list[Subset] = [
    tuple(key for key, there in zip(SOURCES, chosen, strict=True) if there)
    for chosen in product((False, True), repeat=len(SOURCES))
]
BATCHES = [(), (3,), (2, 3)]


def name(keys: Subset, loud: bool) -> str:
    return "".join(["With", *(key.title() for key in keys), "Loud" if loud else ""])


def chain(keys: Subset, loud: bool) -> str:
    lines = [f"  {name(keys, loud)}:", "    env: Point", "    transforms:"]
    if keys:
        sources = ", ".join(SOURCES[key] for key in keys)
        lines.append(f"      - RenameTransform: {{in_keys: [{sources}], out_keys: [{', '.join(keys)}]}}")
    # a later transform rewrites what the step reads of the hint before it: that is kept below `_carry`
    lines.append(f"      - Toward: {{gain: 0.5, loud: {str(loud).lower()}}}")
    lines += ["      - Sizes: {in_keys: [hint], out_keys: [hint]}"] if "hint" in keys else []
    return "\n".join([*lines, "      - Sizes", ""])


def dynamic(made: Any, keys: Subset, loud: bool) -> list[Any]:
    renamed = [RenameTransform([SOURCES[key] for key in keys], [*keys])] if keys else []
    sizes = [made.transforms.Sizes(["hint"], ["hint"])] if "hint" in keys else []
    return [*renamed, made.transforms.Toward(gain=0.5, loud=loud), *sizes, made.transforms.Sizes()]


@pytest.fixture(scope="module")
def compiled() -> Any:
    texts = {"transforms.yaml": TRANSFORMS}
    texts["point.yaml"] = ENV + "".join(chain(keys, loud) for keys in SUBSETS for loud in (False, True))
    with printed_programs() as programs:
        files, said, _ = compile_texts(texts, "optional_keys")
    assert files, said
    with tempfile.TemporaryDirectory() as folder, imported(files, "optional_keys", Path(folder)) as package:
        yield package, programs


@pytest.mark.parametrize("loud", [False, True])
@pytest.mark.parametrize("keys", SUBSETS, ids=lambda keys: "_".join(keys) or "none")
def test_fused_dynamic_and_interpreted(compiled: Any, keys: Subset, loud: bool) -> None:
    package, programs = compiled
    made = getattr(package.point, name(keys, loud))
    for batch in BATCHES:
        fused = made(batch_size=batch)
        other = TransformedEnv(package.point.Point(batch_size=batch), Compose(*dynamic(package, keys, loud)))
        same_specs(fused, other)
        assert ("best" in fused.observation_spec) is ("goal" in keys)
        assert ("reached" in fused.observation_spec) is ("goal" in keys and not loud)
        assert ("plain" in fused.observation_spec) is ("goal" not in keys)
        with interpreted(sys.modules[made.__module__], programs, "with") as calls:
            both_alike(fused, other)
        assert sum(calls.values()) > 0


def both_alike(fused: EnvBase[Any], other: EnvBase[Any]) -> None:
    roots = []
    for env in (fused, other):
        env.set_seed(3)
        torch.manual_seed(3)
        root = env.reset()
        steps: list[TensorDictBase] = [shown(root).clone()]
        for step in range(12):
            root["push"] = torch.rand(*env.batch_size, 2) * 2 - 1
            transition, root = env.step_and_maybe_reset(root)
            steps += [shown(transition).clone(), shown(root).clone()]
            if step == 5:
                root = env.reset(root.set("_reset", torch.rand(*env.batch_size, 1) < 0.5))
                steps.append(shown(root).clone())
        steps.append(shown(env.rollout(8, lambda td: td.set("push", torch.cos(9 * td["observation"])))))
        roots.append(steps)
    for place, (mine, theirs) in enumerate(zip(*roots, strict=True)):
        assert_identical(mine, theirs, f"moment {place}")


@pytest.mark.parametrize("goals", [False, True])
def test_what_learns(compiled: Any, goals: bool) -> None:
    package, _ = compiled
    renamed = [RenameTransform(["target"], ["goal"])] if goals else []
    fused = package.point.CentringGoals if goals else package.point.Centring
    transforms = Compose(*renamed, package.point.Centred())
    both_alike(fused(batch_size=(3,)), TransformedEnv(package.point.Point(batch_size=(3,)), transforms))
    learned = transforms[-1].state_dict()
    assert list(learned) == ["mean|observation"]
    assert learned["mean|observation"].any()


@pytest.mark.parametrize("keys", SUBSETS, ids=lambda keys: "_".join(keys) or "none")
def test_recorded_data_get_what_the_environment_wrote(compiled: Any, keys: Subset) -> None:
    package, _ = compiled
    renamed = [RenameTransform([SOURCES[key] for key in keys], [*keys])] if keys else []
    toward = package.transforms.Toward(gain=0.5)
    plain = package.point.Point(batch_size=(3,))
    before = TransformedEnv(plain, Compose(*renamed)) if keys else plain
    before.set_seed(1)
    torch.manual_seed(1)
    data = before.rollout(15, break_when_any_done=False)
    after = TransformedEnv(
        package.point.Point(batch_size=(3,)), Compose(*(one.clone() for one in renamed), toward.clone())
    )
    after.set_seed(1)
    torch.manual_seed(1)
    expected = after.rollout(15, break_when_any_done=False)
    found = toward(data)
    assert set(found.keys(True, True)) == set(shown(expected).keys(True, True))
    assert_identical(found, shown(expected), "replayed")
