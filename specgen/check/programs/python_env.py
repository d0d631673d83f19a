"""An environment whose behaviour is a Python class, as a component: calls of the class around what the schema says."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from specgen.check.model import CheckedEnv, Entry, dotted, identifier
from specgen.check.programs.body import Body
from specgen.check.programs.env import NOT_DONE, EnvPrograms, either
from specgen.check.sources import PythonSource
from specgen.expr import ANYTHING, Symbol, Type, Typed
from specgen.program.hot_cold import Parts
from specgen.program.program import (
    ENDING_FLAGS,
    Call,
    Callee,
    Cell,
    Component,
    Effect,
    Input,
    Output,
    Program,
)
from specgen.program.stored import tidy
from specgen.program.walk import read


class PythonEnvPrograms(EnvPrograms):
    """The programs of an environment over a class; its object is the record `dynamics`."""

    def __init__(self, env: CheckedEnv) -> None:
        super().__init__(env)
        assert env.python is not None
        self.source: PythonSource = env.python
        self.dynamics = Input(Symbol(f"{self.path}.dynamics", "", Type("record", ())), "function", "dynamics")
        self.observation = {e.dotted: self._now(e) for e in env.observation}

    def parts(self) -> tuple[Component, Parts]:
        """The environment as a component, and its functions: the class gives all rewards and observations at once."""
        reset = self._python_reset()
        step = self._python_step()
        now = self.state | self.observation | self.flags
        first = {output.name: output.symbol for output in reset.outputs}
        after = {output.name: output.symbol for output in step.outputs}
        cells = tuple(
            Cell(name, symbol, first[identifier(name)], after[identifier(name)], symbol.key)
            for name, symbol in now.items()
        )
        component = Component(self.env.name, {"reset": reset, "step": step}, cells)
        rewards = tuple(output for output in step.outputs if output.role == "reward")
        return component, Parts(tidy(reset), tidy(step), None, None, rewards, ())

    def _python_reset(self) -> Program:
        env = self.env
        body = self._body("reset")
        self.fill_params(body)
        args = [read(NOT_DONE.symbol)]
        if env.differing:
            args.append(self._episode_params(body.bound))
        given = (*of_class(env, env.state), *of_class(env, env.observation))
        made = [self._returned(body, entry, "now", entry.name) for entry in given]
        body.statements.append(self._call("reset", made, args))
        for entry, symbol in zip(given, made, strict=True):
            body.assigned[entry.dotted] = read(symbol)
        init = {name: body.bound(name) for name in (*self.state, *self.observation)}
        init |= self.flags_at_reset(body)
        outputs = tuple(Output(identifier(name), symbol, "cell", symbol.key) for name, symbol in init.items())
        inputs = (self.dynamics, *self.fixed, NOT_DONE, *body.draws)
        record = f"{env.name}Root"
        return Program(f"{self.prefix}_reset", inputs, tuple(body.statements), outputs, record)

    def _python_step(self) -> Program:
        env = self.env
        body = self._body("step")
        after: dict[str, Symbol] = {}
        args: list[Typed] = []
        named: list[tuple[str, Typed]] = []
        if self.source.stateful:
            if env.differing:
                after |= self._episode(body)
        else:
            own = of_class(env, env.state)
            fields = tuple((entry.name, read(self.state[entry.dotted])) for entry in own)
            args = [read(self.flags["done"]), record(f"{env.name}State", fields)]
            if env.differing:
                named.append(("params", self._episode_params(self.state.__getitem__)))
        args += [read(symbol) for symbol in self.action.values()]
        made: list[Symbol] = []
        for entry in (*of_class(env, env.state), *of_class(env, env.observation), *env.reward):
            wish = f"next_{entry.name}" if entry.role == "state" else entry.name
            made.append(self._returned(body, entry, "next", wish))
            after[entry.dotted] = made[-1]
        flags = [self._new_flag(body, (*level, flag)) for level in env.done for flag in ENDING_FLAGS]
        body.statements.append(self._call("step", [*made, *flags], args, named))
        after |= self._joined(body, {dotted(flag.key or ()): flag for flag in flags})
        kept = {name: after.get(name, now) for name, now in (self.state | self.observation).items()}
        outputs = [
            Output(identifier(name), symbol, "cell", (self.state | self.observation)[name].key)
            for name, symbol in kept.items()
        ]
        outputs += [Output(identifier(name), after[name], "cell", after[name].key) for name in self.flags]
        outputs += [Output(entry.name, after[entry.dotted], "reward", entry.key) for entry in env.reward]
        inputs = (
            self.dynamics,
            *([] if self.source.stateful else [Input(self.flags["done"], "flag")]),
            *(Input(symbol, "state") for symbol in self.state.values()),
            *(Input(symbol, "action") for symbol in self.action.values()),
        )
        return Program(
            f"{self.prefix}_advance", inputs, tuple(body.statements), tuple(outputs), f"{env.name}Next"
        )

    def _joined(self, body: Body, own: dict[str, Symbol]) -> dict[str, Symbol]:
        """Add the flags of each done set: where the root ends, everything does."""
        after: dict[str, Symbol] = {}
        for level in self.env.done:
            ending = []
            for flag in ENDING_FLAGS:
                symbol = own[dotted((*level, flag))]
                if level:
                    joined = self._new_flag(body, (*level, flag))
                    symbol = body.add(joined, either(symbol, own[flag], symbol.type))
                after[dotted((*level, flag))] = symbol
                ending.append(symbol)
            done = self._new_flag(body, (*level, "done"))
            after[dotted((*level, "done"))] = body.add(done, either(ending[0], ending[1], done.type))
        return after

    def _returned(self, body: Body, entry: Entry, time: str, wish: str) -> Symbol:
        name = entry.dotted if time == "now" or entry.role != "state" else f"next.{entry.dotted}"
        return body.symbol(name, entry.type, entry.spec.interval, wish=wish, key=entry.key, time=time)

    def _call(
        self, name: str, made: list[Symbol], args: list[Typed], named: list[tuple[str, Typed]] | None = None
    ) -> Call:
        effect: Effect = "steps" if name == "step" else "draws"
        callee = Callee(name, effect=effect, receiver=self.dynamics.symbol, returns_tuple=True)
        return Call(tuple(made), callee, tuple(args), tuple(named or ()))

    def _episode(self, body: Body) -> dict[str, Symbol]:
        """What a simulator goes on with, whatever the tensordict says."""
        made = {
            param.name: self._returned(body, param.entry, "next", param.name)
            for param in self.env.differing
            if param.entry is not None
        }
        name = f"{self.env.name}EpisodeParams"
        callee = Callee("episode_params", receiver=self.dynamics.symbol, record=name)
        body.statements.append(Call(tuple(made.values()), callee, fields=tuple(made), called="episode"))
        entries = {param.name: param.entry for param in self.env.differing if param.entry is not None}
        return {entries[param].dotted: symbol for param, symbol in made.items()}

    def _episode_params(self, value: Callable[[str], Symbol]) -> Typed:
        """The record of the parameters that differ between environments, as the class is handed it."""
        fields = tuple(
            (param.name, read(value(param.entry.dotted)))
            for param in self.env.differing
            if param.entry is not None
        )
        return record(f"{self.env.name}EpisodeParams", fields)


def of_class(env: CheckedEnv, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Those entries that the class returns; parameters that differ between environments are handed to it."""
    given = {param.name for param in env.differing}
    return tuple(entry for entry in entries if entry.dotted not in given)


def record(name: str, fields: tuple[tuple[str, Typed], ...]) -> Typed:
    """A record made of its fields."""
    values = tuple(value for _, value in fields)
    options = {"name": name, "fields": tuple(field for field, _ in fields)}
    return Typed("record", Type("record", ()), ANYTHING, values, options)
