"""A checked environment as records, pure functions and a thin class around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specgen.check.model import (
    Checked,
    CheckedEnv,
    CheckedFunction,
    Entry,
    Key,
    Statement,
    dotted,
    identifier,
    snake,
)
from specgen.expr import Binding, DrawSite, Function, Interval, Type, full
from specgen.plan.data import data_plan
from specgen.plan.env_class import env_class
from specgen.plan.flow import Flow, reads, split_step
from specgen.plan.interface import Call, EnvInterface, Output, RecordField
from specgen.plan.model import Argument, Field, FunctionPlan, Item, Line, RecordPlan
from specgen.plan.writer import Writer, draw_text, shape_text, stored_text

FLAGS = ("done", "terminated", "truncated")
NOT_DONE = Binding("not_done", Type("bool", (), col=True), full("bool"))
"""The argument of reset functions that tells the batch shape and the device."""


def plan_env(checked: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    """Plan a native environment.

    Returns:
        What stands in the generated module, in order, and what a chain needs to know of it.
    """
    return _Planner(checked.value).run()


class _Planner:
    def __init__(self, env: CheckedEnv) -> None:
        self.env = env
        self.prefix = snake(env.name)
        self.flow: Flow = split_step(env)
        self.root = (*(_state_field(entry) for entry in env.state), *_flag_fields(env))
        promoted = [entry for entry in env.reward if entry.dotted in self.flow.promoted]
        self.next = (*self.root, *(_reward_field(entry) for entry in promoted))
        self.fixed: dict[str, Binding] = {}
        self.functions: dict[str, Function] = {}
        self._fixed_scope()

    def run(self) -> tuple[list[Item], EnvInterface]:
        env = self.env
        items: list[Item] = []
        if env.params:
            items.append(params_record(env))
        if env.consts:
            items.append(consts_record(env))
        items += [self._record("Root"), self._record("Next")]
        items += [self._function(function) for function in env.functions]
        reset, reset_call, reset_draws = self._reset()
        advance, advance_call, advance_draws = self._advance()
        items += [reset, advance]
        reward_call = observe_call = None
        if any(entry.dotted not in self.flow.promoted for entry in env.reward):
            made, reward_call = self._reward()
            items += made
        if env.observation:
            made, observe_call = self._observe()
            items += made
        interface = EnvInterface(
            env,
            self.root,
            self.next,
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
        items.append(env_class(interface))
        items += data_plan(interface)
        return items, interface

    def _fixed_scope(self) -> None:
        env = self.env
        for name, size in env.dims.items():
            self.fixed[name] = Binding(str(size), Type("int64", (), "lit"), Interval(size, size), static=size)
        for param in env.params:
            type_ = Type(param.type, (), "ctor")
            self.fixed[param.name] = Binding(f"params.{param.name}", type_, param.interval)
        for const in env.consts:
            self.fixed[const.name] = Binding(f"consts.{const.name}", const.type, const.interval)
        for function in env.functions:
            self.functions[function.name] = function.function

    # records -------------------------------------------------------------------------------------

    def _record(self, kind: str) -> RecordPlan:
        fields = self.root if kind == "Root" else self.next
        doc = {
            "Root": "What a step reads from one time to the next; observations follow from it.",
            "Next": "What a step computes for the step after it; rewards and observations follow from it.",
        }[kind]
        return RecordPlan(
            f"{self.env.name}{kind}",
            (doc,),
            tuple(Field(f.name, "Tensor", doc=field_doc(f)) for f in fields),
        )

    # functions -----------------------------------------------------------------------------------

    def _function(self, function: CheckedFunction) -> FunctionPlan:
        scope = dict(self.fixed)
        for name, type_ in function.args.items():
            scope[name] = Binding(name, type_, full(type_.dtype))
        writer = Writer(scope, self.functions)
        for statement in function.let:
            writer.assign(statement)
        typed = writer.typed(function.returns)
        writer.lines.append(
            Line(f"return {stored_text(typed, function.function.result, None)}", function.returns.path)
        )
        leading = [Argument(p, f"{self.env.name}{p.capitalize()}") for p in function.function.prefix]
        args = tuple(leading) + tuple(Argument(name, "Tensor") for name in function.args)
        return FunctionPlan(
            function.function.text,
            args,
            "Tensor",
            (function.doc or f"`{function.name}` of the schema.",),
            tuple(writer.lines),
        )

    def _reset(self) -> tuple[FunctionPlan, Call, list[DrawSite]]:
        env = self.env
        writer = Writer(self.fixed, self.functions)
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
        name = f"{self.prefix}_reset"
        leading = self._leading(env.reset)
        lines = [*writer.lines, Line(f"return {env.name}Root({', '.join(values)})")]
        doc = (
            "A fresh episode in every row of the batch.",
            "",
            "Args:",
            *_leading_doc(leading),
            "    not_done: bool [*batch, 1], all False; it tells the batch shape and the device.",
            *(f"    {site.name}: {_draw_doc(site)}" for site in writer.draws),
        )
        args = [*leading, Argument("not_done", "Tensor"), *(Argument(s.name, "Tensor") for s in writer.draws)]
        plan = FunctionPlan(name, tuple(args), f"{env.name}Root", doc, tuple(lines))
        call = Call(name, tuple(a.name for a in args), tuple(f.dotted for f in self.root), f"{env.name}Root")
        return plan, call, writer.draws

    def _advance(self) -> tuple[FunctionPlan, Call, list[DrawSite]]:
        env, flow = self.env, self.flow
        scope = {**self.fixed, **_now_scope(env)}
        writer = Writer(scope, self.functions)
        state = {f"next.{entry.dotted}": entry for entry in env.state}
        used = dict.fromkeys(name for name in reads(flow.hot) if name in _now_scope(env))
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
            values += self._flags(prefix, assigned, writer, used)
        for entry in env.reward:
            if entry.dotted in flow.promoted:
                text = self._column(entry, writer, used)
                values.append(f"{entry.name}={text}")
        lines = [*writer.lines, Line(f"return {env.name}Next({', '.join(values)})")]
        leading = self._leading(flow.hot)
        order = [f.dotted for f in self.root] + [entry.dotted for entry in env.action]
        names = sorted(used, key=order.index)
        args = [*leading, *(Argument(identifier(n), "Tensor") for n in names)]
        args += [Argument(site.name, "Tensor") for site in writer.draws]
        name = f"{self.prefix}_advance"
        doc = (
            "One step of the dynamics: all that the step after it depends on.",
            "",
            "Args:",
            *_leading_doc(leading),
            *(f"    {identifier(n)}: {self._input_doc(n)}" for n in names),
            *(f"    {site.name}: {_draw_doc(site)}" for site in writer.draws),
        )
        plan = FunctionPlan(name, tuple(args), f"{env.name}Next", doc, tuple(lines))
        call_args = (*(a.name for a in leading), *names, *(s.name for s in writer.draws))
        return (
            plan,
            Call(name, call_args, tuple(f.dotted for f in self.next), f"{env.name}Next"),
            writer.draws,
        )

    def _flags(self, prefix: Key, assigned: set[str], writer: Writer, used: dict[str, None]) -> list[str]:
        """The lines that store the done flags of one set, and the record's arguments."""
        names = {flag: "_".join((*prefix, flag)) for flag in FLAGS}
        origin = ".".join(("envs", self.env.name, "step"))
        missing = []
        for flag in ("terminated", "truncated"):
            key = dotted((*prefix, flag))
            if key in assigned:
                binding = writer.scope[key]
                if binding.static is not None:
                    missing.append(flag)
                elif not binding.type.col:
                    writer.lines.append(
                        Line(f"{names[flag]} = {binding.text}.unsqueeze(-1)", f"{origin}.{key}")
                    )
            else:
                missing.append(flag)
        present = [flag for flag in ("terminated", "truncated") if flag not in missing]
        if present:
            like = names[present[0]]
        else:
            like = names["done"]
            used.setdefault(dotted((*prefix, "done")))
        for flag in missing:
            writer.lines.append(Line(f"{names[flag]} = torch.zeros_like({like})"))
        done = f"{names['terminated']} | {names['truncated']}"
        return [f"{names['done']}={done}", *(f"{names[f]}={names[f]}" for f in ("terminated", "truncated"))]

    def _column(self, entry: Entry, writer: Writer, used: dict[str, None]) -> str:
        binding = writer.scope[entry.dotted]
        if binding.static is None and binding.type.level == "batch":
            return f"{binding.text}.unsqueeze(-1)"
        used.setdefault("done")
        return f"torch.full_like(done, {binding.static if binding.static is not None else binding.text}, dtype=torch.float32)"

    def _reward(self) -> tuple[list[Item], Call]:
        env = self.env
        entries = [entry for entry in env.reward if entry.dotted not in self.flow.promoted]
        scope = {**self.fixed, **_now_scope(env), **_next_scope(env, self.next)}
        flags = {f.dotted: f for f in self.next if f.type.dtype == "bool" and f.type.col}
        scope |= {name: Binding(f.name, f.type, f.interval) for name, f in flags.items()}
        writer = Writer(scope, self.functions)
        inputs = dict.fromkeys(_as_inputs(reads(self.flow.cold), env, flags))
        rewards = {entry.dotted: entry for entry in entries}
        for statement in self.flow.cold:
            entry = rewards.get(statement.target)
            if entry is None:
                writer.assign(statement)
                continue
            prefix = max((p for p in env.done if entry.key[: len(p)] == p), key=len, default=())
            flag = dotted((*prefix, "terminated"))
            typed = writer.typed(statement)
            if typed.type.level != "batch":
                inputs.setdefault(f"next.{flag}")
            text = stored_text(typed, entry.type, writer.scope[flag])
            writer.lines.append(Line(f"{entry.name} = {text}", statement.path))
            writer.scope[statement.target] = Binding(entry.name, entry.type, full("float32"))
        return self._derived("reward", entries, inputs, writer, self.flow.cold, "reward")

    def _observe(self) -> tuple[list[Item], Call]:
        env = self.env
        writer = Writer({**self.fixed, **_now_scope(env)}, self.functions)
        entries = {entry.dotted: entry for entry in env.observation}
        state = {entry.dotted: entry for entry in env.state}
        inputs = dict.fromkeys(name for name in reads(env.observe) if name in state)
        first = env.state[0]
        for statement in env.observe:
            entry = entries.get(statement.target)
            if entry is None:
                writer.assign(statement)
                continue
            typed = writer.typed(statement)
            if typed.type.level != "batch":
                inputs.setdefault(first.dotted)
            text = stored_text(typed, entry.type, writer.scope[first.dotted])
            writer.lines.append(Line(f"{entry.name} = {text}", statement.path))
            writer.scope[statement.target] = Binding(entry.name, entry.type, entry.spec.interval)
        return self._derived("observe", list(env.observation), inputs, writer, env.observe, "observation")

    def _derived(
        self,
        kind: str,
        entries: Sequence[Entry],
        inputs: dict[str, None],
        writer: Writer,
        statements: Sequence[Statement],
        what: str,
    ) -> tuple[list[Item], Call]:
        """A function of what the records hold; it works for any leading dimensions, so also over time."""
        env = self.env
        name = f"{self.prefix}_{kind}"
        leading = self._leading(statements)
        order = (
            [f.dotted for f in self.root]
            + [e.dotted for e in env.action]
            + [f"next.{f.dotted}" for f in self.next]
        )
        names = sorted(inputs, key=order.index)
        arg_names = [_argument_name(n, env) for n in names]
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
            *_leading_doc(leading),
            *(f"    {a}: {self._input_doc(n)}" for a, n in zip(arg_names, names, strict=True)),
            "",
            "Returns:",
            *(f"    {entry_doc(e)}" for e in entries),
        )
        items.append(FunctionPlan(name, args, returns, doc, tuple(lines)))
        call = Call(name, (*(a.name for a in leading), *names), tuple(e.dotted for e in entries), record)
        return items, call

    def _leading(self, statements: Iterable[Statement]) -> list[Argument]:
        """`params` and `consts`, where statements read them, themselves or through a function."""
        texts = set()
        for statement in statements:
            for name in statement.reads | statement.calls:
                if name in self.fixed:
                    texts.add(self.fixed[name].text.split(".")[0])
                if name in self.functions:
                    texts.update(self.functions[name].prefix)
        return [Argument(p, f"{self.env.name}{p.capitalize()}") for p in ("params", "consts") if p in texts]

    def _input_doc(self, name: str) -> str:
        bare = name.removeprefix("next.")
        found = next((f for f in self.next if f.dotted == bare), None)
        if found is not None and (name.startswith("next.") or any(f.dotted == name for f in self.root)):
            later = ", after the step" if name.startswith("next.") else ""
            return field_doc(found).removesuffix(".") + later + "."
        entry = next(e for e in self.env.action if e.dotted == bare)
        return entry_doc(entry)


def params_record(env: CheckedEnv) -> RecordPlan:
    """The constructor keywords as the pure functions take them."""
    fields = tuple(Field(p.name, p.annotation, repr(p.default), p.doc) for p in env.params)
    return RecordPlan(f"{env.name}Params", (f"Constructor keywords of `{env.name}`.",), fields)


def consts_record(env: CheckedEnv) -> RecordPlan:
    """The constant tables as the pure functions take them."""
    fields = tuple(Field(c.name, "Tensor", doc=c.doc or str(c.type)) for c in env.consts)
    return RecordPlan(f"{env.name}Consts", (f"Constant tables of `{env.name}`.",), fields)


def field_doc(field: RecordField) -> str:
    """`float32 [*batch, 3]: angle in rad.`"""
    dims = (*(field.type.dims or ()), *((1,) if field.type.col else ()))
    text = f"{field.type.dtype} {shape_text('*batch', dims)}"
    return f"{text}: {field.doc}." if field.doc else f"{text}."


def entry_doc(entry: Entry) -> str:
    """Dtype, stored shape and documentation of an entry."""
    text = f"{entry.type.dtype} {shape_text('*batch', entry.stored_shape)}"
    return f"{text}: {entry.doc}." if entry.doc else f"{text}."


def _state_field(entry: Entry) -> RecordField:
    return RecordField(entry.name, entry.dotted, entry.key, entry.type, entry.spec.interval, entry.doc)


def _reward_field(entry: Entry) -> RecordField:
    return RecordField(entry.name, entry.dotted, entry.key, entry.type, full("float32"), entry.doc)


FLAG_DOCS = {
    "done": "the episode is over",
    "terminated": "it ended",
    "truncated": "it was cut off",
}


def _flag_fields(env: CheckedEnv) -> Iterable[RecordField]:
    for prefix in env.done:
        for flag in FLAGS:
            key = (*prefix, flag)
            type_ = Type("bool", env.done_dims[prefix], col=True)
            yield RecordField("_".join(key), dotted(key), key, type_, full("bool"), FLAG_DOCS[flag])


def _now_scope(env: CheckedEnv) -> dict[str, Binding]:
    entries = (*env.state, *env.action)
    return {e.dotted: Binding(e.name, e.type, e.spec.interval) for e in entries}


def _next_scope(env: CheckedEnv, fields: Iterable[RecordField]) -> dict[str, Binding]:
    return {f"next.{f.dotted}": Binding(f"next_{f.name}", f.type, f.interval) for f in fields}


def _as_inputs(names: Iterable[str], env: CheckedEnv, flags: Iterable[str]) -> Iterable[str]:
    """The argument names behind what cold statements read: flags are those after the step."""
    now = _now_scope(env)
    for name in names:
        if name in now:
            yield name
        elif name in flags:
            yield f"next.{name}"
        elif name.startswith("next."):
            yield name


def _argument_name(name: str, env: CheckedEnv) -> str:
    bare = name.removeprefix("next.")
    is_flag = bare.rsplit(".", 1)[-1] in FLAGS
    return identifier(bare) if is_flag else identifier(name)


def _leading_doc(leading: Iterable[Argument]) -> list[str]:
    docs = {
        "params": "constructor keywords of the environment.",
        "consts": "constant tables of the environment.",
    }
    return [f"    {argument.name}: {docs[argument.name]}" for argument in leading]


def _draw_doc(site: DrawSite) -> str:
    kind = {
        "uniform": "uniform in [0, 1)",
        "normal": "standard normal",
        "randint": f"uniform in {site.low}..{(site.high or 1) - 1}",
    }
    return f"{site.dtype} {shape_text('*batch', site.dims)}, {kind[site.kind]}."
