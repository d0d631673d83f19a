"""All rules, one module a hundred."""

from __future__ import annotations

import copyreg
from types import ModuleType

from specgen.diagnostics.diagnostic import Rule
from specgen.diagnostics.rules import (
    agents,
    around,
    devices,
    env_lints,
    expression_lints,
    expressions,
    flow,
    function_calls,
    functions,
    gymnasium,
    internal,
    llm,
    llm_chains,
    llm_lock,
    loss_conditions,
    loss_domains,
    loss_lints,
    loss_modules,
    loss_parents,
    loss_parts,
    loss_values,
    losses,
    pipeline_actions,
    pipeline_conversations,
    pipeline_data,
    pipeline_episodes,
    pipeline_forms,
    pipeline_groups,
    pipeline_hindsight,
    pipeline_language_models,
    pipeline_networks,
    pipeline_numbers,
    pipeline_rewards,
    pipeline_teams,
    pipeline_values,
    pipeline_workers,
    pipelines,
    project,
    python_env,
    render,
    schema,
    specs,
    transform_language,
    transform_networks,
    transforms,
    transforms_buffers,
    transforms_offline,
    transforms_policy,
    unread,
    yaml,
)

MODULES: tuple[ModuleType, ...] = (
    yaml,
    project,
    schema,
    functions,
    unread,
    python_env,
    specs,
    transforms,
    around,
    transform_language,
    transform_networks,
    transforms_buffers,
    transforms_offline,
    transforms_policy,
    flow,
    env_lints,
    render,
    losses,
    loss_values,
    pipeline_values,
    pipeline_workers,
    pipeline_forms,
    pipelines,
    pipeline_numbers,
    pipeline_data,
    pipeline_rewards,
    pipeline_episodes,
    pipeline_networks,
    pipeline_actions,
    pipeline_groups,
    pipeline_hindsight,
    pipeline_teams,
    loss_parents,
    loss_parts,
    loss_lints,
    loss_modules,
    loss_conditions,
    loss_domains,
    llm,
    llm_chains,
    llm_lock,
    pipeline_conversations,
    pipeline_language_models,
    devices,
    agents,
    gymnasium,
    expression_lints,
    function_calls,
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


def _by_code(code: str) -> Rule:
    return ALL_RULES[code]


# A rule is kept, and sent to other processes, by its code: there is one of each.
copyreg.pickle(Rule, lambda rule: (_by_code, (rule.code,)))

__all__ = ["ALL_RULES", "MODULES"]
