"""Random environments and chains over them: as schemas, and as `TransformedEnv(env, Compose(...))`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from types import ModuleType
from typing import Any

import specgen_std.transforms
from specgen_runtime.envs import EnvBase
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_runtime.typing import NestedKey

from tests.agreement.own_transforms import OWN, OWN_NAMES
from tests.agreement.random_envs import Key, draw_env

LIBRARY = (
    "DoubleToFloat",
    "InitTracker",
    "ObservationNorm",
    "RewardScaling",
    "RewardSum",
    "StepCounter",
    "VecNorm",
)


NOT_REPEATED = ("Centred", "Joint", "Memory", "VecNorm")
"""What learns, or leaves a state to the policy: no later transform of a chain repeats it."""


@dataclass
class Sample:
    """An environment and a chain over it.

    Attributes:
        env: the lines of the declaration `Walk`.
        transforms: names and arguments, as the schema has them.
    """

    env: list[str]
    transforms: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def schemas(self) -> dict[str, str]:
        """The schema files, by name."""
        chain = [f"      - {name}: {_yaml(arguments)}" for name, arguments in self.transforms]
        imports = [f"specgen_std/transforms/{_snake(name)}" for name in LIBRARY]
        lines = [
            "specgen: 1",
            f"import: [{', '.join(['own', *imports])}]",
            "envs:",
            *self.env,
            "chains:",
            "  Fused:",
            "    env: Walk",
            "    transforms:",
            *chain,
            "    allow: [SG311]",
        ]
        return {"own.yaml": OWN, "sample.yaml": "\n".join(lines) + "\n"}

    def dynamic(self, package: ModuleType, batch: tuple[int, ...]) -> EnvBase[Any]:
        """The same, put together when it runs."""
        made = []
        for name, arguments in self.transforms:
            class_ = getattr(specgen_std.transforms if name in LIBRARY else package, name)
            given = {key: _value(key, value) for key, value in arguments.items()}
            # Keys that a schema lists are passed one after another where they are dropped.
            made.append(class_(*given["in_keys"]) if name == "Drop" else class_(**given))
        return TransformedEnv(package.Walk(batch_size=batch), Compose(*made))


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(name: str, value: Any) -> Any:
    if name.startswith(("in_keys", "out_keys")):
        keys: list[NestedKey] = [tuple(key.split(".")) if "." in key else key for key in value]
        return keys
    return value


def draw_sample(random: Random) -> Sample:
    """An environment and one to eight transforms, with arguments that fit, most of the time."""
    env, keys = draw_env(random)
    sample = Sample(env)
    chain = _Chain(random, keys)
    for _ in range(random.randint(1, 8)):
        sample.transforms.append(chain.draw())
    return sample


class _Chain:
    """Draws one transform after another and follows which keys there are."""

    def __init__(self, random: Random, keys: list[Key]) -> None:
        self.random = random
        self.repeats = True
        self.repeated = False
        self.keys = {key.name: key for key in keys}
        self.fresh = 0

    def draw(self) -> tuple[str, dict[str, Any]]:
        name = self.random.choice([*LIBRARY, *OWN_NAMES])
        if not self._fits(name):
            name = "Square"
        self.repeats = self.repeats and name not in NOT_REPEATED
        self.repeated = self.repeated or name == "Pooled"
        arguments: dict[str, Any] = getattr(self, f"_{_snake(name)}")()
        return name, arguments

    def _fits(self, name: str) -> bool:
        """Whether a transform can stand behind those so far."""
        if name in ("Least", "Joint"):
            return any(key.shape and not key.parent for key in self.keys.values())
        if name == "Memory":  # a policy that writes under `next` in front of a loop
            return not self.repeated
        return name != "Pooled" or (self.repeats and bool(self._alone("observation")))

    def _some(self, group: str | None = None, dtype: str | None = None) -> list[Key]:
        found = [k for k in self.keys.values() if group in (None, k.group) and dtype in (None, k.dtype)]
        found = [k for k in found if k.dtype.startswith("float")]
        return self.random.sample(found, min(len(found), self.random.randint(1, 2)))

    def _name(self) -> str:
        """A name that is free: plain, or one that generated code is fond of."""
        self.fresh += 1
        like = self.random.choice(list(self.keys)).split(".")[-1]
        return self.random.choice(
            ["new", "base", "raw_" + like, "observed", "batch", "carry_0_" + like, "z"]
        ) + ("" if self.fresh == 1 else str(self.fresh))

    def _place(self, key: Key) -> str:
        """A new key for what is made of `key`: beside it, or in a group of its own."""
        nested = self.random.random() < 0.25 and not key.name.startswith("team.")
        return f"{'made.' if nested else key.parent}{self._name()}"

    def _mapped(self, found: list[Key], dtype: str | None = None) -> dict[str, Any]:
        arguments: dict[str, Any] = {"in_keys": [key.name for key in found]}
        renamed = self.random.random() < 0.6 or dtype is not None
        if renamed:
            arguments["out_keys"] = [self._place(key) for key in found]
        for key, out in zip(found, arguments.get("out_keys", arguments["in_keys"]), strict=True):
            group = "reward" if key.group == "reward" else "observation"
            self.keys[out] = Key(out, group, dtype or key.dtype, key.column, key.shape)
        return arguments

    def _affine(self, found: list[Key]) -> dict[str, Any]:
        scale = self.random.choice([0.5, 2.0, 3.0])
        arguments = {"loc": self.random.choice([0.0, -1.0, 0.25]), "scale": scale, **self._mapped(found)}
        if self.random.random() < 0.3:
            arguments["standard_normal"] = True
        return arguments

    def _added(self, found: list[Key], pattern: str, dtype: str | None = None) -> dict[str, Any]:
        arguments: dict[str, Any] = {"in_keys": [key.name for key in found]}
        outs = [key.parent + pattern.format(key.name.split(".")[-1]) for key in found]
        if self.random.random() < 0.5 or any(out in self.keys for out in outs):
            outs = arguments["out_keys"] = [self._place(key) for key in found]
        for key, out in zip(found, outs, strict=True):
            self.keys[out] = Key(out, "observation", dtype or key.dtype, key.column, key.shape)
        return arguments

    def _beside_flags(self, keyword: str, usual: str, dtype: str) -> dict[str, str]:
        name = self._name() if usual in self.keys or self.random.random() < 0.4 else usual
        self.keys[name] = Key(name, "observation", dtype, True)
        return {} if name == usual else {keyword: name}

    def _flag(self, keyword: str) -> dict[str, str]:
        if self.random.random() < 0.5:
            return {}
        return {keyword: self.random.choice(["late", "terminated", "truncated", "cut"])}

    def _double_to_float(self) -> dict[str, Any]:
        states = [key for name in ("x", "raw_x") if (key := self.keys.get(name)) and key.dtype == "float64"]
        if states and self.random.random() < 0.5:  # the state itself, with its inverse
            self.keys[states[0].name] = replace(states[0], dtype="float32")
            return {"in_keys": [states[0].name], "in_keys_inv": [states[0].name]}
        return self._mapped(self._some(dtype="float64"), "float32")

    def _init_tracker(self) -> dict[str, Any]:
        return self._beside_flags("init_key", "is_init", "bool")

    def _observation_norm(self) -> dict[str, Any]:
        return self._affine(self._some())

    def _reward_scaling(self) -> dict[str, Any]:
        return self._affine(self._some(self.random.choice(["reward", "reward", None])))

    def _reward_sum(self) -> dict[str, Any]:
        return self._added(self._some("reward"), "episode_{}")

    def _step_counter(self) -> dict[str, Any]:
        arguments: dict[str, Any] = self._beside_flags("step_count_key", "step_count", "int64")
        if self.random.random() < 0.7:
            arguments |= {"max_steps": self.random.randint(1, 12), **self._flag("truncated_key")}
        if self.random.random() < 0.2:
            arguments["update_done"] = False
        return arguments

    def _vec_norm(self) -> dict[str, Any]:
        decay = self.random.choice([0.9, 0.99, 1.0])
        arguments = {"decay": decay, "eps": 0.25, **self._mapped(self._some())}
        for out in arguments.get("out_keys", arguments["in_keys"]):
            self.keys[out] = replace(self.keys[out], dtype="float32")
        return arguments

    def _smooth(self) -> dict[str, Any]:
        return {"rate": 0.5, **self._added(self._some("observation"), "smooth_{}")}

    def _change(self) -> dict[str, Any]:
        return self._added(self._some("observation"), "change_{}")

    def _final(self) -> dict[str, Any]:
        return self._added(self._some(), "final_{}")

    def _peak(self) -> dict[str, Any]:
        arguments = self._added(self._some("reward"), "best_{}")
        if self.random.random() < 0.5:
            arguments |= {"enough": self.random.choice([0.5, 2.0]), **self._flag("flag_key")}
        if self.random.random() < 0.2:
            arguments["ends"] = False
        return arguments

    def _ends(self) -> dict[str, Any]:
        flags = {**self._flag("over_key"), **self._flag("late_key")}
        return {"after": self.random.randint(2, 9), **self._beside_flags("age_key", "age", "int32"), **flags}

    def _square(self) -> dict[str, Any]:
        return self._mapped(self._some())

    def _above(self) -> dict[str, Any]:
        return self._mapped(self._some("observation"), "bool")

    def _stacked(self, found: list[Key], **params: Any) -> dict[str, Any]:
        """A transform that writes under the keys that it reads, unless they are renamed; frames have an axis more."""
        arguments = {**params, **self._mapped(found)}
        for name in arguments.get("out_keys", arguments["in_keys"]):
            self.keys[name] = replace(self.keys[name], shape="")
        return arguments

    def _frames(self) -> dict[str, Any]:
        padding = self.random.choice(["first", "none"])
        return self._stacked(self._alone("observation"), n=self.random.randint(2, 3), padding=padding)

    def _window(self) -> dict[str, Any]:
        return self._stacked(self._alone("observation"), n=self.random.randint(2, 3))

    def _drop(self) -> dict[str, Any]:
        rewards = [key.name for key in self.keys.values() if key.group == "reward"]
        free = [key.name for key in self.keys.values() if rewards != [key.name]]
        names = self.random.sample(free, min(len(free), self.random.randint(0, 2)))
        for name in names:
            del self.keys[name]
        return {"in_keys": names}

    def _rename(self) -> dict[str, Any]:
        found = self._some()
        names = [key.name for key in found]
        # The dynamic class can't give an observation and a reward each other's key.
        swaps = self.random.random() < 0.4 and len({key.group for key in found}) < 2
        outs = names[::-1] if swaps else [self._place(key) for key in found]
        if self.random.random() < 0.3 and not set(outs) & set(names):
            arguments: dict[str, Any] = {"in_keys": names, "out_keys": outs, "keep": True}
        else:
            arguments = {"in_keys": names, "out_keys": outs}
            for name in names:
                del self.keys[name]
        for key, out in zip(found, outs, strict=True):
            group = key.group if key.group == "reward" else "observation"
            self.keys[out] = Key(out, group, key.dtype, key.column, key.shape)
        return arguments

    def _split(self) -> dict[str, Any]:
        found = self._alone("observation")
        arguments: dict[str, Any] = {"in_keys": [key.name for key in found]}
        wide = self.random.random() < 0.5
        arguments |= {"least": 0.5} if wide else {}
        for key in found:
            for pattern in ["low_{}", *(["high_{}"] if wide else [])]:
                name = key.parent + pattern.format(key.name.split(".")[-1])
                self.keys[name] = Key(name, "observation", key.dtype, key.column)
        return arguments

    def _since(self) -> dict[str, Any]:
        return self._beside_flags("young_key", "young", "bool")

    def _alone(self, group: str) -> list[Key]:
        """One or two observations; none of a group, whose dimension comes first, and no column."""
        return [key for key in self._some(group) if not key.parent and not key.column]

    def _noise(self) -> dict[str, Any]:
        found = self._some("observation")
        arguments: dict[str, Any] = {"std": 0.5, "in_keys": [key.name for key in found]}
        arguments |= {"walks": False} if self.random.random() < 0.5 else {}
        counts = self.random.random() < 0.5
        arguments |= {"most": self.random.randint(1, 3)} if counts else {}
        for key in found:
            for pattern, dtype in [("noisy_{}", key.dtype), *([("count_{}", "int64")] if counts else [])]:
                name = key.parent + pattern.format(key.name.split(".")[-1])
                self.keys[name] = Key(name, "observation", dtype, key.column)
        return arguments

    def _alike(self, shape: str = "") -> list[Key]:
        """Entries of one known shape, in any order."""
        shapes = list(dict.fromkeys(key.shape for key in self.keys.values() if key.shape))
        shape = shape or (self.random.choice(shapes) if shapes else "")
        found = [key for key in self.keys.values() if shape and key.shape == shape and not key.parent]
        found = [key for key in found if key.dtype.startswith("float")]
        return self.random.sample(found, len(found))

    def _goal(self, found: list[Key], pattern: str) -> dict[str, Any]:
        goals = self._alike(found[0].shape) if found else []
        goal = {"goal_key": goals[0].name} if goals and self.random.random() < 0.7 else {}
        return {**self._added(found[:1], pattern), **goal}

    def _toward(self) -> dict[str, Any]:
        return self._goal(self._alike(), "error_{}")

    def _centred(self) -> dict[str, Any]:
        return self._goal(self._alike(), "centred_{}")

    def _pooled(self) -> dict[str, Any]:
        found = self._alone("observation")[:1]
        known = found and found[0].shape
        goals = [key for key in self._alike(found[0].shape) if key.group == "observation"] if known else []
        goals = [key for key in goals if key.dtype == found[0].dtype]
        arguments: dict[str, Any] = {
            "count": self.random.randint(1, 3),
            "in_keys": [key.name for key in found],
        }
        if goals and self.random.random() < 0.7:
            arguments["goal_key"] = goals[0].name
            name = f"spans_{found[0].name}"
            self.keys[name] = Key(name, "observation", found[0].dtype)
        return arguments

    def _joint(self) -> dict[str, Any]:
        keys = [*self._alike("one")[:1], *self._alike("two")[:1]]
        name = self._name()
        self.keys[name] = Key(name, "observation", "float64")
        return {"in_keys": [key.name for key in self.random.sample(keys, len(keys))], "joint_key": name}

    def _least(self) -> dict[str, Any]:
        keys, name = self._alike()[:3], self._name()
        shape = keys[0].shape if keys else ""
        dtype = "float64" if any(key.dtype == "float64" for key in keys) else "float32"
        self.keys[name] = Key(name, "observation", dtype, shape=shape)
        return {"in_keys": [key.name for key in keys], "least_key": name}

    def _last_action(self) -> dict[str, Any]:
        return {}

    def _memory(self) -> dict[str, Any]:
        self.fresh += 1
        return {"memory_key": f"memory{self.fresh}", "moved_key": f"moved{self.fresh}"}

    def _jitter(self) -> dict[str, Any]:
        return {"width": self.random.choice([0.25, 0.5])}

    def _push(self) -> dict[str, Any]:
        return {"gain": self.random.choice([0.5, 2.0])}
