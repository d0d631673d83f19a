"""What the checker keeps of an expression is what inference in plan finds once more, for other texts and layouts."""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from specgen.check.model import Statement
from specgen.expr import Expr, Typed, infer, to_torch
from specgen.expr.relayout import relayout
from specgen.expr.tree import Name, subexpressions
from specgen.expr.types import Binding
from specgen.plan import chain, chain_writer, loss_class, losses, transform_functions, writer
from specgen.program.walk import with_parts
from specgen.settings import Config
from tests.support import LIBRARY, compile_sources, library_records
from tests.test_cases import CASES, compile_case

SITES = (writer, transform_functions, losses, loss_class, chain_writer, chain)
SCHEMAS = ("schemas", "examples/warehouse/schemas", "tests/right/schemas", "tests/agreement/schemas")
ROOT = Path(__file__).parents[2]


def substituted(node: Typed, expr: Expr, scope: dict[str, Binding], draws: tuple[str, str]) -> Typed:
    """The tree with every name as `scope` has it, and draws under other names."""
    if node.op == "name":
        found = next((e for e in subexpressions(expr) if isinstance(e, Name) and e.start == node.start), None)
        binding = None if found is None else scope.get(found.path)
        if binding is None:
            return node
        assert (binding.static is not None or node.static is not None) or node.symbol is not None, found
        return replace(node, text=binding.text, type=binding.type, static=binding.static)
    if node.site is not None:
        name = node.site.name.replace(*draws, 1)
        return replace(node, text=name, site=replace(node.site, name=name))
    return with_parts(node, lambda part: substituted(part, expr, scope, draws))


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each module of plan inferred what the checker has kept; each time the texts are compared."""
    counts: Counter[str] = Counter()

    def compare(module: ModuleType) -> Any:
        def inferred(expr: Expr, scope: dict[str, Binding], source: Any, sink: Any, **options: Any) -> Any:
            typed = infer(expr, scope, source, sink, **options)
            frame = inspect.currentframe()
            assert typed is not None
            assert frame is not None
            assert frame.f_back is not None
            statement = frame.f_back.f_locals.get("statement")
            if isinstance(statement, Statement):
                own = f"draw_{statement.name}"
                draws = own, options.get("draw_prefix", own)
                kept = relayout(substituted(statement.typed, expr, scope, draws))
                assert to_torch(kept) == to_torch(typed), statement.path
                assert (kept.type, kept.static, kept.draws) == (typed.type, typed.static, typed.draws)
                counts[module.__name__] += 1
            return typed

        return inferred

    for module in SITES:
        monkeypatch.setattr(module, "infer", compare(module))
    return counts


def test_kept_trees_print_what_inference_in_plan_prints(compared: Counter[str]) -> None:
    for folder in CASES:
        if folder.parent.name == "good":
            compile_case(folder)
    for root in SCHEMAS:
        texts = {
            f"schemas/{path.relative_to(ROOT / root).as_posix()}": path.read_text(encoding="utf-8")
            for path in sorted((ROOT / root).rglob("*.yaml"))
        }
        config = Config(schemas="schemas", output="generated", package="generated")
        made = compile_sources(texts, config, gymnasium=library_records(), library=LIBRARY)
        assert made.files, made.diagnostics
    assert set(compared) == {module.__name__ for module in SITES if module is not loss_class}
    assert sum(compared.values()) > 1000
