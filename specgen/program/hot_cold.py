"""The step of an environment or a chain in parts: what the next step waits for, and what follows from the records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from math import prod
from typing import Final

from specgen.expr import Symbol, Typed
from specgen.program.cut import cut
from specgen.program.fold import fold
from specgen.program.hoist import hoist
from specgen.program.names import underscored
from specgen.program.program import Call, Component, Output, Program, Region, Statement
from specgen.program.share import is_costly, share
from specgen.program.stored import copies, read_from_records, tidy, witnessed
from specgen.program.verify import verified
from specgen.program.walk import expressions, targets
from specgen.values import dataclass, replace

_MUCH: Final = 16
"""From how many numbers on computing something again costs more than keeping its reader with it."""


@dataclass(frozen=True)
class Parts:
    """The functions of an environment or a chain.

    Attributes:
        reset: A fresh episode; None where somebody else resets.
        advance: All that the next step waits for, with rewards that must be computed with it.
        reward: The other rewards, from the records; None where there are none.
        observe: The observations, from the state; None where there are none, or where another program gives them.
        promoted: The names of the rewards that `advance` returns.
        raw: What `advance` returns besides for `reward` alone: what the wrapped environment gave.
        inverse: What the wrapped environment is given, of what the policy writes; None where that is the same, or where
            `advance` steps.
        constants: What is computed of constant tables alone, once; the others are given it. None for nothing.
    """

    reset: Program | None
    advance: Program
    reward: Program | None
    observe: Program | None
    promoted: tuple[Output, ...]
    raw: tuple[Output, ...]
    inverse: Program | None = None
    constants: Program | None = None

    @property
    def programs(self) -> tuple[Program, ...]:
        """All of them that there are."""
        found = (self.reset, self.advance, self.reward, self.observe, self.inverse)
        return tuple(program for program in found if program is not None)


@verified("any")
def split(component: Component) -> Parts:
    """The parts of an environment or a chain.

    A reward is computed with the state when a cell's next value needs it, when a random draw or an effect is behind
    it, when it is what a wrapped environment gave, or when it needs something costly that the state needs, too. All others
    follow from the records, for any leading dimensions, so also for all steps of a rollout at once.
    """
    step = witnessed(copies(component.phases["step"]))
    name = step.name.removesuffix("_step")
    cells = [output for output in step.outputs if output.role == "cell"]
    needed = {target for statement in cut(step, cells).body for target in targets(statement)}
    # What a region makes is made with all else that it makes.
    whole = [made for statement in step.body if not needed.isdisjoint(made := targets(statement))]
    hot = {target for made in whole for target in made}
    inputs = {one.symbol for one in step.inputs}
    after = [output.symbol for output in cells]
    rewards = [output for output in step.outputs if output.role == "reward"]
    asked = [one for one in rewards if one.symbol not in hot and one.symbol not in inputs]
    recorded = read_from_records(step, after) if asked else step
    promoted: list[Output] = []
    cold: list[Output] = []
    raw: dict[str, Output] = {}
    taken = {*(one.symbol.name for one in step.inputs), *(output.name for output in step.outputs)}
    for output in rewards:
        part = cut(recorded, [output], after) if output in asked else None
        if part is None or _happens_once(part) or _repeats_much(part, hot):
            promoted.append(output)
            continue
        cold.append(output)
        for one in part.inputs:
            if one.kind == "given" and one.symbol not in after:
                # A key may be called `raw_reward`, too.
                raw_name = underscored(f"raw_{one.symbol.name}", taken)
                raw[one.symbol.path] = Output(raw_name, one.symbol, "raw_reward", one.symbol.key)
    advance = _learning(step, [*cells, *promoted, *raw.values()])
    advance = _drawing_all(advance, component.phases["step"])
    reward = _reward(recorded, cold, after, raw) if cold else None
    reset = component.phases.get("reset")
    observe = component.phases.get("observe")
    inverse = component.phases.get("inverse")
    return Parts(
        None if reset is None else _drawing_all(_learning(reset, reset.outputs), reset),
        replace(advance, name=f"{name}_advance"),
        None if reward is None else replace(_finished(reward), name=f"{name}_reward"),
        None if observe is None or not observe.outputs else state_function(observe),
        tuple(promoted),
        tuple(raw.values()),
        None if inverse is None else _inverse(inverse),
    )


def state_function(whole: Program) -> Program:
    """What follows from the state, as it is printed; where nothing reads a value of it, one still tells the rows."""
    part = cut(whole, whole.outputs)
    if not any(one.symbol.type.level == "batch" for one in part.inputs):
        part = cut(witnessed(copies(whole)), whole.outputs)
    return _finished(part)


def _inverse(whole: Program) -> Program:
    """What the wrapped environment is given; an action tells the rows."""
    return _drawing_all(_finished(cut(witnessed(copies(whole)), whole.outputs)), whole)


def _learning(program: Program, outputs: Iterable[Output]) -> Program:
    """A part that some outputs need, with everything that is learned on the way, whether or not anything reads it."""
    outputs = tuple(outputs)
    learned = [
        Output(statement.targets[0].path, statement.targets[0])
        for statement in program.body
        if isinstance(statement, Call) and statement.callee.effect == "writes_buffer"
    ]
    return _finished(replace(cut(program, (*outputs, *learned)), outputs=outputs))


def _finished(program: Program) -> Program:
    """A part as it is printed."""
    return share(tidy(fold(program)))


def _drawing_all(part: Program, whole: Program) -> Program:
    """A part with all draws of the whole, in their order: what nothing reads any more is drawn all the same.

    So a chain that hides a value goes on with the same numbers as its transforms one after the other.
    """
    inputs = list(part.inputs)
    paths = [one.symbol.path for one in inputs]
    place = len(inputs)
    for one in reversed(whole.inputs):
        path = one.symbol.path
        if path in paths:
            place = paths.index(path)
        elif one.kind == "draw":
            inputs.insert(place, one)
            paths.insert(place, path)
    return replace(part, inputs=tuple(inputs))


def _happens_once(part: Program) -> bool:
    """Whether computing a part again would draw other numbers, or step something twice."""
    if any(one.kind == "draw" for one in part.inputs):
        return True
    if any(isinstance(one, Call) and one.callee.effect != "pure" for one in part.body):
        return True
    # An environment whose steps are declared gives the same again, within repetitions; another one is somewhere else then.
    return any(call.callee.effect != "pure" and call.callee.program is None for call in _calls_of(part.body))


def _calls_of(body: Iterable[Statement]) -> Iterator[Call]:
    """All calls, those within repetitions too."""
    for one in body:
        if isinstance(one, Call):
            yield one
        elif isinstance(one, Region):
            yield from _calls_of(one.body)


def with_constants(parts: Parts, name: str, record: str) -> Parts:
    """The parts of an environment, where what constant tables alone decide is computed once.

    Args:
        parts: the parts.
        name: what the function that computes it is called.
        record: the record that it returns.
    """
    constants, programs = hoist(name, record, parts.programs)
    by_name = {program.name: program for program in programs}

    def found(program: Program | None) -> Program | None:
        return None if program is None else by_name[program.name]

    return replace(
        parts,
        reset=found(parts.reset),
        advance=by_name[parts.advance.name],
        reward=found(parts.reward),
        observe=found(parts.observe),
        constants=constants,
    )


def _repeats_much(part: Program, hot: Set[Symbol]) -> bool:
    """Whether a part computes again something costly that the state needs anyway: a network, a class, many numbers."""
    again = [one for one in part.body if not hot.isdisjoint(targets(one))]
    if any(isinstance(one, Call) and one.callee.program is None for one in again):
        return True
    nodes = (node for one in again for expr in expressions(one) for node in expr.nodes)
    return any(is_costly(node) and (_calls(node) or _numbers_read(node) >= _MUCH) for node in nodes)


def _calls(node: Typed) -> bool:
    """Whether a node calls a network."""
    return node.builtin is not None and node.builtin.family == "network"


def _numbers_read(node: Typed) -> int:
    """How many numbers of one environment an operation reads."""
    return sum(prod(size for size in arg.type.dims if isinstance(size, int)) for arg in node.args)


def _reward(step: Program, cold: list[Output], after: list[Symbol], raw: dict[str, Output]) -> Program:
    """The rewards that the records give; what the wrapped environment gave has another name in them."""
    renamed = {one.symbol: replace(one.symbol, name=one.name) for one in raw.values()}
    program = cut(step, cold, [*after, *renamed])
    record = None if len(cold) == 1 else f"{(step.record or '').removesuffix('Next')}Reward"
    inputs = tuple(replace(one, symbol=renamed.get(one.symbol, one.symbol)) for one in program.inputs)
    return replace(program, inputs=inputs, record=record)
