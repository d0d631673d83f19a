"""The functions that every step and every reset runs: `…_reset` and `…_advance`."""

from __future__ import annotations

from specgen.check.model import Entry, identifier
from specgen.expr import Binding, DrawSite, Type, full
from specgen.expr.printer import full_like_text
from specgen.plan.docs import items_doc
from specgen.plan.env_context import NOT_DONE, EnvContext, draw_doc, fixed_doc
from specgen.plan.env_flags import flag_lines, reset_flags, with_batch
from specgen.plan.flow import reads
from specgen.plan.interface import Call
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.plan.per_env import assign_params
from specgen.plan.writer import Writer


def plan_reset(context: EnvContext) -> tuple[FunctionPlan, Call, list[DrawSite]]:
    """The reset function, how it is called, and the draws that it takes."""
    env = context.env
    writer = Writer(context.fixed, context.functions, NOT_DONE)
    state = {entry.dotted: entry for entry in env.state}
    like = NOT_DONE
    fills = assign_params(writer, env.params, f"envs.{env.name}", like)
    for statement in env.reset:
        entry = state.get(statement.target)
        if entry is None:
            writer.assign(statement)
        else:
            writer.assign(statement, type=entry.type, like=like)
    made, flags = reset_flags(env)
    values = [*(f"{entry.name}={entry.name}" for entry in env.state), *flags]
    name = f"{context.prefix}_reset"
    drawn = [param.draw for param in env.params if param.draw is not None]
    leading = context.fixed_arguments((*drawn, *env.reset), params=fills)
    lines = with_batch([*writer.lines, *made], context.names)
    lines.append(Line(f"return {env.name}Root({', '.join(values)})"))
    doc = (
        "A fresh episode in every row of the batch.",
        "",
        "Args:",
        *fixed_doc(leading),
        "    not_done: bool [*batch, 1], all False; it tells the batch shape and the device.",
        *items_doc(f"{site.name}: {draw_doc(site)}" for site in writer.draws),
    )
    args = [*leading, Argument("not_done", "Tensor"), *(Argument(s.name, "Tensor") for s in writer.draws)]
    plan = FunctionPlan(name, tuple(args), f"{env.name}Root", doc, tuple(lines))
    call = Call(name, tuple(a.name for a in args), tuple(f.dotted for f in context.root), f"{env.name}Root")
    return plan, call, writer.draws


def plan_advance(context: EnvContext) -> tuple[FunctionPlan, Call, list[DrawSite]]:
    """The step function, how it is called, and the draws that it takes."""
    env, flow = context.env, context.flow
    scope = {**context.fixed, **context.now}
    done = Binding("done", Type("bool", (), col=True), full("bool"))
    used = dict.fromkeys(name for name in reads(flow.hot) if name in context.now)
    place, like = context.place({**scope, "done": done}, used, "done")
    writer = Writer(scope, context.functions, like)
    state = {f"next.{entry.dotted}": entry for entry in env.state}
    flags = {field.dotted for field in context.flags}
    for index, statement in enumerate(flow.hot):
        entry = state.get(statement.target)
        if entry is None:
            fills = context.fills(statement.target)
            last = all(statement.target not in other.reads for other in flow.hot[index + 1 :])
            column = last and statement.target in flags
            typed = writer.assign(statement, like=like, fills=fills, column=column)
            if writer.placed or (fills and typed.type.level != "batch"):
                used.setdefault(place)
            continue
        used.setdefault(entry.dotted)
        writer.assign(
            statement,
            type=entry.type,
            like=Binding(entry.name, entry.type, full(entry.type.dtype)),
        )
    assigned = {statement.target for statement in flow.hot}
    values = []
    for entry in env.state:
        if f"next.{entry.dotted}" in assigned:
            values.append(f"{entry.name}=next_{entry.name}")
        else:
            used.setdefault(entry.dotted)
            values.append(f"{entry.name}={entry.name}")
    for prefix in env.done:
        values += flag_lines(env, prefix, writer, used)
    for entry in env.reward:
        if entry.dotted in flow.promoted:
            text = _column(entry, writer, used)
            values.append(f"{entry.name}={text}")
    lines = [*writer.lines, Line(f"return {env.name}Next({', '.join(values)})")]
    leading = context.fixed_arguments(flow.hot)
    order = [f.dotted for f in context.root] + [entry.dotted for entry in env.action]
    names = sorted(used, key=order.index)
    args = [*leading, *(Argument(identifier(n), "Tensor") for n in names)]
    args += [Argument(site.name, "Tensor") for site in writer.draws]
    name = f"{context.prefix}_advance"
    doc = (
        "One step of the dynamics: all that the step after it depends on.",
        "",
        "Args:",
        *fixed_doc(leading),
        *items_doc(f"{identifier(n)}: {context.input_doc(n)}" for n in names),
        *items_doc(f"{site.name}: {draw_doc(site)}" for site in writer.draws),
    )
    plan = FunctionPlan(name, tuple(args), f"{env.name}Next", doc, tuple(lines))
    call_args = (*(a.name for a in leading), *names, *(s.name for s in writer.draws))
    return (
        plan,
        Call(name, call_args, tuple(f.dotted for f in context.next), f"{env.name}Next"),
        writer.draws,
    )


def _column(entry: Entry, writer: Writer, used: dict[str, None]) -> str:
    binding = writer.scope[entry.dotted]
    if binding.static is None and binding.type.level == "batch":
        return f"{binding.text}.unsqueeze(-1)"
    used.setdefault("done")
    value = str(binding.static) if binding.static is not None else binding.text
    return full_like_text("done", value, "torch.float32")
