"""The dataclass of the hyper-parameters of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.data_model import OnPolicyData, RecordedData, ReplayData
from specgen.check.pipelines.heads_model import QValueHead, ValueSupport
from specgen.check.pipelines.model import CheckedPipeline, Setting
from specgen.code import Code, using
from specgen.literals import formatted, literal
from specgen.plan.model import Field
from specgen.plan.pipelines.devices import device_checks, device_fields
from specgen.plan.pipelines.model import ConfigPlan

_WORDS = {">=": "at_least", "<=": "at_most", ">": "above", "<": "below"}


def config_plan(pipeline: CheckedPipeline) -> ConfigPlan:
    """Plan the dataclass, which refuses numbers that are out of range or don't fit together."""
    fields = [Field("seed", "int", literal(pipeline.seed), "all random numbers follow from it")]
    if pipeline.recorded is not None:
        doc = "recorded transitions: a folder, or a file"
        fields.append(Field("recorded", "str", literal(pipeline.recorded), doc))
    fields += [Field(one.name, one.kind, _default(one), _doc(one)) for one in pipeline.settings]
    fields += device_fields(pipeline)
    if pipeline.compile is not None:
        doc = "whether torch compiles the loss and its gradients, which takes seconds at the first update"
        fields.append(Field("compile", "bool", literal(pipeline.compile), doc))
    checks = [*map(_check, pipeline.settings), *device_checks(pipeline)]
    return ConfigPlan(f"{pipeline.name}Config", tuple(fields), (*checks, *_relations(pipeline)))


def _default(setting: Setting) -> str:
    """The number, with thousands apart where there are many."""
    if setting.kind != "int":
        return literal(float(setting.default) if setting.kind == "float" else bool(setting.default))
    number = int(setting.default)
    return f"{number:_}" if abs(number) >= 10_000 else literal(number)


def _doc(setting: Setting) -> str:
    """What it is, and its range: `discount of one step (>= 0, <= 1)`."""
    tightest = _tightest(setting)
    limits = ", ".join(f"{sign} {bound:g}" for sign, bound in tightest)
    return setting.doc.rstrip(".") + (f" ({limits})" if limits else "")


def _tightest(setting: Setting) -> tuple[tuple[str, float], ...]:
    """The range without bounds that others imply."""
    above = dict(setting.range).get(">")
    return tuple(
        (sign, bound) for sign, bound in setting.range if sign != ">=" or above is None or bound > above
    )


def _check(setting: Setting) -> Code:
    function = f"{setting.kind}_param"
    words = "".join(
        f", {_WORDS[sign]}={literal(_number(setting, bound))}" for sign, bound in _tightest(setting)
    )
    return using(f"{function}({literal(setting.name)}, self.{setting.name}{words})", function)


def _number(setting: Setting, bound: float) -> float:
    return int(bound) if setting.kind == "int" or float(bound).is_integer() else float(bound)


def _relations(pipeline: CheckedPipeline) -> Iterator[str]:
    """What numbers are to each other."""
    yield from _noise_that_dies_out(pipeline)
    yield from _rising_supports(pipeline)
    data = pipeline.data
    if pipeline.workers is not None and not isinstance(data, RecordedData):
        count = pipeline.workers.count.name
        group = 1 if pipeline.env.chat is None else pipeline.env.chat.group
        what = f"the groups of {group} in " if group > 1 else ""
        text = f"{count} must divide {what}{data.num_envs.name}, got "
        groups = f" // {group}" if group > 1 else ""
        yield (
            f"if self.{data.num_envs.name}{groups} % self.{count}:\n"
            f"    raise ValueError({formatted(text, f'self.{count}')})"
        )
    if isinstance(data, OnPolicyData):
        parts = data.minibatch_size or data.minibatches
        assert parts is not None
        whole = pipeline.in_whole_rows
        if pipeline.turns is not None:
            yield _whole_conversations(data.num_steps.name, pipeline.turns)
        if whole:
            yield _whole_environments(data, parts)
        if data.accumulate is not None:
            yield _equal_parts(data, data.accumulate, whole=whole)
        if pipeline.env.chat is not None:
            yield from _whole_groups(pipeline, data)
        if whole:
            return
        frames = f"self.{data.num_envs.name} * self.{data.num_steps.name}"
        yield (
            f"if {frames} % self.{parts.name}:\n"
            f"    raise ValueError({formatted(f'{parts.name} must divide {data.num_envs.name} * {data.num_steps.name}, got ', f'self.{parts.name}')})"
        )
    if isinstance(data, ReplayData):
        full = data.recorded is not None and data.fraction is None
        least = [data.capacity] if full else [data.capacity, data.warm_up_frames]
        for smaller, larger in ((data.batch_size, one) for one in least):
            text = f"{larger.name} must be at least {smaller.name}, got "
            yield (
                f"if self.{larger.name} < self.{smaller.name}:\n"
                f"    raise ValueError({formatted(text, f'self.{larger.name}')})"
            )
        if data.fraction is not None:
            yield _some_of_both(data.batch_size.name, data.fraction.name)
        if data.slice_length is not None:
            yield _whole_slices(data.batch_size.name, data.slice_length.name)
            yield _long_enough(data, data.slice_length)
        if data.n_step is not None:
            names = (data.warm_up_frames.name, data.n_step.name, data.num_envs.name)
            text = "{} must be more than {} * {}, which wait for later steps, got ".format(*names)
            yield (
                "if self.{} <= self.{} * self.{}:\n".format(*names)
                + f"    raise ValueError({formatted(text, f'self.{names[0]}')})"
            )


def _equal_parts(data: OnPolicyData, accumulate: Setting, *, whole: bool) -> str:
    """That an update has equal parts: of frames, or of whole environments."""
    envs, steps = f"self.{data.num_envs.name}", f"self.{data.num_steps.name}"
    size, count = data.minibatch_size, data.minibatches
    if size is not None:
        rows = f"self.{size.name}" + (f" // {steps}" if whole else "")
    else:
        assert count is not None
        rows = f"{envs if whole else f'{envs} * {steps}'} // self.{count.name}"
    what = "environments" if whole else "frames"
    text = f"{accumulate.name} must divide the {what} of an update, got "
    return f"if {rows} % self.{accumulate.name}:\n    raise ValueError({formatted(text, f'self.{accumulate.name}')})"


def _whole_conversations(steps: str, turns: int) -> str:
    """That a batch has conversations with all their answers."""
    text = f"{steps} must be {turns}, the most answers in a conversation, got "
    return f"if self.{steps} != {turns}:\n    raise ValueError({formatted(text, f'self.{steps}')})"


def _whole_groups(pipeline: CheckedPipeline, data: OnPolicyData) -> Iterator[str]:
    """That conversations are whole groups of those about one prompt."""
    for setting, env in ((data.num_envs, pipeline.env), (pipeline.limits.episodes, pipeline.eval_env)):
        if env.chat is not None and env.chat.group > 1:
            text = f"{setting.name} must be a multiple of {env.chat.group}, the conversations about one prompt, got "
            yield (
                f"if self.{setting.name} % {env.chat.group}:\n"
                f"    raise ValueError({formatted(text, f'self.{setting.name}')})"
            )


def _some_of_both(batch: str, fraction: str) -> str:
    """That a batch has frames that were recorded, and others."""
    text = f"{fraction} must leave frames of both kinds in a batch of {batch}, got "
    wrong = f"not 1 <= round(self.{fraction} * self.{batch}) < self.{batch}"
    return f"if {wrong}:\n    raise ValueError({formatted(text, f'self.{fraction}')})"


def _whole_slices(batch: str, length: str) -> str:
    """That a batch has whole slices."""
    message = formatted(f"{length} must divide {batch}, got ", f"self.{length}")
    return f"if self.{batch} % self.{length}:\n    raise ValueError({message})"


def _long_enough(data: ReplayData, length: Setting) -> str:
    """That environments have done as many steps as a slice has when the first is drawn."""
    names = (data.warm_up_frames.name, data.num_envs.name, length.name)
    message = formatted("{} must be at least {} * {}, got ".format(*names), f"self.{names[0]}")
    return "if self.{} < self.{} * self.{}:\n".format(*names) + f"    raise ValueError({message})"


def _noise_that_dies_out(pipeline: CheckedPipeline) -> Iterator[str]:
    """That noise on actions which drifts returns to 0."""
    exploration = pipeline.acting.exploration
    if exploration is not None and exploration.kind == "ornstein_uhlenbeck":
        theta, dt = (exploration.settings[name].name for name in ("theta", "dt"))
        product = f"self.{theta} * self.{dt}"
        text = f"{theta} * {dt} must be below 2, or the noise never dies out, got "
        yield f"if {product} >= 2:\n    raise ValueError({formatted(text, product)})"


def _rising_supports(pipeline: CheckedPipeline) -> Iterator[str]:
    """That the values whose probabilities a network gives rise."""
    for network in pipeline.networks:
        head = network.head
        if isinstance(head, QValueHead) and isinstance(head.distribution, ValueSupport):
            low, high = head.distribution.low.name, head.distribution.high.name
            text = f"{low} must be below {high}, got "
            yield f"if self.{low} >= self.{high}:\n    raise ValueError({formatted(text, f'self.{low}')})"


def _whole_environments(data: OnPolicyData, parts: Setting) -> str:
    """That minibatches have environments with all their steps."""
    envs, steps = data.num_envs.name, data.num_steps.name
    if parts is data.minibatches:
        wrong, text = f"self.{envs} % self.{parts.name}", f"{parts.name} must divide {envs}, got "
    else:
        frames = f"self.{envs} * self.{steps}"
        wrong = f"self.{parts.name} % self.{steps} or {frames} % self.{parts.name}"
        text = f"{parts.name} must be a multiple of {steps} that divides {envs} * {steps}, got "
    return f"if {wrong}:\n    raise ValueError({formatted(text, f'self.{parts.name}')})"
