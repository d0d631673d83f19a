"""Random chains: what is accepted can be imported and stepped, and gives what the dynamic composition gives,
and what the NumPy interpreter of its inlined programs gives.

`SPECGEN_THOROUGH=1` tries more of them, `--hypothesis-profile=explore` others.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms.like import box_of
from tensordict import TensorDictBase

from specgen.diagnostics.rules import ALL_RULES
from tests.agreement.interpreted import interpreted, printed_programs
from tests.agreement.random_chains import draw_sample
from tests.sizes import each_time_or_thorough
from tests.support import compile_texts, imported

EXAMPLES = each_time_or_thorough(30, 1000)
STEPS = 20
RANDOM_STEPS = 25
"""Of rollouts with random actions, in which episodes begin again."""
CLASHES = {"SG105", "SG106", "SG301", "SG361", "SG362", "SG376"}
"""Keys that clash: the drawn names may; and an action that is read in front of what changes it."""


@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a seed can't be shrunk
    suppress_health_check=list(HealthCheck),
)
@given(st.integers(0, 2**32 - 1).map(Random), st.sampled_from([(), (3,), (2, 1)]))
def test_random_chains(random: Random, batch: tuple[int, ...]) -> None:
    sample = draw_sample(random)
    texts = sample.schemas()
    with printed_programs() as programs:
        files, said, codes = compile_texts(texts, "random_package")
    event("accepted" if files else "refused")
    if not files:
        assert {code for code in codes if ALL_RULES[code].severity == "error"} <= CLASHES, (
            texts["sample.yaml"] + said
        )
        return
    with tempfile.TemporaryDirectory() as folder, imported(files, "random_package", Path(folder)) as package:
        fused, dynamic = package.Fused(batch_size=batch), sample.dynamic(package, batch)
        try:
            same_specs(fused, dynamic)
            same_bounds(fused, dynamic)
            with interpreted(sys.modules[type(fused).__module__], programs, "fused_") as calls:
                drive(fused, dynamic)
            assert all(calls.values()), calls
        except BaseException as error:
            error.add_note(texts["sample.yaml"])
            raise


def same_chains(fused: EnvBase[Any], dynamic: EnvBase[Any]) -> None:
    """Both are sound, with the same specs and bounds, and give the same data."""
    same_specs(fused, dynamic)
    check_env_specs(fused)
    check_env_specs(dynamic)
    same_bounds(fused, dynamic)
    drive(fused, dynamic)


def same_specs(fused: EnvBase[Any], dynamic: EnvBase[Any]) -> None:
    """The same keys of the same shapes and dtypes; the fused state may have less, as it knows what a step reads."""
    for group in ("action", "observation", "reward", "done", "state"):
        found, expected = shapes(fused, group), shapes(dynamic, group)
        if group == "state":
            expected = {key: value for key, value in expected.items() if key in found}
        assert found == expected, (group, found.items() ^ expected.items())


def same_bounds(fused: EnvBase[Any], dynamic: EnvBase[Any]) -> None:
    """The same bounds, element by element, of all that is shown; the fused chain may know more."""
    for group in ("observation", "reward"):
        found, expected = (getattr(env, f"full_{group}_spec") for env in (fused, dynamic))
        for key, leaf in expected.items(True, True):
            if isinstance(leaf, Bounded) and "_carry" not in key:
                ends, wanted = box_of(found[key]), box_of(leaf)
                assert (ends[0] >= wanted[0]).all(), (key, found[key], leaf)
                assert (ends[1] <= wanted[1]).all(), (key, found[key], leaf)


def shapes(env: EnvBase[Any], group: str) -> dict[Any, Any]:
    leaves = getattr(env, f"full_{group}_spec").items(True, True)
    return {key: (leaf.shape, leaf.dtype) for key, leaf in leaves if "_carry" not in key}


def drive(fused: EnvBase[Any], dynamic: EnvBase[Any]) -> None:
    """Step both with the same actions; reset rows and everything on the way."""
    for env in (fused, dynamic):
        env.set_seed(5)
    root, other = drawing_alike(5, fused.reset, dynamic.reset)
    assert_identical(shown(root), shown(other), "the first reset")
    for step in range(STEPS):
        root = fused.rand_action(root)
        for key in fused.action_keys:
            other.set(key, root.get(key).clone())
        for key in getattr(fused, "_policy_states", ()) if step % 3 else ():
            root.set(("next", key), left := 0.5 * root.get(key) + step)
            other.set(("next", key), left.clone())
        (transition, root), (expected, other) = drawing_alike(
            step, partial(fused.step_and_maybe_reset, root), partial(dynamic.step_and_maybe_reset, other)
        )
        assert_identical(shown(transition), shown(expected), f"step {step}")
        assert_identical(shown(root), shown(other), f"after step {step}")
        if step % 5 == 2:
            mask = {key: torch.rand(fused.full_done_spec[done].shape) < 0.5 for key, done in resets(fused)}
            root, other = drawing_alike(
                100 + step,
                *(
                    partial(env.reset, data.update({key: value.clone() for key, value in mask.items()}))
                    for env, data in ((fused, root), (dynamic, other))
                ),
            )
            assert_identical(shown(root), shown(other), f"the partial reset after step {step}")
    rollouts = []
    for env in (fused, dynamic):
        env.set_seed(7)
        torch.manual_seed(7)
        rollouts.append(env.rollout(10, lambda td: td.update(fused.full_action_spec.rand())))
    assert_identical(shown(rollouts[0]), shown(rollouts[1]), "a rollout")
    if fused.action_keys == dynamic.action_keys:  # actions in another order draw other numbers each
        random_rollouts(fused, dynamic)


def random_rollouts(*envs: EnvBase[Any]) -> None:
    """Without a policy, through the ends of episodes: the same data, and torch's global generator where it was."""
    found: list[tuple[list[TensorDictBase], torch.Tensor]] = []
    for env in envs:
        env.set_seed(9)
        torch.manual_seed(9)
        rollouts = [
            shown(env.rollout(RANDOM_STEPS, break_when_any_done=stops)) for stops in (False, True, False)
        ]
        found.append((rollouts, torch.get_rng_state()))
    for number, (rollout, expected) in enumerate(zip(found[0][0], found[1][0], strict=True)):
        assert_identical(rollout, expected, f"random rollout {number}")
    assert torch.equal(found[0][1], found[1][1]), "torch's global generator behind random rollouts"


def drawing_alike(seed: int, *calls: Callable[[], Any]) -> list[Any]:
    """What some calls return, each with the same numbers of torch's global generator: random actions of resets."""
    found = []
    for call in calls:
        torch.manual_seed(seed)
        found.append(call())
    return found


def resets(env: EnvBase[Any]) -> list[tuple[Any, Any]]:
    """The keys of the root-most masks, with the flag that each resembles."""
    found = [(key, (*key[:-1], "done") if isinstance(key, tuple) else "done") for key in env.reset_keys]
    top = [pair for pair in found if pair[0] == "_reset"]
    return top or found


def shown(data: TensorDictBase) -> TensorDictBase:
    """The tensors, without those that only the environment itself reads."""
    return data.select(*(key for key in data.keys(True, True) if "_carry" not in key))
