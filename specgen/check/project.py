"""All files together: names across files, then every declaration in order of import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from specgen.check.allow import apply_allow
from specgen.check.chain import CheckedChain, check_chain
from specgen.check.declarations import check_declarations
from specgen.check.env import check_env
from specgen.check.gym_env import check_gym_env
from specgen.check.losses import CheckedLoss, check_loss
from specgen.check.model import Checked, CheckedEnv
from specgen.check.python_env import check_python_env
from specgen.check.specs import CheckedSpec, NamedSpec, check_named
from specgen.check.transforms import CheckedTransform, check_transform
from specgen.diagnostics import Sink, working_on
from specgen.schema.load import SchemaFile
from specgen.source import Imports
from specgen.source.spaces import Record


@dataclass
class CheckedFile:
    """The checked declarations of one file, by name, in the order written."""

    path: str
    module: str
    doc: str
    specs: dict[str, CheckedSpec] = field(default_factory=dict)
    envs: dict[str, Checked[CheckedEnv]] = field(default_factory=dict)
    transforms: dict[str, Checked[CheckedTransform]] = field(default_factory=dict)
    chains: dict[str, Checked[CheckedChain]] = field(default_factory=dict)
    losses: dict[str, Checked[CheckedLoss]] = field(default_factory=dict)


def check_project(
    files: Mapping[str, SchemaFile],
    imports: Imports,
    modules: Mapping[str, str],
    records: Mapping[str, Record],
    sink: Sink,
) -> dict[str, CheckedFile]:
    """Check every declaration of every file.

    Args:
        files: the loaded files.
        imports: which names of other files each sees.
        modules: the dotted generated module of each file.
        records: recorded Gymnasium environments.
        sink: takes every mistake; with errors in it the result is not to be planned.
    """
    check_declarations(files, modules, sink)
    checked: dict[str, CheckedFile] = {}
    for path in imports.order:
        working_on(path)
        file = files[path]
        named = {
            name: NamedSpec(files[found.file], files[found.file].module.specs[name])
            for name, found in imports.visible[path]["specs"].items()
        }
        named |= {name: NamedSpec(file, spec) for name, spec in file.module.specs.items()}
        mine = checked[path] = CheckedFile(path, modules[path], file.module.doc, check_named(file, sink))
        for name, env in file.module.envs.items():
            done = (
                check_gym_env(file, name, modules[path], records, sink)
                if env.gymnasium is not None
                else check_python_env(file, name, modules[path], named, sink)
                if env.python is not None
                else check_env(file, name, modules[path], named, sink)
            )
            if done is not None:
                mine.envs[name] = done
        for name in file.module.transforms:
            if (transform := check_transform(file, name, modules[path], sink)) is not None:
                mine.transforms[name] = transform
        for name in file.module.losses:
            if (loss := check_loss(file, name, modules[path], named, sink)) is not None:
                mine.losses[name] = loss
        seen = imports.visible[path]
        envs = dict(mine.envs)
        transforms = dict(mine.transforms)
        for kind, found in seen["envs"].items():
            if kind in checked[found.file].envs:
                envs[kind] = checked[found.file].envs[kind]
        for kind, found in seen["transforms"].items():
            if kind in checked[found.file].transforms:
                transforms[kind] = checked[found.file].transforms[kind]
        for name in file.module.chains:
            chain = check_chain(
                file,
                name,
                modules[path],
                envs,
                transforms,
                declared=(
                    {*file.module.envs, *seen["envs"]},
                    {*file.module.transforms, *seen["transforms"]},
                ),
                sink=sink,
            )
            if chain is not None:
                mine.chains[name] = chain
    apply_allow(files, checked, sink)
    return checked
