"""The value estimator of a pipeline."""

from __future__ import annotations

from specgen.check.model import dotted
from specgen.check.pipelines.data_model import OnPolicyData, PipelineData, ReplayData
from specgen.check.pipelines.entries import estimated_help
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.estimator_numbers import ESTIMATOR_NUMBERS
from specgen.check.pipelines.heads_model import ValueHead
from specgen.check.pipelines.losses import is_on_policy
from specgen.check.pipelines.model import (
    GROUP_ADVANTAGE,
    Estimation,
    PipelineLoss,
    Setting,
    part_name,
)
from specgen.check.pipelines.reader import PipelineContext
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import pipeline_conversations as conversation_rules
from specgen.diagnostics.rules import pipeline_groups as group_rules
from specgen.diagnostics.rules import pipeline_values as value_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.schema.load import SchemaFile, find
from specgen.schema.pipeline import Estimating
from specgen.values import replace

_DEFAULTS = {"gamma": 0.99, "lmbda": 0.95}


def with_estimators(
    context: PipelineContext, losses: tuple[PipelineLoss, ...], data: PipelineData | None, env: PipelineEnv
) -> tuple[PipelineLoss, ...]:
    """The losses with their value estimators; those that have none stay as they are, unless they are all."""
    able = [loss for loss in losses if loss.loss.estimators] or losses[:1]
    made: list[PipelineLoss] = []
    wrong = False
    for loss in losses:
        found = None
        if loss in able and not wrong:  # what is wrong is said once
            if env.chat is not None and is_on_policy(loss) and not loss.loss.estimators:
                found = group_advantage(context, env)
            else:
                found = _estimation(context, loss, data)
            wrong = found is None
        made.append(replace(loss, estimation=found))
    return tuple(made)


def kinds_given(declared: Estimating | None) -> list[str]:
    """Which estimators a pipeline says."""
    return (
        []
        if declared is None
        else [kind for kind in ESTIMATOR_NUMBERS if getattr(declared, kind) is not None]
    )


def check_one(file: SchemaFile, path: tuple[str, ...], given: list[str], sink: Sink) -> bool:
    """Whether a pipeline that says an estimator says one; reported where not."""
    if len(given) == 1:
        return True
    which = " and ".join(f"`{kind}`" for kind in given) or "none"
    message = f"an estimator is one of {', '.join(ESTIMATOR_NUMBERS)}; here is {which}"
    sink.add(rules.CHOICE.at(file.key_span(*path, "value_estimator"), message))
    return False


def group_advantage(context: PipelineContext, env: PipelineEnv) -> Estimation:
    """The advantages of the answers to one prompt; reports groups without any, and other estimators."""
    file, path, pipeline, sink = context.file, context.path, context.pipeline, context.sink
    assert env.chat is not None
    declared, place = pipeline.value_estimator, (*path, "value_estimator")
    given, group = kinds_given(declared), env.chat.group
    size = None
    if declared is not None and check_one(file, path, given, sink):
        if declared.mc_advantage is None:
            message = f"`{given[0]}` is over values of states, and conversations are compared with each other"
            span = file.key_span(*place, given[0])
            help = "write `mc_advantage: {}`, or leave out `value_estimator`"
            sink.add(value_rules.WRONG_ESTIMATOR.at(span, message, help=help))
        else:
            size = declared.mc_advantage.group_size
        if find(file.root, (*place, "when")) is not None:
            message = "advantages of answers are the same in each pass over them: `when` has no effect"
            span = file.key_span(*place, "when")
            sink.add(value_rules.ESTIMATOR_NUMBER.at(span, message, help="leave it out"))
    if group < 2:
        message = f"`{env.name}` has one conversation about a prompt, which is no better than others"
        help = f"write `group: {max(size or 8, 2)}`, say, in its `chat`"
        sink.add(conversation_rules.GROUP.at(env.span, message, help=help))
    elif size is not None and size != group:
        message = f"`group_size` is {size}, and `{env.name}` has {group} conversations about one prompt"
        span = file.span(*place, GROUP_ADVANTAGE, "group_size")
        notes = [Note("the environment", env.span)]
        help = f"write {group}, or `group: {size}` of the environment"
        sink.add(conversation_rules.GROUP.at(span, message, notes=notes, help=help))
    return Estimation(GROUP_ADVANTAGE, {}, {}, "batch")


def _report_no_values(
    file: SchemaFile, path: tuple[str, ...], loss: PipelineLoss, kind: str, sink: Sink
) -> None:
    """Report an estimator of advantages without the network whose values it reads, which the loss could do without."""
    there = {one.role.name for one in loss.networks}
    missing = next(role.name for role in loss.loss.networks if role.optional and role.name not in there)
    name = part_name(loss.name, missing)
    message = f"`{loss.loss.name}` reads advantages, and `{kind}` has no values to estimate them from: there is no `{name}`"
    help = f"declare it: `networks: {{{name}: {{mlp: [64, 64]}}}}`"
    sink.add(rules.NETWORK.at(file.key_span(*path, "networks"), message, help=help))


def _estimation(context: PipelineContext, loss: PipelineLoss, data: PipelineData | None) -> Estimation | None:
    """The estimator that the pipeline says, else the default of its loss; None where the loss has none."""
    file, path, pipeline = context.file, context.path, context.pipeline
    numbers, sink = context.numbers, context.sink
    declared, supported = pipeline.value_estimator, loss.loss.estimators
    place = ("value_estimator",)
    given = kinds_given(declared)
    if declared is not None and not check_one(file, path, given, sink):
        return None
    if not supported:
        if given:
            message = f"`{loss.loss.name}` has no value estimator"
            help = estimated_help(loss) or "leave it out"
            sink.add(value_rules.WRONG_ESTIMATOR.at(file.key_span(*path, *place), message, help=help))
        return None
    kind = given[0] if given else supported[0]
    if kind not in supported:
        message = f"`{loss.loss.name}` has no estimator `{kind}`"
        help = f"it takes {', '.join(f'`{one}`' for one in supported)}"
        sink.add(value_rules.WRONG_ESTIMATOR.at(file.key_span(*path, *place, kind), message, help=help))
        return None
    of_team = next(
        (role for role in loss.loss.roles if loss.group and role.after and role.accepted not in loss.keys),
        None,
    )
    if loss.group is not None and of_team is not None and kind in ("gae", "vtrace"):
        message = f"`{dotted(of_team.key)}` is of the whole team, and values are of each agent of `{loss.group.name}`"
        span = file.key_span(*path, *place, kind) if given else loss.span
        sink.add(group_rules.OF_TEAM.at(span, message, help="write `multi_agent_gae` in its place"))
        return None
    numbers_of = getattr(declared, kind) if given else None
    settings: dict[str, Setting] = {}
    for name in ("gamma", "lmbda"):
        known = name in ESTIMATOR_NUMBERS.get(kind, ("gamma",))
        if numbers_of is not None and getattr(numbers_of, name) is not None:
            if not known:
                span = file.key_span(*path, *place, kind, name)
                message = f"`{kind}` has no `{name}`"
                help = "`td_lambda` has one" if kind in ("td0", "td1") else "leave it out"
                sink.add(value_rules.ESTIMATOR_NUMBER.at(span, message, help=help))
                continue
            setting = numbers.setting(*place, kind, name)
            if setting is not None:
                settings[name] = setting
        elif known:
            settings[name] = numbers.settings.get(name) or numbers.default(name, _DEFAULTS[name])
    arguments: dict[str, object] = {}
    average_gae: Span | None = None
    if numbers_of is not None and numbers_of.average_gae is not None:
        if kind not in ("gae", "multi_agent_gae"):
            span = file.key_span(*path, *place, kind, "average_gae")
            sink.add(
                value_rules.ESTIMATOR_NUMBER.at(span, f"`{kind}` has no `average_gae`", help="leave it out")
            )
        else:
            arguments["average_gae"] = numbers_of.average_gae
            average_gae = (
                file.key_span(*path, *place, kind, "average_gae") if numbers_of.average_gae else None
            )
    before = isinstance(data, OnPolicyData) and any(
        role.missing == "estimate" and role.type is not None for role in loss.loss.roles
    )
    name = loss.loss.name
    if before and not any(isinstance(one.head, ValueHead) for one in loss.networks):
        _report_no_values(file, path, loss, kind, sink)
        return None
    if data is not None and not before and find(file.root, (*path, *place, "when")) is not None:
        message = f"`{name}` calls its estimator itself, at each update: `when` has no effect"
        sink.add(
            value_rules.ESTIMATOR_NUMBER.at(
                file.key_span(*path, *place, "when"), message, help="leave it out"
            )
        )
    in_order = isinstance(data, ReplayData) and data.sampler == "slices"
    if data is not None and not in_order and not before and not is_on_policy(loss) and kind != "td0":
        span = file.key_span(*path, *place, kind) if given else file.key_span(*path, "loss")
        message = (
            f"`{kind}` goes back through the steps of an episode, and `{name}` gets frames drawn at random"
        )
        better = "write `td0`, which reads one step" if "td0" in supported else None
        sink.add(value_rules.NO_TIME.at(span, message, help=better))
    when = None if not before else declared.when if declared is not None else "batch"
    return Estimation(kind, settings, arguments, when, average_gae)
