"""Draws chains over the declared library, with arguments that are legal for the keys that there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.agreement.action_drawer import DRAWN, ActionDrawer
from tests.agreement.library_chains import TEAM, Base, Drawn, Key


def draw_chain(random: Random, base: Base = TEAM) -> Drawn:
    """One to six transforms of an environment."""
    drawer = _Drawer(random, base)
    drawn = Drawn()
    for _ in range(random.randint(1, 6)):
        while (made := drawer.draw()) is None:
            pass
        drawn.transforms.append(made)
    return drawn


class _Drawer(ActionDrawer):
    """Draws one transform after another, and follows which keys there are."""

    def draw(self) -> DRAWN | None:
        """A transform with its arguments; None where the keys that there are do not allow it."""
        made: DRAWN | None = getattr(self, self.random.choice(self.methods))()
        return made

    # ----------------------------------------------------------------- keys

    def some(self, fits: Callable[[Key], bool], most: int = 2) -> list[Key]:
        found = [key for key in self.keys.values() if fits(key)]
        return self.random.sample(found, min(len(found), self.random.randint(1, most)))

    def mapped(
        self, name: str, found: list[Key], change: Callable[[Key], Key], **arguments: Any
    ) -> DRAWN | None:
        """A transform of each of some keys, in place or under new names."""
        if not found:
            return None
        given: dict[str, Any] = {"in_keys": [key.name for key in found], **arguments}
        outs = [key.name for key in found]
        if self.chance():
            outs = given["out_keys"] = [self.fresh(key) for key in found]
        for key, out in zip(found, outs, strict=True):
            self.keys[out] = replace(change(key), name=out)
        return name, given

    # ----------------------------------------------------------- the library

    def draw_step_counter(self) -> DRAWN | None:
        given: dict[str, Any] = {"max_steps": self.random.randint(1, 9)} if self.chance() else {}
        return self.beside("StepCounter", "step_count", "step_count_key", "int64", given)

    def draw_init_tracker(self) -> DRAWN | None:
        return self.beside("InitTracker", "is_init", "init_key", "bool", {})

    def draw_end_of_life(self) -> DRAWN | None:
        lives = self.keys.get("lives")
        if lives is None or lives.shape or lives.dtype != "int64":
            return None
        return self.beside("EndOfLifeTransform", "end_of_life", "eol_key", "bool", {})

    def beside(self, name: str, usual: str, keyword: str, dtype: str, given: dict[str, Any]) -> DRAWN:
        out = usual
        if usual in self.keys or self.chance(0.3):
            self.count += 1
            out = given[keyword] = f"k{self.count}"
        self.keys[out] = Key(out, "observation", dtype, (), True)
        return name, given

    def draw_reward_sum(self) -> DRAWN | None:
        as_reward = self.chance(0.2)
        given = {"reward_spec": True} if as_reward else {}
        return self.beside_rewards("RewardSum", "episode_{}", given, "reward" if as_reward else "observation")

    def draw_target_return(self) -> DRAWN | None:
        given = {"target_return": 5.0, **({"mode": "constant"} if self.chance(0.3) else {})}
        return self.beside_rewards("TargetReturn", "target_return", given)

    def beside_rewards(
        self, name: str, pattern: str, given: dict[str, Any], group: str = "observation"
    ) -> DRAWN | None:
        found = self.some(lambda key: key.group == "reward" and key.dtype.startswith("float"))
        if not found:
            return None
        outs = [key.parent + pattern.format(key.name.split(".")[-1]) for key in found]
        if self.chance() or any(out in self.keys for out in outs) or len(set(outs)) < len(outs):
            outs = given["out_keys"] = [self.fresh(key) for key in found]
        for key, out in zip(found, outs, strict=True):
            self.keys[out] = replace(key, name=out, group=group)
        return name, {"in_keys": [key.name for key in found], **given}

    def draw_reward_scaling(self) -> DRAWN | None:
        return self.affine("RewardScaling", lambda key: key.group == "reward")

    def draw_observation_norm(self) -> DRAWN | None:
        return self.affine("ObservationNorm", lambda key: True)

    def affine(self, name: str, fits: Callable[[Key], bool]) -> DRAWN | None:
        given = {"loc": self.random.choice([0.0, -1.0]), "scale": self.random.choice([0.5, 2.0])}
        found = self.some(lambda key: fits(key) and key.dtype.startswith("float"))
        return self.mapped(name, found, lambda key: key, **given, standard_normal=self.chance(0.3))

    def draw_vec_norm(self) -> DRAWN | None:
        found = self.some(lambda key: key.dtype != "bool" and len(key.shape) < 3)
        return self.mapped("VecNorm", found, lambda key: replace(key, dtype="float32"))

    def draw_cat_frames(self) -> DRAWN | None:
        found = self.some(lambda key: key.group == "observation" and key.own > 0, 1)
        if not found:
            return None
        count, dim = self.random.randint(1 if self.looped else 2, 3), -self.random.randint(1, found[0].own)

        def change(key: Key) -> Key:
            shape = [*key.shape]
            shape[dim] *= count
            return replace(key, shape=tuple(shape))

        padding = {"padding": "constant"} if self.chance(0.4) and found[0].dtype.startswith("float") else {}
        return self.mapped("CatFrames", found, change, N=count, dim=dim, **padding)

    def draw_time_max_pool(self) -> DRAWN | None:
        found = self.some(lambda key: key.group == "observation" and key.dtype != "bool" and not key.parent)
        return self.mapped("TimeMaxPool", found, lambda key: key, T=self.random.randint(1, 3))

    def draw_cat_tensors(self) -> DRAWN | None:
        found = self.some(
            lambda key: key.group == "observation" and key.dtype != "bool" and key.own == len(key.shape) < 2,
            3,
        )
        return self.together(
            "CatTensors", found, (sum(key.shape[0] if key.shape else 1 for key in found),), {}
        )

    def draw_stack(self) -> DRAWN | None:
        first = self.some(lambda key: key.group == "observation" and key.own == len(key.shape), 1)
        if not first or first[0].dtype == "bool":
            return None
        like = first[0]
        found = self.some(
            lambda key: key.group == "observation" and (key.shape, key.dtype) == (like.shape, like.dtype), 3
        )
        dim = -self.random.randint(1, len(like.shape) + 1)
        place = len(like.shape) + 1 + dim
        shape = (*like.shape[:place], len(found), *like.shape[place:])
        return self.together("Stack", found, shape, {"dim": dim})

    def together(
        self, name: str, found: list[Key], shape: tuple[int, ...], given: dict[str, Any]
    ) -> DRAWN | None:
        if not found:
            return None
        out = self.fresh()
        given = {"in_keys": [key.name for key in found], "out_key": out, **given}
        dtypes = {key.dtype for key in found}
        if len(dtypes) > 1 and dtypes != {"float32", "float64"}:
            return None
        if self.chance(0.3):
            given["del_keys"] = False
        else:
            self.drop([key.name for key in found])
        self.keys[out] = Key(out, "observation", max(dtypes), shape)
        return name, given

    def drop(self, names: list[str]) -> None:
        for name in names:
            del self.keys[name]

    def draw_exclude(self) -> DRAWN | None:
        names = [key.name for key in self.some(lambda key: key.group == "observation", 3)]
        self.drop(names)
        return ("ExcludeTransform", {"in_keys": names}) if names else None

    def draw_select(self) -> DRAWN | None:
        names = [key.name for key in self.some(lambda key: key.group == "observation", 6)]
        self.drop([key for key, one in self.keys.items() if one.group == "observation" and key not in names])
        return ("SelectTransform", {"in_keys": names}) if names else None

    def draw_rename(self) -> DRAWN | None:
        found = self.some(lambda key: True)
        names = [key.name for key in found]
        outs = [self.fresh(key) for key in found]
        same = len({(key.parent, key.group) for key in found}) == 1
        given: dict[str, Any] = {}
        if same and self.chance(0.3):
            outs = names[::-1]
        elif self.chance(0.3):
            given["create_copy"] = True
        if not given:
            self.drop(names)
        for key, out in zip(found, outs, strict=True):
            self.keys[out] = replace(key, name=out)
        return ("RenameTransform", {"in_keys": names, "out_keys": outs, **given}) if names else None

    def draw_reward_clipping(self) -> DRAWN | None:
        found = self.some(lambda key: key.group == "reward" and key.dtype.startswith("float"))
        given = {"clamp_min": -1.0} if self.chance(0.7) else {}
        return self.mapped("RewardClipping", found, lambda key: key, **given)

    def draw_binarize(self) -> DRAWN | None:
        found = self.some(lambda key: key.group == "reward" and key.dtype != "bool")
        return self.mapped("BinarizeReward", found, lambda key: replace(key, dtype="int8"))

    def draw_sign(self) -> DRAWN | None:
        return self.mapped("SignTransform", self.some(lambda key: key.dtype != "bool"), lambda key: key)

    def draw_clip(self) -> DRAWN | None:
        found = self.some(lambda key: key.dtype.startswith("float"))
        return self.mapped("ClipTransform", found, lambda key: key, low=-1.0, high=2.5)

    def draw_success_reward(self) -> DRAWN | None:
        found = self.some(lambda key: key.dtype == "bool" and not key.shape and key.group == "observation", 1)
        if not found:
            return None
        out = self.fresh().removeprefix("made.")
        rewards = self.some(lambda key: key.group == "reward" and key.column and not key.shape, 1)
        out = rewards[0].name if rewards and self.chance() else out
        self.keys[out] = Key(out, "reward", "float32", (), True)
        return "SuccessReward", {"success_key": found[0].name, "reward_key": out, "scale": 2.0}

    def draw_linearise(self) -> DRAWN | None:
        def fits(key: Key) -> bool:
            return key.dtype.startswith("float") and (key.own > 0 or (key.column and not key.shape))

        found = self.some(fits, 1)
        if not found:
            return None
        out, key = self.fresh(found[0]), found[0]
        several = [float(1 - 2 * place) for place in range(key.shape[-1] if key.shape else 1)]
        weights = self.random.choice([1.0, several] if len(several) > 1 and len(key.shape) == 1 else [1.0])
        self.keys[out] = Key(out, "reward", key.dtype, key.shape[:-1], True)
        return "LineariseRewards", {"in_keys": [key.name], "out_keys": [out], "weights": weights}

    def draw_flatten(self) -> DRAWN | None:
        found = self.some(lambda key: key.own > 1, 1)
        if not found:
            return None
        last, first = sorted(self.random.sample(range(1, found[0].own + 1), 2))

        def change(key: Key) -> Key:
            rank, size = len(key.shape), 1
            for one in key.shape[rank - first : rank - last + 1]:
                size *= one
            return replace(key, shape=(*key.shape[: rank - first], size, *key.shape[rank - last + 1 :]))

        return self.mapped("FlattenObservation", found, change, first_dim=-first, last_dim=-last)

    def draw_squeeze(self) -> DRAWN | None:
        found = self.some(lambda key: key.own > 0 and 1 in key.shape[-key.own :], 1)
        if not found:
            return None
        shape = found[0].shape
        place = next(place for place in range(-found[0].own, 0) if shape[place] == 1)
        left = (*shape[:place], *shape[len(shape) + place + 1 :])
        return self.mapped("SqueezeTransform", found, lambda key: replace(key, shape=left), dim=place)

    def draw_unsqueeze(self) -> DRAWN | None:
        found = self.some(lambda key: len(key.shape) < 4 and key.group != "reward", 1)
        if not found:
            return None
        shape = found[0].shape
        dim = -self.random.randint(1, found[0].own + 1)
        place = len(shape) + 1 + dim
        more = (*shape[:place], 1, *shape[place:])
        return self.mapped("UnsqueezeTransform", found, lambda key: replace(key, shape=more), dim=dim)

    def draw_permute(self) -> DRAWN | None:
        found = self.some(lambda key: key.own > 1, 1)
        if not found:
            return None
        count, shape = self.random.randint(2, found[0].own), found[0].shape
        dims = self.random.sample(range(-count, 0), count)
        after = (*shape[: len(shape) - count], *(shape[dim] for dim in dims))
        return self.mapped("PermuteTransform", found, lambda key: replace(key, shape=after), dims=dims)

    def draw_to_tensor_image(self) -> DRAWN | None:
        found = self.some(lambda key: key.own > 2 and key.dtype != "bool", 1)

        def change(key: Key) -> Key:
            *front, height, width, channels = key.shape
            return replace(key, dtype="float32", shape=(*front, channels, height, width))

        return self.mapped("ToTensorImage", found, change)

    def draw_gray_scale(self) -> DRAWN | None:
        found = self.some(lambda key: key.own > 2 and key.shape[-3] == 3 and key.dtype != "bool", 1)
        return self.mapped(
            "GrayScale", found, lambda key: replace(key, shape=(*key.shape[:-3], 1, *key.shape[-2:]))
        )

    def draw_crop(self) -> DRAWN | None:
        found = self.some(lambda key: key.own > 1, 1)
        if not found:
            return None
        height, width = found[0].shape[-2:]
        given = {"w": self.random.randint(1, width), "h": self.random.randint(1, height)}
        name = self.random.choice(["CenterCrop", "Crop"])
        if name == "Crop":
            given |= {
                "left": self.random.randint(0, width - given["w"]),
                "top": self.random.randint(0, height - given["h"]),
            }
        cut = (given["h"], given["w"])
        return self.mapped(name, found, lambda key: replace(key, shape=(*key.shape[:-2], *cut)), **given)

    def draw_resize(self) -> DRAWN | None:
        found = self.some(lambda key: key.own > 1 and key.dtype != "bool", 1)
        if not found:
            return None
        size = {"w": self.random.randint(1, 6), "h": self.random.randint(1, 6)}
        how = self.random.choice([{}, {"interpolation": "nearest"}, {"interpolation": "bicubic"}])
        cut = (size["h"], size["w"])
        return self.mapped(
            "Resize", found, lambda key: replace(key, shape=(*key.shape[:-2], *cut)), **size, **how
        )

    def draw_double_to_float(self) -> DRAWN | None:
        found = self.some(lambda key: key.dtype == "float64")
        return self.mapped("DoubleToFloat", found, lambda key: replace(key, dtype="float32"))

    def draw_dtype_cast(self) -> DRAWN | None:
        found = self.some(lambda key: key.dtype != "bool", 1)
        if not found:
            return None
        wanted = self.random.choice(["int32", "int64", "float32", "float64"])
        given = {"dtype_in": found[0].dtype, "dtype_out": wanted}
        return self.mapped("DTypeCastTransform", found, lambda key: replace(key, dtype=wanted), **given)

    def draw_frame_skip(self) -> DRAWN | None:
        rewards = [key for key in self.keys.values() if key.group == "reward"]
        if self.looped or any(not key.dtype.startswith("float") for key in rewards):
            return None
        self.looped = True
        return "FrameSkipTransform", {"frame_skip": self.random.randint(1, 3)}

    def draw_multi_action(self) -> DRAWN | None:
        rewards = [key for key in self.keys.values() if key.group == "reward" and not key.parent]
        rewards = [key for key in rewards if key.dtype.startswith("float")]
        actions = [key for key in self.actions.values() if not key.parent]
        if self.looped or not rewards or not actions:
            return None
        self.looped = True
        reward, action = self.random.choice(rewards), self.random.choice(actions)
        steps, single = self.random.randint(1, 3), self.chance()
        given = {"steps": steps, "in_keys": [reward.name], "in_keys_inv": [action.name]}
        self.actions[action.name] = replace(action, shape=(steps, *action.shape))
        if not single:
            return "MultiAction", {**given, "stack_rewards": False}
        out = self.fresh()
        self.keys[out] = Key(out, "observation", reward.dtype, (steps, *reward.shape), reward.column)
        return "MultiAction", {**given, "out_keys": [out]}

    def draw_noop_reset(self) -> DRAWN | None:
        if self.looped:
            return None
        self.looped = True
        return "NoopResetEnv", {"noops": self.random.randint(0, 3)}
