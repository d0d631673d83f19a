"""Whole steps of random environments: every value lies in its interval, no lint is refuted, no index wraps."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from specgen_runtime.functional import index_in_range

from specgen.check.env import check_env
from specgen.check.model import CheckedEnv, Statement, identifier
from specgen.diagnostics import Diagnostic, Sink, Span
from specgen.expr import Binding, Interval, Symbol, Type, Typed, infer, store
from specgen.expr.interpret import interpret
from specgen.schema.load import load
from specgen.settings import Config
from specgen.source import parse_yaml
from tests.expr.generate import Generator
from tests.expr.leaves import DIMS, KINDS, Dims
from tests.expr.makers import MAKERS
from tests.expr.printing import to_torch
from tests.support import compile_sources, imported

WALKED = {name: maker for name, maker in MAKERS.items() if name not in ("rk4", "euler")}
DOMAINS = {"f": " in [-2, 2]", "d": " in [-2, 2]", "i": " in [0, 2]", "u": " in [0, 9]", "b": ""}
DRAWS = {
    "f": "uniform(-2, 2{shape})",
    "d": "uniform(-2, 2{shape}, dtype=float64)",
    "i": "randint(0, 3{shape})",
    "u": "randint(0, 10{shape}, dtype=uint8)",
    "b": "bernoulli(0.5{shape})",
}
ENDS = (
    "next.i_0 >= 2",
    "not (next.i_0 < 2 and all(next.i_3 >= 0))",
    "any(next.i_3 > 2) or next.i_0 < 0",
    "next.f_0 > 1.5",
    "f_0 > 2",
)
RARE = (
    "i_0 > 2", "i_0 < 0", "f_0 > 2.25", "-2.5 > f_0", "any(i_3 == 3)", "next.i_0 > 4", "next.f_0 > 5", "i_0 + i_3[0] > 4",
    "next.i_0 < -2", "any(next.i_3 < -1)", "i_0 * f_0 > 4.5", "isnan(sqrt(f_0 - 2.5))", "any(next.i_3 > 6)",
)  # fmt: skip
"""Comparisons that are never true where the declared domains hold, and some that may be."""
READS = (
    "f_0", "next.f_0", "f_3[2]", "f_3[clip(i_0, 0, 2)]",
    "f_3[i_0]", "f_3x4[i_0, i_3[1]]", "k_f_3x4[1, i_0]", "f_3[i_3][2]", "f_3x4[clip(int64(f_0), 0, 2), i_0]",
    "float32(one_hot(i_0, 3)[1])", "gather(f_3, i_0)", "k_f_3x4[i_3, i_0][1]", "k_f_3x4[i_0][3]",
    "f_3x4[:, i_0][1]", "k_f_3x4[:, i_0][2]", "f_3x4[:, i_3][1, 2]", "k_f_3x4[:, i_3][0, 1]", "f_3x4[i_0, 1:][2]",
    "stack(f_3x4, f_3x4)[i_0, :, i_0][1]", "cumsum(f_3)[i_0]", "f_3[argsort(f_3)[i_0]]",
)  # fmt: skip
"""Indices that are proved, and those that rely on a domain, of batched and of constant tables."""
OUT = r"index -?\d+ is out of bounds|index out of range"
STEPS = 8
TABLE = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 8, 7]], dtype=np.float32)


def tail(dims: Dims) -> str:
    return "x".join(map(str, dims)) or "0"


class StepGenerator(Generator):
    """Expressions that read the state before the step, and what the step has assigned of it."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, WALKED)
        self.assigned: set[str] = set()

    def tensor(self, kind: str, dims: Dims) -> str:
        name = f"{kind}_{tail(dims)}"
        return self.rng.choice([name, f"next.{name}"]) if name in self.assigned else name

    def leaf(self, kind: str, dims: Dims) -> str:
        literals = {"f": ["0.5", "-1.25", "p_f"], "i": ["1", "2", "p_i"], "u": ["3"], "b": ["true", "p_b"]}
        few = literals.get(kind, []) if dims == () else []
        return self.rng.choice([self.tensor(kind, dims)] * 4 + few)

    def step(self) -> Iterator[tuple[str, str]]:
        """The assignments of a step; a few keys keep their value."""
        # what the end and the indices read is assigned most often
        keys = [
            ("i", ()),
            ("i", (3,)),
            ("f", ()),
            *((self.rng.choice("fdiub"), self.rng.choice(DIMS)) for _ in range(3)),
        ]
        for kind, dims in dict.fromkeys(keys):
            name = f"{kind}_{tail(dims)}"
            near = f"{name} + {self.leaf(kind, dims)}" if kind in "fi" else ""
            text = near if near and self.rng.random() < 0.5 else self.expression(kind, dims, 2, False)
            yield f"next.{name}", text
            self.assigned.add(name)
        yield "rare", " or ".join(self.rng.sample(RARE, 3))
        yield "reward", f"where(rare and {self.expression('b', (), 2, True)}, {self.rng.choice(READS)}, 0)"
        yield "terminated", self.rng.choice([*ENDS, self.expression("b", (), 2, True)])


def schema(rng: random.Random) -> str:
    """An environment with a state key of each dtype and shape."""
    state, reset = [], []
    for kind, dtype in KINDS.items():
        for dims in DIMS:
            shape = f", shape=({', '.join(map(str, dims))},)" if dims else ""
            size = str(list(dims)) if dims else ""
            state.append(f"      {kind}_{tail(dims)}: '{dtype}{size}{DOMAINS[kind]}'")
            reset.append(f"      {kind}_{tail(dims)}: '{DRAWS[kind].format(shape=shape)}'")
    step = [f"      {target}: '{text}'" for target, text in StepGenerator(rng).step()]
    lines = [
        "specgen: 1", "envs:", "  Walk:",
        "    consts: {k_f_3x4: {type: 'float32[3, 4]', value: [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 8, 7]]}}",
        "    params: {p_f: {default: 0.375, min: -2, max: 2}, p_i: {default: 2, min: 0, max: 2}, p_b: true}",
        "    state:", *state, "    action: {action: 'float32 in [-1, 1]'}",
        "    observation: {observation: 'float32[3]'}", "    reset:", *reset, "    step:", *step,
        "    observe: {observation: 'f_3 + where(any(f_3 > 2), 1, 0)'}",
    ]  # fmt: skip
    return "\n".join(lines)


def checked(text: str) -> tuple[CheckedEnv | None, tuple[Diagnostic, ...]]:
    sink = Sink()
    root = parse_yaml("walk.yaml", text, sink)
    file = None if root is None else load("walk.yaml", root, sink)
    assert file is not None, [str(item) for item in sink.items]
    env = check_env(file, "Walk", "walk", {}, sink)
    return (None if env is None else env.value), sink.items


def parts(node: Typed) -> Iterator[Typed]:
    yield node
    for part in node.parts:
        yield from parts(part)


def _value(text: str, type_: Type, values: Interval) -> Binding:
    return Binding(type_, values, symbol=Symbol(text, text, type_, values))


def fixed_names(env: CheckedEnv) -> dict[str, Binding]:
    """What every expression of an environment reads: sizes, parameters and constants."""
    scope = {
        name: Binding(Type("int64", (), "lit"), Interval(size, size), static=size)
        for name, size in env.dims.items()
    }
    for param in env.params:
        scope[param.name] = _value(f"params.{param.name}", param.type, param.interval)
    for const in env.consts:
        scope[const.name] = _value(f"consts.{const.name}", const.type, const.interval)
    return scope


def names_before_a_step(env: CheckedEnv) -> dict[str, Binding]:
    """State and actions, with the values that are proved of them."""
    return {
        entry.dotted: _value(entry.name, entry.type, env.values.get(entry.dotted, entry.spec.interval))
        for entry in (*env.state, *env.action)
    }


@dataclass
class Walk:
    """One environment, run by the references; what the checker says of it is held against every value."""

    env: CheckedEnv
    said: tuple[Diagnostic, ...]
    rng: np.random.Generator
    checked: int = 0
    stopped: bool = False
    lints: dict[Span, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fixed = fixed_names(self.env)
        self.now = names_before_a_step(self.env)
        self.lints = {item.span: item.code for item in self.said if item.code in ("SG814", "SG815")}
        self.types = {entry.dotted: entry.type for entry in self.env.state}

    def run(self) -> None:
        params = {"params.p_f": 0.375, "params.p_i": 2, "params.p_b": True, "consts.k_f_3x4": TABLE}
        state = self.section(self.env.reset, dict(self.fixed), dict(params), "", ended=False)
        ended = False
        for _ in range(STEPS):
            self.section(self.env.observe, self.fixed | self.now, params | state, "", ended=True)
            names = params | state | {"action": np.float32(self.rng.uniform(-1, 1))}
            made = self.section(self.env.step, self.fixed | self.now, names, "next.", ended=ended)
            if self.stopped:
                return
            ended |= bool(made["terminated"])
            state |= {name: made[f"next_{name}"] for name in state if f"next_{name}" in made}

    def section(
        self,
        statements: tuple[Statement, ...],
        scope: dict[str, Binding],
        names: dict[str, object],
        lead: str,
        *,
        ended: bool,
    ) -> dict[str, object]:
        made: dict[str, object] = {}
        for statement in statements:
            node = infer(
                statement.expr, scope, statement.source, Sink(), prove=False,
                draw_prefix=f"draw_{identifier(statement.target)}",
            )  # fmt: skip
            assert node is not None, statement
            draws = {site.name: self.draw(site) for site in node.draws}
            value = self.evaluate(statement, node, names, draws, ended)
            if value is None:
                self.stopped = True
                return made
            kind = (
                self.types.get(statement.target.removeprefix("next."))
                if lead or statement.target in self.types
                else None
            )
            kind = kind or Type(node.type.dtype, node.type.dims, node.type.level)
            stored = np.broadcast_to(np.asarray(value), kind.dims or ()).astype(kind.dtype)
            made[identifier(statement.target)] = stored
            names[identifier(statement.target)] = stored
            values = (
                self.env.values.get(statement.target, store(node.interval, kind.dtype))
                if lead
                else store(node.interval, kind.dtype)
            )
            inside(stored, Typed("name", kind, values), statement.source.text)
            scope[statement.target] = _value(identifier(statement.target), kind, values)
        return made

    def draw(self, site: object) -> np.ndarray:
        shape, dtype = site.dims, site.dtype  # type: ignore[attr-defined]
        if site.kind == "randint":  # type: ignore[attr-defined]
            return self.rng.integers(site.low, site.high, shape).astype(dtype)  # type: ignore[attr-defined]
        drawn = (
            self.rng.random(shape) * (1 - 1e-6) if site.kind == "uniform" else self.rng.standard_normal(shape)
        )  # type: ignore[attr-defined]
        return np.asarray(drawn).astype(dtype)

    def evaluate(
        self,
        statement: Statement,
        node: Typed,
        names: dict[str, object],
        draws: dict[str, np.ndarray],
        ended: bool,
    ) -> object | None:
        """The value of a statement, and of each of its parts; None if an index is out of range, as torch finds too."""
        text = statement.source.text
        guarded = any(part.op == "in_range" for part in parts(node))
        try:
            value = interpret(node, names, draws)
        except IndexError:
            assert guarded, f"{text}: an index that counts as proved is out of range"
            with pytest.raises((RuntimeError, IndexError), match=OUT):
                self.torch(node, names, draws)
            return None
        if guarded:
            self.torch(node, names, draws)
        for part in parts(node):
            if part.op == "in_range" or part.start == part.end:
                continue
            mine = interpret(part, names, draws)
            inside(mine, part, text[part.start : part.end])
            span = statement.source.span_of(part.start, part.end)
            if not ended and self.lints.get(span) == "SG815":
                assert not np.any(mine), f"{text[part.start : part.end]} is true"
            operand = part.args[0] if part.op in ("sqrt", "log", "asin", "acos") else None
            if operand is not None and not ended:
                said = self.lints.get(statement.source.span_of(operand.start, operand.end))
                assert said != "SG814" or np.all(np.isnan(mine)), f"{text[part.start : part.end]} is a number"
            self.checked += 1
        return value

    def torch(self, node: Typed, names: dict[str, object], draws: dict[str, np.ndarray]) -> torch.Tensor:
        params = type(
            "Params", (), {name.split(".")[1]: value for name, value in names.items() if "." in name}
        )
        consts = type("Consts", (), {"k_f_3x4": torch.from_numpy(TABLE)})
        tensors = {n: torch.as_tensor(np.array(v)) for n, v in (names | draws).items() if "." not in n}
        found: torch.Tensor = eval(
            to_torch(node),
            {
                **tensors,
                "params": params,
                "consts": consts,
                "torch": torch,
                "math": math,
                "index_in_range": index_in_range,
            },
        )
        return found


def inside(value: object, node: Typed, where: str) -> None:
    array, values = np.asarray(value), node.interval
    numbers = array[~np.isnan(array)] if array.dtype.kind == "f" else array
    slack = 1e-5 * max(1.0, abs(values.low), abs(values.high)) if array.dtype.kind == "f" else 0
    assert values.nan or numbers.size == array.size, f"{where}: NaN, which {values} leaves out"
    if not math.isnan(slack) and math.isfinite(slack):
        assert np.all(numbers >= values.low - slack), f"{where}: {numbers} is not in {values}"
        assert np.all(numbers <= values.high + slack), f"{where}: {numbers} is not in {values}"


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False), seed=st.integers(0, 2**16))
def test_what_the_checker_says_of_a_step_is_true(rng: random.Random, seed: int) -> None:
    for _ in range(20):
        text = schema(rng)
        env, said = checked(text)
        if env is None:
            assert all(item.code.startswith(("SG2", "SG8")) for item in said if item.severity == "error"), (
                text
            )
            continue  # certain mistakes, say a draw from 3 to 1
        walk = Walk(env, said, np.random.default_rng(seed))
        walk.run()
        assert walk.checked > 100
        return
    raise AssertionError("none of 20 random environments is accepted")


TRACK = """
specgen: 1
envs:
  Track:
    dims: {size: 4}
    consts:
      line: {type: "float32[4]", value: [0, 1, 2, 3]}
      board: {type: "float32[4, 3]", value: [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]}
    state: {k: "int64 in [0, size - 1]", own: "float32[4, 3] in [0, 9]"}
    action: {action: "int64 in [-9, 9]"}
    observation: {observation: "float32[1]", tables: "float32[1]"}
    reset: {k: "randint(0, size)", own: "uniform(0, 9, shape=(4, 3))"}
    step: {next.k: k + action, reward: INDEX}
    observe: {observation: stack(float32(k)), tables: stack(sum(line) + sum(board) + sum(own))}
"""
"""What it declares is read and differs between episodes: nothing but the index is warned of."""


@pytest.mark.parametrize(
    "index",
    [
        "line[k]", "board[k, 1]", "board[1, clip(k, 0, 2)] + board[k, clip(k, 0, 2)]", "sum(board[k])", "own[k, 1]",
        "own[k, clip(k, 0, 2)]", "sum(own[k])", "gather(own, stack(k, 0, 0), axis=0)[0]", "float32(one_hot(k, 4)[1])",
    ],
)  # fmt: skip
@pytest.mark.parametrize("batch", [(), (2,)])
def test_generated_code_raises_where_the_state_has_left_its_domain(
    index: str, batch: tuple[int, ...], tmp_path: Path
) -> None:
    made = compile_sources(
        {"schemas/track.yaml": TRACK.replace("INDEX", f'"{index}"')}, Config("schemas", "tracks", "tracks")
    )
    assert {item.code for item in made.diagnostics} == {"SG816"}
    with imported(
        {path.removeprefix("tracks/"): text for path, text in made.files.items()}, "tracks", tmp_path
    ) as module:
        env = module.Track(batch_size=batch)
        data = env.reset()
        for k in range(4):
            if k < 3 or "clip" not in index:
                env.step(
                    data.clone()
                    .set("k", torch.full(batch, k))
                    .set("action", torch.zeros(batch, dtype=torch.int64))
                )
        for k in (4, -1, -4, 12):
            with pytest.raises((RuntimeError, IndexError), match=rf"{OUT}|Class values must be"):
                env.step(
                    data.clone()
                    .set("k", torch.full(batch, k))
                    .set("action", torch.zeros(batch, dtype=torch.int64))
                )


def test_a_checked_index_can_be_mapped_over_and_compiled() -> None:
    index = torch.tensor([[0, 2], [1, 1]])
    assert torch.equal(index_in_range(index, 3), index)
    assert torch.equal(torch.vmap(lambda one: index_in_range(one, 3))(index), index)
    compiled = torch.compile(lambda one: index_in_range(one, 3) + 1, fullgraph=True, backend="eager")
    assert torch.equal(compiled(index), index + 1)
    with pytest.raises(RuntimeError, match="index 3 is out of bounds for dimension 0 with size 3"):
        index_in_range(torch.tensor([1, 3]), 3)
