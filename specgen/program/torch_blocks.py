"""Blocks as torch: `if` statements whose results are None where they are not computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from specgen.expr import Symbol, Typed
from specgen.expr.printer import FunctionTexts
from specgen.program.blocks import Block, Laid, absent_reads, always_made, certain_reads
from specgen.values import dataclass

PYTHON_TYPES: Final = {
    "int64": "int",
    "float32": "float",
    "float64": "float",
    "bool": "bool",
    "str": "str",
    "list": "tuple[int, ...]",
}
"""What numbers and truth values of parameters are in Python."""


@dataclass(frozen=True)
class BlockPrinter:
    """What the printer of the whole function does for a block in it.

    Attributes:
        names: The names of values.
        forced: Names that values of a block must get: those under which they are read behind it.
        texts: What its expressions share.
        expr: Prints an expression.
        new_name: A name that nothing has, for a symbol.
        branch: Prints statements as an indented block, where values are known not to be None, behind lines that
            come first.
        there: Values that are known not to be None.
    """

    names: dict[Symbol, str]
    forced: dict[Symbol, str]
    texts: FunctionTexts
    expr: Callable[[Typed], str]
    new_name: Callable[[Symbol], str]
    branch: Callable[[Sequence[Laid], frozenset[Symbol], Sequence[str]], str]
    there: frozenset[Symbol]


def block_lines(block: Block, printer: BlockPrinter) -> list[str]:
    """The `if` of a block; in front of it, what is read behind it and is None elsewhere."""
    either = set(always_made(block.body)) & set(always_made(block.otherwise))
    lines: list[str] = []
    for symbol in block.results:
        if symbol in printer.forced:  # declared in front of the block around this one
            continue
        name = printer.forced[symbol] = printer.new_name(symbol)
        if symbol not in either:
            kind = PYTHON_TYPES[symbol.type.dtype] if symbol.type.python else "Tensor"
            if kind == "Tensor":
                printer.texts.uses.add(kind)
            lines.append(f"{name}: {kind} | None = None")
    text = f"if {printer.expr(block.condition)}:{_branch(block.body, printer)}"
    if block.otherwise:
        text += f"\nelse:{_branch(block.otherwise, printer)}"
    return [*lines, text]


def _branch(body: Sequence[Laid], printer: BlockPrinter) -> str:
    """One side of a block: what may be None and is read several times is asked once, at its beginning."""
    own = set(always_made(body))
    times = Counter(symbol for symbol in absent_reads(body) if symbol not in printer.there | own)
    # what is read inside another block only may be None here, or has no name yet
    certain = certain_reads(body)
    several = [symbol for symbol, count in times.items() if count > 1 and symbol in certain]
    if several:
        printer.texts.uses.add("not_none")
    names = [printer.names[symbol] for symbol in several]
    first = [f"{name} = not_none({name})" for name in names]
    return printer.branch(body, printer.there | own | set(several), first)
