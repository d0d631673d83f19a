"""Methods that are given values: that their results are computed from these, all of them, and nothing else of the data."""

from __future__ import annotations

from specgen.check.losses.given_values import given_names, of_given
from specgen.check.losses.model import CheckedLoss
from specgen.check.model import identifier
from specgen.check.names import refused
from specgen.check.programs.loss import given_symbols, method_part
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import loss_parts as rules
from specgen.schema.load import SchemaFile


def check_method_values(file: SchemaFile, loss: CheckedLoss, sink: Sink) -> None:
    """Report methods of a loss whose results read more than they are given, or less."""
    for name, method in loss.methods.items():
        if not method.given:
            continue
        here = ("losses", loss.name, "methods", name)
        read = [
            one for one in method_part(loss, name).program.inputs if one.kind not in ("param", "learnable")
        ]
        given = dict(zip(given_symbols(loss, name), method.given, strict=True))
        forward = {made.symbol: made.name for made in loss.forward}
        wanted = [forward[one.symbol] for one in read if one.symbol in forward]
        own = given_names(loss, name)
        found = of_given(loss, wanted, own)
        more = [
            one.symbol.name
            for one in read
            if one.symbol not in given and (one.symbol not in forward or forward[one.symbol] in found.more)
        ]
        place = "term" if method.value is None else "value"
        if more == [method.computes]:
            message = f"`{method.computes}` of `{loss.name}` is computed from the data, and not from what `{name}` is given"
            help = "name a value of `let` that is"
            sink.add(rules.METHOD_READS.at(file.scalar(*here, place).span, message, help=help))
        elif more:
            names = ", ".join(f"`{one}`" for one in more)
            message = f"`{method.computes}` of `{loss.name}` is also computed from {names}"
            help = f"give `{name}` a value of `let` that holds it"
            if method.value is None:
                help += f", or write `{name}: {method.computes}`, which reads the data"
            sink.add(rules.METHOD_READS.at(file.scalar(*here, place).span, message, help=help))
        used = {own[one] for one in found.read}
        made = {identifier(one.name) for one in found.computed}
        for symbol, (argument, _) in given.items():
            if argument in made:
                span = file.key_span(*here, "given", argument)
                sink.add(refused(argument, "the method computes a value that is called so", "argument", span))
            if not more and argument not in used and symbol not in {one.symbol for one in read}:
                message = f"`{method.computes}` of `{loss.name}` does not read `{symbol.name}`"
                span = file.scalar(*here, "given", argument).span
                sink.add(rules.METHOD_GIVEN.at(span, message, help=f"leave out `{argument}`"))
