"""A checked pipeline as the plan of a module that trains."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.model import AgentGroup, Checked, dotted, snake
from specgen.check.pipelines.data_model import OnPolicyData, RecordedData, ReplayData
from specgen.check.pipelines.layers_model import trunks_of, users_of
from specgen.check.pipelines.model import GROUP_ADVANTAGE, Amount, CheckedPipeline, PipelineLoss, Setting
from specgen.code import Code, using
from specgen.expr.symbols import Key
from specgen.literals import formatted, literal
from specgen.plan.docs import wrapped
from specgen.plan.model import FunctionPlan
from specgen.plan.pipelines.acting import acting_copies, exploration_part
from specgen.plan.pipelines.collecting import collector_plan
from specgen.plan.pipelines.config import config_plan
from specgen.plan.pipelines.devices import device_names, device_of, device_parts, to_loss
from specgen.plan.pipelines.hindsight import hindsight_functions
from specgen.plan.pipelines.model import LoopPlan, PipelinePlan
from specgen.plan.pipelines.networks import network_function, trunk_function
from specgen.plan.pipelines.parts import (
    keeps_recorded_apart,
    norm_part,
    optimizer_part,
    parts_of,
    shuffles,
    state_of,
)
from specgen.plan.pipelines.read_keys import GIVEN, recorded_entries, stored_keys
from specgen.plan.pipelines.update import output_of, update_plan
from specgen.plan.spec_text import key_text


def plan_pipeline(checked: Checked[CheckedPipeline], *, imported: bool) -> PipelinePlan:
    """Plan the module of a pipeline; `imported`: classes of users import it, for the records of their Protocols."""
    pipeline = checked.value
    config = config_plan(pipeline)
    return PipelinePlan(
        name=pipeline.name,
        doc=tuple(_doc(pipeline)),
        config=config,
        networks=tuple(_functions(pipeline, config.name)),
        stored=stored_keys(pipeline),
        recorded=recorded_entries(pipeline),
        devices=tuple(_places(pipeline)),
        parts=tuple(parts_of(pipeline)),
        collector=collector_plan(pipeline),
        state=tuple(state_of(pipeline)),
        buffers=("buffer",) if isinstance(pipeline.data, ReplayData) and pipeline.limits.keeps_buffer else (),
        may_change=tuple(dict.fromkeys(_may_change(pipeline))),
        update=update_plan(pipeline),
        loop=_loop(pipeline),
        keep=pipeline.limits.keep,
        folder=f"runs/{snake(pipeline.name)}",
        module=pipeline.module,
        imported=imported,
        simulated=pipeline.env.single and not isinstance(pipeline.data, RecordedData),
        reproducible=pipeline.workers is None or pipeline.workers.sync,
        deterministic=pipeline.limits.deterministic,
        uses=using("", *_uses(pipeline)),
    )


def _places(pipeline: CheckedPipeline) -> Iterator[Code]:
    """The statements that find the devices, and what compiles for them."""
    yield from device_parts(pipeline)
    if pipeline.compile is not None:
        device = f"self.{device_of(pipeline, 'loss')}"
        yield using(f'check_compiler("compile", config.compile, {device})', "check_compiler")


def _functions(pipeline: CheckedPipeline, config: str) -> Iterator[FunctionPlan]:
    """The functions that make trunks and networks."""
    for trunk in trunks_of(pipeline.networks):
        yield trunk_function(trunk, users_of(trunk, pipeline.networks), config)
    for network in pipeline.networks:
        if network.language_model is None:  # which the module of models makes
            yield network_function(network, config)
    yield from hindsight_functions(pipeline)


def _doc(pipeline: CheckedPipeline) -> Iterator[str]:
    yield from wrapped(pipeline.doc or f"The pipeline `{pipeline.name}`.")
    yield ""
    yield from wrapped(
        "These are its parts; `train` is the loop over them, and any other loop may be written over them."
    )


def _loop(pipeline: CheckedPipeline) -> LoopPlan:
    data, limits = pipeline.data, pipeline.limits
    unit = limits.unit
    kind = (
        "on_policy"
        if isinstance(data, OnPolicyData)
        else "replay"
        if isinstance(data, ReplayData)
        else "recorded"
    )
    minibatch = ""
    if isinstance(data, OnPolicyData):
        size, count = data.minibatch_size, data.minibatches
        if size is not None:
            minibatch = f"config.{size.name}"
            if pipeline.in_whole_rows:
                minibatch += f" // config.{data.num_steps.name}"
        elif count is not None and pipeline.in_whole_rows:
            minibatch = f"config.{data.num_envs.name} // config.{count.name}"
        elif count is not None:
            minibatch = f"config.{data.num_envs.name} * config.{data.num_steps.name} // config.{count.name}"
    total = limits.total
    scheduled = tuple(_scheduled(pipeline, unit, total))
    return LoopPlan(
        kind=kind,
        unit=unit,
        total=total.name,
        conditions=tuple(_conditions(pipeline)),
        scheduled=scheduled,
        estimated=next((one.estimation.when for one in pipeline.estimated if one.estimation), None),
        estimators=tuple(_estimated(pipeline, loss) for loss in pipeline.estimated),
        minibatches="column_minibatches" if pipeline.in_whole_rows else "minibatches",
        minibatch=minibatch,
        order="generator=parts.shuffling" if shuffles(data) else "shuffle=False",
        until=""
        if limits.until is None
        else f"metrics.{limits.until.metric} > config.{limits.until.above.name}",
        filled="run.frames >= config.warm_up_frames"
        if limits.keeps_buffer
        else "len(parts.buffer) >= config.warm_up_frames",
        multi_step=isinstance(data, ReplayData) and data.n_step is not None,
        prioritized=isinstance(data, ReplayData) and data.sampler == "prioritized",
        capped="" if limits.episode_steps is None else limits.episode_steps.name,
        evaluation=formatted("evaluate/", f"run.{unit}"),
        returns=tuple((group.name, key_text(_returns(pipeline, group))) for group in pipeline.groups),
        measured=limits.measured or "",
        logged=tuple(_logged(pipeline)),
        noted=tuple(_noted(pipeline)),
        flat="" if isinstance(data, ReplayData) and data.in_order else ".reshape(-1)",
        sample="joined(parts.buffer.sample(), parts.recorded_buffer.sample())"
        if keeps_recorded_apart(data)
        else f"parts.buffer.sample(){_sliced(pipeline)}",
        cast=to_loss(pipeline),
        bonuses=tuple(
            f"parts.{one.name}_reward(batch, parts.{one.loss}_loss(batch)[{literal(one.metric)}])"
            for one in pipeline.bonuses
        ),
        copies=tuple(
            f"load_weights(parts.acting_{one.attribute}, parts.{one.attribute})"
            for one in acting_copies(pipeline)
        ),
    )


def _estimated(pipeline: CheckedPipeline, loss: PipelineLoss) -> str:
    """The statement that writes what the estimator of a loss says of a batch."""
    assert loss.estimation is not None
    if loss.estimation.kind != GROUP_ADVANTAGE:
        return f"parts.{loss.part('estimator')}(batch)"
    (advantage,) = loss.estimated
    group = 'batch["group"]'
    if pipeline.workers is not None and pipeline.workers.sync:  # else all are of one worker
        group = f"groups_of_workers({group}, config.{pipeline.workers.count.name})"
    words, function = ['batch["next", "reward"]', group], _group_advantage(pipeline)
    if pipeline.turns is not None:
        words += [_collected(("collector", "traj_ids")), _collected(GIVEN)]
    return f"batch[{key_text(advantage.key)}] = {function}({', '.join(words)})"


def _collected(key: Key) -> str:
    """What the collector says of a batch; the types of environments' data do not know it."""
    return f"batch.get({key_text(key)}, None)"


def _group_advantage(pipeline: CheckedPipeline) -> str:
    """The function that compares the answers to one prompt, or the conversations that begin with it."""
    return "group_advantage" if pipeline.turns is None else "conversation_advantage"


def _logged(pipeline: CheckedPipeline) -> Iterator[tuple[str, str]]:
    """What the log has of conversations that ended: returns, and what the reward function says besides."""
    chat = pipeline.env.chat
    if chat is not None and chat.reward is not None and chat.reward.metrics:
        yield "return", literal("episode_reward")
        for name in chat.reward.metrics:
            yield name, key_text(("metrics", name))


def _noted(pipeline: CheckedPipeline) -> Iterator[tuple[str, str]]:
    """What the log has of each batch besides: the distances to references, of whole answers."""
    given = "" if pipeline.turns is None else f"[{_collected(GIVEN)}]"
    for one in pipeline.env.runs:
        if one.transform.coefficient and isinstance(pipeline.data, OnPolicyData):
            key = one.keys["kl_key"]
            yield dotted(key), f"batch[{', '.join(map(literal, ('next', *key)))}].sum(-1){given}.mean()"


def _sliced(pipeline: CheckedPipeline) -> str:
    """What stands behind a sample of slices: a dimension of their steps."""
    data = pipeline.data
    if not isinstance(data, ReplayData) or data.slice_length is None:
        return ""
    return f".reshape(-1, config.{data.slice_length.name})"


def _conditions(pipeline: CheckedPipeline) -> Iterator[tuple[str, str]]:
    """What must hold for the training to go on, besides its total; and when it does not, in words."""
    if pipeline.limits.stop_return is not None:
        yield "run.best < config.stop_return", "an evaluation reaches `stop_return`"
    if pipeline.limits.updates is not None and pipeline.limits.unit == "frames":
        updates = pipeline.limits.updates.name
        yield f"run.updates < config.{updates}", f"`{updates}` are made"
    if pipeline.limits.hours is not None:
        hours = pipeline.limits.hours.name
        yield f"run.seconds < 3600 * config.{hours}", f"`{hours}` have passed"


def _returns(pipeline: CheckedPipeline, group: AgentGroup) -> Key:
    """The key of the returns of a group: of the rewards that it learns from, which may be those of the team."""
    loss = next(one.loss for one in pipeline.losses if one.group == group)
    below = (role.key[:-1] for role in loss.roles if role.name == "reward")
    own = (group.name,) if f"{group.name}.reward" in pipeline.env.entries else ()
    return (*next(below, own), "episode_reward")


def _scheduled(pipeline: CheckedPipeline, unit: str, total: Setting) -> Iterator[str]:
    """Statements that set what changes in training; rates are set anyway, since a resumed training may have others."""
    for one in pipeline.optimizers:
        yield f'parts.{optimizer_part(one)}.param_groups[0]["lr"] = {amount(one.lr, unit, total)}'
        if one.max_grad_norm is not None and one.max_grad_norm.schedule is not None:
            yield f"parts.{norm_part(one)} = {amount(one.max_grad_norm, unit, total)}"
    exploration = pipeline.acting.exploration
    changes = exploration is not None and not isinstance(pipeline.data, RecordedData)
    if changes and exploration is not None and exploration.amount is not None:
        strength = "sigma" if exploration.kind == "gaussian" else "eps"
        for network in pipeline.acting.explored:
            part = exploration_part(pipeline, network)
            yield f"parts.{part}.{strength}.fill_({amount(exploration.amount, unit, total)})"
    for bonus in pipeline.bonuses:
        yield f"parts.{bonus.name}_reward.coeff = {amount(bonus.coeff, unit, total)}"
    if pipeline.env.changing:
        words = (f"{name}={amount(one, unit, total)}" for name, one in pipeline.env.changing.items())
        changed = f"._replace({', '.join(words)})"
        for part in ("env", "eval_env") if pipeline.eval_env is pipeline.env else ("env",):
            yield f"parts.{part}.params = parts.{part}.params{changed}"
    data = pipeline.data
    if isinstance(data, ReplayData) and data.beta is not None and data.beta.schedule is not None:
        yield f"parts.sampler.beta = {amount(data.beta, unit, total)}"
    for loss in pipeline.losses:
        for name, number in loss.schedules.items():
            yield f"parts.{loss.part('loss')}.{name} = {amount(number, unit, total)}"
        for name, numbers in loss.by_action.items():
            if any(one.schedule is not None for one in numbers.values()):
                each = (f"{key_text(key)}: {amount(one, unit, total)}" for key, one in numbers.items())
                yield f"parts.{loss.part('loss')}.{name} = {{{', '.join(each)}}}"
    for targets in pipeline.targets:
        if targets.amount.schedule is not None:
            yield f"parts.{targets.part}.tau = {amount(targets.amount, unit, total)}"


def amount(number: Amount, unit: str, total: Setting) -> str:
    """The value of a number at the present moment of the loop."""
    if number.schedule is None:
        return f"config.{number.name}"
    if number.points:
        points = ", ".join(f"(config.{at.name}, config.{value.name})" for at, value in number.points)
        return f"piecewise(run.{unit}, {points})"
    last, over = number.further
    assert last is not None
    span = total if over is None else over
    return f"{number.schedule}(run.{unit}, config.{number.name}, config.{last.name}, config.{span.name})"


def _may_change(pipeline: CheckedPipeline) -> Iterator[str]:
    """What a resumed training may change: numbers that are read at each step, and neither shape nor stream."""
    limits = pipeline.limits
    for setting in (
        limits.stop_return,
        limits.hours,
        limits.evaluate_every,
        limits.episodes,
        limits.episode_steps,
        limits.checkpoint_every,
    ):
        if setting is not None:
            yield setting.name
    yield from (name for name, _ in device_names(pipeline))
    if pipeline.compile is not None:
        yield "compile"
    for one in pipeline.optimizers:
        yield from _names(one.lr)
        if one.max_grad_norm is not None:
            yield from _names(one.max_grad_norm)
    exploration = pipeline.acting.exploration
    if exploration is not None and exploration.amount is not None:
        yield from _names(exploration.amount)
    for bonus in pipeline.bonuses:
        yield from _names(bonus.coeff)
    for number in pipeline.amounts:
        if number.schedule is not None:
            yield from _names(number)


def _names(number: Amount) -> Iterator[str]:
    yield number.name
    yield from (one.name for one in number.further if one is not None)
    yield from (one.name for pair in number.points for one in pair if one.name != number.name)


def _uses(pipeline: CheckedPipeline) -> Iterator[str]:
    """What the template reads of its module."""
    yield from ("Any", "Mapping", "NamedTuple", "Path", "Run", "Tensor", "TensorDictBase", "dataclass")
    yield from ("PipelineParts", "command_line", "draw_curve", "evaluate", "stream", "torch")
    if pipeline.next_actions:
        yield "write_next_actions"
    if any(one.max_grad_norm is not None for one in pipeline.optimizers):
        yield "clip_grad_norm_"
    if isinstance(pipeline.data, OnPolicyData):
        yield "column_minibatches" if pipeline.in_whole_rows else "minibatches"
    if keeps_recorded_apart(pipeline.data):
        yield "joined"
    if stored_keys(pipeline):
        yield from ("ClassVar", "NestedKey", "Sequence")
    if any(one.estimation and one.estimation.kind == GROUP_ADVANTAGE for one in pipeline.estimated):
        yield _group_advantage(pipeline)
        if pipeline.workers is not None and pipeline.workers.sync:
            yield "groups_of_workers"
    if isinstance(pipeline.data, OnPolicyData) and pipeline.data.accumulate is not None:
        yield from ("equal_parts", "mean_losses", *map(output_of, pipeline.losses))
    if pipeline.compile is not None:
        yield from ("Backward", "cached_property", *map(output_of, pipeline.losses))
    if pipeline.groups or (isinstance(pipeline.data, RecordedData) and pipeline.recorded is not None):
        yield from ("ClassVar", "NestedKey")
    if not pipeline.limits.deterministic:
        yield "ExplorationType"
    yield from (one.schedule for one in pipeline.amounts if one.schedule is not None)
