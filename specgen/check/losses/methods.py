"""Methods of a loss that compute one of its terms, or another value of what they are given."""

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
from specgen.expr.types import Distribution
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss, Method
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class CheckedMethod:
    """A method that computes one term, or one value of what it is given.

    Attributes:
        computes: the term, or the value.
        value: the value, where it computes no term.
        given: what it is computed from: the arguments, and the values of the loss that they stand for; empty where the
            method reads the data.
        column: whether what it returns has a trailing 1.
    """

    computes: str
    value: Symbol | None = None
    given: tuple[tuple[str, Symbol], ...] = ()
    column: bool = False

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
    """The methods whose names, results and arguments are right.

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
        span = file.key_span(*here)
        full = method if isinstance(method, Method) else None
        of_value = full is not None and full.term is None
        if not (of_value or name.startswith("loss_") or name.endswith("_loss")):
            message = f"the method `{name}` does not say in its name that it computes a loss"
            sink.add(rules.METHOD_NAME.at(span, message, help=f"call it `{name}_loss`"))
            continue
        if name in LOSS_ATTRIBUTES:
            sink.add(refused(name, "every loss has it", "method", span))
            continue
        result = _result(file, here, method, loss, scope, sink)
        if result is None or not (name == result.computes or attributes.claim(name, "method", span)):
            continue
        given: tuple[tuple[str, Symbol], ...] = ()
        if full is not None:
            if not full.given:
                message = f"`{name}` is given nothing that `{result.computes}` would be computed from"
                help = f"write `{name}: {result.computes}`, which reads the data"
                help = "write the arguments, `given: {dist: dist}`" if of_value else help
                sink.add(rules.METHOD_GIVEN.at(file.key_span(*here, "given"), message, help=help))
            given = _given(file, here, full.given, loss, names, scope, sink)
        made[name] = replace(result, given=given)
    return made


def _result(
    file: SchemaFile,
    here: tuple[str, ...],
    method: str | Method,
    loss: Loss,
    scope: Mapping[str, Binding],
    sink: Sink,
) -> CheckedMethod | None:
    """A method with what it computes, if that is right."""
    term, place, column = method, here, False
    if isinstance(method, Method):
        if (method.term is None) == (method.value is None):
            both = "both a term and" if method.term is not None else "neither a term nor"
            message = f"the method `{here[-1]}` has {both} a value that it computes"
            help = "write `term: loss_…`, a term, or `value: …`, a value of `let`"
            sink.add(rules.METHOD_RESULT.at(file.key_span(*here), message, help=help))
            return None
        column = method.type is not None
        if method.value is not None:
            return _value(file, (*here, "value"), method.value, loss, scope, sink, column=column)
        assert method.term is not None
        term, place = method.term, (*here, "term")
    assert isinstance(term, str)
    if term in loss.terms:
        return CheckedMethod(term, column=column)
    message = f"the method `{here[-1]}` is to compute `{term}`, which is no term"
    near = did_you_mean(term, loss.terms)
    help = f"did you mean `{near}`?" if near is not None else f"its terms are {', '.join(loss.terms)}"
    if loss.extends is not None and near is None:
        help += f"; a method that is not meant to stay goes with `methods: {{{here[-1]}: drop}}`"
    sink.add(rules.METHOD_TERM.at(file.scalar(*place).span, message, help=help))
    return None


def _value(
    file: SchemaFile,
    place: tuple[str, ...],
    value: str,
    loss: Loss,
    scope: Mapping[str, Binding],
    sink: Sink,
    *,
    column: bool,
) -> CheckedMethod | None:
    """A method that computes a value of `let`: one number of each sample, or several."""
    bound, message = scope.get(value), ""
    if value not in loss.let or bound is None or bound.symbol is None:
        near = did_you_mean(value, loss.let)
        message = f"the method `{place[-2]}` is to compute `{value}`, which is no value of `let`"
        help = f"did you mean `{near}`?" if near else f"it has {', '.join(loss.let) or 'none'}"
    elif not _is_number_of_each(bound):
        message = f"the method `{place[-2]}` is to compute `{value}`, which is {bound.type}"
        help = "methods compute floating-point numbers of each sample"
    elif column and bound.type.dims != ():
        message = f"`{value}` is {bound.type}, and no one number of each sample"
        help = "leave out `type`"
    else:
        return CheckedMethod(value, bound.symbol, column=column)
    sink.add(rules.METHOD_RESULT.at(file.scalar(*place).span, message, help=help))
    return None


def _is_number_of_each(bound: Binding) -> bool:
    """Whether a value is floating-point numbers of each sample."""
    return is_float(bound.type.dtype) and bound.type.level == "batch" and not bound.type.col


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
        elif not (_is_number_of_each(bound) or isinstance(bound.type, Distribution)):
            message = f"`{argument}` is to be `{value}`, which is {bound.type}"
            help = "methods are given floating-point numbers of each sample, and distributions"
            sink.add(rules.METHOD_GIVEN.at(span, message, help=help))
        elif first != argument:
            message = f"`{argument}` is to be `{value}`, as `{first}` is"
            sink.add(rules.METHOD_GIVEN.at(span, message, help=f"leave out `{argument}`"))
        else:
            found.append((argument, bound.symbol))
    return tuple(found)
