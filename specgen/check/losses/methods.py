"""Methods of a loss that compute one of its terms."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.attributes import LOSS_ATTRIBUTES
from specgen.check.losses.names import part_function
from specgen.check.names import Names, refused
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import loss_parts as rules
from specgen.diagnostics.similar import did_you_mean
from specgen.expr import Binding, Symbol
from specgen.expr.dtypes import is_float
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss, Method
from specgen.values import dataclass


@dataclass(frozen=True)
class CheckedMethod:
    """A method that computes one term.

    Attributes:
        term: the term.
        given: what it is computed from: the arguments, and the values of the loss that they stand for; empty where the
            method reads the data.
    """

    term: str
    given: tuple[tuple[str, Symbol], ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of what it is given."""
        return tuple(name for name, _ in self.given)


def checked_methods(
    file: SchemaFile,
    path: tuple[str, ...],
    loss: Loss,
    names: Names,
    scope: Mapping[str, Binding],
    sink: Sink,
) -> dict[str, CheckedMethod]:
    """The methods whose names, terms and arguments are right.

    Args:
        file: the file of the loss.
        path: the loss.
        loss: its declaration.
        names: what is called how in it.
        scope: the values of its `let`, among others.
        sink: takes what is wrong.
    """
    made: dict[str, CheckedMethod] = {}
    attributes = names.copy()  # the functions of the module may be called like a method
    for name, method in loss.methods.items():
        here = (*path, "methods", name)
        term, place = (method.term, ["term"]) if isinstance(method, Method) else (method, [])
        span = file.key_span(*here)
        if not (name.startswith("loss_") or name.endswith("_loss")):
            message = f"the method `{name}` does not say in its name that it computes a loss"
            sink.add(rules.METHOD_NAME.at(span, message, help=f"call it `{name}_loss`"))
        elif name in LOSS_ATTRIBUTES:
            sink.add(refused(name, "every loss has it", "method", span))
        elif term not in loss.terms:
            span = file.scalar(*here, *place).span
            message = f"the method `{name}` is to compute `{term}`, which is no term"
            near = did_you_mean(term, loss.terms)
            help = f"did you mean `{near}`?" if near is not None else f"its terms are {', '.join(loss.terms)}"
            sink.add(rules.METHOD_TERM.at(span, message, help=help))
        elif name == term or attributes.claim(name, "method", span):
            given = {}
            if isinstance(method, Method):
                given = method.given
                if not given:
                    message = f"`{name}` is given nothing that `{term}` would be computed from"
                    help = f"write `{name}: {term}`, which reads the data"
                    sink.add(rules.METHOD_GIVEN.at(file.key_span(*here, "given"), message, help=help))
            made[name] = CheckedMethod(term, _given(file, here, given, loss, names, scope, sink))
    return made


def _given(
    file: SchemaFile,
    here: tuple[str, ...],
    given: Mapping[str, str],
    loss: Loss,
    names: Names,
    scope: Mapping[str, Binding],
    sink: Sink,
) -> tuple[tuple[str, Symbol], ...]:
    """The arguments of a method, with the values that they stand for."""
    arguments = names.inner(())
    _, name, _, method = here
    stands_for: dict[str, str] = {}
    found = []
    for argument, value in given.items():
        key = file.key_span(*here, "given", argument)
        if not arguments.claim(argument, "argument", key):
            continue
        if argument == part_function(name, method):
            sink.add(refused(argument, "the function behind the method is called so", "argument", key))
            continue
        span = file.scalar(*here, "given", argument).span
        first = stands_for.setdefault(value, argument)
        bound = scope.get(value)
        if value not in loss.let or bound is None or bound.symbol is None:
            near = did_you_mean(value, loss.let)
            help = f"did you mean `{near}`?" if near else f"it has {', '.join(loss.let) or 'none'}"
            message = f"`{argument}` is to be `{value}`, which is no value of `let`"
            sink.add(rules.METHOD_GIVEN.at(span, message, help=help))
        elif not is_float(bound.type.dtype) or bound.type.level != "batch" or bound.type.col:
            message = f"`{argument}` is to be `{value}`, which is {bound.type}"
            help = "methods are given floating-point numbers of each sample"
            sink.add(rules.METHOD_GIVEN.at(span, message, help=help))
        elif first != argument:
            message = f"`{argument}` is to be `{value}`, as `{first}` is"
            sink.add(rules.METHOD_GIVEN.at(span, message, help=f"leave out `{argument}`"))
        else:
            found.append((argument, bound.symbol))
    return tuple(found)
