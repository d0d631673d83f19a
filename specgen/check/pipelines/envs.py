"""The environment of a pipeline, as its policy sees it."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.chains.model import CheckedChain
from specgen.check.model import Checked, CheckedEnv
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.reader import PipelineContext
from specgen.check.pipelines.visible import unknown_environment
from specgen.diagnostics import Span
from specgen.diagnostics.rules import pipelines as rules
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar

AnyEnv = Checked[CheckedEnv] | Checked[CheckedChain]


def environment(context: PipelineContext, place: tuple[str, ...]) -> PipelineEnv | None:
    """The environment that a pipeline names at `place`, without its arguments; None where it is none, or has mistakes itself."""
    scopes, sink = context.scopes, context.sink
    node = context.file.node(*context.path, *place)
    if isinstance(node, MappingNode) and len(node.entries) != 1:
        known = scopes.at(node.span).declared_envs
        names = [*(key.text for key, _ in node.entries if key.text in known), *known, "CartPoleTrain"]
        help = f"write `env: {names[0]}`"
        sink.add(rules.CHOICE.at(node.span, "a pipeline has one environment", help=help))
        return None
    named = node.entries[0][0] if isinstance(node, MappingNode) else node
    assert isinstance(named, Scalar)
    name, span, visible = named.text, named.span, scopes.at(named.span)
    found = visible.envs.get(name)
    if not isinstance(found, Checked):
        if name not in visible.declared_envs:
            sink.add(unknown_environment(name, visible.declared_envs, span))
        return None
    return made(found.value, span)


def made(value: CheckedEnv | CheckedChain, span: Span) -> PipelineEnv:
    """An environment or chain as pipelines see it."""
    dropped: dict[str, str] = {}
    counted: set[str] = set()
    if isinstance(value, CheckedChain):
        base, entries = value.env.value, dict(value.entries)
        actions, masks = value.actions, value.masks
        for instance in value.instances:
            dropped |= dict.fromkeys(instance.dropped, instance.described(value.name))
            for row in instance.rows:
                if {entry.role for entry in row.inputs.values()} <= {"reward", "done"}:
                    counted |= {entry.dotted for entry in row.outputs.values()}
    else:
        base, entries = value, value.returned
        actions, masks = value.action, value.masks
    return PipelineEnv(
        name=value.name,
        module=value.module,
        entries=entries,
        actions=actions,
        masks=masks,
        groups=base.groups,
        span=span,
        single=base.keeps_state,
        gymnasium=base.gymnasium is not None,
        dropped=dropped,
        lost_masks={
            action: mask for action, mask in base.masks.items() if mask in dropped and action not in masks
        },
        chat=base.chat,
        runs=value.model_instances if isinstance(value, CheckedChain) else (),
        rewarding=tuple(dict.fromkeys(_rewarding(value))) if isinstance(value, CheckedChain) else (),
        counted=frozenset(counted),
        learned=dict(_learned(value)) if isinstance(value, CheckedChain) else {},
    )


def _learned(chain: CheckedChain) -> Iterator[tuple[str, bool]]:
    """The transforms of a chain that learn statistics which a policy depends on, each with whether steps teach it."""
    for instance in chain.instances:
        learns = instance.transform.learns
        outputs = [entry for row in instance.rows for entry in row.outputs.values()]
        if instance.learns and learns != "at_reset" and any(entry.role != "reward" for entry in outputs):
            yield instance.described(chain.name), learns == "always"


def _rewarding(chain: CheckedChain) -> Iterator[str]:
    """The transforms of a chain that write its reward, by name."""
    for run in chain.model_instances:
        if run.transform.coefficient and run.params["add_to_reward"]:
            yield run.transform.name
    for instance in chain.instances:
        if any(entry.key == ("reward",) for row in instance.rows for entry in row.outputs.values()):
            yield instance.transform.name
