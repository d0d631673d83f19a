"""The pipelines of one file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from specgen.check.inherited import in_sight
from specgen.check.model import Checked
from specgen.check.pipelines.model import CheckedPipeline
from specgen.check.pipelines.params import declared_params
from specgen.check.pipelines.parents import ParentPipeline, whole_pipelines
from specgen.check.pipelines.pipeline import check_pipeline
from specgen.check.pipelines.visible import Visible, unknown_names
from specgen.diagnostics import Diagnostic, Note, Sink
from specgen.diagnostics.rules import devices as device_rules
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.diagnostics.rules import pipeline_values as value_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import yaml as yaml_rules
from specgen.schema.load import SchemaFile
from specgen.values import replace

if TYPE_CHECKING:
    from specgen.check.file import CheckedFile, Interface

_OF_ONE_VALUE = frozenset(
    rule.code
    for rule in (
        *(yaml_rules.NUMBER_SPELLING, yaml_rules.WRONG_VALUE),
        *(schema_rules.UNKNOWN_FIELD, schema_rules.UNKNOWN_DECLARATION, schema_rules.WRONG_TYPE),
        schema_rules.PARAM_OUT_OF_RANGE,
        *(value_rules.OUT_OF_RANGE, value_rules.FAST_TARGET, number_rules.SCHEDULE, device_rules.NO_DEVICE),
    )
)
"""What is wrong with a value whatever stands beside it: said of a pipeline, too, that is there to be extended."""


def check_pipelines(
    file: SchemaFile,
    checked: CheckedFile,
    visible: Mapping[str, Mapping[str, str]],
    interfaces: Mapping[str, Interface],
    sink: Sink,
) -> tuple[dict[str, Checked[CheckedPipeline]], dict[str, ParentPipeline]]:
    """Check every pipeline of a file; of presets the parameters and single values alone, since others say the rest.

    Args:
        file: the loaded file.
        checked: its other declarations.
        visible: the declarations of other files that it sees.
        interfaces: those files.
        sink: takes every mistake.

    Returns:
        The checked pipelines, and all of them as those know them that extend them.
    """
    parents = {
        name: found
        for name, path in visible["pipelines"].items()
        if (found := interfaces[path].pipelines.get(name)) is not None
    }
    envs: dict[str, object] = {**checked.envs, **checked.chains}
    losses = dict(checked.losses)
    for name, path in visible["envs"].items():
        envs[name] = interfaces[path].envs.get(name)
    for name, path in visible["chains"].items():
        envs[name] = interfaces[path].chains.get(name)
    for name, path in visible["losses"].items():
        if name in interfaces[path].checked_losses:
            losses[name] = interfaces[path].checked_losses[name]
    module = file.module
    models = {name: interfaces[path].models.get(name) for name, path in visible["models"].items()}
    models |= {name: checked.models.get(name) for name in module.models}
    seen = Visible(
        envs=envs,
        losses=losses,
        models=models,
        declared_envs={*module.envs, *module.chains, *visible["envs"], *visible["chains"]},
        declared_losses={*module.losses, *visible["losses"]},
    )
    whole, mine = whole_pipelines(file, parents, seen, sink)
    made: dict[str, Checked[CheckedPipeline]] = {}
    concrete = [name for name, one in module.pipelines.items() if not one.abstract]
    for name in concrete[1:]:
        notes = [Note("the first one", file.key_span("pipelines", concrete[0]))]
        message = f"`{name}` is the second pipeline of this file, and a file becomes one module"
        help = "move it into a file of its own, which imports this one if it extends something of it"
        sink.add(rules.ONE_PIPELINE.at(file.key_span("pipelines", name), message, notes=notes, help=help))
    for name, one in mine.items():
        if one.node is None:
            continue
        mistakes = Sink()
        base = module.pipelines[name].extends
        before = one.said | (mine[base].said if base in mine else frozenset())
        if name in concrete:
            pipeline = check_pipeline(whole, name, checked.module, one.scopes, mistakes)
            if pipeline is not None:
                made[name] = pipeline
        else:
            alone = Sink()
            declared_params(whole, ("pipelines", name), whole.module.pipelines[name].params, mistakes)
            check_pipeline(whole, name, checked.module, one.scopes, alone)
            named = {item.span for item in mistakes.items}
            mistakes.extend(
                item for item in alone.items if item.code in _OF_ONE_VALUE and item.span not in named
            )
            named |= {item.span for item in mistakes.items}
            mistakes.extend(item for item in unknown_names(one.node, one.scopes) if item.span not in named)
        fresh = [item for item in mistakes.items if (item.code, one.scopes.written(item.span)) not in before]
        sink.extend(_in_sight(file, name, item) for item in fresh)
        said = before | {(item.code, item.span) for item in fresh}
        mine[name] = replace(one, said=said, scopes=one.scopes.named_in(one.node))
    return made, mine


def _in_sight(file: SchemaFile, name: str, item: Diagnostic) -> Diagnostic:
    """A finding on a pipeline, in its text; what it inherits is left out by a word of its own."""
    shown = in_sight(item, file.whole_span("pipelines", name), file.span("pipelines", name, "extends"))
    if shown is item or item.help is None or not item.help.endswith("leave it out"):
        return shown
    return replace(shown, help=f"{item.help}: write `drop` in its place")
