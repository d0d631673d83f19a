"""What replaces goals in a replay buffer: the functions of rewards for other goals, and how the buffer calls them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specgen.check.pipelines.data_model import HindsightData, ReplayData
from specgen.check.pipelines.model import CheckedPipeline
from specgen.check.sources import PythonSource
from specgen.code import Code, named
from specgen.expr.symbols import Key
from specgen.imported import Import
from specgen.literals import literal
from specgen.plan.functions import plan_function
from specgen.plan.model import FunctionPlan
from specgen.plan.pipelines.environments import specs_of
from specgen.plan.spec_text import key_text
from specgen.program.program import Program

_SUMMARIES = {
    "reward": "The reward of a step that achieved this, for any goal.",
    "terminated": "Whether a step that achieved this ended the episode, for any goal.",
}


def hindsight_functions(pipeline: CheckedPipeline) -> Iterator[FunctionPlan]:
    """The functions of what was achieved and of goals, but for those of the user's."""
    hindsight = _hindsight(pipeline)
    if hindsight is None:
        return
    records: Mapping[str, Code] = {} if hindsight.params is None else {"params": named(hindsight.params[1])}
    for name, function in hindsight.functions.items():
        if isinstance(function, Program):
            yield plan_function(function, _SUMMARIES[name], records).plan


def in_hindsight(pipeline: CheckedPipeline, hindsight: HindsightData) -> list[str]:
    """What a buffer is given to replace goals."""
    words = ["reward_fn=" + _called(pipeline, hindsight, "reward")]
    if "terminated" in hindsight.functions:
        words.append("terminated_fn=" + _called(pipeline, hindsight, "terminated"))
    words += [f"her_ratio=config.{hindsight.her_ratio.name}", f"strategy={literal(hindsight.strategy)}"]
    keys = hindsight.keys
    assert keys is not None
    words += [f"goal_key={key_text(keys.desired)}"] if keys.desired != ("desired_goal",) else []
    words += [f"achieved_goal_key={key_text(keys.achieved)}"] if keys.achieved != ("achieved_goal",) else []
    words += [f"reward_key={key_text(('next', *keys.reward))}"] if keys.reward != ("reward",) else []
    words += [f"end_key={key_text(('next', *keys.done))}"] if keys.done != ("done",) else []
    beside = (*keys.done[:-1], "terminated")
    if "terminated" in hindsight.functions and keys.terminated != beside:
        words.append(f"terminated_key={key_text(('next', *keys.terminated))}")
    return words


def hindsight_imports(pipeline: CheckedPipeline, module: str) -> dict[str, Import]:
    """The user's functions, and the record of the parameters that others read."""
    hindsight = _hindsight(pipeline)
    if hindsight is None:
        return {}
    made = {
        f"{name}_in_hindsight": Import(one.module, one.name, alias=f"{name}_in_hindsight")
        for name, one in hindsight.functions.items()
        if isinstance(one, PythonSource)
    }
    if hindsight.params is not None and hindsight.params[0] != module:
        origin, record = hindsight.params
        made[record] = Import(origin, record, typing_only=True)
    return made


def hindsight_uses(pipeline: CheckedPipeline) -> Iterator[str]:
    """The names of the module that the calls of these functions read."""
    hindsight = _hindsight(pipeline)
    for name in () if hindsight is None else hindsight.functions:
        yield f"{name}_in_hindsight"


def _hindsight(pipeline: CheckedPipeline) -> HindsightData | None:
    return pipeline.data.hindsight if isinstance(pipeline.data, ReplayData) else None


def _called(pipeline: CheckedPipeline, hindsight: HindsightData, name: str) -> str:
    """A function of steps that calls one of goals."""
    function, keys = hindsight.functions[name], hindsight.keys
    assert keys is not None
    given = f"step[{_index(('next', *keys.achieved))}], step[{_index(keys.desired)}]"
    if isinstance(function, Program) and any(one.group == "params" for one in function.inputs):
        given = f"{specs_of(pipeline)}.params, {given}"
    return f"lambda step: {name}_in_hindsight({given})"


def _index(key: Key) -> str:
    """A key between brackets: `"next", "achieved_goal"`."""
    return ", ".join(map(literal, key))
