"""One step, and a fresh episode in the rows that it ended: what every loop over time repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specgen.expr import Symbol
from specgen.program.program import Assign, Call, Callee, Cell, Output, Program
from specgen.program.verify import verified
from specgen.program.walk import known, read, store, where
from specgen.values import replace


@verified("any")
def restart(parts: tuple[Program, Program], cells: Sequence[Cell]) -> Program:
    """A program that steps, and gives the rows that ended the values of a new episode.

    Args:
        parts: the programs `advance` and `reset` of an environment, or of a chain around one.
        cells: what goes from one step to the next; each is an output of both programs under its name.

    Raises:
        ValueError: where done flags have dimensions of their own: which rows begin anew is then asked of who steps.
    """
    advance, reset = parts
    path = advance.name.removesuffix("_advance") + ".restart"
    step, after = _call(advance, f"{path}.next", {})
    done = after["done"]
    if done.type.dims != () or any(cell.name.endswith(".done") for cell in cells):
        raise ValueError(f"{advance.name}: groups of agents end by themselves")
    fresh: dict[Symbol, Symbol] = {}
    body: list[Assign | Call] = [step]
    for one in reset.inputs:
        if one.kind == "witness":
            fresh[one.symbol] = replace(one.symbol, path=f"{path}.{one.symbol.name}")
            body.append(Assign(fresh[one.symbol], store(known(False), one.symbol.type, done)))
    begin, first = _call(reset, f"{path}.fresh", fresh)
    body.append(begin)
    outputs: list[Output] = []
    for cell in cells:
        name = cell.name.replace(".", "_")
        target = replace(after[name], path=f"{path}.{name}", name=f"root_{name}", time="now", key=cell.key)
        body.append(Assign(target, store(where(done, first[name], after[name]), target.type)))
        outputs.append(Output(name, target, "cell", cell.key))
    inputs = dict.fromkeys(one for one in (*advance.inputs, *reset.inputs) if one.kind != "witness")
    return Program(f"{path.replace('.', '_')}", tuple(inputs), tuple(body), tuple(outputs), reset.record)


def _call(program: Program, path: str, given: Mapping[Symbol, Symbol]) -> tuple[Call, dict[str, Symbol]]:
    """The call of a program with its own inputs, and its values by name."""
    made = {
        output.name: replace(output.symbol, path=f"{path}.{output.name}", name=output.name)
        for output in program.outputs
    }
    args = tuple(read(given.get(one.symbol, one.symbol)) for one in program.inputs)
    fields = tuple(made) if program.record is not None else ()
    return Call(tuple(made.values()), Callee(program.name, program), args, fields=fields), made
