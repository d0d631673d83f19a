"""Sizes that only the networks of a loss know, where an expression needs them as numbers."""

from __future__ import annotations

from specgen.check.model import Statement
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.expr import to_torch
from specgen.expr.printer import SizeUnknown
from specgen.schema.load import SchemaFile


def refuse_unknown_sizes(file: SchemaFile, assigned: list[tuple[Statement, str]], sink: Sink) -> None:
    """Report expressions that need a size which only the networks know, and read no value that has it."""
    for made, _ in assigned:
        try:
            to_torch(made.typed)
        except SizeUnknown as size:
            message = f"this needs the size {size}, which only the networks know, as a number that is known at build"
            help = "read a value that has this dimension: size(q)"
            span = file.span(*made.path.split(".", 3))
            sink.add(expression_rules.WRONG_ARGUMENTS.at(span, message, help=help))
