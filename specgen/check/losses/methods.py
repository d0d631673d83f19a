"""Methods of a loss that compute one of its terms."""

from __future__ import annotations

from specgen.check.attributes import LOSS_ATTRIBUTES
from specgen.check.names import Names, refused
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import loss_parts as rules
from specgen.diagnostics.similar import did_you_mean
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss


def checked_methods(
    file: SchemaFile, path: tuple[str, ...], loss: Loss, names: Names, sink: Sink
) -> dict[str, str]:
    """The methods whose names and terms are right, with these terms.

    Args:
        file: the file of the loss.
        path: the loss.
        loss: its declaration.
        names: what is called how in it.
        sink: takes what is wrong.
    """
    made = {}
    attributes = names.copy()  # the functions of the module may be called like a method
    for name, term in loss.methods.items():
        span = file.key_span(*path, "methods", name)
        if not (name.startswith("loss_") or name.endswith("_loss")):
            message = f"the method `{name}` does not say in its name that it computes a loss"
            sink.add(rules.METHOD_NAME.at(span, message, help=f"call it `{name}_loss`"))
        elif name in LOSS_ATTRIBUTES:
            sink.add(refused(name, "every loss has it", "method", span))
        elif term not in loss.terms:
            span = file.scalar(*path, "methods", name).span
            message = f"the method `{name}` is to compute `{term}`, which is no term"
            near = did_you_mean(term, loss.terms)
            help = f"did you mean `{near}`?" if near is not None else f"its terms are {', '.join(loss.terms)}"
            sink.add(rules.METHOD_TERM.at(span, message, help=help))
        elif name == term or attributes.claim(name, "method", span):
            made[name] = term
    return made
