"""Environments with one fault each: the check that is about it finds it, and says what it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from specgen_runtime import testing
from specgen_runtime.envs import check_env_specs
from specgen_runtime.testing import check_env

from tests.conformance import walks
from tests.conformance.walks import Walk


@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 2)], ids=str)
def test_without_a_fault(batch: tuple[int, ...]) -> None:
    check_env(partial(Walk, batch_size=batch), steps=20)


def test_an_object_for_a_function() -> None:
    with pytest.raises(TypeError, match=r"function that makes one, such as `lambda: Walk\(...\)`"):
        check_env(Walk())
    with pytest.raises(TypeError, match=r"such as `lambda: Walk"):
        testing.check_closing(Walk())
    with pytest.raises(TypeError, match=r"is an EnvBase; .* made an object of class dict"):
        check_env(dict)  # type: ignore[type-var, arg-type, unused-ignore]


def of_env(check: Callable[..., None], **arguments: Any) -> Callable[[Callable[[], Any]], None]:
    return lambda make: check(make(), **arguments)


# Fault: the check that is about it, and what the message says.
FAULTS: dict[type[Walk], tuple[Callable[[Callable[[], Any]], None], str]] = {
    walks.WrongDtype: (of_env(check_env_specs), r"'position' must be torch.float32 .*found torch.float64"),
    walks.WrongShape: (of_env(check_env_specs), r"'position' must be .*\[3, 2\].*found .*\[3, 1\]"),
    walks.MissingKey: (of_env(check_env_specs), "no 'count'"),
    walks.UndeclaredKey: (of_env(check_env_specs), "'speed' is in the result of reset but in no spec"),
    walks.IgnoresMasks: (of_env(check_env_specs), "'position'.*_reset ignores its '_reset' mask"),
    walks.NotANumber: (testing.check_done_rules, r"'position' in 'next' at step 4 .*with NaN"),
    walks.OutOfBounds: (testing.check_done_rules, r"'position' in 'next' at step 4 is not in its .*10\.0"),
    walks.ContradictingFlags: (
        testing.check_done_rules,
        "'done' in 'next' is not 'terminated' | 'truncated'",
    ),
    walks.DoneInTheRoot: (testing.check_done_rules, "'done' is True in the root"),
    walks.AnyMask: (of_env(testing.check_partial_resets), "a '_reset' mask of another shape .*is accepted"),
    walks.LeavesMasks: (of_env(testing.check_partial_resets), "'_reset'"),
    walks.Unseeded: (testing.check_seeding, "the same seed in another environment: "),
    walks.GlobalGenerator: (testing.check_seeding, "torch's global generator.*'position'"),
    walks.SeedsDontMatter: (testing.check_seeding, "seed 0 and seed 1 give the same"),
    walks.ForgetsTheSeed: (testing.check_seeding, r"set_seed\(0\) returned None"),
    walks.OverwritesResults: (testing.check_aliasing, "the result of reset after step 0: 'position'"),
    walks.ReadsResultsBack: (testing.check_aliasing, "step 1: after earlier results were overwritten: "),
    walks.WritesIntoTheInput: (testing.check_aliasing, "what step was given, besides 'next': 'action'"),
    walks.NeverResets: (testing.check_step_and_maybe_reset, "the next root: '(count|done|position)'"),
    walks.ChangesItsSpecs: (testing.check_specs_stay, "full_reward_spec was changed by use"),
    walks.OpenSpecs: (of_env(testing.check_specs_are_locked), "input_spec is not locked"),
    walks.ActionsOutside: (of_env(testing.check_random_actions), "rand_action: 'action' is not in"),
    walks.ActionsInPlaceOfState: (of_env(testing.check_random_actions), "rand_action changed 'position'"),
    walks.WrongFake: (
        of_env(testing.check_fake_tensordict),
        r"\[3, 3\] .*at 'position', a step has .*\[3, 2\]",
    ),
    walks.IgnoresPresets: (
        of_env(testing.check_preset_next),
        "'reward' was given in 'next' and must prevail",
    ),
    walks.AnyBatch: (of_env(testing.check_batch_size), r"step accepts batch size \[2, 3\], expected \[3\]"),
    walks.WrongBatch: (of_env(testing.check_batch_size), r"rollout: batch size \[2, 3\], expected \[3, 2\]"),
    walks.RolloutOfItsOwn: (testing.check_rollout_is_stepping, r"rollout with random actions.*'reward'"),
    walks.LosesItsName: (testing.check_rollout_is_stepping, "the last dimension is None, not 'time'"),
    walks.StaysOnItsDevice: (
        testing.check_devices,
        r"to\('meta'\): 'action' of full_action_spec stayed on cpu",
    ),
    walks.StateFromUse: (testing.check_state_dict, "total is there only before or only after use"),
    walks.Unpicklable: (testing.check_pickling, "Unpicklable can't be pickled"),
    walks.ForgetsInPickles: (testing.check_pickling, "after pickling: "),
    walks.StaysOpen: (testing.check_closing, "is_closed is False after close"),
}

each_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)


@each_fault
def test_the_check_that_is_about_it_finds_it(fault: type[Walk]) -> None:
    check, message = FAULTS[fault]
    with pytest.raises(AssertionError, match=message):
        check(fault)


@each_fault
def test_check_env_finds_it(fault: type[Walk]) -> None:
    with pytest.raises(AssertionError):
        check_env(fault, steps=20)


def test_every_check_has_its_fault() -> None:
    about = {check.__name__ for check, _ in FAULTS.values() if check.__name__ != "<lambda>"}
    about |= {
        check.__closure__[1].cell_contents.__name__
        for check, _ in FAULTS.values()
        if check.__name__ == "<lambda>" and check.__closure__ is not None
    }
    checks = {name for name in testing.__all__ if name.startswith("check_")} - {"check_env", "check_values"}
    assert checks <= about


def test_deterministic_environments_say_so() -> None:
    with pytest.raises(AssertionError, match="deterministic=True"):
        testing.check_seeding(walks.SeedsDontMatter)
    testing.check_seeding(walks.SeedsDontMatter, deterministic=True)


def test_pickling_can_be_left_out() -> None:
    check_env(walks.Unpicklable, steps=12, pickling=False)


def test_without_a_class() -> None:
    with pytest.raises(AssertionError, match="'position'"):
        check_env(lambda: walks.OutOfBounds(batch_size=()), steps=12)
