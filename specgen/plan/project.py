"""Every checked file as a module plan."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.model import Checked, CheckedEnv
from specgen.check.project import CheckedFile
from specgen.diagnostics import working_on
from specgen.imported import Import
from specgen.plan.chain import plan_chain
from specgen.plan.env import plan_env
from specgen.plan.gym_env import plan_gym_env
from specgen.plan.interface import EnvInterface
from specgen.plan.items import Item, ModulePlan
from specgen.plan.losses import plan_loss
from specgen.plan.module import plan_module
from specgen.plan.python_env import plan_python_env
from specgen.plan.specs import plan_spec
from specgen.plan.transforms import plan_transform


def plan_project(checked: Mapping[str, CheckedFile], wanted: Mapping[str, str]) -> list[ModulePlan]:
    """Plan the generated modules.

    Args:
        checked: every checked file, those of an installed library included.
        wanted: the schema files to generate modules of, each with the module's path below its package.
    """
    interfaces: dict[tuple[str, str], EnvInterface] = {}
    items: dict[str, list[Item]] = {}
    exported: dict[str, Import] = {}
    for path, file in checked.items():
        working_on(path)
        mine: list[Item] = list(map(plan_spec, file.specs.values()))
        for env in file.envs.values():
            made, interface = _plan_env(env)
            interfaces[file.module, env.value.name] = interface
            mine += made
        for transform in file.transforms.values():
            mine += plan_transform(transform)
        for loss in file.losses.values():
            mine += plan_loss(loss)
        items[path] = mine
        exported |= {item.name: Import(file.module, item.name) for item in mine}
    for path, file in checked.items():
        working_on(path)
        for chain in file.chains.values():
            base = chain.value.env.value
            items[path] += plan_chain(chain, interfaces[base.module, base.name])
    return [
        plan_module(
            module_path,
            path.rsplit(".", 1)[0],
            checked[path].doc,
            items[path],
            {name: entry for name, entry in exported.items() if entry.module != checked[path].module},
            tuple(spec.function for spec in checked[path].specs.values()),
        )
        for path, module_path in wanted.items()
    ]


def _plan_env(env: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    if env.value.gymnasium is not None:
        return plan_gym_env(env)
    return plan_python_env(env) if env.value.python is not None else plan_env(env)
