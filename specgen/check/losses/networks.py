"""Networks and distributions in the expressions of a loss: their calls found, checked, and put before the terms.

What reads the data and other such values alone is a value there, computed by the class: `critic(now)`,
`log_prob(actor(now), action)`. What reads what expressions compute, `critic(now, action=2 * u)`, is a function of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from specgen.check.losses.calls import RECORDS, CallReader
from specgen.check.losses.conditions import infer_requirement
from specgen.check.losses.distributions import (
    DISTRIBUTION_FUNCTIONS,
    DRAWS,
    is_of_distribution,
    meant_function,
)
from specgen.check.losses.draws import DrawReader, drawn_for, is_draw
from specgen.check.losses.forward import (
    Alias,
    Choice,
    Computed,
    Data,
    Draw,
    DrawnLogProb,
    Forward,
    ForwardValue,
    Output,
    Read,
)
from specgen.check.losses.input_gradient import WrongGradient, gradient_of, is_gradient
from specgen.check.losses.model import LossNetwork
from specgen.check.losses.records import alike, misfit, no_output, not_a_value, outputs_of_names
from specgen.check.losses.values import ForwardValues, logical
from specgen.diagnostics import Rule, Sink, suggestion
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.diagnostics.rules import loss_values as value_rules
from specgen.diagnostics.rules import losses as rules
from specgen.diagnostics.rules.loss_conditions import RECORD
from specgen.expr import Binding, SourceText, Type, tree
from specgen.expr.tree import Expr, free_names, with_parts
from specgen.expr.types import Distribution
from specgen.values import dataclass, replace


@dataclass
class NetworkCalls:
    """Takes the calls of networks and of distributions out of the expressions of one loss.

    Attributes:
        values: what the class computes, found so far.
        scope: what expressions read, as far as it is known yet.
        flags: the parameters, on which a choice between networks may depend.
        sink: takes every mistake.
        broken: networks whose declaration is wrong; calls of them are not reported again.
        called: the networks that are called.
        targets: those whose target copy is called.
    """

    values: ForwardValues
    scope: Mapping[str, Binding]
    flags: frozenset[str]
    sink: Sink
    broken: frozenset[str] = frozenset()
    called: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)
    _draws: int = 0
    _failed: bool = False
    _source: SourceText = field(init=False)
    _reader: DrawReader = field(init=False)
    _path: str = ""

    @property
    def networks(self) -> Mapping[str, LossNetwork]:
        """The declared networks."""
        return self.values.networks

    @property
    def roles(self) -> Mapping[str, Type | None]:
        """What networks may read instead of data, with its type where that is known."""
        return self.values.roles

    def taken_out(self, name: str | None, expr: Expr, source: SourceText, path: str) -> Forward | Expr | None:
        """What is left of an expression when networks and distributions are taken out of it.

        Args:
            name: the name of its value, if that may be one of the class; None elsewhere.
            expr, source, path: the expression, its text and its declaration.

        Returns:
            The value of the class that it is; else the expression with names, and calls of functions, in the place
            of what the class computes; None after reporting a mistake.
        """
        self._failed, self._source, self._path = False, source, path
        self._reader = DrawReader(self.scope, source, self.sink)
        expr = outputs_of_names(expr, self.values)
        if name is not None and self._is_call(expr) and self._plain(expr):
            value = self._plain_value(expr, hoisted=False, inside=True)
            if value is None or self._failed:
                return None
            return self.values.add(name, value, path)
        result = self._replace(expr)
        return None if self._failed else result

    def _replace(self, expr: Expr) -> Expr:
        match expr:
            case tree.Call() if self._is_made(expr):
                found = self._made(expr, hoisted=True)
                if found is None:
                    return expr
                value, computed = found
                made = tree.Name(self.values.named(value, self._path), expr.start, expr.end)
                self._numbers_only(made, expr)
                return tree.Call(made, computed, (), expr.start, expr.end) if computed else made
            case tree.Name() if expr.path in self.broken:
                self._failed = True
                return expr
            case tree.Name() if expr.path.split(".")[0] in self.networks:
                help = f"write {expr.path}(now) or {expr.path}(next)"
                self._error(rules.NETWORK_CALL, expr, f"`{expr.path}` is a network, not a value", help)
                return expr
            case tree.Name():
                self._numbers_only(expr, expr)
                return expr
            case tree.Literal() | tree.Spread() | tree.Call(tree.Name("given"), (tree.Name(),)):
                return expr
            case tree.Call() if meant := meant_function(expr.function.path, self.scope):
                message = f"unknown function `{expr.function.path}`"
                self._error(expression_rules.UNKNOWN_FUNCTION, expr.function, message, f"write {meant}")
                return expr
            case _:
                return with_parts(expr, self._replace)

    def _numbers_only(self, name: tree.Name, at: Expr) -> None:
        """Report a distribution, or a value without a type, where an expression computes with it."""
        made, written = self.values.made(name.path), self._source.text[at.start : at.end]
        wrong = None if made is None else not_a_value(written, made, self.networks)
        if wrong is not None:
            rule, message, help = wrong
            self._error(rule, at, message, help)

    def _is_call(self, expr: Expr) -> bool:
        """Whether the class computes an expression, or one of its choices: it is no bare name."""
        if not isinstance(expr, tree.Call):
            return False
        if self._is_choice(expr):
            return any(
                self._is_call(part)
                or (isinstance(part, tree.Name) and self.values.made(part.path) is not None)
                for part in expr.args[1:]
            )
        return self._is_made(expr)

    def _is_made(self, call: tree.Call) -> bool:
        own = is_of_distribution(call) or is_draw(call) or is_gradient(call)
        return own or tree.is_output(call) or self._is_network(call)

    def _plain(self, expr: Expr) -> bool:
        """Whether an expression is of networks, distributions, data and such values alone."""
        if isinstance(expr, tree.Name):
            made = self.values.made(expr.path)
            return (made is not None and not made.replaced) or expr.path in self.roles
        if not isinstance(expr, tree.Call):
            return False
        if self._is_choice(expr):
            # a discrete action is an index in expressions, however the data hold it
            acted = {network.action for network in self.networks.values()}
            names = {part.path for part in expr.args[1:] if isinstance(part, tree.Name)}
            return not names & acted and all(map(self._plain, expr.args[1:]))
        keywords = (keyword.value for keyword in expr.keywords)
        if tree.is_output(expr) or is_gradient(expr):
            return all(map(self._plain, expr.args[:1]))
        if self._is_network(expr):
            return all(map(self._plain, keywords))
        if is_draw(expr):
            return all(map(self._plain, drawn_for(expr)))
        return is_of_distribution(expr) and all(map(self._plain, expr.args))

    def _plain_value(self, expr: Expr, *, hoisted: bool, inside: bool = False) -> ForwardValue | None:
        """What a plain expression is; None after reporting a mistake.

        Args:
            expr: the expression.
            hoisted: whether its value gets a name of its own.
            inside: whether what its value is computed from gets names all the same.
        """
        if isinstance(expr, tree.Name):
            return (
                Data(expr.path)
                if self.values.made(expr.path) is None
                else Alias(self.values.first_name(expr.path))
            )
        assert isinstance(expr, tree.Call)
        if self._is_choice(expr):
            return self._choice(expr)
        found = self._made(expr, hoisted=hoisted or inside)
        if found is None:
            return None
        value, _ = found
        known = self.values.known(value)
        if known is not None:
            return Alias(known)
        return Alias(self.values.named(value, self._path)) if hoisted else value

    def _choice(self, expr: tree.Call) -> Choice | None:
        condition = infer_requirement(expr.args[0], self.scope, self._source, self.sink)
        if condition is None:
            self._failed = True
            return None
        if condition.type.dtype != "bool":
            message = f"the condition is a truth value, not {condition.type}"
            self._error(expression_rules.WRONG_DTYPE, expr.args[0], message, None)
            return None
        then = self._plain_value(expr.args[1], hoisted=False)
        otherwise = None if then is None else self._plain_value(expr.args[2], hoisted=False)
        if then is None or otherwise is None:
            return None
        one, other = self.values.type_of(then), self.values.type_of(otherwise)
        if not alike(one, other):
            self._error(expression_rules.SHAPE_MISMATCH, expr, f"this is {one} or {other}", None)
            return None
        return Choice(expr.args[0], self._source, then, otherwise, condition)

    def _made(self, expr: tree.Call, *, hoisted: bool) -> tuple[ForwardValue, tuple[Expr, ...]] | None:
        """The value of a call, and the expressions that it is a function of; None after reporting a mistake."""
        found = self._found(expr, hoisted)
        wrong = None if found is None else self.values.wrong_axes(found[0])
        if wrong is None:
            return found
        self._error(expression_rules.SHAPE_MISMATCH, expr, wrong, None)
        return None

    def _found(self, expr: tree.Call, hoisted: bool) -> tuple[ForwardValue, tuple[Expr, ...]] | None:
        """The same, of values that may have axes which can't meet."""
        if tree.is_output(expr):
            return self._output(expr, hoisted)
        if is_draw(expr):
            return self._drawn(expr, hoisted)
        if is_gradient(expr):
            return self._gradient(expr, hoisted)
        return self._call(expr, hoisted) if self._is_network(expr) else self._of_distribution(expr, hoisted)

    def _is_choice(self, call: tree.Call) -> bool:
        """Whether a call is a choice that the parameters alone decide."""
        choice = call.function.path == "where" and len(call.args) == 3 and not call.keywords
        return choice and free_names(call.args[0]) <= self.flags

    def _is_network(self, call: tree.Call) -> bool:
        """Whether a call is meant for a network: by its name, or because it reads a record."""
        name = call.function.path.split(".")[0]
        if name in self.networks or name in self.broken:
            return True
        if is_of_distribution(call) or is_draw(call) or is_gradient(call):
            return False
        return len(call.args) == 1 and isinstance(call.args[0], tree.Name) and call.args[0].path in RECORDS

    def _arguments(
        self, given: Iterator[tuple[str, Expr]], *, hoisted: bool
    ) -> tuple[tuple[tuple[str, ForwardValue], ...], tuple[Expr, ...]] | None:
        """What is given by name, and the expressions among it; None after reporting a mistake."""
        values: list[tuple[str, ForwardValue]] = []
        computed: list[Expr] = []
        for name, expr in given:
            if self._plain(expr):
                value = self._plain_value(expr, hoisted=hoisted)
                if value is None or not self._fits(name, self.values.type_of(value), expr):
                    return None
            else:
                value, computed = Computed(name), [*computed, self._replace(expr)]
            values.append((name, value))
        return tuple(values), tuple(computed)

    def _fits(self, role: str, type: Type, expr: Expr) -> bool:
        """Whether a value of the class may stand for a role."""
        wrong = misfit(role, logical(self.roles.get(role)), type, self._source.text[expr.start : expr.end])
        if wrong is not None:
            self._error(rules.NETWORK_CALL, expr, *wrong)
        return wrong is None

    def _of_distribution(
        self, expr: tree.Call, hoisted: bool
    ) -> tuple[ForwardValue, tuple[Expr, ...]] | None:
        name = expr.function.path
        signature = DISTRIBUTION_FUNCTIONS[name]
        keywords = {keyword.name: keyword.value for keyword in expr.keywords}
        if len(expr.args) != 1 + len(signature.takes) or keywords.keys() - (
            {"n"} if signature.counts else set()
        ):
            self._error(value_rules.DISTRIBUTION, expr, f"`{name}` is called as {signature.written}", None)
            return None
        distributions = expr.args[: 2 if signature.takes == ("distribution",) else 1]
        found = [self._distribution(arg, hoisted) for arg in distributions]
        known = [one for one in found if one is not None]
        count = self._reader.count(keywords.get("n"), "n")
        if len(known) < len(found) or count is False:
            self._failed = True
            return None
        distribution = known[0]
        if name in DRAWS:
            self._draws += 1
            return Draw(DRAWS[name], distribution, self._draws, count), ()
        if signature.takes != ("value",):
            return Read(name, distribution, tuple(known[1:]), count), ()
        role = self.networks[self.values.network_of(distribution)].output
        arguments = self._arguments(iter([(role, expr.args[1])]), hoisted=hoisted)
        if arguments is None:
            return None
        ((_, value),), computed = arguments
        if isinstance(value, Alias):
            made = self.values.made(value.name)
            if made is not None and isinstance(made.value, Draw) and made.value.distribution == distribution:
                return DrawnLogProb(value.name), ()
        return Read(name, distribution, (value,)), computed

    def _distribution(self, expr: Expr, hoisted: bool) -> ForwardValue | None:
        """What an expression is that stands for a distribution; None after reporting that it is none."""
        value = self._plain_value(expr, hoisted=hoisted) if self._plain(expr) else None
        if value is not None and isinstance(self.values.type_of(value), Distribution):
            return value
        if not self._failed:
            written = self._source.text[expr.start : expr.end]
            names = [made.name for made in self.values.found if made.inner]
            near = suggestion(written, names) if isinstance(expr, tree.Name) else None
            if near and written not in self.scope and written not in self.roles:
                self._error(expression_rules.UNDEFINED, expr, f"undefined name `{written}`", near)
                return None
            help = "call a network that is declared with `policy`, or write the name of what that gave"
            self._error(value_rules.DISTRIBUTION, expr, f"`{written}` is no distribution", help)
        return None

    def _output(self, expr: tree.Call, hoisted: bool) -> tuple[ForwardValue, tuple[Expr, ...]] | None:
        """One of the entries that a run of a network writes; None after reporting a mistake."""
        (run,) = expr.args
        computed: tuple[Expr, ...] = ()
        if self._plain(run):
            value = self._plain_value(run, hoisted=hoisted)
        elif isinstance(run, tree.Call) and self._is_network(run):
            value, computed = self._call(run, hoisted) or (None, ())
        else:
            self._error(expression_rules.SYNTAX, expr.function, tree.NO_ATTRIBUTES, None)
            return None
        if value is None:
            return None
        written, role = self._source.text[run.start : run.end], expr.function.path[1:]
        if wrong := no_output(written, self.values.type_of(value), role):
            self._error(RECORD, expr.function, *wrong)
            return None
        return Output(value, role), computed

    def _drawn(self, expr: tree.Call, hoisted: bool) -> tuple[ForwardValue, tuple[Expr, ...]] | None:
        """The draw that is of no distribution; None after reporting a mistake."""
        like = drawn_for(expr)
        plain = bool(like) and self._plain(like[0])
        value = self._plain_value(like[0], hoisted=hoisted) if plain else None
        if self._failed:
            return None
        self._draws += 1
        made = self._reader.draw(expr, value, self.values, self._draws)
        self._failed = made is None
        return None if made is None else (made, ())

    def _gradient(self, expr: tree.Call, hoisted: bool) -> tuple[ForwardValue, tuple[Expr, ...]] | None:
        """The derivative of what a call of a network gives; None after reporting a mistake."""
        made = gradient_of(expr, self._source, self.values, lambda call: self._call(call, hoisted))
        if isinstance(made, WrongGradient):
            self._error(value_rules.GRADIENT, made.at, made.message, made.help)
            return None
        return made

    def _call(self, expr: tree.Call, hoisted: bool) -> tuple[ForwardValue, tuple[Expr, ...]] | None:
        reader = CallReader(self.networks, self.broken, self.roles, self._source, self.sink)
        call = reader.read(expr)
        if call is None:
            self._failed = True
            return None
        if call.variant == "target":
            self.targets.add(call.network)
        self.called.add(call.network)
        arguments = self._arguments(((one.name, one.value) for one in expr.keywords), hoisted=hoisted)
        if arguments is None:
            return None
        replaced, computed = arguments
        return replace(call, replaced=replaced), computed

    def _error(self, rule: Rule, at: Expr, message: str, help: str | None) -> None:
        self._failed = True
        self.sink.add(rule.at(self._source.span_of(at.start, at.end), message, help=help))
