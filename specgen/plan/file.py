"""A checked file as the plan of its module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from specgen.check.file import CheckedFile
from specgen.check.model import Checked, CheckedEnv
from specgen.imported import Import
from specgen.plan.chains.chain import plan_chain
from specgen.plan.envs.env import plan_env
from specgen.plan.interface import EnvInterface
from specgen.plan.items import Item, ModulePlan
from specgen.plan.module import plan_module
from specgen.plan.pipelines.imports import pipeline_imports, pipeline_names
from specgen.plan.shared_functions import plan_shared_function
from specgen.plan.specs import plan_spec
from specgen.plan.transforms.text import methods_name
from specgen.plan.transforms.transform import plan_transform
from specgen.values import dataclass


@dataclass(frozen=True)
class PlannedEnvs:
    """The environments of a file as parts of its module, for the module itself and for chains around them elsewhere.

    Attributes:
        module: the dotted generated module.
        envs: the functions and records of each environment, by its name.
        names: everything that is defined in the module for them.
    """

    module: str
    envs: Mapping[str, EnvInterface]
    names: tuple[str, ...]


def plan_envs(checked: CheckedFile) -> tuple[list[Item], PlannedEnvs]:
    """Plan the environments of a file; what else is wrong in it does not matter."""
    items: list[Item] = []
    envs: dict[str, EnvInterface] = {}
    for env in checked.envs.values():
        made, envs[env.value.name] = _plan_env(env)
        items += made
    return items, PlannedEnvs(checked.module, envs, tuple(item.name for item in items))


def plan_file(
    checked: CheckedFile, path: str, envs: tuple[list[Item], PlannedEnvs], imported: Iterable[PlannedEnvs]
) -> ModulePlan:
    """Plan a generated module.

    Args:
        checked: the checked declarations.
        path: the module, below its package.
        envs: what `plan_envs` made of the environments.
        imported: those of the files that this one imports.
    """
    items, own = envs
    modules = {other.module: other for other in imported}
    rewards: list[Item] = []
    if checked.rewards:
        from specgen.plan.rewards import reward_items  # only loaded for files that have rewards

        rewards = [item for reward in checked.rewards.values() for item in reward_items(reward)]
    shared = map(plan_shared_function, checked.functions.values())
    items = [*map(plan_spec, checked.specs.values()), *shared, *rewards, *items]
    for transform in checked.transforms.values():
        items += plan_transform(transform)
    for loss in checked.losses.values():
        from specgen.plan.losses.loss import plan_loss  # only loaded for files that have losses

        items += plan_loss(loss)
    for model in checked.models.values():
        from specgen.plan.language_models import plan_language_model  # only loaded for files that have models

        items.append(plan_language_model(model))
    for chain in checked.chains.values():
        base = chain.value.env.value
        module = own if base.module == own.module else modules[base.module]
        if base.chat is None:
            items += plan_chain(chain, module.envs[base.name])
        else:
            from specgen.plan.chains.composed import plan_composed_chain

            items += plan_composed_chain(chain)
    trained: dict[str, Import] = {}
    for pipeline in checked.pipelines.values():
        from specgen.plan.pipelines.pipeline import plan_pipeline  # only loaded for files that have pipelines

        items.append(plan_pipeline(pipeline))
        trained |= pipeline_imports(pipeline.value, checked.module)
    further = trained | {
        name: Import(other.module, name) for other in modules.values() for name in other.names
    }
    named = [
        instance.transform
        for chain in checked.chains.values()
        for instance in chain.value.instances
        if chain.value.env.value.chat is not None or instance.learns or instance.transform.python is not None
    ]
    further |= {transform.name: Import(transform.module, transform.name) for transform in named}
    run = (one for chain in checked.chains.values() for one in chain.value.model_instances)
    further |= {
        model.maker: Import(model.module, model.maker) for one in run for model in one.models.values()
    }
    chats = (env.value.chat for env in checked.envs.values())
    for reward in (chat.reward for chat in chats if chat is not None and chat.reward is not None):
        if reward.module != checked.module:
            further |= {name: Import(reward.module, name) for name in (reward.protocol, reward.row)}
    methods = {methods_name(one.value.name): one.value.methods for one in checked.transforms.values()}
    bases = [Import(source.module, source.name, alias=name) for name, source in methods.items() if source]
    parents = (loss.value.parent for loss in checked.losses.values())
    bases += [Import(one.module, one.name) for one in parents if one and one.module != checked.module]
    functions = tuple(spec.function for spec in checked.specs.values())
    functions += tuple(checked.functions)
    functions += tuple(model.value.maker for model in checked.models.values())
    functions += tuple(name for one in checked.pipelines.values() for name in pipeline_names(one.value))
    source = checked.path.rsplit(".", 1)[0]
    return plan_module(path, source, checked.doc, items, further, bases, checked.module, functions)


def names_of_two(plan: ModulePlan) -> Iterator[tuple[str, str]]:
    """The names that a module would have of another module and of its own or a third one, each with the other module."""
    taken = {item.name: "" for item in plan.items}
    for one in sorted(plan.imports, key=lambda each: (each.alias is None, each.module, each.name or "")):
        name = one.alias or one.name
        if name is not None and taken.setdefault(name, one.module) != one.module:
            yield name, one.module


def _plan_env(env: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    if env.value.gymnasium is not None:
        from specgen.plan.envs.gym_env import plan_gym_env

        return plan_gym_env(env)
    if env.value.chat is not None:
        from specgen.plan.envs.chat_env import plan_chat_env

        return plan_chat_env(env)
    if env.value.python is not None:
        from specgen.plan.envs.python_env import plan_python_env

        return plan_python_env(env)
    return plan_env(env)
