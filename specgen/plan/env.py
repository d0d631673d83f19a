"""A checked environment as records, pure functions and a thin class around them."""

from __future__ import annotations

from specgen.check.model import Checked, CheckedEnv, CheckedFunction
from specgen.expr import Binding, full
from specgen.plan.data import data_plan
from specgen.plan.env_class import env_class
from specgen.plan.env_context import EnvContext, field_doc
from specgen.plan.env_derived import plan_observe, plan_reward
from specgen.plan.env_steps import plan_advance, plan_reset
from specgen.plan.interface import EnvInterface, Output
from specgen.plan.model import Argument, Field, FunctionPlan, Item, Line, RecordPlan
from specgen.plan.per_env import record_fields
from specgen.plan.writer import Writer, draw_text, stored_text


def plan_env(checked: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    """Plan a native environment.

    Returns:
        What stands in the generated module, in order, and what a chain needs to know of it.
    """
    env = checked.value
    context = EnvContext(env)
    items: list[Item] = []
    if env.params:
        items.append(params_record(env))
    if env.consts:
        items.append(consts_record(env))
    items += [_record(context, "Root"), _record(context, "Next")]
    items += [_function(context, function) for function in env.functions]
    reset, reset_call, reset_draws = plan_reset(context)
    advance, advance_call, advance_draws = plan_advance(context)
    items += [reset, advance]
    reward_call = observe_call = None
    if any(entry.dotted not in context.flow.promoted for entry in env.reward):
        made, reward_call = plan_reward(context)
        items += made
    if env.observation:
        made, observe_call = plan_observe(context)
        items += made
    interface = EnvInterface(
        env,
        context.root,
        context.next,
        reset_call,
        advance_call,
        reward_call,
        observe_call,
        tuple(map(draw_text, reset_draws)),
        tuple(map(draw_text, advance_draws)),
        tuple(Output(e.name, e.dotted, e.key, e.type, e.spec, e.doc) for e in env.observation),
        tuple(Output(e.name, e.dotted, e.key, e.type, e.spec, e.doc) for e in env.reward),
        env.params,
    )
    return [*items, env_class(interface), *data_plan(interface)], interface


def params_record(env: CheckedEnv) -> RecordPlan:
    """The constructor keywords as the pure functions take them."""
    doc = (f"Constructor keywords of `{env.name}`.",)
    return RecordPlan(f"{env.name}Params", doc, record_fields(env.params))


def consts_record(env: CheckedEnv) -> RecordPlan:
    """The constant tables as the pure functions take them."""
    fields = tuple(Field(c.name, "Tensor", doc=c.doc or str(c.type)) for c in env.consts)
    return RecordPlan(f"{env.name}Consts", (f"Constant tables of `{env.name}`.",), fields)


def _record(context: EnvContext, kind: str) -> RecordPlan:
    fields = context.root if kind == "Root" else context.next
    doc = {
        "Root": "What a step reads from one time to the next; observations follow from it.",
        "Next": "What a step computes for the step after it; rewards and observations follow from it.",
    }[kind]
    return RecordPlan(
        f"{context.env.name}{kind}", (doc,), tuple(Field(f.name, "Tensor", doc=field_doc(f)) for f in fields)
    )


def _function(context: EnvContext, function: CheckedFunction) -> FunctionPlan:
    scope = dict(context.fixed)
    for name, type_ in function.args.items():
        scope[name] = Binding(name, type_, full(type_.dtype))
    # a value that reads no argument is made in the batch of the first one, or where the constants are
    tables = [c.name for c in context.env.consts] if "consts" in function.function.prefix else []
    place = next((scope[name] for name in (*function.args, *tables)), None)
    writer = Writer(scope, context.functions, place)
    for statement in function.let:
        writer.assign(statement)
    result = stored_text(writer.typed(function.returns), function.function.result, place)
    writer.lines.append(Line(f"return {result}", function.returns.path))
    leading = [Argument(p, f"{context.env.name}{p.capitalize()}") for p in function.function.prefix]
    return FunctionPlan(
        function.function.text,
        (*leading, *(Argument(name, "Tensor") for name in function.args)),
        "Tensor",
        (function.doc or f"`{function.name}` of the schema.",),
        tuple(writer.lines),
    )
