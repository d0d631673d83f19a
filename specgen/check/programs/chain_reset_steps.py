"""Transforms in a chain that step a simulator after its reset: the reset becomes a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specgen.check.chains.around import repetitions
from specgen.check.chains.model import Instance
from specgen.check.programs.chain_skips import stand_still
from specgen.check.programs.chain_state import ChainState
from specgen.check.programs.chain_transforms import nth_symbol
from specgen.check.programs.chain_values import around_part, as_printed, copied, copy_of
from specgen.check.programs.env import COLUMN, either
from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.builtins.table import TABLE
from specgen.expr.relayout import relayout
from specgen.expr.symbols import in_spec_order
from specgen.program.program import Assign, Call, Callee, Carried, Effect, Output, Region, Statement
from specgen.program.walk import known, read, reads, store
from specgen.values import replace


def apply_reset_steps(state: ChainState, instance: Instance) -> None:
    """Take steps of the chain so far after its reset; an episode that ends meanwhile begins again, and the count goes on."""
    _ResetLoop(state, instance).apply()


class _ResetLoop:
    """The steps after a reset.

    Attributes:
        index: the number of the step, from 0.
        reset: the body of the chain's reset so far; the loop stands behind it.
        begun: what each field of the records is at a reset so far.
        each: what it is before a step.
        over: whether there are no more steps.
    """

    def __init__(self, state: ChainState, instance: Instance) -> None:
        self.state = state
        self.instance = instance
        self.origin = f"{state.path}.transforms[{instance.position}]"
        self.index = nth_symbol(self.origin)
        self.reset = state.bodies["reset"]
        self.begun = [one.cell.init for one in state.cells if one.cell.init is not None]
        assert len(self.begun) == len(state.cells)
        self.each = self._like_cells("each")
        self.over = Symbol(f"{self.origin}.over", "over", COLUMN, full("bool"))

    def apply(self) -> None:
        """Put the loop behind the reset; what each key is then follows from what the loop ends with."""
        state, reset = self.state, self.reset
        first = tuple(reset.statements)
        count, steps = self._counts()
        body, after = self._step()
        restarted, fresh = self._begun_again(first)
        ends, results = self._like_cells("end"), self._like_cells("result")
        done = next(over for one, over in zip(state.cells, after, strict=True) if one.entry.key == ("done",))
        again = [
            Carried(inner, read(over), new, end)
            for inner, over, new, end in zip(self._like_cells("before"), after, fresh, ends, strict=True)
        ]
        body.append(Region("when", restarted, tuple(again), condition=read(done), origin=self.origin))
        outputs = [Output(f"cell{at}", end, "cell") for at, end in enumerate(ends)]
        if steps:
            found, stop = self._flag("last"), self._flag("stop")
            body.append(Assign(found, store(_taken(steps, _one_more(self.index)), COLUMN)))
            body.append(Assign(stop, either(self.over, found)))
            outputs.append(Output("over", stop, "cell"))
        program = as_printed(state, f"{state.chain.name}_begun", body, outputs)
        last = [output.symbol for output in program.outputs]
        carried = [
            Carried(each, copy_of(init) if one.entry.role == "done" else read(init), end, result)
            for one, each, init, end, result in zip(
                state.cells, self.each, self.begun, last[: len(ends)], results, strict=True
            )
        ]
        if steps:
            none = reset.add(self._flag("none"), store(_taken(steps, known(0)), COLUMN), self.origin)
            carried.append(Carried(self.over, read(none), last[-1]))
        reset.statements.append(
            Region(
                "repeat",
                program.body,
                tuple(carried),
                count=count,
                mask=self.over if steps else None,
                index=self.index if any(self.index in reads(one) for one in program.body) else None,
                leaves=bool(steps),
                origin=self.origin,
            )
        )
        self._see(results)

    def _counts(self) -> tuple[Typed, list[Symbol]]:
        """How many steps there are at most, and how many the row takes, for each repetition of the transform.

        The largest of those counts; where all are known at build, the first number says it.
        """
        most, found = repetitions(self.instance), list[Typed]()
        for index in range(len(self.instance.rows)):
            statements, values = around_part(self.state, self.instance, "reset_steps", index, moment="reset")
            self.reset.statements += statements
            found.append(values["reset_steps"])
        if all(one.interval.fixed and one.type.python for one in (most, *found)):
            count = min(most.interval.low, max(one.interval.low for one in found))
            return known(max(0, int(count))), []
        steps = []
        for index, one in enumerate(found):
            made = Symbol(f"{self.origin}.steps{index}", "steps", Type("int64", ()), one.interval)
            steps.append(self.reset.add(made, store(one, made.type), self.origin))
        return most, steps

    def _step(self) -> tuple[list[Statement], list[Symbol]]:
        """A step of the chain so far, and what each field of the records is then."""
        state = self.state.fork()
        stand_still(state, self.instance.entries)
        after = [state.after(one) for one in state.cells]
        body, actions = self._actions()
        values: dict[Symbol, Typed] = {}
        for one, each in zip(state.cells, self.each, strict=True):
            values[one.cell.now] = read(each)
        for name, action in actions.items():
            values |= {view[name]: read(action) for view in (state.sent, state.actions) if name in view}
        if state.given:
            returned = [self._copy(one.symbol, "returned") for one in state.given]
            values |= {one.symbol: read(new) for one, new in zip(state.given, returned, strict=True)}
            body.append(self._call("step", returned, actions.values(), "steps"))
        for statements in (state.bodies["now"].statements, state.bodies["next"].statements[state.acted :]):
            body += copied(statements, values, self.origin, "step")
        ends = (values.get(symbol, read(symbol)).symbol for symbol in after)
        return body, [symbol for symbol in ends if symbol is not None]

    def _actions(self) -> tuple[list[Statement], dict[str, Symbol]]:
        """Random actions of the environment, by their dotted names."""
        entries = {entry.key: entry for entry in self.state.chain.env.value.action}
        body, drawn = list[Statement](), dict[str, Symbol]()
        for key in in_spec_order(entries):
            entry = entries[key]
            made = Symbol(
                f"{self.origin}.action.{entry.dotted}",
                entry.name,
                entry.type,
                entry.spec.interval,
                "now",
                key,
            )
            callee = Callee("rand_action", effect="draws", receiver=self.state.dynamics(), about=key)
            body.append(Call((made,), callee, origin=self.origin))
            drawn[entry.dotted] = made
        return body, {entry.dotted: drawn[entry.dotted] for entry in entries.values()}

    def _begun_again(self, first: Sequence[Statement]) -> tuple[tuple[Statement, ...], list[Symbol]]:
        """The reset so far once more, as `first` says it, and what each field of the records is then."""
        state, values, body = self.state, dict[Symbol, Typed](), list[Statement]()
        if state.begun:
            observed = [self._copy(one, "observed") for one in state.begun]
            values |= {one: read(new) for one, new in zip(state.begun, observed, strict=True)}
            body.append(self._call("reset", observed, (), "draws"))
        body += copied(first, values, self.origin, "again")
        fresh = self._like_cells("fresh")
        for one, init, new in zip(state.cells, self.begun, fresh, strict=True):
            found = values.get(init, read(init)).symbol
            assert found is not None
            body.append(Assign(new, copy_of(found) if one.entry.role == "done" else read(found)))
        outputs = [Output(f"cell{at}", new, "cell") for at, new in enumerate(fresh)]
        program = as_printed(state, f"{state.chain.name}_again", body, outputs)
        return program.body, [output.symbol for output in program.outputs]

    def _see(self, results: Sequence[Symbol]) -> None:
        """Let keys have at a reset what follows from the fields of the records behind the loop."""
        state, values = self.state, dict[Symbol, Typed]()
        for index, (one, result) in enumerate(zip(state.cells, results, strict=True)):
            values[one.cell.now] = read(result)
            state.cells[index] = replace(one, cell=replace(one.cell, init=result))
        self.reset.statements += copied(state.bodies["now"].statements, values, self.origin, "begun")
        for name, symbol in state.views["now"].items():
            made = values.get(symbol)
            if name in state.views["reset"] and made is not None and made.symbol is not None:
                state.views["reset"][name] = made.symbol

    def _call(self, name: str, made: Sequence[Symbol], args: Iterable[Symbol], effect: Effect) -> Call:
        """The call of a method of the simulator."""
        callee = Callee(name, effect=effect, receiver=self.state.dynamics(), returns_tuple=True)
        return Call(
            tuple(made), callee, tuple(map(read, args)), origin=f"envs.{self.state.chain.env.value.name}"
        )

    def _like_cells(self, moment: str) -> list[Symbol]:
        """Values like the fields of the records."""
        return [
            replace(one, path=f"{self.origin}.{moment}.cell{at}", interval=full(one.type.dtype), alias="")
            for at, one in enumerate(self.begun)
        ]

    def _copy(self, symbol: Symbol, moment: str) -> Symbol:
        return replace(symbol, path=f"{self.origin}.{moment}.{symbol.path}")

    def _flag(self, name: str) -> Symbol:
        return Symbol(f"{self.origin}.{name}", "over", COLUMN, full("bool"))


def _taken(steps: Sequence[Symbol], count: Typed) -> Typed:
    """Whether `count` steps are all of them."""
    first, *others = (_bool("<=", read(one), count) for one in steps)
    for other in others:
        first = _bool("and", first, other)
    return first


def _bool(op: str, one: Typed, other: Typed) -> Typed:
    """What an operator says of two values."""
    kind = Type("bool", ())
    return relayout(Typed(op, kind, full("bool"), (one, other), builtin=TABLE[op]))


def _one_more(number: Symbol) -> Typed:
    return Typed("+", number.type, full("int64"), (read(number), known(1)), builtin=TABLE["+"])
