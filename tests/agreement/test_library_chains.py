"""Random chains over the whole declared library: fused as dynamic, live as replayed, and as their specs say.

`SPECGEN_THOROUGH=1` tries more of them; `SPECGEN_LIBRARY_SEEDS=100:400` those of these seeds.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv, check_env_specs
from specgen_runtime.specs import Composite
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from tensordict import TensorDict, TensorDictBase

from specgen.diagnostics.rules import ALL_RULES
from tests.agreement.gymnasium_arms import RECORDS, registered
from tests.agreement.library_chains import Base, Drawn, Key
from tests.agreement.library_drawer import draw_chain
from tests.agreement.test_random_chains import drive, same_bounds, same_specs, shown
from tests.sizes import each_time_or_thorough
from tests.support import compile_texts, imported

BATCHES = ((), (3,), (4, 3))
LOOPS = ("FrameSkipTransform", "MultiAction", "NoopResetEnv")
FLAGS = ("done", "terminated", "truncated")


ARM = Base(
    "Arm",
    "specgen: 1\nenvs:\n  Arm: {gymnasium: {id: specgen-arm-v0}}\n",
    (Key("observation", "observation", "float32", (2, 3)), Key("reward", "reward", "float32", (), True)),
    (Key("action", "action", "float32", (2, 3)),),
    nests=False,
)


def seeds() -> Iterable[int]:
    """The seeds to try."""
    first, _, end = os.environ.get("SPECGEN_LIBRARY_SEEDS", "").partition(":")
    return range(int(first), int(end)) if first else range(each_time_or_thorough(10, 600))


@pytest.mark.parametrize("seed", seeds())
def test_a_chain_over_the_library(seed: int) -> None:
    random = Random(seed)
    drawn, batch = draw_chain(random), random.choice(BATCHES)
    text = drawn.schema()
    files, said, codes = compile_texts({"sample.yaml": text}, "library_package")
    errors = {code for code in codes if ALL_RULES[code].severity == "error"}
    assert files or errors == {"SG107"}, text + said
    plain = text.partition("chains:\n")[0]
    if not files:
        files, said, _ = compile_texts({"sample.yaml": plain}, "library_package")
    with tempfile.TemporaryDirectory() as folder, imported(files, "library_package", Path(folder)) as package:
        try:
            check_env_specs(made_env(package, drawn, batch))
            if not errors:
                check_env_specs(package.Fused(batch_size=batch))
                fused, dynamic = package.Fused(batch_size=batch), made_env(package, drawn, batch)
                same_specs(fused, dynamic)
                assert fused.full_action_spec == dynamic.full_action_spec
                assert dict(fused._action_masks) == dict(dynamic._action_masks)
                same_bounds(fused, dynamic)
                drive(fused, dynamic)
            replays(package, drawn, batch)
            goes_on(package, drawn, batch)
        except BaseException as error:
            error.add_note(f"{batch} {drawn.transforms}")
            raise


@pytest.mark.parametrize("seed", seeds())
def test_a_chain_over_gymnasium(seed: int) -> None:
    random = Random(1000 + seed)
    drawn, batch = draw_chain(random, ARM), random.choice(BATCHES)
    text = drawn.schema(ARM)
    files, said, codes = compile_texts({"sample.yaml": text}, "library_package", RECORDS)
    errors = {code for code in codes if ALL_RULES[code].severity == "error"}
    assert errors == ({"SG107"} if _is_left_to_classes(drawn) else set()), text + said
    if errors:
        return
    with (
        registered(),
        tempfile.TemporaryDirectory() as folder,
        imported(files, "library_package", Path(folder)) as package,
    ):
        try:
            check_env_specs(side_by_side(package.Fused, batch))
            fused = side_by_side(package.Fused, batch)
            dynamic = side_by_side(lambda: TransformedEnv(package.Arm(), Compose(*drawn.made())), batch)
            same_specs(fused, dynamic)
            assert fused.full_action_spec == dynamic.full_action_spec
            drive(fused, dynamic)
        except BaseException as error:
            error.add_note(f"{batch} {drawn.transforms}")
            raise


def _is_left_to_classes(drawn: Drawn) -> bool:
    """Whether a chain over a simulator can't do this: repetitions of what is learned, and of other actions after a reset."""
    names = [name for name, _ in drawn.transforms]
    loops = [place for place, name in enumerate(names) if name in LOOPS]
    noops = names.index("NoopResetEnv") if "NoopResetEnv" in names else 0
    return bool(loops and "VecNorm" in names[: loops[-1]]) or any(map(_changes_actions, drawn.made()[:noops]))


def _changes_actions(transform: Transform) -> bool:
    if type(transform).__name__ == "RenameTransform" and transform.in_keys_inv == transform.out_keys_inv:
        return False  # of an action to its own name
    return bool(transform.in_keys_inv) or type(transform).__name__ in ("ActionScaling", "ActionDiscretizer")


def side_by_side(make: Callable[[], EnvBase[Any]], batch: tuple[int, ...]) -> EnvBase[Any]:
    """A batch of environments that are one each."""
    return SerialEnv(batch[0], lambda: side_by_side(make, batch[1:])) if batch else make()


def made_env(package: ModuleType, drawn: Drawn, batch: tuple[int, ...], *first: Transform) -> TransformedEnv:
    return TransformedEnv(package.Team(batch_size=batch), Compose(*first, *drawn.made()))


class Recorder(Transform):
    """Writes what the environment returns under "recorded", where no other transform looks for it."""

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        entries = next_tensordict.exclude("_carry").clone()
        return next_tensordict.set("recorded", entries)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        assert self.parent is not None
        rewards = self.parent.full_reward_spec.zero()
        self._call(tensordict_reset)["recorded"].update(rewards)
        return tensordict_reset

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        output_spec = output_spec.clone()
        groups = [
            output_spec[name] for name in ("full_observation_spec", "full_reward_spec", "full_done_spec")
        ]
        specs = {
            ("recorded", *((key,) if isinstance(key, str) else key)): group[key].clone()
            for group in groups
            for key in group.keys(True, True)
            if "_carry" not in key
        }
        for key, spec in specs.items():
            output_spec["full_observation_spec"][key] = spec
        return output_spec


def replays(package: ModuleType, drawn: Drawn, batch: tuple[int, ...]) -> None:
    """Recorded data get what they would have got in the environment."""
    if drawn.has(*LOOPS):
        loop = next(one for one in drawn.made() if type(one).__name__ in LOOPS)
        with pytest.raises(NotImplementedError):
            loop(TensorDict({}, batch))
        return
    if drawn.has("VecNorm", "SelectTransform", "ActionMask"):
        return  # what has been learned meanwhile is applied to all; what is recorded is not selected, actions are there
    env = made_env(package, drawn, batch, Recorder())
    env.set_seed(3)
    torch.manual_seed(3)
    live = env.rollout(8, lambda td: td.update(env.full_action_spec.rand()), break_when_any_done=False)
    recorded = live["recorded"].exclude("reward", ("agents", "reward"))
    recorded["next"] = live["next", "recorded"]
    for moment, source in ((recorded, live), (recorded["next"], live["next"])):
        for flag in FLAGS:  # who records them records them at the end of the chain
            moment[flag] = source[flag]
            moment["agents", flag] = source["agents", flag]
    recorded.names = live.names
    replayed = Compose(*drawn.made())(recorded.clone())
    expected = shown(live["next"].exclude("recorded"))
    assert_identical(shown(replayed["next"]), expected, "what is replayed of a step")
    roots = expected.exclude(*env.reward_keys)
    assert_identical(
        replayed.select(*roots.keys(True, True)), live.select(*roots.keys(True, True)), "its root"
    )


def goes_on(package: ModuleType, drawn: Drawn, batch: tuple[int, ...]) -> None:
    """An environment that loads the state dict of another goes on as that one."""
    first, second = made_env(package, drawn, batch), made_env(package, drawn, batch)
    first.set_seed(1)
    torch.manual_seed(1)
    data = first.rollout(4, lambda td: td.update(first.full_action_spec.rand()))
    second.load_state_dict(first.state_dict())
    root = first.step_mdp(data[..., -1].clone())
    ended = []
    for env in (first, second):
        env.set_seed(2)
        torch.manual_seed(2)
        following, at = [], root.clone()
        for _ in range(4):
            transition, at = env.step_and_maybe_reset(at.update(env.full_action_spec.rand()))
            following.append(shown(transition))
        ended.append(torch.stack(following))
    assert_identical(ended[1], ended[0], "what goes on")
