"""The functions that every step and every reset runs: `…_reset` and `…_advance`."""

from __future__ import annotations

from specgen.check.model import Entry, Key, dotted, identifier
from specgen.expr import Binding, DrawSite, full
from specgen.plan.env_context import FLAGS, NOT_DONE, EnvContext, draw_doc, fixed_doc
from specgen.plan.flow import reads
from specgen.plan.interface import Call
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.plan.writer import Writer


def plan_reset(context: EnvContext) -> tuple[FunctionPlan, Call, list[DrawSite]]:
    """The reset function, how it is called, and the draws that it takes."""
    env = context.env
    writer = Writer(context.fixed, context.functions)
    state = {entry.dotted: entry for entry in env.state}
    like = NOT_DONE
    for statement in env.reset:
        entry = state.get(statement.target)
        if entry is None:
            writer.assign(statement)
        else:
            writer.assign(statement, type=entry.type, interval=entry.spec.interval, like=like)
    values = [f"{entry.name}={entry.name}" for entry in env.state]
    for prefix in env.done:
        for flag in FLAGS:
            name = "_".join((*prefix, flag))
            if not prefix:
                values.append(f"{name}=not_done" if flag == "done" else f"{name}=not_done.clone()")
            else:
                dims = ", ".join(map(str, (*env.done_dims[prefix], 1)))
                shape = f"(*not_done.shape[:-1], {dims})"
                values.append(f"{name}=torch.zeros({shape}, dtype=torch.bool, device=not_done.device)")
    name = f"{context.prefix}_reset"
    leading = context.fixed_arguments(env.reset)
    lines = [*writer.lines, Line(f"return {env.name}Root({', '.join(values)})")]
    doc = (
        "A fresh episode in every row of the batch.",
        "",
        "Args:",
        *fixed_doc(leading),
        "    not_done: bool [*batch, 1], all False; it tells the batch shape and the device.",
        *(f"    {site.name}: {draw_doc(site)}" for site in writer.draws),
    )
    args = [*leading, Argument("not_done", "Tensor"), *(Argument(s.name, "Tensor") for s in writer.draws)]
    plan = FunctionPlan(name, tuple(args), f"{env.name}Root", doc, tuple(lines))
    call = Call(name, tuple(a.name for a in args), tuple(f.dotted for f in context.root), f"{env.name}Root")
    return plan, call, writer.draws


def plan_advance(context: EnvContext) -> tuple[FunctionPlan, Call, list[DrawSite]]:
    """The step function, how it is called, and the draws that it takes."""
    env, flow = context.env, context.flow
    scope = {**context.fixed, **context.now}
    writer = Writer(scope, context.functions)
    state = {f"next.{entry.dotted}": entry for entry in env.state}
    used = dict.fromkeys(name for name in reads(flow.hot) if name in context.now)
    for statement in flow.hot:
        entry = state.get(statement.target)
        if entry is None:
            writer.assign(statement)
            continue
        used.setdefault(entry.dotted)
        writer.assign(
            statement,
            type=entry.type,
            interval=entry.spec.interval,
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
        values += _flags(context, prefix, assigned, writer, used)
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
        *(f"    {identifier(n)}: {context.input_doc(n)}" for n in names),
        *(f"    {site.name}: {draw_doc(site)}" for site in writer.draws),
    )
    plan = FunctionPlan(name, tuple(args), f"{env.name}Next", doc, tuple(lines))
    call_args = (*(a.name for a in leading), *names, *(s.name for s in writer.draws))
    return (
        plan,
        Call(name, call_args, tuple(f.dotted for f in context.next), f"{env.name}Next"),
        writer.draws,
    )


def _flags(
    context: EnvContext, prefix: Key, assigned: set[str], writer: Writer, used: dict[str, None]
) -> list[str]:
    """The lines that store the done flags of one set, and the record's arguments."""
    names = {flag: "_".join((*prefix, flag)) for flag in FLAGS}
    origin = ".".join(("envs", context.env.name, "step"))
    fixed: dict[str, str] = {}
    for flag in ("terminated", "truncated"):
        key = dotted((*prefix, flag))
        binding = writer.scope[key] if key in assigned else None
        if binding is None:
            fixed[flag] = "False"
        elif binding.type.level != "batch":
            fixed[flag] = binding.text if binding.static is None else str(bool(binding.static))
        elif not binding.type.col:
            writer.lines.append(Line(f"{names[flag]} = {binding.text}.unsqueeze(-1)", f"{origin}.{key}"))
    computed = [flag for flag in ("terminated", "truncated") if flag not in fixed]
    like = names[computed[0]] if computed else names["done"]
    if not computed:
        used.setdefault(dotted((*prefix, "done")))
    for flag, value in fixed.items():
        text = f"torch.zeros_like({like})" if value == "False" else f"torch.full_like({like}, {value})"
        writer.lines.append(Line(f"{names[flag]} = {text}"))
    done = f"{names['terminated']} | {names['truncated']}"
    return [f"{names['done']}={done}", *(f"{names[f]}={names[f]}" for f in ("terminated", "truncated"))]


def _column(entry: Entry, writer: Writer, used: dict[str, None]) -> str:
    binding = writer.scope[entry.dotted]
    if binding.static is None and binding.type.level == "batch":
        return f"{binding.text}.unsqueeze(-1)"
    used.setdefault("done")
    return f"torch.full_like(done, {binding.static if binding.static is not None else binding.text}, dtype=torch.float32)"
