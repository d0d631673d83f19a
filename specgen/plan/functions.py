"""Programs as pure functions of a generated module: signature, documentation, body, and how they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from specgen.check.model import Entry, dotted, entry_name
from specgen.code import Code
from specgen.expr import DrawSite
from specgen.expr.dtypes import is_abstract
from specgen.plan.docs import items_doc
from specgen.plan.interface import Call, Passed
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.plan.short_texts import shape_text
from specgen.program.printed import PrintedArgument, PrintedFunction
from specgen.program.program import Input, Program
from specgen.program.torch_text import print_function
from specgen.values import dataclass

RECORD_DOCS = {
    "dynamics": "the class's object.",
    "env_params": "those of them that the environment has.",
    "params": "constructor keywords of the environment.",
    "env_consts": "constant tables of the environment.",
    "consts": "constant tables of the environment.",
    "learned": "what the transforms have learned.",
    "constants": "what is computed of constant tables alone.",
    "networks": "networks of the constructor.",
    "objects": "objects of the classes behind transforms.",
}


@dataclass(frozen=True)
class Planned:
    """A pure function, how a class calls it, and what its arguments are: None for a record."""

    plan: FunctionPlan
    call: Call
    args: tuple[Input | None, ...]


def plan_function(
    program: Program,
    summary: str,
    annotations: Mapping[str, Code],
    describe: Callable[[Input], str] | None = None,
    returns: Sequence[str] = (),
    passed: Callable[[Input], Passed | None] = lambda one: None,
    *,
    reuse: bool = False,
) -> Planned:
    """Print a program, and document it.

    Args:
        program: what is printed.
        summary: the first sentence of its documentation.
        annotations: the types of the records that it is passed.
        describe: the documentation of an argument; without it arguments are not documented.
        returns: the documentation of what it returns, where its record does not say it.
        passed: what an argument is passed in the `Call`; None for what its input says by itself.
        reuse: see `print_function`.
    """
    printed = print_function(program, annotations, reuse=reuse)
    doc = [summary]
    if describe is not None:
        doc += ["", "Args:", *_argument_docs(printed, describe)]
    if returns:
        doc += ["", "Returns:", *returns]
    plan = FunctionPlan(
        program.name,
        tuple(Argument(argument.name, argument.annotation) for argument in printed.args),
        printed.returns,
        tuple(doc),
        tuple(Line(line.text, line.origin) for line in printed.lines),
        tuple(Argument(argument.name, argument.annotation) for argument in printed.keyword_only),
        uses=printed.uses,
    )
    args = tuple(
        Passed("record", argument.name)
        if argument.input is None
        else passed(argument.input) or _passed(argument.input)
        for argument in printed.args
    )
    outputs = tuple(output.key or (output.name,) for output in program.outputs)
    call = Call(program.name, args, outputs, program.record)
    return Planned(plan, call, tuple(argument.input for argument in printed.args))


def _passed(one: Input) -> Passed:
    """What a class passes for an input of its environment."""
    symbol = one.symbol
    if one.kind == "witness":
        return Passed("witness", symbol.name)
    if one.draw is not None:
        return Passed("draw", symbol.name, one.draw)
    if symbol.key is None or one.kind == "given":
        return Passed("local", symbol.name)
    return Passed("later" if symbol.time == "next" else "now", dotted(symbol.key))


def data_name(one: Input) -> str:
    """What an argument is in the language: `next.agents.x` for an entry; for others the name that they have."""
    symbol = one.symbol
    if symbol.key is None or one.kind in ("draw", "witness", "given"):
        return symbol.name
    return entry_name(symbol)


def _argument_docs(printed: PrintedFunction, describe: Callable[[Input], str]) -> Iterable[str]:
    """Items of an `Args:` section: arguments side by side of which the same is said share one."""
    said = [(_argument_doc(argument, describe), argument.name) for argument in printed.args]
    return items_doc(
        f"{', '.join(name for _, name in group)}: {text}"
        for text, group in groupby(said, lambda item: item[0])
    )


def _argument_doc(argument: PrintedArgument, describe: Callable[[Input], str]) -> str:
    if argument.input is None:
        return RECORD_DOCS[argument.name]
    if argument.input.kind == "witness":
        return "bool [*batch, 1], all False; it tells the batch shape and the device."
    return _draw_doc(argument.input.draw) if argument.input.draw else describe(argument.input)


def entry_doc(entry: Entry) -> str:
    """Dtype, stored shape and documentation of an entry."""
    text = f"{entry.type.dtype} {shape_text('*batch', entry.stored_shape)}"
    return f"{text}: {entry.doc}." if entry.doc else f"{text}."


def _draw_doc(site: DrawSite) -> str:
    kind = {
        "uniform": "uniform in [0, 1)",
        "normal": "standard normal",
        "randint": f"uniform in {site.low}..{(site.high or 1) - 1}",
    }
    dtype = f"{site.dtype}s" if is_abstract(site.dtype) else site.dtype
    return f"{dtype} {shape_text('*batch', (*site.dims, 1) if site.col else site.dims)}, {kind[site.kind]}."
