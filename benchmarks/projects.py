"""Projects of any size to compile: each schema file has an environment, a transform and a chain of both."""

from __future__ import annotations

from pathlib import Path

from specgen.project.library import library_schemas

CLASSES = 3
"""How many classes a schema file declares."""

_SETTINGS = '[tool.specgen]\nschemas = "schemas"\noutput = "made"\npackage = "made"\n'


def make_project(root: Path, files: int) -> None:
    """Write a project that can be built.

    Args:
        root: The folder of the project; made if it is missing.
        files: How many schema files it has, besides the one of a transform that every third of them imports.

    """
    (root / "schemas").mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").write_text(_SETTINGS, encoding="utf-8")
    (root / "schemas" / "shared.yaml").write_text(_transform("Shared", 0), encoding="utf-8")
    for index in range(files):
        (root / "schemas" / f"cart{index}.yaml").write_text(schema_text(index), encoding="utf-8")


def schema_text(index: int) -> str:
    """The schema file of this number: a cart with a pole, a penalty, and a chain of both with the library's transforms."""
    env = library_schemas()["envs/cartpole.yaml"].split("\nenvs:\n", 1)[1].split("\n  CartPoleGym:", 1)[0]
    env = env.replace("  CartPole:\n", f"  Cart{index}:\n").replace(
        "default: 0.5,", f"default: {0.5 + index / 1000},"
    )
    shared, last = ("  - shared\n", ", Shared") if index % 3 == 0 else ("", "")
    return f"""\
specgen: 1
doc: A cart with a pole of its own length.

import:
  - specgen_std/transforms/init_tracker
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter
{shared}
envs:
{env}
{_transforms(f"Penalty{index}", index)}
chains:
  Cart{index}Train:
    doc: With a time limit and returns.
    env: Cart{index}
    transforms: [InitTracker, Penalty{index}{last}, {{StepCounter: {{max_steps: {100 + index}}}}}, RewardSum]
"""


def _transform(name: str, index: int) -> str:
    return f"specgen: 1\ndoc: A transform that several files import.\n\n{_transforms(name, index)}"


def _transforms(name: str, index: int) -> str:
    return f"""\
transforms:
  {name}:
    doc: Take something off each reward.
    params:
      amount: {{default: {1 + index}.0, min: 0, doc: what is taken off}}
    in:
      reward: {{each: env.reward, type: "float[...]"}}
    out:
      left: {{each: reward, name: same, type: like(reward), doc: what is left}}
    map:
      left: reward - amount
"""
