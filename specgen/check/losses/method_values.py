"""Methods that are given values: that their terms are computed from these, all of them, and nothing else of the data."""

from __future__ import annotations

from specgen.check.losses.model import CheckedLoss
from specgen.check.programs.loss import given_symbols, method_part
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import loss_parts as rules
from specgen.schema.load import SchemaFile


def check_method_values(file: SchemaFile, loss: CheckedLoss, sink: Sink) -> None:
    """Report methods of a loss whose terms read more than they are given, or less."""
    for name, method in loss.methods.items():
        if not method.given:
            continue
        here = ("losses", loss.name, "methods", name)
        read = method_part(loss, name).program.inputs
        given = dict(zip(given_symbols(loss, name), method.given, strict=True))
        more = [
            f"`{one.symbol.name}`"
            for one in read
            if one.kind not in ("param", "learnable") and one.symbol not in given
        ]
        if more:
            message = f"`{method.term}` of `{loss.name}` is also computed from {', '.join(more)}"
            help = f"give `{name}` a value of `let` that holds it, or write `{name}: {method.term}`, which reads the data"
            sink.add(rules.METHOD_READS.at(file.scalar(*here, "term").span, message, help=help))
        for symbol, (argument, _) in given.items():
            if not more and symbol not in {one.symbol for one in read}:
                message = f"`{method.term}` of `{loss.name}` does not read `{symbol.name}`"
                span = file.scalar(*here, "given", argument).span
                sink.add(rules.METHOD_GIVEN.at(span, message, help=f"leave out `{argument}`"))
