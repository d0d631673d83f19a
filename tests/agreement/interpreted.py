"""Generated functions that are interpreted as they are called: row by row, as NumPy, from their inlined programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from specgen_runtime.envs import Draws
from torch import Tensor

from specgen.expr import DrawSite, Symbol
from specgen.plan import functions as printing
from specgen.program.inline import inline
from specgen.program.interpret import run
from specgen.program.program import Input, Program
from specgen.program.torch_text import print_function
from tests import support

CALLS = 6
"""So many calls of each function are interpreted."""
ROWS = 2


class Drawn(Draws):
    """Draws as another does, and keeps what it has drawn."""

    def __init__(self, draws: Draws) -> None:
        super().__init__(draws._env)
        self.made: list[Tensor] = []

    def uniform(self, *args: Any) -> Tensor:
        return self._kept(super().uniform(*args))

    def normal(self, *args: Any) -> Tensor:
        return self._kept(super().normal(*args))

    def randint(self, *args: Any) -> Tensor:
        return self._kept(super().randint(*args))

    def _kept(self, value: Tensor) -> Tensor:
        self.made.append(value)
        return value


@contextmanager
def printed_programs() -> Iterator[dict[str, Program]]:
    """The programs that are printed in the block, by the names of their functions."""
    found: dict[str, Program] = {}

    def note(program: Program, *args: Any, **kwargs: Any) -> Any:
        found[program.name] = program
        return print_function(program, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(printing, "print_function", note)
        patch.setattr(support, "_GENERATED", {})  # what was compiled before is printed again
        yield found


@contextmanager
def interpreted(module: ModuleType, programs: dict[str, Program], prefix: str) -> Iterator[dict[str, int]]:
    """Compare what functions of a module return, whose names begin with `prefix`, with what their programs mean.

    Yields:
        How often each function was interpreted.
    """
    counts: dict[str, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, program in programs.items():
            if name.startswith(prefix) and hasattr(module, name) and not _learns(program):
                counts[name] = 0
                patch.setattr(
                    module, name, _checked(getattr(module, name), inline(program), programs, counts)
                )
        yield counts


def _learns(program: Program) -> bool:
    """Whether a program reads statistics, which mean nothing for one environment."""
    return any(one.group == "learned" for one in program.inputs)


def _checked(
    function: Callable[..., Any], program: Program, functions: dict[str, Program], counts: dict[str, int]
) -> Callable[..., Any]:
    printed = print_function(program, dict.fromkeys(_records(program), "object"))
    where = [(argument.name, argument.input) for argument in printed.args]

    def checked(*args: Any) -> Any:
        args = tuple(Drawn(value) if isinstance(value, Draws) else value for value in args)
        result = function(*args)
        if counts[program.name] < CALLS:
            counts[program.name] += 1
            given: dict[Symbol, tuple[Input, Any]] = {}
            for (name, one), value in zip(where, args, strict=True):
                inputs = [one] if one is not None else [i for i in program.inputs if i.group == name]
                for each in inputs:
                    whole = one is not None or not each.symbol.name
                    field = value if whole else getattr(value, each.symbol.name)
                    given[each.symbol] = (each, field)
            _compare(program, given, result, functions)
        return result

    return checked


def _compare(
    program: Program, given: dict[Symbol, tuple[Input, Any]], result: Any, functions: dict[str, Program]
) -> None:
    batches = [_batch(one, value) for one, value in given.values() if one.symbol.type.level == "batch"]
    batch = max((found for found in batches if found is not None), key=len, default=())
    for row in range(min(ROWS, int(np.prod(batch)))):
        values = {symbol: _row(one, value, row) for symbol, (one, value) in given.items()}
        drawn = iter([one for _, value in given.values() if isinstance(value, Drawn) for one in value.made])

        def draw(_: Any, site: DrawSite, row: int = row, drawn: Iterator[Tensor] = drawn) -> Any:
            value = next(drawn)
            return value.reshape((-1, *value.shape[len(batch) :]))[row].reshape(site.dims).numpy()

        expected = run(program, values, functions, {"draw": draw})
        assert next(drawn, None) is None, f"{program.name}: not all is drawn"
        several = program.record is not None or len(program.outputs) > 1
        for at, output in enumerate(program.outputs):
            found = result if not several else result[at]
            kind = output.symbol.type
            plain = found.squeeze(-1) if kind.col else found
            flat = plain.reshape((-1, *(kind.dims or ()))).detach().numpy()[row]
            value = expected[output.name]
            assert flat.dtype == value.dtype, (program.name, output.name)
            message = f"{program.name}: {output.name}, row {row}"
            if flat.dtype.kind == "f":
                np.testing.assert_allclose(flat, value, rtol=1e-5, atol=1e-6, err_msg=message)
            else:
                np.testing.assert_array_equal(flat, value, err_msg=message)


def _batch(one: Input, value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, Tensor):
        return None
    kind = one.symbol.type
    return tuple(value.shape[: value.ndim - kind.rank - kind.col])


def _row(one: Input, value: Any, row: int) -> Any:
    kind = one.symbol.type
    if not isinstance(value, Tensor):
        return value
    if kind.level != "batch":
        return value.numpy()
    plain = value.squeeze(-1) if kind.col else value
    return plain.reshape((-1, *(kind.dims or ()))).numpy()[row]


def _records(program: Program) -> set[str]:
    return {one.group for one in program.inputs if one.group}
