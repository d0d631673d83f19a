"""Draws transforms of the actions of an environment, for chains over the declared library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.agreement.library_chains import Base, Key

DRAWN = tuple[str, dict[str, Any]]
"""A transform with its arguments."""


class ActionDrawer:
    """Draws transforms of actions, and follows which there are."""

    def __init__(self, random: Random, base: Base) -> None:
        self.random = random
        self.keys = {key.name: key for key in base.keys}
        self.nests = base.nests
        self.actions = {key.name: key for key in base.actions}
        self.count = 0
        self.methods = sorted(name for name in dir(self) if name.startswith("draw_"))
        self.looped = False

    def fresh(self, key: Key | None = None) -> str:
        self.count += 1
        parent = "" if key is None else key.parent
        return f"{parent or self.random.choice(['', '', 'made.' * self.nests])}k{self.count}"

    def chance(self, share: float = 0.5) -> bool:
        return self.random.random() < share

    def given(
        self, name: str, fits: Callable[[Key], bool], change: Callable[[Key], Key], **arguments: Any
    ) -> DRAWN | None:
        """A transform of some actions, which the policy writes in place or under new names."""
        fitting = [key for key in self.actions.values() if fits(key)]
        if not fitting:
            return None
        found = self.random.sample(fitting, self.random.randint(1, len(fitting)))
        given: dict[str, Any] = {"in_keys_inv": [key.name for key in found], **arguments}
        outs = [key.name for key in found]
        if self.chance(0.3):
            outs = given["out_keys_inv"] = [self.fresh(key) for key in found]
        for key in found:
            del self.actions[key.name]
        for key, out in zip(found, outs, strict=True):
            self.actions[out] = replace(change(key), name=out)
        return name, given

    def draw_action_scaling(self) -> DRAWN | None:
        given = {"standard_normal": False} if self.chance(0.3) else {}
        return self.given("ActionScaling", lambda key: key.group == "action", lambda key: key, **given)

    def draw_action_discretizer(self) -> DRAWN | None:
        found = [key for key in self.actions.values() if key.group == "action" and key.own > 0]
        if not found:
            return None
        key = self.random.choice(found)
        given: dict[str, Any] = {"num_intervals": self.random.randint(2, 5), "action_key": key.name}
        given["sampling"] = self.random.choice(["median", "low", "high", "random"])
        given["categorical"] = self.chance()
        self.actions[key.name] = replace(key, group="classes", dtype="int64")
        return "ActionDiscretizer", given

    def draw_flatten_action(self) -> DRAWN | None:
        def change(key: Key) -> Key:
            return replace(key, shape=(*key.shape[:-2], key.shape[-2] * key.shape[-1]))

        return self.given("FlattenAction", lambda key: key.group != "classes" and key.own > 1, change)

    def draw_clip_action(self) -> DRAWN | None:
        def change(key: Key) -> Key:
            return replace(key, group="free")  # what the policy writes has no bounds then

        numbers = {"low": 0.1, "high": 0.9}  # what `ActionScaling` takes of either kind
        return self.given("ClipTransform", lambda key: key.group != "classes", change, in_keys=[], **numbers)

    def draw_rename_action(self) -> DRAWN | None:
        found = self.given("RenameTransform", lambda key: True, lambda key: key, in_keys=[], out_keys=[])
        if found is not None and "out_keys_inv" not in found[1]:
            found[1]["out_keys_inv"] = found[1]["in_keys_inv"]
        return found

    def draw_double_to_float_action(self) -> DRAWN | None:
        def change(key: Key) -> Key:
            return replace(key, dtype="float32")

        return self.given(
            "DoubleToFloat",
            lambda key: key.group != "classes" and key.dtype == "float64",
            change,
            in_keys=[],
        )

    def draw_action_mask(self) -> DRAWN | None:
        action, mask = self.actions.get("agents.action"), self.keys.get("agents.allowed")
        if action is None or mask is None or mask.dtype != "bool" or mask.shape != (*action.shape, 3):
            return None
        return "ActionMask", {"action_key": "agents.action", "mask_key": "agents.allowed"}

    def draw_stack_action(self) -> DRAWN | None:
        """Two actions of one kind and shape, of which the policy writes one."""
        groups: dict[object, list[Key]] = {}
        for key in self.actions.values():
            groups.setdefault((key.group, key.dtype, key.shape, key.parent), []).append(key)
        fitting = [found for found in groups.values() if len(found) > 1 and found[0].group != "classes"]
        if not fitting:
            return None
        found = self.random.sample(self.random.choice(fitting), 2)
        out, place = self.fresh(found[0]), self.random.randint(0, found[0].own)
        rank = len(found[0].shape)
        for key in found:
            del self.actions[key.name]
        shape = list(found[0].shape)
        shape.insert(rank - place, 2)
        self.actions[out] = replace(found[0], name=out, shape=tuple(shape))
        given: dict[str, Any] = {
            "in_keys": [],
            "in_key_inv": out,
            "out_keys_inv": [key.name for key in found],
        }
        return "Stack", {**given, "dim": -place - 1}
