"""Pure functions of losses whose values depend on parameters: they compute what is wanted, and nothing else."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.support import generate, imported

CASE = Path(__file__).parents[1] / "cases/good/loss_with_blocks/schema.yaml"
DRAWING = """\
specgen: 1
losses:
  DrawingLoss:
    networks:
      first: {in: [action], out: {one: "float32[1]"}}
      second: {in: [action], out: {two: "float32[1]"}}
    keys:
      action: {key: action, type: "float32[1]"}
      target: {key: target, type: "float32[1]"}
    params: {more: true}
    let:
      scaled: 2 * target
      before: first(now, action=scaled)
      between: second(now, action=scaled)
      after: first(now, action=between)
    terms:
      loss_all: between * target
      loss_more: {value: before + after, when: more}
"""
COMPARED = """\
specgen: 1
losses:
  LimitedLoss:
    networks:
      value: {in: [observation], out: {state_value: "float32[1]"}}
    keys:
      target: {key: target, type: "float32[1]"}
    params:
      limit: {type: float, optional: true}
      kind: {type: "enum(plain, square, cube)", default: plain}
    let:
      v: value(now)
      far: abs(v - target)
      near: far ** 3
      some: where(kind == square, far ** 2, near)
      limited: where(given(limit) and limit > 0, min(far, 1.0), some)
    terms:
      loss_value: where(kind == plain, far, limited)
"""
MEASURED = """\
specgen: 1
losses:
  MeasuredLoss:
    networks:
      value: {in: [observation], out: {state_value: "float32[1]"}}
    keys:
      target: {key: target, type: "float32[1]"}
    let:
      far: abs(value(now) - target)
      near: exp(-far)
      close: near ** 2
      both: far + near
    terms:
      loss_value: far ** 2
      loss_both: both * near
    metrics:
      closeness: close
      remoteness: 1 - close
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    texts = {
        "nested.yaml": CASE.read_text(encoding="utf-8"),
        "drawing.yaml": DRAWING,
        "compared.yaml": COMPARED,
        "measured.yaml": MEASURED,
    }
    folder = tmp_path_factory.mktemp("blocks")
    with imported(generate(texts, "losses_with_blocks"), "losses_with_blocks", folder):
        yield folder


def module(name: str) -> ModuleType:
    return importlib.import_module(f"losses_with_blocks.{name}")


@pytest.mark.parametrize(
    ("near", "clipped", "limit", "prior"),
    itertools.product([True, False], [True, False], [None, 0.3], [True, False]),
)
def test_every_case(modules: Path, near: bool, clipped: bool, limit: float | None, prior: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    v, p = torch.randn(2, 7, generator=generator)
    target, old = torch.randn(2, 7, 1, generator=generator)
    terms = module("nested").nested_loss(
        v,
        p if prior else None,
        target,
        old if near else None,
        has_prior_network=prior,
        near=near,
        clipped=clipped,
        limit=limit,
        scale=0.5,
    )
    step = v - old.squeeze(-1)
    moved = step.clamp(-0.5, 0.5) if clipped else step
    error = ((moved + old.squeeze(-1) if near else v) - target.squeeze(-1)) ** 2
    expected: dict[str, Tensor | None] = {
        "loss_value": error if limit is None else error.clamp(max=limit),
        "loss_prior": (v - p) * v + (v - p).abs() if prior else None,
        "step": step if near else None,
        "moved": moved.abs() + step.abs() if near and clipped else None,
        "far": error > limit if limit is not None else None,
    }
    assert set(terms._fields) == set(expected)
    for name, value in expected.items():
        got = getattr(terms, name)
        assert (got is None) is (value is None), name
        if value is not None:
            torch.testing.assert_close(got, value, msg=name)


def test_each_condition_is_asked_once_in_a_section(modules: Path) -> None:
    text = (modules / "losses_with_blocks/nested.py").read_text(encoding="utf-8")
    body = text[text.index("    # losses.NestedLoss.let") : text.index("    return NestedLossTerms(")]
    assert len(re.findall(r"\bif near:", body)) == 2  # of what is trained, and of metrics
    assert body.count("not_none(old)") == 2
    assert " if near else None" not in body
    assert "not_none(error)" not in body


def test_networks_are_called_in_the_order_of_the_declaration(modules: Path) -> None:
    called: list[str] = []

    def network(name: str):  # type: ignore[no-untyped-def]
        def run(action: Tensor) -> Tensor:
            called.append(name)
            return action

        return run

    text = (modules / "losses_with_blocks/drawing.py").read_text(encoding="utf-8")
    found = re.search(r"def drawing_\w+\((.*?)\) ->", text, re.DOTALL)
    assert found is not None
    names = re.findall(r"(\w+): Callable", found.group(1))
    function = getattr(module("drawing"), re.findall(r"def (drawing_\w+)\(", text)[0])
    for more, wanted in ((True, ["first", "second", "first"]), (False, ["second"])):
        called.clear()
        given = {
            name: (
                network("first" if name.startswith("first") else "second")
                if more or "second" in name
                else None
            )
            for name in names
        }
        function(**given, target=torch.ones(3, 1), more=more)
        assert called == wanted


@pytest.mark.parametrize(("kind", "limit"), itertools.product(["plain", "square", "cube"], [None, -1.0, 0.5]))
def test_what_may_be_none_is_asked_for_before_it_is_compared(
    modules: Path, kind: str, limit: float | None
) -> None:
    v, target = torch.tensor([0.5, 3.0]), torch.tensor([[1.0], [1.0]])
    far = (v - target.squeeze(-1)).abs()
    power = {"plain": 1, "square": 2, "cube": 3}[kind]
    limited = kind != "plain" and limit is not None and limit > 0
    terms = module("compared").limited_loss(v, target, limit=limit, kind=kind)
    torch.testing.assert_close(terms.loss_value, far.clamp(max=1.0) if limited else far**power)


def test_conditions_are_short(modules: Path) -> None:
    text = (modules / "losses_with_blocks/compared.py").read_text(encoding="utf-8")
    body = text[text.index("    # losses.LimitedLoss.let") : text.index("    return LimitedLossTerms(")]
    conditions = re.findall(r"(?:\bif|elif) (.*?)(?::| else)", body)
    assert conditions == [
        'kind != "plain"',
        "limit is None or not limit > 0",
        'kind != "square"',
        'kind == "plain"',
    ]


def test_what_metrics_alone_read_is_computed_in_their_block(modules: Path) -> None:
    text = (modules / "losses_with_blocks/measured.py").read_text(encoding="utf-8")
    before, behind = text[text.index("    # losses.MeasuredLoss.let") :].split("    with torch.no_grad():\n")
    assert "near = torch.exp(-far)" in before
    assert "close = " in behind
    v, target = torch.randn(5, requires_grad=True), torch.randn(5, 1)
    terms = module("measured").measured_loss(v, target)
    close = (-2 * (v - target.squeeze(-1)).abs()).exp()
    torch.testing.assert_close(terms.closeness, close.detach())
    torch.testing.assert_close(terms.remoteness, 1 - close.detach())
    assert not terms.closeness.requires_grad
    assert terms.loss_both.requires_grad
