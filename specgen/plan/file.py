"""A checked file as the plan of its module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from specgen.check.file import CheckedFile
from specgen.check.model import Checked, CheckedEnv
from specgen.imported import Import
from specgen.plan.chains.chain import plan_chain
from specgen.plan.envs.env import plan_env
from specgen.plan.interface import EnvInterface
from specgen.plan.items import Item, ModulePlan, Parts
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


def plan_envs(checked: CheckedFile) -> tuple[Parts, PlannedEnvs]:
    """Plan the environments of a file; what else is wrong in it does not matter."""
    parts: Parts = {}
    envs: dict[str, EnvInterface] = {}
    for name, env in checked.envs.items():
        parts["envs", name], envs[env.value.name] = _plan_env(env)
    names = tuple(item.name for items in parts.values() for item in items)
    return parts, PlannedEnvs(checked.module, envs, names)


def plan_file(
    checked: CheckedFile, path: str, envs: tuple[Parts, PlannedEnvs], imported: Iterable[PlannedEnvs]
) -> ModulePlan:
    """Plan a generated module.

    Args:
        checked: the checked declarations.
        path: the module, below its package.
        envs: what `plan_envs` made of the environments.
        imported: those of the files that this one imports.
    """
    of_envs, own = envs
    modules = {other.module: other for other in imported}
    parts: Parts = {("specs", name): [plan_spec(spec)] for name, spec in checked.specs.items()}
    for name, function in checked.functions.items():
        parts["functions", name] = [plan_shared_function(function)]
    for name, reward in checked.rewards.items():
        from specgen.plan.rewards import reward_items  # only loaded for files that have rewards

        parts["rewards", name] = reward_items(reward)
    parts |= of_envs
    for name, transform in checked.transforms.items():
        parts["transforms", name] = plan_transform(transform)
    for name, loss in checked.losses.items():
        from specgen.plan.losses.loss import plan_loss  # only loaded for files that have losses

        parts["losses", name] = plan_loss(loss)
    for name, model in checked.models.items():
        from specgen.plan.language_models import plan_language_model  # only loaded for files that have models

        parts["models", name] = [plan_language_model(model)]
    for name, chain in checked.chains.items():
        base = chain.value.env.value
        module = own if base.module == own.module else modules[base.module]
        if base.chat is None:
            parts["chains", name] = plan_chain(chain, module.envs[base.name])
        else:
            from specgen.plan.chains.composed import plan_composed_chain

            parts["chains", name] = plan_composed_chain(chain)
    trained: dict[str, Import] = {}
    for name, pipeline in checked.pipelines.items():
        from specgen.plan.pipelines.pipeline import plan_pipeline  # only loaded for files that have pipelines

        by_users = any(one.value.python is not None for one in checked.envs.values())
        by_users |= any(one.value.python is not None for one in checked.transforms.values())
        parts["pipelines", name] = [plan_pipeline(pipeline, imported=by_users)]
        trained |= pipeline_imports(pipeline.value, checked.module)
    further = trained | {
        name: Import(other.module, name) for other in modules.values() for name in other.names
    }
    named = (instance.transform for chain in checked.chains.values() for instance in chain.value.instances)
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
    return plan_module(path, source, checked.doc, parts, further, bases, checked.module, functions)


def names_of_two(plan: ModulePlan) -> Iterator[tuple[str, Import]]:
    """The names that a module would have of another module and of its own or a third one, each with its import."""
    taken = dict.fromkeys(plan.declared, "")
    for one in sorted(plan.imports, key=lambda each: (each.alias is None, each.module, each.name or "")):
        name = one.alias or one.name
        if name is not None and taken.setdefault(name, one.module) != one.module:
            yield name, one


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
