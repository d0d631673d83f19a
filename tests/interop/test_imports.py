"""Conversion imports nothing of the other libraries before it is used."""

from __future__ import annotations

import pytest

from tests.python_processes import run_python

PEERS = ("torchrl", "gymnasium", "stable_baselines3")

# A library is hidden by None in `sys.modules`. Each line that is printed: the error of a call.
PROGRAM = """
import sys
from specgen_runtime import interop
from specgen_std.envs.cartpole import CartPole

print([name for name in {peers!r} if name in sys.modules])
for name in {hidden!r}:
    sys.modules[name] = None
for call in {calls!r}:
    try:
        eval("interop." + call)
        print("no error")
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("hidden", "extra", "calls"),
    [
        (
            ["torchrl", "stable_baselines3"],
            "peers",
            [
                "to_torchrl(CartPole())",
                "from_torchrl(None)",
                "spec_to_torchrl(CartPole().action_spec)",
                "spec_from_torchrl(None)",
                "to_sb3(CartPole(batch_size=2))",
            ],
        ),
        (
            ["gymnasium"],
            "gym",
            ["to_gymnasium(CartPole())", "to_gymnasium(CartPole(batch_size=2))", "from_gymnasium(None)"],
        ),
    ],
    ids=["peers", "gym"],
)
def test_imports_are_lazy_and_what_is_missing_is_named(
    hidden: list[str], extra: str, calls: list[str]
) -> None:
    program = PROGRAM.format(peers=PEERS, hidden=hidden, calls=calls)
    found = run_python("-c", program)
    loaded, *errors = found.stdout.splitlines()
    assert loaded == "[]", "importing the conversions imports no other library"
    assert len(errors) == len(calls), found.stderr
    for error in errors:
        assert error.startswith("MissingExtraError")
        assert f"pip install 'specgen-rl[{extra}]'" in error
