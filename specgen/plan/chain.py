"""A checked chain as one environment: the environment's functions, and its transforms inlined around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from specgen.check.chain_model import ChainKey, CheckedChain
from specgen.check.chain_types import base_scope
from specgen.check.model import ENDING_FLAGS, Checked, CheckedEnv, Entry, dotted, snake
from specgen.diagnostics import Sink
from specgen.expr import ANYTHING, Binding, Type, infer
from specgen.plan.chain_class import chain_class
from specgen.plan.chain_fields import (
    ChainField,
    chain_constants,
    chain_fields,
    dtype_and_shape,
    hidden_if_unread,
    of_env,
    output_of,
    reward_field,
    unused_name,
)
from specgen.plan.chain_flow import END, START, Versions
from specgen.plan.chain_lift import plan_lift
from specgen.plan.chain_writer import FIXED, GIVEN, ChainWriter, Kind, NotHere
from specgen.plan.data import data_plan
from specgen.plan.env import consts_record
from specgen.plan.env_context import NOT_DONE, field_doc
from specgen.plan.env_flags import with_batch
from specgen.plan.interface import Call, EnvInterface, RecordField
from specgen.plan.model import Argument, Field, FunctionPlan, Item, Line, RecordPlan
from specgen.plan.python_env import dynamics_type
from specgen.plan.writer import stored_text


def plan_chain(checked: Checked[CheckedChain], env: EnvInterface) -> list[Item]:
    """Plan a chain over an environment whose own module is planned already."""
    return _Planner(checked.value, env).run()


class _Planner:
    def __init__(self, chain: CheckedChain, env: EnvInterface) -> None:
        self.chain = chain
        self.env = env
        self.prefix = snake(chain.name)
        self.versions = Versions(chain)
        self.fields = chain_fields(chain, env, self.versions)
        self.root = tuple(f.field for f in self.fields)
        self.native = env.env.gymnasium is None
        self.consts = tuple(chain_constants(chain))
        self.rewards = [entry for entry in chain.entries.values() if entry.group == "reward"]
        self.env_rewards = {entry.dotted for entry in env.env.reward}
        self.derived = [
            entry
            for entry in chain.entries.values()
            if entry.group in ("observation", "state") and not self._is_field(entry)
        ]

    def run(self) -> list[Item]:
        advance, advance_call, promoted, raw = self._advance()
        self.fields = tuple(hidden_if_unread(f, advance_call.args) for f in self.fields)
        self.root = tuple(f.field for f in self.fields)
        next_fields = (*self.root, *promoted, *raw)
        reset, reset_call = self._reset()
        items: list[Item] = []
        if self.consts:
            items.append(consts_record(self._as_env()))
        items += [
            self._record(
                "Root", self.root, "What a step reads from one time to the next; observations follow from it."
            ),
            self._record(
                "Next", next_fields, "What a step computes for the step after it; the rest follows from it."
            ),
            reset,
            advance,
        ]
        cold = [entry for entry in self.rewards if entry.dotted not in {f.dotted for f in promoted}]
        reward_call = observe_call = None
        if cold:
            made, reward_call = self._reward(cold)
            items += made
        if self.native and all(
            self.versions.last("root", entry.dotted, END) is None for entry in self.derived
        ):
            observe_call = of_env(self.env.observe)
        elif self.derived:
            made, observe_call = self._observe()
            items += made
        interface = EnvInterface(
            replace(self._as_env(), reward=()),
            self.root,
            next_fields,
            reset_call,
            advance_call,
            reward_call,
            observe_call,
            self.env.reset_draws,
            self.env.advance_draws,
            tuple(output_of(entry) for entry in self.derived),
            tuple(output_of(entry) for entry in self.rewards),
            self.env.params,
            {f.key: f.extra for f in self.fields if f.extra is not None and f.field.visible},
        )
        lift = None
        if not self.native and len(self.env.env.observation) == 1:
            lift = plan_lift(self.chain, self.fields, advance_call, lambda: self._begin_advance()[0])
        items.append(chain_class(interface, self.chain, self.env, lift))
        items += data_plan(interface)
        return items

    def _is_field(self, entry: ChainKey) -> bool:
        return any(f.field.key == entry.key and f.field.visible for f in self.fields)

    def _as_env(self) -> CheckedEnv:
        """The chain as an environment: what the class planner reads of it."""
        base = self.env.env
        return replace(
            base,
            name=self.chain.name,
            module=self.chain.module,
            doc=self.chain.doc or f"`{base.name}` with transforms.",
            consts=self.consts,
            observation=(),
            action=tuple(Entry(a.key, "action", a.spec, a.type, a.doc) for a in self.chain.actions),
        )

    def _record(self, kind: str, fields: Sequence[RecordField], doc: str) -> RecordPlan:
        return RecordPlan(
            f"{self.chain.name}{kind}",
            (doc,),
            tuple(Field(f.name, "Tensor", doc=field_doc(f)) for f in fields),
        )

    def _writer(
        self, kind: Kind, given: dict[str, Binding], like: Binding | None, extra: tuple[ChainField, ...] = ()
    ) -> ChainWriter:
        return ChainWriter(
            kind, self.chain.name, self.env, self.versions, (*self.fields, *extra), like, given
        )

    # functions -----------------------------------------------------------------------------------

    def _reset(self) -> tuple[FunctionPlan, Call]:
        given = {"not_done": NOT_DONE}
        # Gymnasium's reset is not the function's to call, so the function is given what it returned
        raw = [f for f in self.fields if f.raw and self.env.reset is None]
        given |= {f.key: Binding(f.field.name, f.field.type, f.field.interval) for f in raw}
        writer = self._writer("reset", given, NOT_DONE)
        writer.args.setdefault("not_done")
        draws: list[str] = []
        if self.env.reset is not None:
            args = []
            for arg in self.env.reset.args:
                if arg in GIVEN:
                    args.append(writer.fixed(arg))
                else:
                    args.append(arg)
                    if arg != "not_done":
                        draws.append(arg)
            writer.base(self.env.reset, args)
        values = []
        for f in self.fields:
            if self.native and f.key in self.env.reset.returns and f.extra is None:  # type: ignore[union-attr]
                values.append((f.field.name, f"base.{f.field.name}"))
            elif f.field.flag:
                values.append((f.field.name, self._not_raised(f)))
            else:
                values.append((f.field.name, writer.value("root", f.key, f.root).text))
        returned = ", ".join(f"{name}={text}" for name, text in values)
        last = Line(f"return {self.chain.name}Root({returned})")
        lines = (*with_batch(writer.lines, writer.names), last)
        names: list[str] = [n for n in FIXED if n in writer.args]
        names += ["not_done", *(f.field.name for f in raw), *draws]
        doc = ("A fresh episode in every row of the batch.",)
        plan = FunctionPlan(
            f"{self.prefix}_reset", self._arguments(names), f"{self.chain.name}Root", doc, lines
        )
        return plan, Call(
            plan.name, tuple(names), tuple(f.dotted for f in self.root), f"{self.chain.name}Root"
        )

    def _not_raised(self, f: ChainField) -> str:
        """A done flag at a reset."""
        done = (*f.field.key[:-1], "done")
        if self.env.reset is not None and dotted(done) != "done":
            return f"torch.zeros_like(base.{'_'.join(done)})"
        return "not_done" if f.field.name == "done" else "not_done.clone()"

    def _advance(self) -> tuple[FunctionPlan, Call, tuple[RecordField, ...], tuple[RecordField, ...]]:
        writer, gym = self._begin_advance()
        values = [(f.field.name, writer.value("next", f.key, f.next).text) for f in self.fields]
        promoted: list[RecordField] = []
        raw: list[RecordField] = []
        for entry in self.rewards:
            final = self.versions.last("next", entry.dotted, END)
            binding = writer.made.get(("next", entry.dotted, final.place if final else None))
            if binding is None and not self._is_cold(entry):
                binding = writer.value("next", entry.dotted, END)
            if binding is not None:
                promoted.append(reward_field(entry, entry.name))
                values.append((entry.name, binding.text))
            elif not self.native and entry.dotted in self.env_rewards:
                field = reward_field(
                    entry, unused_name(self.chain, f"raw_{entry.name}") if final else entry.name
                )
                (raw if final else promoted).append(field)
                values.append((field.name, writer.value("next", entry.dotted, START).text))
        returned = ", ".join(f"{name}={text}" for name, text in values)
        lines = (*writer.lines, Line(f"return {self.chain.name}Next({returned})"))
        fixed = [n for n in FIXED if n in writer.args]
        roots = [f.name for f in self.root if f"root.{f.name}" in writer.args]
        actions = [
            a.name
            for a in self.chain.actions
            if a.dotted in writer.args or f"action.{a.dotted}" in writer.args
        ]
        draws = [a for a in (self.env.advance.args if self.env.advance else ()) if a.startswith("draw_")]
        names = [*fixed, *roots, *actions, *draws, *gym]
        doc = ("One step: all that the step after it depends on.",)
        plan = FunctionPlan(
            f"{self.prefix}_advance", self._arguments(names), f"{self.chain.name}Next", doc, lines
        )
        dotted_names = {f.name: f.dotted for f in self.root} | {a.name: a.dotted for a in self.chain.actions}
        by_field = {f.name: f"root.{f.name}" for f in self.root}
        args = [*fixed, *(by_field[n] for n in roots), *(dotted_names[n] for n in actions), *draws, *gym]
        call = Call(plan.name, tuple(args), tuple(v[0] for v in values), f"{self.chain.name}Next")
        return plan, call, tuple(promoted), tuple(raw)

    def _begin_advance(self) -> tuple[ChainWriter, list[str]]:
        env = self.env
        if env.advance is None:
            bindings = {
                f.key: Binding(f"next_{f.field.name}", f.field.type, f.field.interval)
                for f in self.fields
                if f.raw
            }
            for entry in env.env.reward:
                bindings[entry.dotted] = Binding(entry.name, entry.type, ANYTHING)
            for flag in ENDING_FLAGS:
                bindings[flag] = Binding(flag, Type("bool", (), col=True), ANYTHING)
            writer = self._writer("advance", bindings, None)
            writer.lines.append(Line("done = terminated | truncated"))
            writer.made["next", "done", None] = Binding("done", Type("bool", (), col=True), ANYTHING)
            return writer, [binding.text for binding in bindings.values()]
        actions = {a.dotted: Binding(a.name, a.type, a.spec.interval) for a in self.chain.actions}
        writer = self._writer("advance", actions, None)
        inner = self._inverse(writer, actions)
        writer.given = {**writer.given, **inner}
        args = []
        for arg in env.advance.args:
            if arg in GIVEN:
                args.append(writer.fixed(arg))
            elif arg in inner:
                args.append(inner[arg].text)
            elif arg.startswith("draw_"):
                args.append(arg)
            else:
                args.append(writer.value("root", arg, START).text)
        writer.base(env.advance, args)
        return writer, []

    def _inverse(self, writer: ChainWriter, outer: dict[str, Binding]) -> dict[str, Binding]:
        """The environment's actions from what the policy wrote, last transform first."""
        current = dict(outer)
        for instance in reversed(self.chain.instances):
            for row in instance.inverse_rows:
                role, entry = next(iter(row.inputs.items()))
                scope = base_scope(instance, partial(writer.constant, instance))
                for name, written in row.outputs.items():
                    scope[name] = current[written.dotted]
                for statement in instance.statements("inverse", row):
                    typed = infer(statement.expr, scope, statement.source, Sink())
                    if typed is None:
                        raise AssertionError(f"{statement.path} no longer types")
                    type_ = entry.type if statement.target == role else typed.type
                    name = f"{entry.name}_{statement.target}"
                    writer.lines.append(
                        Line(
                            f"{name} = {stored_text(typed, type_)}",
                            f"chains.{self.chain.name}.transforms[{instance.position}]",
                        )
                    )
                    scope[statement.target] = Binding(name, type_, typed.interval)
                current[entry.dotted] = scope[role]
        for key in outer:
            writer.args.setdefault(f"action.{key}")
        return current

    def _is_cold(self, entry: ChainKey) -> bool:
        """Whether a reward can be computed from the records afterwards."""
        try:
            self._cold_writer([entry])
        except NotHere:
            return False
        return True

    def _cold_writer(self, rewards: Iterable[ChainKey]) -> tuple[ChainWriter, list[Binding]]:
        inverted = {
            entry.dotted
            for i in self.chain.instances
            for row in i.inverse_rows
            for entry in row.inputs.values()
        }
        given = {
            a.dotted: Binding(a.name, a.type, a.spec.interval)
            for a in self.env.env.action
            if a.dotted not in inverted
        }
        if not self.native:
            for entry in self.env.env.reward:
                changed = self.versions.last("next", entry.dotted, END)
                raw = unused_name(self.chain, f"raw_{entry.name}") if changed else entry.name
                given[entry.dotted] = Binding(raw, entry.type, ANYTHING)
        writer = self._writer("reward", given, None)
        return writer, [writer.value("next", entry.dotted, END) for entry in rewards]

    def _reward(self, entries: list[ChainKey]) -> tuple[list[Item], Call]:
        writer, values = self._cold_writer(entries)
        return self._derived("reward", entries, values, writer, "reward")

    def _observe(self) -> tuple[list[Item], Call]:
        given = {f.key: Binding(f.field.name, f.field.type, f.field.interval) for f in self.fields if f.raw}
        writer = self._writer("observe", given, None)
        values = [writer.value("root", entry.dotted, END) for entry in self.derived]
        for f in self.fields:
            if f.raw and f.key in writer.args:
                writer.args.setdefault(f"root.{f.field.name}")
        return self._derived("observe", self.derived, values, writer, "observation")

    def _derived(
        self,
        kind: str,
        entries: Sequence[ChainKey],
        values: Sequence[Binding],
        writer: ChainWriter,
        what: str,
    ) -> tuple[list[Item], Call]:
        fixed = [n for n in FIXED if n in writer.args]
        order = [f"root.{f.field.name}" for f in self.fields]
        inputs = [a for a in order if a in writer.args]
        inputs += [
            a
            for a in writer.args
            if not a.startswith(("root.", "next."))
            and a not in fixed
            and a in writer.given
            and f"root.{writer.given[a].text}" not in inputs
        ]
        inputs += [a for a in writer.args if a.startswith("next.")]
        names = [self._argument_name(a, writer) for a in inputs]
        items: list[Item] = []
        lines = list(writer.lines)
        if len(entries) == 1:
            returns, record = "Tensor", None
            last = lines[-1] if lines else None
            if last is not None and last.text.startswith(f"{values[0].text} = "):
                lines[-1] = Line(f"return {last.text.split(' = ', 1)[1]}", last.origin)
            else:
                lines.append(Line(f"return {values[0].text}"))
        else:
            returns = record = f"{self.chain.name}{what.capitalize()}"
            fields = tuple(Field(e.name, "Tensor", doc=dtype_and_shape(e)) for e in entries)
            items.append(RecordPlan(returns, (f"What `{self.prefix}_{kind}` returns.",), fields))
            pairs = ", ".join(f"{e.name}={v.text}" for e, v in zip(entries, values, strict=True))
            lines.append(Line(f"return {returns}({pairs})"))
        doc = (f"The {what} of a {'step' if kind == 'reward' else 'state'}, for any leading dimensions.",)
        plan = FunctionPlan(
            f"{self.prefix}_{kind}",
            (*self._arguments(fixed), *(Argument(n, "Tensor") for n in names)),
            returns,
            doc,
            tuple(lines),
        )
        items.append(plan)
        # what Gymnasium returned is read from the Next record
        raw = set() if self.native else self.env_rewards
        read = [f"next.{writer.given[a].text}" if a in raw else a for a in inputs]
        return items, Call(plan.name, (*fixed, *read), tuple(e.dotted for e in entries), record)

    def _argument_name(self, arg: str, writer: ChainWriter) -> str:
        if arg.startswith("root."):
            return arg.removeprefix("root.")
        if arg.startswith("next."):
            name = arg.removeprefix("next.")
            field = next(f.field for f in self.fields if f.field.name == name)
            return name if field.flag else f"next_{name}"
        return writer.given[arg].text

    def _arguments(self, names: Iterable[str]) -> tuple[Argument, ...]:
        annotations = {
            "dynamics": dynamics_type(self.env.env) if self.env.env.python else "",
            "params": f"{self.env.name}Params",
            "env_consts": f"{self.env.name}Consts",
            "consts": f"{self.chain.name}Consts",
        }
        return tuple(Argument(name, annotations.get(name, "Tensor")) for name in names)
