"""A reset and a step of a chain over Gymnasium as lines of NumPy: what they give, for the one environment there is."""

from __future__ import annotations

from specgen.check.programs.chain_learned import GROUP
from specgen.code import named, using
from specgen.imported import ROW_VALUES
from specgen.literals import literal
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.program.fold import fold
from specgen.program.numpy_text import PrintedRow, print_row
from specgen.program.program import Program
from specgen.program.stored import copies, stored_where_made
from specgen.program.views import parts_first
from specgen.values import dataclass

_ROW = "_gym_row"
_FIRST = "_gym_first_row"
_HELD = "held"
_RETURNED = ("reward", "terminated", "truncated")
_RECORDS = frozenset({"consts", "params", GROUP})


@dataclass(frozen=True)
class RowPlan:
    """The methods that reset and step by NumPy.

    Attributes:
        methods: none where that needs torch, or keys are nested.
        reads: the keys of the root that the step reads.
    """

    methods: tuple[FunctionPlan, ...] = ()
    reads: tuple[str, ...] = ()


def plan_rows(reset: Program | None, step: Program | None) -> RowPlan:
    """Plan them.

    Args:
        reset: what stands at the root after a reset.
        step: what stands under `next` after a step.
    """
    taken = None if step is None else _printed(step)
    if step is None or taken is None:
        return RowPlan()
    begun = None if reset is None else _printed(reset)
    methods = [_method(_ROW, (_HELD,), _RETURNED, step, taken)]
    if reset is not None and begun is not None:
        methods.append(_method(_FIRST, (), (), reset, begun))
    return RowPlan(tuple(methods), tuple(taken.read))


def _printed(entries: Program) -> PrintedRow | None:
    if any(len(output.key or ()) != 1 for output in entries.outputs):
        return None
    program = parts_first(stored_where_made(copies(fold(entries))))
    printed = print_row(program, (_HELD, *ROW_VALUES, "self"))
    return printed if printed is not None and _RECORDS.issuperset(printed.records) else None


def _method(
    name: str, before: tuple[str, ...], returned: tuple[str, ...], entries: Program, printed: PrintedRow
) -> FunctionPlan:
    names = {symbol.name: text for symbol, text in printed.args.items()}
    observation = next((text for one, text in names.items() if one not in returned), "observation")
    # of tables and statistics there are arrays; parameters are numbers
    held = {record: record if record == "params" else f"_gym_{record}" for record in printed.records}
    lines = [Line(f"{record} = self.{attribute}") for record, attribute in held.items()]
    if printed.read:
        read = tuple(printed.read.values())
        lines.append(Line(f"{', '.join(read) if len(read) > 1 else f'({read[0]},)'} = {_HELD}"))
    lines += [Line(text, origin) for text, origin in printed.lines]
    pairs = (
        f"{literal(output.key[0])}: {text}"
        for output, text in zip(entries.outputs, printed.entries, strict=True)
        if output.key is not None
    )
    lines.append(Line(f"return {{{', '.join(pairs)}}}"))
    arguments = (
        *(Argument(one, using("Sequence[Any]", "Sequence", "Any")) for one in before),
        Argument(observation, named("Array")),
        *(Argument(names.get(one, one), named("Any")) for one in returned),
    )
    result = using("dict[str, Any]", "Any")
    return FunctionPlan(name, arguments, result, (), tuple(lines), method=True, uses=printed.uses)
