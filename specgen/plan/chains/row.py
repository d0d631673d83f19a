"""A step of a chain over Gymnasium as lines of NumPy: what `"next"` holds, for the one environment that there is."""

from __future__ import annotations

from specgen.code import named, using
from specgen.literals import literal
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.program.fold import fold
from specgen.program.numpy_text import print_row
from specgen.program.program import Program
from specgen.program.stored import copies, stored_where_made

_ROW = "_gym_row"
_HELD = "held"
_RETURNED = ("reward", "terminated", "truncated")


def plan_row(entries: Program | None) -> tuple[FunctionPlan, ...]:
    """The method that takes a step; none where it needs torch, or keys are nested.

    Args:
        entries: what stands under `next` after a step.
    """
    if entries is None or any(len(output.key or ()) != 1 for output in entries.outputs):
        return ()
    program = stored_where_made(copies(fold(entries)))
    printed = print_row(program, _HELD, ("filled_row", "row_number", "self"))
    if printed is None or printed.records not in ((), ("consts",)):
        return ()
    names = {symbol.name: name for symbol, name in printed.args.items()}
    observation = next((name for one, name in names.items() if one not in _RETURNED), "observation")
    returned = [observation, *(names.get(one, one) for one in _RETURNED)]
    lines = [Line("consts = self._gym_consts")] if printed.records else []
    lines += [Line(text, origin) for text, origin in printed.lines]
    pairs = (
        f"{literal(output.key[0])}: {text}"
        for output, text in zip(program.outputs, printed.entries, strict=True)
        if output.key is not None
    )
    lines.append(Line(f"return {{{', '.join(pairs)}}}"))
    arguments = (
        Argument(_HELD, using("Mapping[str, Any]", "Mapping", "Any")),
        Argument(observation, named("Array")),
        *(Argument(name, named("Any")) for name in returned[1:]),
    )
    result = using("dict[str, Any]", "Any")
    return (FunctionPlan(_ROW, arguments, result, (), tuple(lines), method=True, uses=printed.uses),)
