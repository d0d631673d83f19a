"""Groups of agents in a pipeline: each has a loss of its own, which is one of agents."""

from __future__ import annotations

from specgen.check.losses.model import CheckedLoss
from specgen.check.model import dotted
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.loss_arguments import LossArguments
from specgen.check.pipelines.reader import PipelineContext
from specgen.check.pipelines.teams import mixes_values, roles_of_team
from specgen.diagnostics import Note, Sink, Span, suggestion
from specgen.diagnostics.rules import pipeline_groups as rules
from specgen.diagnostics.rules import pipeline_teams as team_rules
from specgen.source import Mapping


def check_groups(context: PipelineContext, env: PipelineEnv, losses: tuple[LossArguments, ...]) -> bool:
    """Whether losses and groups of agents fit together; what does not is reported."""
    file, path, sink = context.file, context.path, context.sink
    acting = {entry.key[0] for entry in env.actions if len(entry.key) > 1}
    groups = [group.name for group in env.groups if group.name in acting]
    span = file.key_span(*path, "loss")
    fits = True
    missing = [name for name in groups if not any(loss.group and loss.group.name == name for loss in losses)]
    for loss in losses:
        near = None if loss.group is not None or not loss.name else suggestion(loss.name, missing)
        if near is not None:
            fits = False
            missing = [name for name in missing if f"'{name}'" not in near]
            message = f"`{env.name}` has no group of agents `{loss.name}`"
            sink.add(rules.GROUP_WITHOUT_LOSS.at(file.key_span(*path, "loss", loss.name), message, help=near))
    if missing:
        fits = False
        fitting = [one for one in losses if takes_groups(one.loss)]
        other = fitting[0].loss.name if fitting else "MAPPOLoss"
        unnamed = any(not loss.name for loss in losses)
        there = groups if unnamed else missing
        node = file.node(*path, "loss", other) if unnamed and fitting else None
        given = isinstance(node, Mapping) and bool(node.entries)
        classes = ", ".join(f"{one}: {{{other}: {{{'…' if given else ''}}}}}" for one in there)
        what = " and ".join(f"`{name}`" for name in missing)
        message = f"`{env.name}` has agents {what}, and no loss is called so: nobody learns to act for them"
        help = f"write `loss: {{{classes}}}`" if there == groups else f"write `{classes}` beside the others"
        help += f", with the arguments of `{other}` in each" if given else ""
        sink.add(rules.GROUP_WITHOUT_LOSS.at(span, message, help=help))
    for loss in losses:
        here = file.key_span(*loss.place)
        if loss.group is not None and not takes_groups(loss.loss):
            fits = False
            message = (
                f"`{loss.loss.name}` is of one agent, and `{loss.group.name}` is a group of {loss.group.size}"
            )
            help = "take a loss of several agents, `MAPPOLoss`, `IPPOLoss`, or one of values of actions: "
            help += "`DQNLoss`, `SACLoss`, `DDPGLoss`, `QMixerLoss`"
            sink.add(rules.LOSS_OF_AGENTS.at(here, message, help=help))
        elif loss.group is not None and mixes_values(loss.loss):
            fits = _is_rewarded(loss, env, sink, here) and fits
        elif loss.group is None and not groups and ("agents" in loss.loss.samples or mixes_values(loss.loss)):
            fits = False
            message = f"`{loss.loss.name}` is of agents side by side, and `{env.name}` has none"
            other = "DQNLoss" if mixes_values(loss.loss) else "ClipPPOLoss"
            sink.add(rules.LOSS_OF_AGENTS.at(here, message, help=f"take the loss of one agent: `{other}`"))
    return fits


def takes_groups(loss: CheckedLoss) -> bool:
    """Whether a loss is one of a group: each of whose agents it weighs, or takes as a sample, or whose values it mixes."""
    written = {name for network in loss.networks for name, _ in network.outputs}
    return "agents" in loss.samples or bool(written & {"state_action_value", "action_value"})


def _is_rewarded(loss: LossArguments, env: PipelineEnv, sink: Sink, span: Span) -> bool:
    """Whether an environment gives a team the reward that its loss reads; reported where not."""
    assert loss.group is not None
    reward = next((dotted(role.key) for role in roles_of_team(loss.loss) if role.name == "reward"), None)
    if reward is None or reward in env.entries:
        return True
    message = f"`{loss.loss.name}` learns one value of all agents, and there is no `{reward}` of the team"
    help, own = f"declare one: `reward: [{reward}]`", f"{loss.group.name}.{reward}"
    if own in env.entries:
        transform = f"`LineariseRewards: {{in_keys: [{own}], out_keys: [{reward}]}}`"
        help = f"put {transform}, their sum, of specgen_std/transforms/rewards, into the chain"
    notes = [Note("the environment", env.span)]
    sink.add(team_rules.REWARD_OF_TEAM.at(span, message, notes=notes, help=help))
    return False


def measured_group(context: PipelineContext, losses: tuple[LossArguments, ...]) -> str | None:
    """The group of agents whose return evaluations are judged by; None without groups, or after a mistake."""
    file, path, pipeline, sink = context.file, context.path, context.pipeline, context.sink
    groups = [loss.group.name for loss in losses if loss.group is not None]
    said = None if pipeline.evaluate is None else pipeline.evaluate.of
    if said is not None and said not in groups:
        message = f"`{said}` is no group of agents that learns"
        help = suggestion(said, groups) or (f"write one of {', '.join(groups)}" if groups else "leave it out")
        sink.add(rules.MEASURED_GROUP.at(file.span(*path, "evaluate", "of"), message, help=help))
        return None
    if said is None and len(groups) > 1 and pipeline.stop is not None and pipeline.stop.return_ is not None:
        message = f"a return of which group? {' and '.join(f'`{name}`' for name in groups)} learn"
        help = f"write `evaluate: {{of: {groups[0]}}}`"
        sink.add(rules.MEASURED_GROUP.at(file.key_span(*path, "stop", "return"), message, help=help))
        return None
    return said or next(iter(groups), None)
