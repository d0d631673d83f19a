"""What the planner of an environment knows while it prints one function after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from specgen.check.model import DONE_FLAGS, CheckedEnv, Entry, Statement, identifier, snake
from specgen.expr import Binding, DrawSite, Function, Interval, Type, full
from specgen.plan.flow import Flow, split_step
from specgen.plan.interface import RecordField, flag_fields
from specgen.plan.model import Argument
from specgen.plan.writer import shape_text

NOT_DONE = Binding("not_done", Type("bool", (), col=True), full("bool"))
"""The argument of reset functions that tells the batch shape and the device."""


class EnvContext:
    """An environment, its records and its fixed names.

    Attributes:
        env: the checked environment.
        prefix: what its functions' names begin with.
        flow: its step, split into what the next step waits for and what not.
        root: the fields of the Root record: state and done flags.
        next: the fields of the Next record: those, and rewards that the hot part computes.
        fixed: what expressions see of dims, parameters and constants.
        functions: the declared functions.
    """

    def __init__(self, env: CheckedEnv) -> None:
        self.env = env
        self.prefix = snake(env.name)
        self.flow: Flow = split_step(env)
        self.root = (*(_state_field(entry) for entry in env.state), *flag_fields(env))
        promoted = [entry for entry in env.reward if entry.dotted in self.flow.promoted]
        self.next = (*self.root, *(_reward_field(entry) for entry in promoted))
        self.fixed: dict[str, Binding] = {}
        self.functions: dict[str, Function] = {f.name: f.function for f in env.functions}
        for name, size in env.dims.items():
            self.fixed[name] = Binding(str(size), Type("int64", (), "lit"), Interval(size, size), static=size)
        for param in env.params:
            if param.entry is not None:
                continue  # a state key holds it
            type_ = Type(param.type, (), "ctor")
            self.fixed[param.name] = Binding(f"params.{param.name}", type_, param.interval)
        for const in env.consts:
            self.fixed[const.name] = Binding(f"consts.{const.name}", const.type, const.interval)

    def values(self, name: str, declared: Interval) -> Interval:
        """The values of a key as far as they are proved."""
        return self.env.values.get(name, declared)

    @cached_property
    def names(self) -> set[str]:
        """The variables of generated functions that come from the declaration."""
        env = self.env
        targets = {identifier(s.target) for s in (*env.reset, *env.step, *env.observe)}
        return targets | {entry.name for entry in env.entries}

    @cached_property
    def now(self) -> dict[str, Binding]:
        """State and actions, as a step reads them."""
        entries = (*self.env.state, *self.env.action)
        return {e.dotted: Binding(e.name, e.type, self.values(e.dotted, e.spec.interval)) for e in entries}

    @cached_property
    def after(self) -> dict[str, Binding]:
        """The fields of the Next record; a done flag has one name, as nothing reads it before the step."""
        scope = {
            key: Binding(f"next_{f.name}", f.type, self.values(key, f.interval))
            for f in self.next
            for key in (f"next.{f.dotted}",)
        }
        return scope | {f.dotted: Binding(f.name, f.type, f.interval) for f in self.flags}

    @cached_property
    def flags(self) -> tuple[RecordField, ...]:
        """The done flags."""
        return tuple(f for f in self.root if f.flag)

    def place(self, scope: Mapping[str, Binding], read: Iterable[str], done: str) -> tuple[str, Binding]:
        """The argument of a function that tells the batch shape and the device to values that read no tensor.

        Args:
            scope: what the function sees.
            read: the entries that it reads anyway: one of these, as small as there is.
            done: the flag that is read where there are none.
        """
        flags = {field.dotted for field in self.flags}
        found = [name for name in read if name.removeprefix("next.") not in flags]
        name = min(found, key=lambda name: scope[name].type.rank, default=done)
        return name, scope[name.removeprefix("next.") if name == done else name]

    def fills(self, target: str) -> tuple[int, ...]:
        """The dimensions of a reward or a flag of a group: one value given is that of each agent."""
        sizes = {group.name: group.size for group in self.env.groups}
        flags = {f.dotted for f in self.flags} | {entry.dotted for entry in self.env.reward}
        return (sizes[target.split(".")[0]],) if target in flags and target.split(".")[0] in sizes else ()

    def fixed_arguments(self, statements: Iterable[Statement], *, params: bool = False) -> list[Argument]:
        """`params` and `consts`, where statements read them, themselves or through a function."""
        texts = {"params"} if params else set()
        for statement in statements:
            for name in statement.reads | statement.calls:
                if name in self.fixed:
                    texts.add(self.fixed[name].text.split(".")[0])
                if name in self.functions:
                    texts.update(self.functions[name].prefix)
        return [Argument(p, f"{self.env.name}{p.capitalize()}") for p in ("params", "consts") if p in texts]

    def argument_name(self, name: str) -> str:
        """The Python name of an argument: `next.x` is `next_x`, a done flag keeps its own."""
        bare = name.removeprefix("next.")
        return identifier(bare) if bare.rsplit(".", 1)[-1] in DONE_FLAGS else identifier(name)

    def input_doc(self, name: str) -> str:
        """The documentation of an argument that is a record's field or an action."""
        bare = name.removeprefix("next.")
        found = next((f for f in self.next if f.dotted == bare), None)
        if found is not None:
            later = ", after the step" if name.startswith("next.") else ""
            return field_doc(found).removesuffix(".") + later + "."
        return entry_doc(next(e for e in self.env.action if e.dotted == bare))


def field_doc(field: RecordField) -> str:
    """`float32 [*batch, 3]: angle in rad.`"""
    dims = (*(field.type.dims or ()), *((1,) if field.type.col else ()))
    text = f"{field.type.dtype} {shape_text('*batch', dims)}"
    return f"{text}: {field.doc}." if field.doc else f"{text}."


def entry_doc(entry: Entry) -> str:
    """Dtype, stored shape and documentation of an entry."""
    text = f"{entry.type.dtype} {shape_text('*batch', entry.stored_shape)}"
    return f"{text}: {entry.doc}." if entry.doc else f"{text}."


def fixed_doc(leading: Iterable[Argument]) -> list[str]:
    """The documentation of `params` and `consts`."""
    docs = {
        "params": "constructor keywords of the environment.",
        "consts": "constant tables of the environment.",
    }
    return [f"    {argument.name}: {docs[argument.name]}" for argument in leading]


def draw_doc(site: DrawSite) -> str:
    """The documentation of a draw."""
    kind = {
        "uniform": "uniform in [0, 1)",
        "normal": "standard normal",
        "randint": f"uniform in {site.low}..{(site.high or 1) - 1}",
    }
    return f"{site.dtype} {shape_text('*batch', site.dims)}, {kind[site.kind]}."


def _state_field(entry: Entry) -> RecordField:
    return RecordField(entry.name, entry.dotted, entry.key, entry.type, entry.spec.interval, entry.doc)


def _reward_field(entry: Entry) -> RecordField:
    return RecordField(entry.name, entry.dotted, entry.key, entry.type, full("float32"), entry.doc)
