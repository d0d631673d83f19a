"""A native environment as a component: its reset, its step and its observation as programs."""

from __future__ import annotations

from specgen.check.done_sets import joined_flags
from specgen.check.model import CheckedEnv, CheckedFunction, Entry, Statement, dotted, identifier, snake
from specgen.check.pictures import field_names
from specgen.check.programs.body import Body
from specgen.check.programs.function import function_program
from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.builtins.table import TABLE
from specgen.expr.symbols import Key
from specgen.program.hot_cold import state_function
from specgen.program.program import DONE_FLAGS, ENDING_FLAGS, Cell, Component, Input, Output, Program
from specgen.program.walk import known, read, store
from specgen.values import replace

COLUMN = Type("bool", (), col=True)
"""How a done flag of the root is stored."""

NOT_DONE = Input(Symbol("not_done", "not_done", COLUMN, full("bool")), "witness")
"""What a reset is given: all False; it tells the batch shape and the device."""


class EnvPrograms:
    """The programs of an environment, over symbols that they share.

    Attributes:
        env: the checked environment.
        path: what the paths of its symbols begin with.
        prefix: what the names of its functions begin with.
        flag_types: how each done flag is stored, by key.
        fixed: parameters and constants, as inputs.
        state, action, flags: the values before a step, by dotted name.
    """

    def __init__(self, env: CheckedEnv) -> None:
        self.env = env
        self.path = f"envs.{env.name}"
        self.prefix = snake(env.name)
        self.flag_types: dict[Key, Type] = {
            (*level, flag): Type("bool", env.done_dims[level], col=True)
            for level in env.done
            for flag in DONE_FLAGS
        }
        self.fixed = _fixed(env)
        self.state = {e.dotted: self._now(e) for e in env.state}
        self.action = {e.dotted: self._now(e) for e in env.action}
        self.flags = {dotted(key): env.symbols[f"flags.{dotted(key)}"] for key in self.flag_types}

    def component(self) -> Component:
        """The environment as a component."""
        reset, init = self._reset()
        step, after = self._step()
        now = self.state | self.flags
        cells = tuple(Cell(name, now[name], init[name], after[name], now[name].key) for name in now)
        return Component(self.env.name, {"reset": reset, "step": step, "observe": self._observe()}, cells)

    def function(self, function: CheckedFunction) -> Program:
        """A declared function: its arguments, and what it reads of parameters and constants."""
        records = [one for one in self.fixed if one.group in function.function.prefix]
        return function_program(function, self._body(f"functions.{function.name}"), records)

    # phases --------------------------------------------------------------------------------------

    def _reset(self) -> tuple[Program, dict[str, Symbol]]:
        body = self._body("reset")
        self.fill_params(body)
        entries = {entry.dotted: entry for entry in self.env.state}
        for statement in self.env.reset:
            self._assign(body, statement.target, entries.get(statement.target), statement, "now")
        init = {name: body.bound(name) for name in entries}
        init |= self.flags_at_reset(body)
        outputs = tuple(
            Output(identifier(name), symbol, "cell", (self.state | self.flags)[name].key)
            for name, symbol in init.items()
        )
        program = Program(
            f"{self.prefix}_reset",
            (*self.fixed, NOT_DONE, *body.draws),
            tuple(body.statements),
            outputs,
            f"{self.env.name}Root",
        )
        return program, init

    def fill_params(self, body: Body) -> None:
        """Add what fills the parameters that differ between environments, in the order of their declaration."""
        given = {one.symbol.name: one.symbol for one in self.fixed if one.group == "params"}
        for param in self.env.params:
            entry = param.entry
            if entry is None:
                continue
            value = Typed("copy", entry.type, param.interval, (read(given[param.name]),))
            origin = f"{self.path}.params.{param.name}"
            if param.draw is not None:
                drawn = store(body.typed(param.draw), entry.type)
                value = Typed("given_or", entry.type, param.interval, (read(given[param.name]), drawn))
                origin = param.draw.path
            symbol = body.symbol(
                entry.dotted, entry.type, entry.spec.interval, wish=entry.name, time="now", key=entry.key
            )
            body.add(symbol, value, origin)
            body.assigned[entry.dotted] = read(symbol)

    def flags_at_reset(self, body: Body) -> dict[str, Symbol]:
        """Add the done flags of a reset: no episode is over."""
        init: dict[str, Symbol] = {}
        for level in self.env.done:
            first: Symbol | None = None
            for flag in DONE_FLAGS:
                key = (*level, flag)
                symbol = body.symbol(
                    dotted(key), self.flag_types[key], full("bool"), wish="_".join(key), key=key, time="now"
                )
                if not level:
                    value = read(NOT_DONE.symbol)
                else:
                    value = store(known(False), symbol.type) if first is None else read(first)
                first = first or symbol
                init[dotted(key)] = body.add(symbol, value)
        return init

    def _step(self) -> tuple[Program, dict[str, Symbol]]:
        body = self._body("step")
        state = {f"next.{entry.dotted}": entry for entry in self.env.state}
        rewards = {entry.dotted: entry for entry in self.env.reward}
        sizes = {group.name: group.size for group in self.env.groups}
        for statement in self.env.step:
            name = statement.target
            entry = state.get(name) or rewards.get(name)
            size = sizes.get(name.split(".")[0]) if name in self.flags else None
            if entry is None and size is not None:
                self._group_flag(body, statement, size)
            else:
                self._assign(body, name, entry, statement, "next")
        after = {
            name: body.bound(f"next.{name}") if f"next.{name}" in body.assigned else now
            for name, now in self.state.items()
        }
        after |= self._flags_after(body)
        outputs = [Output(identifier(name), symbol, "cell", symbol.key) for name, symbol in after.items()]
        outputs += [
            Output(entry.name, body.bound(name), "reward", entry.key)
            for name, entry in rewards.items()
            if name in body.assigned
        ]
        program = Program(
            f"{self.prefix}_step",
            (
                *self.fixed,
                *(Input(symbol, "state") for symbol in self.state.values()),
                *(Input(symbol, "flag") for symbol in self.flags.values()),
                *(Input(symbol, "action") for symbol in self.action.values()),
                *body.draws,
            ),
            tuple(body.statements),
            tuple(outputs),
            f"{self.env.name}Next",
        )
        return program, after

    def _group_flag(self, body: Body, statement: Statement, size: int) -> None:
        """A flag of a group: one value given is that of each agent."""
        typed = body.typed(statement)
        name = statement.target
        if typed.static is not None:
            body.name(statement, typed)
            return
        fills = typed.type.dims == ()
        symbol = body.symbol(name, Type("bool", (size,)) if fills else typed.type, full("bool"))
        body.add(symbol, store(typed, symbol.type) if fills else typed, statement.path)
        body.name(statement, read(symbol))

    def _flags_after(self, body: Body) -> dict[str, Symbol]:
        """Add the done flags after a step: each set's own, joined with those of the root, which end everything."""
        own = {name: body.assigned[name] for name in self.flags if name in body.assigned}
        joined = joined_flags(self.env)
        after: dict[str, Symbol] = {}
        for level in self.env.done:
            names = [dotted((*level, flag)) for flag in ENDING_FLAGS]
            raised = []
            for flag, name in zip(ENDING_FLAGS, names, strict=True):
                root = own.get(flag)
                above = after[flag] if level and root is not None and root.static is not False else None
                said = own.get(name)
                after[name] = self._flag_after(body, (*level, flag), said, above, name in joined)
                if above is not None or (said is not None and said.static is not False):
                    raised.append(after[name])
            key = (*level, "done")
            done = self._new_flag(body, key)
            if len(raised) == 2:
                value = either(raised[0], raised[1], done.type)
            else:
                value = read(raised[0] if raised else after[names[0]])
            after[dotted(key)] = body.add(done, value)
        return {name: after[name] for name in self.flags}

    def _flag_after(
        self, body: Body, key: Key, said: Typed | None, above: Symbol | None, joined: bool
    ) -> Symbol:
        """Add one flag: what the step says of it, and where it is `joined` the root's, stored as a column."""
        symbol = self._new_flag(body, key)
        path = f"{self.path}.step.{dotted(key)}"
        if said is None or said.static is False:
            value = known(False) if above is None else read(above)
            return body.add(symbol, store(value, symbol.type))
        value = said if said.static is None else known(True)
        if above is None or not joined or said.static is not None:
            return body.add(symbol, store(value, symbol.type))
        own = body.symbol(f"{dotted(key)}.own", symbol.type, full("bool"), wish=symbol.name)
        body.add(own, store(value, symbol.type))
        return body.add(symbol, either(own, above, symbol.type), path)

    def _new_flag(self, body: Body, key: Key) -> Symbol:
        return body.symbol(
            dotted(key), self.flag_types[key], full("bool"), wish="_".join(key), key=key, time="next"
        )

    def _observe(self) -> Program:
        body = self._body("observe")
        entries = {entry.dotted: entry for entry in self.env.observation}
        for statement in self.env.observe:
            self._assign(body, statement.target, entries.get(statement.target), statement, "now")
        outputs = tuple(
            Output(entry.name, body.bound(name), "observation", entry.key) for name, entry in entries.items()
        )
        return Program(
            f"{self.prefix}_observe",
            (
                *self.fixed,
                *(Input(symbol, "state") for symbol in self.state.values()),
                *(Input(symbol, "flag") for symbol in self.flags.values()),
            ),
            tuple(body.statements),
            outputs,
            f"{self.env.name}Observation" if len(outputs) > 1 else None,
        )

    def render(self) -> Program | None:
        """The numbers of a picture, in a record; those that are known at build are no part of it. None for none."""
        if self.env.render is None:
            return None
        body = self._body("render")
        names = field_names(self.env.render)
        if not names:
            return None
        for statement in self.env.render.statements:
            type = replace(statement.symbol.type, level="batch") if statement.target in names else None
            body.assign(statement, type, statement.symbol.interval)
        outputs = tuple(Output(name, body.bound(target)) for target, name in names.items())
        inputs = (*self.fixed, *(Input(symbol, "state") for symbol in self.state.values()))
        # where nothing reads the state, a flag still tells the rows
        inputs = (*inputs, *(Input(symbol, "flag") for symbol in self.flags.values()))
        record = f"{self.env.name}Picture"
        whole = Program(f"{self.prefix}_render", inputs, tuple(body.statements), outputs, record)
        return state_function(whole)

    # symbols -------------------------------------------------------------------------------------

    def _now(self, entry: Entry) -> Symbol:
        values = self.env.values.get(entry.dotted, entry.spec.interval)
        path = f"{self.path}.{entry.role}.{entry.dotted}"
        return replace(entry.symbol(path), interval=values, time="now")

    def _body(self, phase: str) -> Body:
        """An empty body of a phase."""
        records = {
            record: tuple(one.symbol for one in self.fixed if one.group == record)
            for record in ("params", "consts")
        }
        return Body(f"{self.path}.{phase}", records)

    def _assign(self, body: Body, name: str, entry: Entry | None, statement: Statement, time: str) -> None:
        if entry is None:
            body.assign(statement)
            return
        values = (
            self.env.values.get(name, entry.spec.interval) if entry.role == "state" else entry.spec.interval
        )
        wish = entry.name if entry.role != "state" or time == "now" else None
        body.assign(statement, entry.type, values, key=entry.key, time=time, wish=wish)


def either(one: Symbol, other: Symbol, type: Type = COLUMN) -> Typed:
    """`one or other`, of two stored flags."""
    return Typed("or", type, full("bool"), (read(one), read(other)), builtin=TABLE["or"])


def negated(flag: Symbol) -> Typed:
    """`not flag`, of a stored flag."""
    return Typed("not", flag.type, full("bool"), (read(flag),), builtin=TABLE["not"])


def _fixed(env: CheckedEnv) -> tuple[Input, ...]:
    """Parameters and constants."""
    params = (Input(env.symbols[f"params.{param.name}"], "param", "params") for param in env.params)
    consts = (Input(env.symbols[f"consts.{const.name}"], "const", "consts") for const in env.consts)
    return (*params, *consts)
