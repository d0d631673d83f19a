"""Checks of the specs of an environment: locked, unchanged by use, and true of all data."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase

from specgen_runtime.envs.check_specs import resets_itself
from specgen_runtime.envs.done import DoneSet
from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.partial_resets import merge_reset
from specgen_runtime.envs.policy import shown
from specgen_runtime.envs.spec_groups import INPUT_GROUPS, OUTPUT_GROUPS, SPEC_GROUPS
from specgen_runtime.envs.spec_leaves import Leaf, leaves_of
from specgen_runtime.specs import Composite
from specgen_runtime.testing.running import Env, Make, closing, made, seeded_rollout, torch_seeded

__all__ = [
    "check_fake_tensordict",
    "check_random_actions",
    "check_specs_are_locked",
    "check_specs_stay",
    "check_values",
]


def check_specs_are_locked(env: Env) -> None:
    """Check that specs are composites of the environment's batch size and device which can't be changed.

    Raises:
        AssertionError: naming the spec.
    """
    for name in ("input_spec", "output_spec"):
        spec: Composite = getattr(env, name)
        assert spec.is_locked, f"{name} is not locked: it could be changed behind the environment's back"
        assert _refuses(env, name, spec), f"{name} can be assigned; only its parts have setters"
    for name in SPEC_GROUPS:
        spec = getattr(env, name)
        assert isinstance(spec, Composite), f"{name} is a {type(spec).__name__}, expected a Composite"
        assert spec.shape == env.batch_size, (
            f"{name} has shape {list(spec.shape)}, expected the batch size {list(env.batch_size)}"
        )
        whole = env.input_spec if name in INPUT_GROUPS else env.output_spec
        part: Any = whole[name]
        assert part.is_locked, f"{name} is not locked after use: items could be assigned unchecked"
        for leaf in leaves_of(spec):
            found = leaf.spec.device
            if env.device is not None and found is not None:
                assert found == env.device, f"{name}: {leaf} is on {found}, expected {env.device}"


def _refuses(env: Env, name: str, value: Any) -> bool:
    try:
        setattr(env, name, value)
    except RuntimeError:
        return True
    return False


def check_specs_stay(make: Make, *, seed: int = 0, steps: int = 5) -> None:
    """Check that resetting, stepping and rolling out leave the specs as they were.

    Raises:
        AssertionError: naming the spec that changed.
    """
    with closing(made(make)) as env:
        before = {name: getattr(env, name).clone() for name in SPEC_GROUPS}
        seeded_rollout(env, seed, steps)
        env.fake_tensordict()
        for name in SPEC_GROUPS:
            now = getattr(env, name)
            assert now == before[name], f"{name} was changed by use: {now}, expected {before[name]}"


def check_fake_tensordict(env: Env) -> None:
    """Check that `fake_tensordict` has the keys, shapes, dtypes and devices of a step.

    Raises:
        AssertionError: naming the key that differs.
    """
    with torch_seeded(0):
        data = env.rand_step(env.reset())
    fake = env.fake_tensordict()
    assert fake.batch_size == env.batch_size, (
        f"fake_tensordict has batch size {list(fake.batch_size)}, expected {list(env.batch_size)}"
    )
    kinds = [_kinds(env, each) for each in (fake, data)]
    for key in sorted(kinds[0].keys() | kinds[1].keys()):
        said, real = (kind.get(key, "nothing") for kind in kinds)
        assert said == real, f"fake_tensordict has {said} at {key}, a step has {real}"


def _kinds(env: Env, data: TensorDictBase) -> dict[str, str]:
    """Each leaf with what can be said of its value. Sizes that the spec leaves open are."""
    found: dict[str, str] = {}
    following = data.get("next")
    for names, part, title in (
        (("full_state_spec", "full_observation_spec", "full_done_spec", "full_action_spec"), data, ""),
        (("full_observation_spec", "full_reward_spec", "full_done_spec"), following, "'next', "),
    ):
        for name in names:
            for leaf in leaves_of(getattr(env, name)):
                kind = _kind(leaf, leaf.find(part))
                if kind:
                    found[f"{title}{leaf}"] = kind
        for key in part.keys(True, True):
            head = key if isinstance(key, str) else key[0]
            if head != "next" and f"{title}{show_key(key)}" not in found:
                value = part.get(key)
                found.setdefault(f"{title}{show_key(key)}", _kind(None, value))
    return found


def _kind(leaf: Leaf | None, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, torch.Tensor):
        return "no tensor"
    if value.is_nested or (leaf is not None and -1 in leaf.spec.shape):
        return f"{value.dtype} on {value.device}"
    return f"{value.dtype} {list(value.shape)} on {value.device}"


def check_random_actions(env: Env, *, seed: int = 0, draws: int = 10) -> None:
    """Check that `rand_action` writes members of the action spec, and nothing else.

    Raises:
        AssertionError: naming the action and the value, or the entry that was changed.
    """
    with torch_seeded(seed):
        root = env.reset()
        for _ in range(draws):
            before = root.clone()
            result = env.rand_action(root)
            assert result is root, "rand_action(tensordict) must return the tensordict that it was given"
            for leaf in leaves_of(env.full_action_spec):
                value = leaf.find(root)
                assert value is not None, f"rand_action wrote no {leaf}"
                assert leaf.spec.is_in(value), f"rand_action: {leaf} is not in {leaf.spec}: {shown(value)}"
            for name in ("full_observation_spec", "full_done_spec"):
                for leaf in leaves_of(getattr(env, name)):
                    old, now = leaf.find(before), leaf.find(root)
                    if isinstance(now, torch.Tensor) and not now.is_nested:
                        same = torch.equal(old.nan_to_num(), now.nan_to_num())
                        assert same, f"rand_action changed {leaf}"


def check_values(env: Env, data: TensorDictBase) -> None:
    """Check that every entry of a rollout is in its spec, at every step.

    What an environment that resets itself (see `AutoResetEnv`) observed last is not known, and not checked.

    Args:
        env: whose specs are meant.
        data: of batch size `(*batch, T)`.

    Raises:
        AssertionError: naming the key, the step and the value.
    """
    for part, names, title in (
        (_known(env, data), OUTPUT_GROUPS, "'next'"),
        (data, [name for name in SPEC_GROUPS if name != "full_reward_spec"], "the root"),
    ):
        for name in names:
            for leaf in leaves_of(getattr(env, name)):
                _check_leaf(leaf, part, data.batch_dims - 1, f"in {title}", name.removeprefix("full_"))


def _known(env: Env, data: TensorDictBase) -> TensorDictBase:
    """What `"next"` holds; where an environment reset itself, the root's observations stand for the last ones."""
    following: TensorDictBase = data.get("next")
    if resets_itself(env):
        following = following.clone(recurse=False)
        ended: dict[DoneSet, torch.Tensor] = {s: following.get(s.done) for s in env._env_layout.root_sets}
        merge_reset(following, data.select(*env.observation_keys), ended)
    return following


def _check_leaf(leaf: Leaf, data: TensorDictBase, time: int, where: str, source: str) -> None:
    if getattr(leaf.spec, "mask", None) is not None:
        return  # the mask is that of the last step only
    if not leaf.items and not isinstance(data, LazyStackedTensorDict):
        value = leaf.find(data)
        if isinstance(value, torch.Tensor) and leaf.spec.is_in(value.movedim(time, 0)):
            return  # all steps at once
    for t, step in enumerate(data.unbind(time)):
        _check_value(leaf, leaf.find(step), f"{where} at step {t}", source)


def _check_value(leaf: Leaf, value: Any, where: str, source: str) -> None:
    assert value is not None, f"{leaf} ({source}) is missing {where}"
    spec = leaf.spec
    if spec.is_in(value):
        return
    found = shown(value)
    if isinstance(value, torch.Tensor) and value.is_floating_point() and bool(value.isnan().any()):
        found += ", with NaN"
    raise AssertionError(f"{leaf} {where} is not in its {source} {spec}: found {found}")
