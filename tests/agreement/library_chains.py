"""Chains over the whole declared library: as schemas, and as objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import specgen_std.transforms as library
from specgen_runtime.transforms import Transform
from specgen_runtime.typing import NestedKey

FILES = (
    "actions",
    "double_to_float",
    "dtype_cast",
    "episodes",
    "frames",
    "images",
    "init_tracker",
    "keys",
    "observation_norm",
    "reward_scaling",
    "reward_sum",
    "rewards",
    "shapes",
    "step_counter",
    "time",
    "vec_norm",
)

ENV = """\
specgen: 1
envs:
  Team:
    dims: {n: 3}
    groups: {agents: {agents: 3}}
    state:
      x: float32[n] in [-10, 10]
      t: int64 in [0, 1000]
    action:
      action: float32 in [-1, 1]
      push: float64[2] in [-1, 1]
      lean: float32 in [-2, 2]
      agents.action: categorical(3)
    observation:
      observation: float32[4] in [-100, 100]
      wide: float64[2] in [-10, 10]
      pixels: uint8[4, 5, 3]
      lives: int64 in [-1000, 5]
      success: bool
      agents.observation: float32[1] in [-10, 10]
      agents.allowed: bool[3]
    reward: [reward, agents.reward]
    reset:
      x: uniform(-1, 1, shape=n)
      t: 0
    step:
      next.x: clip(x + float32(agents.action) - 1 + action, -10, 10)
      next.t: min(t + 1, 1000)
      reward: sum(next.x) + float32(sum(push)) + 0.5 * lean
      agents.reward: -abs(next.x)
      agents.terminated: abs(next.x) > 2.5
    observe:
      observation: concat(x, stack(x[0] * x[1]))
      wide: float64(x[:2])
      pixels: uint8((t * 31 + reshape(arange(60), (4, 5, 3)) * 4) % 256)
      lives: 5 - t // 3
      success: x[0] > 0
      agents.observation: x[:, None]
      agents.allowed: concat(x[:, None] < 1, x[:, None] > -1, x[:, None] >= -10, axis=-1)
"""


@dataclass(frozen=True)
class Key:
    """What is known of an entry: its group, dtype and dimensions, without the trailing 1 of a `column`."""

    name: str
    group: str
    dtype: str
    shape: tuple[int, ...] = ()
    column: bool = False

    @property
    def parent(self) -> str:
        """The group that it stands under, with its dot."""
        return self.name[: self.name.rfind(".") + 1]

    @property
    def own(self) -> int:
        """How many dimensions may be changed: the first one of a group is that of its agents."""
        return len(self.shape) - bool(self.parent == "agents.")


KEYS = (
    Key("x", "observation", "float32", (3,)),
    Key("t", "observation", "int64"),
    Key("observation", "observation", "float32", (4,)),
    Key("wide", "observation", "float64", (2,)),
    Key("pixels", "observation", "uint8", (4, 5, 3)),
    Key("lives", "observation", "int64"),
    Key("success", "observation", "bool"),
    Key("agents.observation", "observation", "float32", (3, 1)),
    Key("agents.allowed", "observation", "bool", (3, 3)),
    Key("reward", "reward", "float32", (), True),
    Key("agents.reward", "reward", "float32", (3,), True),
)

ACTIONS = (
    Key("action", "action", "float32"),
    Key("push", "action", "float64", (2,)),
    Key("lean", "action", "float32"),
    Key("agents.action", "classes", "int64", (3,)),
)


@dataclass(frozen=True)
class Base:
    """An environment that chains are drawn for.

    Attributes:
        name: of it in the schema.
        text: the schema file.
        keys: what it returns.
        actions: what it is given.
        nests: whether new keys may stand under others. Nested batches of environments show no nest that only rewards
            are in: some rows have it empty, and some not at all.
    """

    name: str
    text: str
    keys: tuple[Key, ...]
    actions: tuple[Key, ...]
    nests: bool = True


TEAM = Base("Team", ENV, KEYS, ACTIONS)


@dataclass
class Drawn:
    """A chain: its transforms with their arguments, as a schema has them."""

    transforms: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        """Whether one of its transforms is one of these."""
        return any(name in names for name, _ in self.transforms)

    def schema(self, base: Base = TEAM) -> str:
        """The schema file."""
        allowed = "SG304, SG311, SG328, SG358"
        lines = [
            base.text.replace("specgen: 1\n", f"specgen: 1\nimport: [{', '.join(self._imports())}]\n", 1),
            f"chains:\n  Fused:\n    env: {base.name}\n    allow: [{allowed}]\n    transforms:\n",
            *(f"      - {name}: {_yaml(arguments)}\n" for name, arguments in self.transforms),
        ]
        return "".join(lines)

    def _imports(self) -> Iterator[str]:
        yield from (f"specgen_std/transforms/{name}" for name in FILES)

    def made(self) -> list[Transform]:
        """Its transforms as objects."""
        return [_made(name, dict(arguments)) for name, arguments in self.transforms]


def _made(name: str, arguments: dict[str, Any]) -> Transform:
    values = {
        key: (
            [_key(each) for each in value]
            if isinstance(value, list) and "keys" in key
            else _key(value)
            if key.endswith("_key") or key == "in_key_inv"
            else value
        )
        for key, value in arguments.items()
    }
    class_: Callable[..., Transform] = getattr(library, name)
    if name in ("ExcludeTransform", "SelectTransform"):
        return class_(*values["in_keys"])
    return class_(**values)


def _key(text: str) -> NestedKey:
    return tuple(text.split(".")) if "." in text else text


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
