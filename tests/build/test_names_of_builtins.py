"""A declaration may give the name of a built-in function to something of its own, wherever it can be told apart."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from specgen_runtime.testing import check_env

from specgen.check.names import refusal
from specgen.expr.builtins.table import CALLABLE
from specgen.expr.dtypes import CONCRETE
from tests.support import generate, imported

REFUSED = {*CONCRETE, "abs", "min", "max", "round", "rk4", "euler"}
FREE = sorted(CALLABLE - REFUSED)


def test_only_dtypes_and_what_generated_code_calls_are_refused() -> None:
    assert {name for name in CALLABLE if refusal(name) is not None} == REFUSED


def summed(terms: list[str]) -> str:
    """A sum in two parts: an expression has a hundred operations in a row at most."""
    half = len(terms) // 2
    return f"({' + '.join(terms[:half])}) + ({' + '.join(terms[half:])})"


def schema(kind: str) -> str:
    """An environment in which every free name is a state key, a parameter, a value or a function."""
    values = {name: f"x + {number}" for number, name in enumerate(FREE)}
    total = summed(FREE)
    params = ", ".join(f"{name}: {float(number)}" for number, name in enumerate(FREE))
    parts = {
        "state": ("", "".join(f"      {name}: float32\n" for name in FREE), "", total),
        "params": (f"    params: {{{params}}}\n", "", "", total),
        "values": ("", "", "".join(f"      {name}: {text}\n" for name, text in values.items()), total),
        "functions": (
            "    functions:\n"
            + "".join(f"      {n}: {{args: {{a: float32}}, returns: a + {i}}}\n" for i, n in enumerate(FREE)),
            "",
            "",
            summed([f"{name}(x)" for name in FREE]),
        ),
    }
    head, state, step, reward = parts[kind]
    draws = "".join(f"      {name}: {number}.0\n" for number, name in enumerate(FREE) if state)
    allow = "    allow: [SG351]\n" if state else ""
    return (
        f'specgen: 1\nenvs:\n  Named:\n{allow}{head}    state:\n      x: float32\n{state}    action: {{action: "float32[1]"}}\n'
        f"    observation: {{seen: float32}}\n    reset:\n      x: 0.0\n{draws}    step:\n{step}      next.x: x + action[0]\n"
        f"      reward: {reward}\n    observe:\n      seen: x\n"
    )


def test_every_other_name_works_in_every_place(tmp_path: Path) -> None:
    constants = sum(range(len(FREE)))
    for kind, reads in {"state": 0, "params": 0, "values": 1, "functions": 1}.items():
        package = f"named_{kind}"
        with imported(generate({"named.yaml": schema(kind)}, package), package, tmp_path):
            env_class = __import__(f"{package}.named", fromlist=["Named"]).Named
            if kind == "state":
                check_env(partial(env_class, batch_size=(3,)), steps=3, deterministic=True)
            data = env_class(batch_size=(3,)).rollout(4)
            expected = constants + reads * len(FREE) * data["x"]
            torch.testing.assert_close(data["next", "reward"].squeeze(-1), expected)
