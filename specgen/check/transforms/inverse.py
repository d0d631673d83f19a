"""What the policy writes in place of what the environment is given: types that follow from roles, bounds, classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from specgen.check.model import Parameter, Statement, identifier
from specgen.check.names import Names
from specgen.check.statements import made_statement
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.several_given import in_place_of_none, several_given
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.diagnostics.rules import transforms as transform_rules
from specgen.diagnostics.rules import transforms_policy as policy_rules
from specgen.expr import Binding, SpecType, Symbol, Type, Typed, full, infer, parse_type
from specgen.expr.sizes import Dim, Dims, Rest, Sym
from specgen.expr.source_text import Excerpt
from specgen.expr.tree import Call, Expr, Name, children
from specgen.expr.types import At
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform
from specgen.values import dataclass, replace

COUNTED = ("categorical", "onehot", "multi_categorical", "multi_onehot")
"""The kinds that an output of an inverse role can have."""

_SHAPE_ONLY = frozenset(("dims", "size", "is_int", "is_float"))
"""Built-ins that read the shape or dtype of their first operand, and nothing else of it."""


def bound_names(role: Role) -> tuple[tuple[str, str], ...]:
    """The bounds of a role as expressions call them, each with the argument of a pure function that it is."""
    if not role.spec.bounded:
        return ()
    return (f"low({role.name})", f"{role.name}_low"), (f"high({role.name})", f"{role.name}_high")


def never_read_with(
    expr: Expr, role: str, bounds: bool, absent: frozenset[str] = frozenset()
) -> frozenset[str] | None:
    """The optional parameters with which `expr` does not read the bounds of a role, or its shape; None where it never does.

    Args:
        expr: the expression.
        role: the role.
        bounds: whether its bounds are meant, `low` and `high`; else its shape and dtype.
        absent: the parameters that are known not to be given.
    """
    match expr:
        case Call(Name("low" | "high"), (Name(name),), ()) if name == role:
            return absent if bounds else None
        case Name(name) if name == role and not bounds:
            return absent
        case Call(Name("where"), (Call(Name("given"), (Name(param),), ()), then, otherwise), ()):
            branches = ((then, absent), (otherwise, absent | {param}))
            found = [never_read_with(branch, role, bounds, known) for branch, known in branches]
        case _:
            found = [never_read_with(child, role, bounds, absent) for child in children(expr)]
    reading = [names for names in found if names is not None]
    return frozenset.intersection(*reading) if reading else None


def classes_name(output: Output) -> tuple[str, str] | None:
    """How expressions ask for the classes of an output, and the argument that says how many there are of each."""
    if output.kind is None or output.kind.kind != "multi_onehot":
        return None
    return f"classes({output.name})", f"{output.name}_classes"


def fact_symbols(
    path: str, roles: Iterable[Role], outputs: Iterable[Output], types: Mapping[str, Type]
) -> Iterator[tuple[str, Symbol]]:
    """What is known of the specs of inverse roles and their outputs, under the names of expressions.

    Args:
        path: what the paths of the symbols begin with.
        roles, outputs: those of the transform.
        types: what each of them is.
    """
    for role in roles:
        for name, argument in bound_names(role) if role.inverse else ():
            type_ = replace(types[role.name], level="const")
            finite = full("int64") if type_.dtype == "number" else full(type_.dtype)
            yield name, Symbol(f"{path}.in.{name}", argument, type_, finite)
    for output in outputs:
        if (named := classes_name(output)) is not None:
            count = choices_of(output, types[output.each or ""])
            type_ = Type("list", (count,), "ctor")
            yield named[0], Symbol(f"{path}.in.{named[0]}", named[1], type_, full("int64"))


def choices_of(output: Output, role: Type) -> Dim:
    """How many choices there are: as many as numbers of classes, or as the last axis of the role is long."""
    assert output.kind is not None
    if len(output.kind.nvec) != 1:
        return len(output.kind.nvec)
    last = role.dims[-1] if role.dims else Rest()
    return Sym.named(f"size({output.name}, choices)") if isinstance(last, Rest) else last


@dataclass
class OuterTypes:
    """Checks the types of the outputs of inverse roles.

    Attributes:
        file, path: where the transform is declared.
        transform: its declaration.
        roles: its roles by name.
        params: its parameters by name.
    """

    file: SchemaFile
    path: tuple[str, ...]
    transform: Transform
    roles: Mapping[str, Role]
    params: Mapping[str, Parameter]
    sink: Sink

    def untyped(self, name: str, role: Role) -> None:
        """Report an output without a type."""
        self.sink.add(
            language_rules.OUTER_TYPE.at(
                self.file.key_span(*self.path, "out", name),
                f"`{name}` is what the policy writes for `{role.name}`, and nothing says its type",
                help=f"write `type: like({role.name})` if it is as `{role.name}`",
            )
        )

    def of_no_expression(self, name: str) -> None:
        """Report an output in place of several keys whose type is not that of an expression of them."""
        role = several_given(self.roles.values())
        message, help = in_place_of_none(name)
        if role is not None:
            message = f"`{name}` stands in place of several keys, and no expression of them says its type"
            help = f"write `type: like(stack(*{role.name}, axis=-1))`"
        span = self.file.key_span(*self.path, "out", name)
        self.sink.add(policy_rules.SEVERAL_GIVEN.at(span, message, help=help))

    def kind(self, name: str, spec: SpecType, role: Role) -> tuple[SpecType, Dims] | None:
        """The type of an output that is a choice among classes, with its dimensions; None after a mistake."""
        here = (*self.path, "out", name, "type")
        span = self.file.span(*here)
        for count in (spec.n, *spec.nvec):
            if not isinstance(count, Sym):
                continue
            param = self.params.get(str(count))
            if param is None and any(str(count) == str(size) for size in role.dims):
                continue
            listed = param is not None and param.kind in ("ints", "int_or_ints")
            if param is None or not (param.kind == "int" or (listed and spec.kind.startswith("multi"))):
                known = [one.name for one in self.params.values() if one.kind in ("int", "int_or_ints")]
                self.sink.add(
                    rules.UNKNOWN_DECLARATION.at(
                        span,
                        f"`{count}` is no number of classes: no whole parameter, and no size of `{role.name}`",
                        help=suggestion(str(count), known) or "write a number, or a parameter of type int",
                    )
                )
                return None
            if not param.static:
                self.sink.add(
                    language_rules.NOT_STATIC.at(
                        span,
                        f"the shape of `{name}` depends on `{param.name}`",
                        help=f"say `static: true` of `{param.name}`",
                    )
                )
                return None
        match spec.kind:
            case "categorical":
                return spec, spec.shape
            case "onehot":
                assert spec.n is not None
                return spec, (*spec.shape, spec.n)
            case "multi_onehot":
                return spec, (*spec.shape, Sym.named("_"))
        if len(spec.nvec) > 1:
            return spec, (*spec.shape, len(spec.nvec))
        last = role.dims[-1] if role.dims else None
        if last is None or isinstance(last, Rest):
            self.sink.add(
                rules.WRONG_TYPE.at(
                    span,
                    f"nothing says how many choices `{name}` has",
                    help=f"give `{role.name}` the pattern of its last size: {role.pattern}[..., n]",
                )
            )
            return None
        return spec, (*spec.shape, last)

    def follow(
        self,
        outputs: Iterable[Output],
        types: Mapping[str, Type],
        fixed: Mapping[str, Binding],
        names: Names,
        symbols: dict[str, Symbol],
    ) -> tuple[tuple[Output, ...], tuple[Statement, ...]]:
        """The outputs with the types of expressions that they are like, and these expressions.

        Args:
            outputs: the outputs of the transform.
            types: the types of its roles.
            fixed: what expressions read of its parameters and sizes.
            names: what is called something in it.
            symbols: takes what expressions are given, by its path below the transform.
        """
        root = ".".join(self.path)
        scope = dict(fixed)
        for role in self.roles.values():
            for name, argument in bound_names(role) if role.inverse else ():
                names.claim(argument, f"`{name}`", self.file.key_span(*self.path, "in", role.name))
            if role.inverse:
                type_ = types[role.name]
                symbol = Symbol(f"{root}.outer.in.{role.name}", role.name, type_, full(type_.dtype))
                symbols[f"outer.in.{role.name}"] = symbol
                several = () if role.several_given else None
                scope[role.name] = Binding(
                    type_, symbol.interval, what="role", symbol=symbol, several=several
                )
        for name, symbol in fact_symbols(f"{root}.outer", self.roles.values(), (), types):
            scope[name] = Binding(symbol.type, symbol.interval, what="bound", symbol=symbol)
        found: list[Output] = []
        statements: list[Statement] = []
        for output in outputs:
            statement = self._like(output, scope) if output.inverse else None
            if statement is not None:
                statements.append(statement)
                output = replace(output, inferred=replace(statement.typed.type, level="batch"))
            found.append(output)
        return tuple(found), tuple(statements)

    def _like(self, output: Output, scope: Mapping[str, Binding]) -> Statement | None:
        """The expression whose type an output has; None where it is a role, or a type as such."""
        here = (*self.path, "out", output.name, "type")
        if self.transform.out[output.name].type is None:
            return None
        whole = self.file.scalar(*here)
        spec = parse_type(whole, Sink())
        if spec is None or spec.like_expr is None or spec.like in self.roles:
            return None
        start = whole.text.index("(") + 1
        source = Excerpt(whole, start, start + len(spec.like or ""))
        typed = infer(spec.like_expr, scope, source, self.sink)
        if typed is None:
            return None
        if typed.draws or typed.type.level != "batch":
            self.sink.add(
                rules.WRONG_TYPE.at(
                    self.file.span(*here), f"`{output.name}` is like a value of each row: read a role"
                )
            )
            return None
        symbol = Symbol(
            ".".join(here), identifier(output.name), typed.type, typed.interval, key=(output.name,)
        )
        return made_statement(here, output.name, spec.like_expr, source, typed, symbol)


def not_written(roles: Iterable[Role]) -> dict[str, str]:
    """What to say of roles that `inverse` can't read: those of what the environment returns."""
    why = (
        "it is what the environment returns; `inverse` reads what the policy writes, outputs that follow an inverse role. "
        "Let the policy write what depends on it"
    )
    return {role.name: why for role in roles if not role.inverse}


def check_inverse_reads(
    statements: Iterable[Statement], roles: Iterable[Role], given: Mapping[str, Symbol], sink: Sink
) -> None:
    """Report statements of `inverse` that read the value of a role: it has none until it is assigned.

    Args:
        statements: those of the phase.
        roles: the roles of the transform.
        given: what expressions are given, by its path below the transform.
        sink: takes every mistake.
    """
    names = [role.name for role in roles if role.inverse]
    symbols = {given[f"inverse.in.{name}"]: name for name in names if f"inverse.in.{name}" in given}
    for statement in statements:
        for symbol in dict.fromkeys(_values_read(statement.typed)):
            if (name := symbols.get(symbol)) is None:
                continue
            sink.add(
                transform_rules.NO_VALUE.at(
                    statement.source.span_of(0, len(statement.source.text)),
                    f"`{name}` is what `inverse` computes: it has no value yet",
                    help=f"`dims({name}, -2, -1)`, `low({name})` and `cast(…, {name})` take only what its spec says",
                )
            )


def _values_read(node: Typed) -> Iterator[Symbol]:
    """The values that an expression reads, without those of which it takes the shape or dtype only."""
    if node.op == "name" and node.symbol is not None:
        yield node.symbol
    for part in node.args[1:] if node.op in _SHAPE_ONLY else node.args:
        yield from _values_read(part)
    for item in node.items:
        if isinstance(item, At):
            yield from _values_read(item.index)
