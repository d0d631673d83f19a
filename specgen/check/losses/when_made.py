"""What is known when a loss is made: parameters, and neither values under `let` nor what the data hold."""

from __future__ import annotations

from specgen.diagnostics import Sink
from specgen.diagnostics.rules import loss_domains as rules
from specgen.expr import Expr, SourceText
from specgen.expr.tree import names_read
from specgen.schema.loss import Loss


def known_when_made(expr: Expr, source: SourceText, loss: Loss, what: str, sink: Sink) -> bool:
    """Whether an expression reads nothing that only a batch gives; reported where it does.

    Args:
        expr, source: the expression and its text.
        loss: the loss that it is of.
        what: the field that it stands under.
        sink: takes the mistake.
    """
    of_batch = {
        **dict.fromkeys(loss.keys, "read from the data"),
        **dict.fromkeys(loss.let, "a value under `let`"),
    }
    read = next(
        (name for name in names_read(expr) if name.path in of_batch and name.path not in loss.params), None
    )
    if read is None:
        return True
    message = f"`{read.path}` is {of_batch[read.path]}, known for each batch; `{what}` is decided when the loss is made"
    help = "write it with parameters alone"
    sink.add(rules.WHEN_MADE.at(source.span_of(read.start, read.end), message, help=help))
    return False
