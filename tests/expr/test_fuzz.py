"""Printed torch code at several batch shapes against the one-instance references of the table."""

from __future__ import annotations

import ast
import builtins
import math
import random
import types
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from specgen_runtime import functional

from specgen.expr import Binding, Typed
from specgen.expr.builtins.bound_facts import OF_NAMES
from specgen.expr.builtins.table import TABLE
from specgen.expr.interpret import interpret
from specgen.expr.printer import FunctionTexts
from tests.expr.generate import Generator
from tests.expr.leaves import DIMS, FUNCTIONS, KINDS, names
from tests.expr.makers import MAKERS
from tests.expr.printing import to_torch
from tests.expr.texts import typed
from tests.sizes import each_time_or_thorough

BATCHES = ((), (1,), (3,), (7,), (4, 3))
EXAMPLES = each_time_or_thorough(10, 100)
SCOPE = names()
PARAMS = types.SimpleNamespace(f=0.375, i=2, b=True)


def _spring_torch(params: object, y: torch.Tensor, force: torch.Tensor) -> torch.Tensor:
    return torch.stack((y[..., 1], force - y[..., 0], y[..., 2] * 0.5), dim=-1)


def _spring_numpy(y: np.ndarray, force: np.ndarray) -> np.ndarray:
    return np.stack((y[1], force - y[0], y[2] * np.float32(0.5)))


def _values(binding: Binding, batch: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    kind = binding.type
    shape = (*(batch if kind.level == "batch" else ()), *(kind.dims or ()), *((1,) if kind.col else ()))
    low, high = binding.interval.low, binding.interval.high
    if kind.dtype.startswith("float"):
        # Quarters and full digits: comparisons must meet equal values, arithmetic must round.
        raw = rng.uniform(low, high, shape)
        return np.asarray(np.where(rng.random(shape) < 0.5, np.round(raw * 4) / 4, raw)).astype(kind.dtype)
    return np.asarray(rng.integers(int(low), int(high) + 1, shape)).astype(kind.dtype)


def _draws(node: Typed, batch: tuple[int, ...], rng: np.random.Generator) -> dict[str, np.ndarray]:
    found = {}
    for site in node.draws:
        shape = (*batch, *site.dims)
        if site.kind == "randint":
            assert site.low is not None
            assert site.high is not None
            value = rng.integers(site.low, site.high, shape)
        else:
            value = rng.random(shape) * (1 - 1e-6) if site.kind == "uniform" else rng.standard_normal(shape)
        found[site.name] = np.asarray(value).astype(site.dtype)
    return found


def _leaves(node: Typed) -> Iterator[Typed]:
    if node.op == "name":
        yield node
    for part in node.parts:
        yield from _leaves(part)


def _agreement(node: Typed) -> str:
    own = node.builtin.agreement if node.builtin is not None else "bit"
    return "ulp" if own != "bit" or any(_agreement(part) == "ulp" for part in node.parts) else "bit"


def _check(text: str, seed: int) -> None:
    node = typed(text, SCOPE, FUNCTIONS)
    kind = node.type
    rng = np.random.default_rng(seed)
    like = SCOPE["f_0"]
    texts = FunctionTexts()
    printed = to_torch(node, cast=kind.dtype, dims=kind.dims, like=typed("f_0", SCOPE), texts=texts)
    read = {part.id for part in ast.walk(ast.parse(printed)) if isinstance(part, ast.Name)}
    own = {leaf.text for leaf in _leaves(node)} | {site.name for site in node.draws} | {"f_0", "params"}
    assert read - own - set(dir(builtins)) == texts.uses - set(dir(builtins)), printed
    code, plain = (compile(text, "<printed>", "eval") for text in (printed, to_torch(node)))
    for batch in BATCHES:
        stored = {
            leaf.text: _values(SCOPE[leaf.text], batch, rng) for leaf in _leaves(node) if not leaf.type.python
        }
        stored["f_0"] = stored.get("f_0", _values(like, batch, rng))
        draws = _draws(node, batch, rng)
        env = {name: torch.from_numpy(value.copy()) for name, value in (stored | draws).items()}
        env |= {
            "params": PARAMS,
            "torch": torch,
            "math": math,
            "partial": partial,
            **{name: getattr(functional, name) for name in functional.__all__},
            "spring": _spring_torch,
        }
        result = eval(code, env)
        where = f"{text}\n{printed}\nat batch {batch}"
        assert result.dtype == getattr(torch, kind.dtype), where
        assert result.shape == (*batch, *(kind.dims or ())), f"{where}: {tuple(result.shape)}"
        _check_default_dtype(code, env, result, where)
        _check_plain(node, eval(plain, env), result, where)
        _check_rows(node, result.numpy(), stored, draws, batch, where)


def _check_default_dtype(
    code: types.CodeType, env: dict[str, object], result: torch.Tensor, where: str
) -> None:
    """What torch makes of a number that nobody gave a dtype must not matter."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16 if before is torch.float64 else torch.float64)
    try:
        again = eval(code, env)
    finally:
        torch.set_default_dtype(before)
    assert again.dtype == result.dtype, where
    assert torch.equal(torch.nan_to_num(again), torch.nan_to_num(result)), where


def _check_plain(node: Typed, plain: object, result: torch.Tensor, where: str) -> None:
    if isinstance(plain, torch.Tensor):
        assert plain.dtype == result.dtype, where
        plain = plain.squeeze(-1) if node.type.col else plain
        assert torch.equal(torch.nan_to_num(plain.expand(result.shape)), torch.nan_to_num(result)), where
    else:
        assert node.type.python, where


def _check_rows(
    node: Typed,
    result: np.ndarray,
    stored: dict[str, np.ndarray],
    draws: dict[str, np.ndarray],
    batch: tuple[int, ...],
    where: str,
) -> None:
    exact = _agreement(node) == "bit"
    for row in product(*map(range, batch)):
        one: dict[str, object] = {}
        one |= {f"params.{name}": value for name, value in vars(PARAMS).items()}
        for name, value in stored.items():
            kind = SCOPE[name].type
            value = value[row] if kind.level == "batch" else value
            one[name] = value[..., 0] if kind.col else value
        drawn = {name: value[row] for name, value in draws.items()}
        expected = np.asarray(interpret(node, one, drawn, {"spring": _spring_numpy}))
        got = result[row]
        assert got.shape == expected.shape, where
        if exact:
            np.testing.assert_array_equal(got, expected.astype(got.dtype), err_msg=where)
        else:
            np.testing.assert_allclose(got, expected.astype(got.dtype), rtol=1e-3, atol=1e-3, err_msg=where)
        values = node.interval
        finite = expected[~np.isnan(expected)] if expected.dtype.kind == "f" else expected
        slack = 0.0 if exact else 1e-5 * max(1.0, abs(values.low), abs(values.high))
        if math.isfinite(slack):
            assert np.all(finite >= values.low - slack), (where, values, expected)
            assert np.all(finite <= values.high + slack), (where, values, expected)
        assert values.nan or finite.size == expected.size or not exact, where


@pytest.mark.parametrize("name", list(MAKERS))
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False), seed=st.integers(0, 2**16))
def test_printed_code_agrees_with_the_reference(name: str, rng: random.Random, seed: int) -> None:
    maker = MAKERS[name]
    dims = rng.choice([shape for shape in DIMS if maker.fits(shape)])
    kind = rng.choice(maker.kinds)
    exact = TABLE[name].agreement == "bit" and rng.random() < 0.6
    text = maker.make(Generator(rng, MAKERS), kind, dims, 2, exact)
    _check(text, seed)


def test_every_builtin_is_walked() -> None:
    # what is asked of a name is bound in the scope: see test_open_shapes.py
    assert set(MAKERS) == set(TABLE) - set(OF_NAMES)
    assert set(KINDS) == set("fdiub")
