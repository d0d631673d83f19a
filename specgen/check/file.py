"""One schema file: every declaration of it, with what the files that it imports let it know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING

from specgen.check.allow import apply_allow
from specgen.check.chains.chain import CheckedChain, check_chain
from specgen.check.env import check_env
from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.model import Checked, CheckedEnv
from specgen.check.rewards import CheckedReward, check_rewards
from specgen.check.shared_functions import CheckedSharedFunction, check_shared_functions
from specgen.check.specs import CheckedSpec, NamedSpec, check_named
from specgen.check.transforms.transform import CheckedTransform, check_transform
from specgen.diagnostics import Sink
from specgen.expr import Function
from specgen.schema.load import SchemaFile
from specgen.schema.module import Module
from specgen.source import Mapping as MappingNode
from specgen.source.model_folders import ModelFolder
from specgen.source.spaces import Record
from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.losses.loss import CheckedLoss
    from specgen.check.losses.parents import ParentLoss
    from specgen.check.pipelines.model import CheckedPipeline
    from specgen.check.pipelines.parents import ParentPipeline

Visible = Mapping[str, Mapping[str, str]]
"""What a file sees of those that it imports: by section and name the file that declares it."""


@dataclass
class CheckedFile:
    """The checked declarations of one file, by name, in the order written."""

    path: str
    module: str
    doc: str
    specs: dict[str, CheckedSpec] = field(default_factory=dict)
    functions: dict[str, CheckedSharedFunction] = field(default_factory=dict)
    envs: dict[str, Checked[CheckedEnv]] = field(default_factory=dict)
    transforms: dict[str, Checked[CheckedTransform]] = field(default_factory=dict)
    chains: dict[str, Checked[CheckedChain]] = field(default_factory=dict)
    losses: dict[str, Checked[CheckedLoss]] = field(default_factory=dict)
    rewards: dict[str, CheckedReward] = field(default_factory=dict)
    models: dict[str, Checked[CheckedLanguageModel]] = field(default_factory=dict)
    pipelines: dict[str, Checked[CheckedPipeline]] = field(default_factory=dict)


@dataclass(frozen=True)
class Interface:
    """What files that import a file may know of it; of its declarations those that are right.

    Attributes:
        specs: its named specs, each checked where it is used.
        functions: its functions; None for one with a mistake.
        envs: its environments.
        transforms: its transforms.
        chains: its chains.
        losses: its losses, as those know them that extend them.
        checked_losses: those that have a class.
        rewards: its rewards of conversations.
        models: its language models.
        pipelines: its pipelines, as those know them that extend them.
    """

    specs: Mapping[str, NamedSpec]
    functions: Mapping[str, Function | None]
    envs: Mapping[str, Checked[CheckedEnv]]
    transforms: Mapping[str, Checked[CheckedTransform]]
    chains: Mapping[str, Checked[CheckedChain]]
    losses: Mapping[str, ParentLoss]
    checked_losses: Mapping[str, Checked[CheckedLoss]]
    rewards: Mapping[str, CheckedReward]
    models: Mapping[str, Checked[CheckedLanguageModel]]
    pipelines: Mapping[str, ParentPipeline]


def check_file(
    file: SchemaFile,
    module: str,
    visible: Visible,
    interfaces: Mapping[str, Interface],
    records: Mapping[str, Record],
    folders: Mapping[str, ModelFolder],
    sink: Sink,
) -> tuple[CheckedFile, Interface]:
    """Check every declaration of a file.

    Args:
        file: the loaded file.
        module: its dotted generated module.
        visible: the declarations of other files that it sees.
        interfaces: those files.
        records: recorded Gymnasium environments.
        folders: recorded folders of language models.
        sink: what is known to be wrong with the file; takes every mistake. With errors in it the result is not to
            be planned.
    """
    own = {name: NamedSpec(file, spec) for name, spec in file.module.specs.items()}
    named = {name: interfaces[path].specs[name] for name, path in visible["specs"].items()} | own
    checked = CheckedFile(file.path, module, file.module.doc, check_named(file, sink))
    imported = {name: interfaces[path].functions[name] for name, path in visible["functions"].items()}
    checked.functions, functions = check_shared_functions(file, module, imported, sink)
    checked.rewards = check_rewards(file, module, sink)
    rewards = dict(checked.rewards)
    for name, path in visible["rewards"].items():
        if name in interfaces[path].rewards:
            rewards[name] = interfaces[path].rewards[name]
    for name, env in file.module.envs.items():
        if env.chat is not None:
            # these are only loaded for files that have such things
            from specgen.check.chat_env import check_chat_env

            done = check_chat_env(
                file, name, module, rewards, {*file.module.rewards, *visible["rewards"]}, sink
            )
        elif env.gymnasium is not None:
            from specgen.check.gym_env import check_gym_env

            mine = Sink()
            done = check_gym_env(file, name, module, records, mine)
            sink.extend(mine.items)
        elif env.python is not None:
            from specgen.check.python_env import check_python_env

            done = check_python_env(file, name, module, named, sink, functions)
        else:
            done = check_env(file, name, module, named, sink, functions)
        if done is not None:
            checked.envs[name] = done
    for name in file.module.transforms:
        if (transform := check_transform(file, name, module, sink, functions)) is not None:
            checked.transforms[name] = transform
    losses: dict[str, ParentLoss] = {}
    if file.module.losses:
        from specgen.check.losses.file import check_losses

        parents = {name: interfaces[path].losses[name] for name, path in visible["losses"].items()}
        others = frozenset[str]().union(
            file.module.envs,
            file.module.transforms,
            file.module.chains,
            visible["envs"],
            visible["transforms"],
        )
        checked.losses, losses = check_losses(file, module, parents, others, sink, functions)
    seen = {name: interfaces[path].models.get(name) for name, path in visible["models"].items()}
    if file.module.models:
        from specgen.check.language_models.declared import check_models

        checked.models = check_models(file, module, seen, folders, sink)
    models = {**seen, **{name: checked.models.get(name) for name in file.module.models}}
    envs, transforms = dict(checked.envs), dict(checked.transforms)
    for name, path in visible["envs"].items():
        if name in interfaces[path].envs:
            envs[name] = interfaces[path].envs[name]
    for name, path in visible["transforms"].items():
        if name in interfaces[path].transforms:
            transforms[name] = interfaces[path].transforms[name]
    declared = (
        {*file.module.envs, *visible["envs"]},
        {*file.module.transforms, *visible["transforms"]},
        {*file.module.chains, *visible["chains"]},
    )
    for name in file.module.chains:
        chain = check_chain(file, name, module, envs, transforms, models, declared=declared, sink=sink)
        if chain is not None:
            checked.chains[name] = chain
    pipelines: dict[str, ParentPipeline] = {}
    if file.module.pipelines:
        from specgen.check.pipelines.file import check_pipelines

        checked.pipelines, pipelines = check_pipelines(file, checked, visible, interfaces, sink)
    apply_allow(file, checked, sink)
    interface = Interface(
        specs=_named_specs(file),
        functions={name: functions.known.get(name) for name in file.module.functions},
        envs=checked.envs,
        transforms=checked.transforms,
        chains=checked.chains,
        losses=losses,
        checked_losses=checked.losses,
        rewards=checked.rewards,
        models=checked.models,
        pipelines=pipelines,
    )
    return checked, interface


def _named_specs(file: SchemaFile) -> dict[str, NamedSpec]:
    """The named specs of a file, with nothing else of it."""
    specs = file.module.specs
    if not specs:
        return {}
    node = file.root.get("specs")
    key = file.root.key("specs")
    entries = ((key, node),) if key is not None and node is not None else ()
    module = _empty_module().model_copy(update={"specs": specs})
    alone = SchemaFile(file.path, module, MappingNode(entries, file.root.span))
    return {name: NamedSpec(alone, spec) for name, spec in specs.items()}


@cache
def _empty_module() -> Module:
    """A file without declarations: making one costs as much as checking a small file."""
    return Module()
