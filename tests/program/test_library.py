"""Programs of the library's environments: printed, interpreted, inlined, hoisted, and with a restart in the loop."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.envs import GeneratedEnv, GeneratedGymEnv, GeneratedPythonEnv
from specgen_std import envs
from torch import Tensor

from specgen.check.programs.env import EnvPrograms
from specgen.expr import Symbol
from specgen.program.common import common
from specgen.program.cut import live
from specgen.program.fold import fold
from specgen.program.hoist import GROUP, hoist
from specgen.program.inline import inline
from specgen.program.interpret import run
from specgen.program.program import Input, Program
from specgen.program.restart import restart
from specgen.program.share import share
from specgen.program.stored import tidy
from specgen.program.verify import verify
from tests.program.corpus import environment, library, parts
from tests.program.printed import called, namespace

NATIVE = sorted(
    name
    for name, cls in vars(envs).items()
    if isinstance(cls, type)
    and issubclass(cls, GeneratedEnv)
    and not issubclass(cls, GeneratedGymEnv | GeneratedPythonEnv)
)
"""Of the generated classes: the schemas are not compiled where tests are only looked for."""

ROWS = 5


def value_of(one: Input, random: np.random.Generator) -> Any:
    """A legal value of an input, for one row."""
    kind, values = one.symbol.type, one.symbol.interval
    shape = tuple(map(int, kind.dims or ()))
    if kind.dtype == "bool":
        return np.zeros(shape, bool) if one.kind == "witness" else np.asarray(random.random(shape) < 0.3)
    if kind.dtype.startswith(("int", "uint")):
        low, high = (
            (values.low, values.high) if one.draw is None else (one.draw.low, (one.draw.high or 1) - 1)
        )
        low, high = max(low or 0, -50), min(high, 50)
        return random.integers(int(low), int(high) + 1, shape).astype(kind.dtype)
    low, high = max(values.low, -1.0), min(values.high, 1.0)
    return random.uniform(low, high, shape).astype(kind.dtype)


def record_of(name: str, group: str) -> SimpleNamespace:
    """The parameters or tables of an environment, with their defaults."""
    env = environment(name)
    if group == "params":
        return SimpleNamespace(**{one.name: one.default for one in env.params})
    tables = {one.name: torch.tensor(one.value, dtype=getattr(torch, one.type.dtype)) for one in env.consts}
    return SimpleNamespace(**tables)


def fixed_values(program: Program, records: dict[str, SimpleNamespace]) -> dict[Symbol, Any]:
    found = {}
    for one in program.inputs:
        if one.group:
            value = getattr(records[one.group], one.symbol.name)
            found[one.symbol] = value.numpy() if isinstance(value, Tensor) else value
    return found


def test_no_environment_is_left_out() -> None:
    declared = {name: env.value for file in library().values() for name, env in file.envs.items()}
    assert sorted(n for n, env in declared.items() if env.gymnasium is None and env.python is None) == NATIVE


@pytest.mark.parametrize("name", NATIVE)
def test_printed_functions_agree_with_the_interpreter_before_and_after_all_passes(name: str) -> None:
    made = EnvPrograms(environment(name))
    functions = {one.function.text: made.function(one) for one in environment(name).functions}
    records = {group: record_of(name, group) for group in ("params", "consts")}
    if any(isinstance(value, tuple | list) for value in vars(records["params"]).values()):
        pytest.skip("its parameters differ between rows")
    random = np.random.default_rng(0)
    for program in parts(name).programs:
        rows = [
            {one.symbol: value_of(one, random) for one in program.inputs if not one.group}
            for _ in range(ROWS)
        ]
        fixed = fixed_values(program, records)
        expected = [run(program, {**fixed, **row}, functions) for row in rows]
        changed = verify(live(fold(share(common(inline(program))))))
        for row, before in zip(rows, expected, strict=True):
            after = run(changed, {**fixed, **row}, functions)
            assert all(np.array_equal(after[key], value) for key, value in before.items()), program.name
        function = namespace(*functions.values(), *called(program))[program.name]
        groups = dict.fromkeys(one.group for one in program.inputs if one.group)
        tensors = [batched(one, [row[one.symbol] for row in rows]) for one in program.inputs if not one.group]
        result = function(*(records[group] for group in groups), *tensors)
        single = program.record is None and len(program.outputs) == 1
        for at, output in enumerate(program.outputs):
            found = result if single else result[at]
            plain = found.squeeze(-1) if output.symbol.type.col else found
            for row, before in zip(plain.numpy(), expected, strict=True):
                assert row.dtype == before[output.name].dtype
                np.testing.assert_allclose(row, before[output.name], rtol=2e-5, atol=1e-6)


def batched(one: Input, rows: list[Any]) -> Tensor:
    stacked = torch.from_numpy(np.stack(rows))
    return stacked.unsqueeze(-1) if one.symbol.type.col else stacked


def test_what_parameters_decide_is_computed_once() -> None:
    advance = parts("CartPole").advance
    once, (each,) = hoist("cart_pole_constants", "CartPoleConstants", [advance], ("param", "const"))
    assert once is not None
    names = [output.name for output in once.outputs]
    assert names == ["total_mass", "polemass_length"]
    assert all(one.kind == "param" for one in once.inputs)
    assert [one.symbol.name for one in each.inputs if one.group == GROUP] == names
    assert len(each.body) < len(advance.body)


def test_a_restart_gives_rows_that_ended_a_new_episode() -> None:
    component = EnvPrograms(environment("CartPole")).component()
    env = parts("CartPole")
    assert env.reset is not None
    program = tidy(restart((env.advance, env.reset), component.cells))
    functions = namespace(*called(program))
    params = record_of("CartPole", "params")
    random = np.random.default_rng(0)
    values = {
        one.symbol.name: batched(one, [value_of(one, random) for _ in range(64)])
        for one in program.inputs
        if not one.group
    }
    found = functions[program.name](params, *values.values())
    after = functions["cart_pole_advance"](
        params, *(values[one.symbol.name] for one in env.advance.inputs if not one.group)
    )
    assert 0 < int(after.done.sum()) < 64
    for output in program.outputs:
        kept = ~after.done[:, 0]
        assert torch.equal(getattr(found, output.name)[kept], getattr(after, output.name)[kept])
    assert not found.done.any()
    assert found.x.abs().max() <= 1
    row = {one.symbol: values[one.symbol.name][0] for one in program.inputs if not one.group}
    plain = {
        symbol: value.squeeze(-1).numpy() if symbol.type.col else value.numpy()
        for symbol, value in row.items()
    }
    expected = run(program, {**fixed_values(program, {"params": params}), **plain})
    for name, value in expected.items():
        np.testing.assert_allclose(np.squeeze(getattr(found, name)[0].numpy()), value, rtol=1e-5)


def test_groups_end_by_themselves() -> None:
    component = EnvPrograms(environment("SimpleTag")).component()
    env = parts("SimpleTag")
    assert env.reset is not None
    cells = (*component.cells, replace(component.cells[0], name="hunters.done"))
    with pytest.raises(ValueError, match="groups of agents end by themselves"):
        restart((env.advance, env.reset), cells)
