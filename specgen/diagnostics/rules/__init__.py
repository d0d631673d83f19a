"""All rules, one module a hundred."""

from __future__ import annotations

from types import ModuleType

from specgen.diagnostics.diagnostic import Rule
from specgen.diagnostics.rules import (
    agents,
    devices,
    expressions,
    flow,
    gymnasium,
    internal,
    llm,
    losses,
    project,
    python_env,
    schema,
    specs,
    transforms,
    yaml,
)

MODULES: tuple[ModuleType, ...] = (
    yaml,
    project,
    schema,
    python_env,
    specs,
    transforms,
    flow,
    losses,
    llm,
    devices,
    agents,
    gymnasium,
    internal,
    expressions,
)


def _collect() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for module in MODULES:
        for name, rule in vars(module).items():
            if not isinstance(rule, Rule):
                continue
            if rules.setdefault(rule.code, rule) is not rule:
                raise ValueError(f"{module.__name__}.{name}: the code {rule.code} is taken")
    return dict(sorted(rules.items()))


ALL_RULES: dict[str, Rule] = _collect()
"""Every rule by its code, in the order of codes."""

__all__ = ["ALL_RULES", "MODULES"]
