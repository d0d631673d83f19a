"""What follows from the records: `…_reward` and `…_observe`, for any leading dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specgen.check.done_sets import joined_flags
from specgen.check.model import Entry, Statement, dotted
from specgen.expr import Binding, full
from specgen.plan.docs import items_doc
from specgen.plan.env_context import EnvContext, entry_doc, fixed_doc
from specgen.plan.flow import reads
from specgen.plan.interface import Call
from specgen.plan.model import Argument, Field, FunctionPlan, Item, Line, RecordPlan
from specgen.plan.writer import Writer, stored_text


def plan_reward(context: EnvContext) -> tuple[list[Item], Call]:
    """The rewards that no later step waits for, as a function of the records."""
    env = context.env
    entries = [entry for entry in env.reward if entry.dotted not in context.flow.promoted]
    scope = {**context.fixed, **context.now, **context.after}
    inputs = dict.fromkeys(_as_inputs(reads(context.flow.cold), context))
    place, like = context.place(scope, inputs, "next.done")
    writer = Writer(scope, context.functions, like)
    rewards = {entry.dotted: entry for entry in entries}
    joined = joined_flags(env)
    for statement in context.flow.cold:
        entry = rewards.get(statement.target)
        if entry is None:
            fills = context.fills(statement.target)
            typed = writer.assign(statement, like=like, fills=fills)
            if writer.placed or (fills and typed.type.level != "batch"):
                inputs.setdefault(place)
            continue
        prefix = max((p for p in env.done if entry.key[: len(p)] == p), key=len, default=())
        # no reward reads `done`, so it can stand for a flag of the set whatever the statements define
        flag = dotted((*prefix, "done" if dotted((*prefix, "terminated")) in joined else "terminated"))
        typed = writer.typed(statement)
        if typed.type.level != "batch":
            inputs.setdefault(f"next.{flag}")
        text = stored_text(typed, entry.type, writer.scope[flag])
        writer.lines.append(Line(f"{entry.name} = {text}", statement.path))
        writer.scope[statement.target] = Binding(entry.name, entry.type, full("float32"))
    return _derived(context, "reward", entries, inputs, writer, context.flow.cold, "reward")


def plan_observe(context: EnvContext) -> tuple[list[Item], Call]:
    """The observations, as a function of the state."""
    env = context.env
    state = {entry.dotted: entry for entry in env.state}
    inputs = dict.fromkeys(name for name in reads(env.observe) if name in state)
    scope = {**context.fixed, **context.now, "done": context.after["done"]}
    place, like = context.place(scope, inputs, "done")
    writer = Writer({**context.fixed, **context.now}, context.functions, like)
    entries = {entry.dotted: entry for entry in env.observation}
    for statement in env.observe:
        entry = entries.get(statement.target)
        if entry is None:
            writer.assign(statement)
            if writer.placed:
                inputs.setdefault(place)
            continue
        typed = writer.typed(statement)
        if typed.type.level != "batch":
            inputs.setdefault(place)
        text = stored_text(typed, entry.type, like)
        writer.lines.append(Line(f"{entry.name} = {text}", statement.path))
        writer.scope[statement.target] = Binding(entry.name, entry.type, entry.spec.interval)
    return _derived(context, "observe", list(env.observation), inputs, writer, env.observe, "observation")


def _derived(
    context: EnvContext,
    kind: str,
    entries: Sequence[Entry],
    inputs: dict[str, None],
    writer: Writer,
    statements: Sequence[Statement],
    what: str,
) -> tuple[list[Item], Call]:
    """A function of what the records hold; it works for any leading dimensions, so also over time."""
    env = context.env
    name = f"{context.prefix}_{kind}"
    leading = context.fixed_arguments(statements)
    order = (
        [f.dotted for f in context.root]
        + [e.dotted for e in env.action]
        + [f"next.{f.dotted}" for f in context.next]
    )
    names = sorted(inputs, key=order.index)
    arg_names = [context.argument_name(n) for n in names]
    args = (*leading, *(Argument(a, "Tensor") for a in arg_names))
    items: list[Item] = []
    lines = list(writer.lines)
    if len(entries) == 1:
        returns = "Tensor"
        last = lines.pop()
        lines.append(Line(f"return {last.text.split(' = ', 1)[1]}", last.origin))
        record = None
    else:
        record = returns = f"{env.name}{what.capitalize()}"
        items.append(
            RecordPlan(
                record,
                (f"What `{name}` returns.",),
                tuple(Field(e.name, "Tensor", doc=entry_doc(e)) for e in entries),
            )
        )
        lines.append(Line(f"return {record}({', '.join(f'{e.name}={e.name}' for e in entries)})"))
    doc = (
        f"The {what} of a {'step' if kind == 'reward' else 'state'}, for any leading dimensions.",
        "",
        "Args:",
        *fixed_doc(leading),
        *items_doc(f"{a}: {context.input_doc(n)}" for a, n in zip(arg_names, names, strict=True)),
        "",
        "Returns:",
        *items_doc(f"{'' if record is None else f'{e.name}: '}{entry_doc(e)}" for e in entries),
    )
    items.append(FunctionPlan(name, args, returns, doc, tuple(lines)))
    call = Call(name, (*(a.name for a in leading), *names), tuple(e.dotted for e in entries), record)
    return items, call


def _as_inputs(names: Iterable[str], context: EnvContext) -> Iterable[str]:
    """The arguments behind what cold statements read: flags are those after the step."""
    flags = {f.dotted for f in context.flags}
    for name in names:
        if name in context.now or name.startswith("next."):
            yield name
        elif name in flags:
            yield f"next.{name}"
