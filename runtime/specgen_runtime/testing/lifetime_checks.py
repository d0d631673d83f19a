"""Checks of an environment as an object: moving to devices, state dicts, pickling, closing."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase

from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.spec_groups import SPEC_GROUPS
from specgen_runtime.envs.spec_leaves import leaves_of
from specgen_runtime.testing.identical import assert_identical
from specgen_runtime.testing.running import Env, Make, closing, made, seeded_rollout, torch_seeded
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["check_closing", "check_devices", "check_pickling", "check_state_dict", "devices_here"]


def devices_here() -> tuple[str, ...]:
    """The devices that `check_devices` tries by default: `meta`, `cpu` and, where there is one, `cuda`."""
    return ("meta", "cpu", "cuda") if torch.cuda.is_available() else ("meta", "cpu")


def check_devices(
    make: Make, devices: Sequence[DEVICE_TYPING] | None = None, *, seed: int = 0, steps: int = 3
) -> None:
    """Check that `to(device)` moves the environment, its specs and its data.

    On `meta`, where there are no values, only specs and `fake_tensordict` are looked at.

    Args:
        make: makes the environment.
        devices: where to; `devices_here()` if None. Each gets an environment of its own.
        seed: seeds the rollouts.
        steps: how long they are.

    Raises:
        AssertionError: naming the spec or the key that is on another device.
    """
    for each in devices_here() if devices is None else devices:
        with closing(made(make)) as env:
            moved = env.to(each)
            assert moved is env, f"to({str(each)!r}) returned another object"
            device = env.device
            assert device is not None, f"to({str(each)!r}) left env.device None"
            assert device.type == torch.device(each).type, f"to({str(each)!r}) set env.device to {device}"
            for name in SPEC_GROUPS:
                for leaf in leaves_of(getattr(env, name)):
                    found = leaf.spec.device
                    assert found in (None, device), f"to({str(each)!r}): {leaf} of {name} stayed on {found}"
            data = env.fake_tensordict()
            _check_device(data, device, "fake_tensordict")
            if device.type != "meta":
                data = seeded_rollout(env, seed, steps)
                _check_device(data, device, "rollout")


def _check_device(data: TensorDictBase, device: torch.device, what: str) -> None:
    assert data.device in (None, device), f"{what} is on {data.device} after the move, expected {device}"
    parts = data.tensordicts if isinstance(data, LazyStackedTensorDict) else [data]
    for part in parts:
        for key, value in part.items():
            if isinstance(value, TensorDictBase):
                _check_device(value, device, f"{what}, {show_key(key)}")
            elif isinstance(value, torch.Tensor):
                found = value.device
                assert found == device, f"{what}: {show_key(key)} is on {found}, expected {device}"


def check_state_dict(make: Make, *, seed: int = 0, steps: int = 5) -> None:
    """Check that a state dict does not depend on use in its keys, and can be loaded into a fresh environment.

    Raises:
        AssertionError: naming the key.
    """
    with closing(made(make)) as used, closing(made(make)) as fresh:
        seeded_rollout(used, seed, steps)
        fresh.reset()  # some open what they hold only now
        state, unused = used.state_dict(), fresh.state_dict()
        differing = sorted(state.keys() ^ unused.keys())
        assert not differing, f"state_dict: {', '.join(differing)} is there only before or only after use"
        outcome: Any = fresh.load_state_dict(state)
        if outcome is not None:  # batches of environments raise instead
            assert not outcome.missing_keys, f"load_state_dict: nothing for {outcome.missing_keys}"
            assert not outcome.unexpected_keys, f"load_state_dict: no place for {outcome.unexpected_keys}"
        _check_restored(fresh.state_dict(), state, "")


def _check_restored(found: Mapping[str, Any], expected: Mapping[str, Any], prefix: str) -> None:
    for key, value in found.items():
        if isinstance(value, Mapping):
            _check_restored(value, expected[key], f"{prefix}{key}.")
        elif isinstance(value, torch.Tensor):
            assert torch.equal(value, expected[key]), f"state_dict: {prefix}{key} was not restored"


def check_pickling(make: Make, *, seed: int = 0, steps: int = 5) -> None:
    """Check that an environment survives pickling: specs, class, and what it does with a seed.

    Raises:
        AssertionError: the copy differs, or there is none.
    """
    with closing(made(make)) as env:
        buffer = io.BytesIO()
        try:
            pickle.dump(env, buffer)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise AssertionError(
                f"{type(env).__name__} can't be pickled: {error}; pickling=False leaves this check out"
            ) from error
        buffer.seek(0)
        with closing(pickle.load(buffer)) as copy:
            assert type(copy) is type(env), f"unpickled a {type(copy).__name__} from a {type(env).__name__}"
            for name in SPEC_GROUPS:
                assert getattr(copy, name) == getattr(env, name), f"{name} differs after pickling"
            found, expected = (seeded_rollout(each, seed, steps) for each in (copy, env))
            assert_identical(found, expected, "after pickling")


def check_closing(make: Make) -> None:
    """Check that closing ends an environment, used or not.

    `is_closed` must say so, `close(raise_if_closed=False)` may be repeated, and a closed environment either
    refuses to be reset with a RuntimeError or opens again.

    Raises:
        AssertionError: naming what it did instead.
    """
    for used in (False, True):
        env = made(make)
        with closing(env):
            if used:
                with torch_seeded(0):
                    env.rand_step()
            env.close(raise_if_closed=False)
            assert env.is_closed, "is_closed is False after close()"
            env.close(raise_if_closed=False)
            _check_closed(env)


def _check_closed(env: Env) -> None:
    refusal = ""
    try:
        env.reset()
    except RuntimeError as error:
        refusal = str(error)
    if refusal:
        assert "clos" in refusal, f"reset of a closed environment fails without saying why: {refusal}"
    else:
        assert not env.is_closed, "reset of a closed environment works, and is_closed is still True"
