"""Random environments for random chains: as schemas, with the keys that transforms may read."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Key:
    """What is known of an entry while a chain is drawn.

    Attributes:
        name: its key, dotted.
        group: `observation` or `reward`.
        dtype: of its numbers.
        column: whether it is stored with a trailing 1, as rewards are.
        shape: entries of one word have one shape; empty for what nobody follows.
    """

    name: str
    group: str
    dtype: str
    column: bool = False
    shape: str = ""

    @property
    def parent(self) -> str:
        """The group that it stands under, with its dot."""
        return self.name[: self.name.rfind(".") + 1]


def draw_env(random: Random) -> tuple[list[str], list[Key]]:
    """An environment: the lines of its declaration, and the keys that transforms may read."""
    dtype = random.choice(["float32", "float32", "float64"])
    shape = random.choice(["", "[2]"])
    team = random.choice([0, 0, 2, 3])
    only_team = bool(team) and random.random() < 0.3
    bonus = random.random() < 0.3
    table = random.random() < 0.3
    noise = random.random() < 0.3
    x = random.choice(["x", "raw_x"])
    keys = [Key(x, "observation", dtype, shape="two" if shape else "one")]
    keys.append(Key("seen", "observation", "float32", shape="two"))
    size = "(2,)" if shape else "()"
    lines = ["  Walk:", "    doc: Drawn.", "    params: {dt: 0.25}"]
    if table:
        lines.append('    consts: {table: {type: "float32[3]", value: [0.5, 1.0, 1.5]}}')
    if team:
        lines.append(f"    groups: {{team: {{agents: {team}}}}}")
    lines += ["    state:", f"      {x}: {dtype}{shape} in [-5, 5]", "      k: int64 in [0, 2]"]
    lines += ["      team.y: float32 in [-9, 9]"] if team else []
    lines += ["    action:", "      action: float32[2] in [-1, 1]"]
    lines += ["      team.move: categorical(3)"] if team else []
    lines += ["    observation:", "      seen: float32[2]"]
    if team:
        lines.append("      team.near: float32[2]")
        keys += [Key("team.y", "observation", "float32"), Key("team.near", "observation", "float32")]
    rewards = [*(["team.reward"] if team else []), *([] if only_team else ["reward"])]
    rewards += ["bonus"] if bonus and not only_team else []
    lines.append(f"    reward: [{', '.join(rewards)}]")
    keys += [Key(name, "reward", "float32", column=True) for name in rewards]
    lines += [
        "    reset:",
        f"      {x}: uniform(-2, 2, shape={size}, dtype={dtype})",
        "      k: randint(0, 3)",
    ]
    lines += ["      team.y: uniform(-1, 1, shape=team)"] if team else []
    push = "action" if shape else "action[0]"
    gain = "table[k]" if table else "0.5"
    wind = f" + normal(0, 0.1, shape={size}, dtype={dtype})" if noise else ""
    lines += [
        "    step:",
        f"      push: {dtype}({gain} * {push})",
        f"      next.{x}: clip({x} + dt * push{wind}, -5, 5)",
        "      next.k: (k + 1) % 3",
    ]
    total = f"float32(sum(next.{x}))" if shape else f"float32(next.{x})"
    if team:
        lines.append("      next.team.y: clip(team.y + float32(team.move) - 1, -9, 9)")
        lines.append("      team.reward: 0.5 * next.team.y")
        lines.append("      team.terminated: abs(next.team.y) > 4")
        lines += ["      terminated: all(team.terminated)"] if only_team else []
    if not only_team:
        lines.append(f"      reward: {total}")
        lines.append(f"      terminated: abs({total}) > 3")
    if "bonus" in rewards:
        lines.append("      bonus: float32(next.k)")
    first = f"{x}[0]" if shape else x
    lines += ["    observe:", f"      seen: stack(float32({first}), float32(k))"]
    lines += ["      team.near: stack(team.y, -team.y, axis=1)"] if team else []
    return lines, keys
