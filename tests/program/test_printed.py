"""Random programs as printed torch functions, on batches of any shape, against the interpreter of one row."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from specgen.program.common import common
from specgen.program.cut import live
from specgen.program.fold import fold
from specgen.program.inline import inline
from specgen.program.interpret import run
from specgen.program.program import Input, Program
from specgen.program.share import share
from specgen.program.stored import tidy
from tests.program.printed import called, namespace
from tests.program.random_programs import Sample
from tests.program.test_passes import SEEDS, examples, value_of

RECORDS = {"params": SimpleNamespace(p=0.7, q=-0.3)}


@examples
@given(SEEDS, st.sampled_from([(), (4,), (2, 3)]), st.booleans())
def test_printed_functions_compute_what_the_program_means(
    seed: int, batch: tuple[int, ...], fused: bool
) -> None:
    program = Sample(Random(seed), f"random{seed}").program()
    if program is None:
        return
    if fused:
        program = common(fold(share(inline(program))))
    program = tidy(live(program))
    rows = int(np.prod(batch))
    values = [inputs_of_row(program, seed + row) for row in range(rows)]
    expected = [run(program, row) for row in values]
    function = namespace(*called(program))[program.name]
    made = function(*arguments(program, values, batch))
    for output in program.outputs:
        found = rows_of(getattr(made, output.name), output.symbol.type.col, batch)
        for row, value in zip(found, expected, strict=True):
            assert_close(row, value[output.name], f"{seed}: {output.name}")


def inputs_of_row(program: Program, seed: int) -> dict[Any, Any]:
    random = np.random.default_rng(seed)
    return {one.symbol: value_of(one, random) for one in program.inputs}


def arguments(program: Program, rows: list[dict[Any, Any]], batch: tuple[int, ...]) -> list[Any]:
    """The arguments of a printed function: records first, then a tensor of all rows for each input."""
    groups = [name for name in RECORDS if any(one.group == name for one in program.inputs)]
    plain = [one for one in program.inputs if not one.group]
    return [*(RECORDS[name] for name in groups), *(batched(one, rows, batch) for one in plain)]


def batched(one: Input, rows: list[dict[Any, Any]], batch: tuple[int, ...]) -> Tensor:
    stacked = torch.from_numpy(np.stack([row[one.symbol] for row in rows]))
    kind = one.symbol.type
    return stacked.reshape((*batch, *(kind.dims or ()), *((1,) if kind.col else ())))


def rows_of(value: Tensor, col: bool, batch: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    plain = value.squeeze(-1) if col else value
    assert plain.shape[: len(batch)] == batch
    return list(plain.reshape((-1, *plain.shape[len(batch) :])).numpy())


def assert_close(found: Any, expected: Any, what: str) -> None:
    assert np.asarray(found).dtype == np.asarray(expected).dtype, what
    assert np.shape(found) == np.shape(expected), what
    if np.asarray(expected).dtype.kind == "f":
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True), what
    else:
        assert np.array_equal(found, expected), what
