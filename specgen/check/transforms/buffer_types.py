"""Buffers that are like an expression of roles: `like(concat(*xs, axis=-1))`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.model import Statement, identifier
from specgen.check.statements import SectionResult, made_statement
from specgen.check.transforms.buffers import Buffers, counted_in_float32, unfit_init
from specgen.check.transforms.entries import Role
from specgen.check.transforms.model import CheckedBuffer
from specgen.check.transforms.types import role_types
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import transforms_buffers as rules
from specgen.expr import Binding, Expr, Function, Symbol, Type, full, infer, parse_type
from specgen.expr.builtins.record import Builtin
from specgen.expr.source_text import Excerpt
from specgen.expr.tree import names_read
from specgen.schema.load import SchemaFile
from specgen.values import dataclass, replace


@dataclass
class BufferTypes:
    """Types buffers that are like an expression of roles.

    Attributes:
        file, path: where the transform is declared.
        roles: its roles.
        fixed: what expressions read of its parameters and sizes.
        callables: what expressions may call.
        symbols: takes what the expressions are given, by its path below the transform.
        sink: takes every mistake.
        named: the buffers.
    """

    file: SchemaFile
    path: tuple[str, ...]
    roles: Iterable[Role]
    fixed: Mapping[str, Binding]
    callables: Mapping[str, Function | Builtin]
    symbols: dict[str, Symbol]
    sink: Sink
    named: frozenset[str] = frozenset()

    def follow(self, buffers: Buffers) -> tuple[Buffers, SectionResult]:
        """The buffers with the types of the expressions that they are like, and these expressions."""
        scope = self._scope()
        result, statements = Buffers(symbols=dict(buffers.symbols)), []
        self.named = frozenset(buffer.name for buffer in buffers.checked) - scope.keys()
        for buffer in buffers.checked:
            symbol = buffers.symbols[f"buffers.{buffer.name}"]
            if buffer.like_text is not None:
                statement = self._like(buffer, scope)
                if statement is None:
                    result.lost |= {buffer.name}
                    continue
                statements.append(statement)
                type_ = Type(statement.typed.type.dtype, statement.typed.type.dims, "const")
                buffer = replace(buffer, type=type_, like=statement)
                symbol = replace(symbol, type=type_, interval=full(type_.dtype))
            result.checked += (buffer,)
            self.symbols[f"buffers.{buffer.name}"] = symbol
            result.symbols[f"buffers.{buffer.name}"] = symbol
            result.scope[buffer.name] = Binding(symbol.type, symbol.interval, what="buffer", symbol=symbol)
        return result, SectionResult(tuple(statements))

    def _scope(self) -> dict[str, Binding]:
        """What the expressions read: the roles that an update reads, and parameters."""
        scope, types = dict(self.fixed), role_types(self.roles)
        for role in self.roles:
            if role.inverse or role.form == "flag":
                continue
            place, type_ = f"buffer_types.in.{role.name}", types[role.name]
            symbol = Symbol(".".join((*self.path, place)), identifier(role.name), type_, full(type_.dtype))
            self.symbols[place] = symbol
            several = () if role.form == "all" else None
            scope[role.name] = Binding(
                type_,
                symbol.interval,
                what="role",
                symbol=symbol,
                several=several,
                optional=role.may_be_missing,
            )
        return scope

    def _like(self, buffer: CheckedBuffer, scope: Mapping[str, Binding]) -> Statement | None:
        """The expression whose type a buffer has; None after a mistake."""
        here = (*self.path, "buffers", buffer.name, "type")
        whole = self.file.scalar(*here)
        spec = parse_type(whole, Sink())
        assert spec is not None
        assert spec.like_expr is not None
        start = whole.text.index("(") + 1
        source = Excerpt(whole, start, start + len(spec.like or ""))
        if self._reads_buffers(spec.like_expr, source):
            return None
        typed = infer(spec.like_expr, scope, source, self.sink, functions=self.callables)
        if typed is None:
            return None
        if typed.draws or typed.type.level != "batch":
            self.sink.add(
                rules.BUFFER_ASSIGNED.at(
                    self.file.span(*here),
                    f"`{buffer.name}` is like a value of each row: read a role",
                    help="write float64 for one number",
                )
            )
            return None
        typed_buffer = replace(buffer, type=typed.type)
        if (unfit := unfit_init(self.file, here[:-1], typed_buffer)) is not None:
            self.sink.add(unfit)
            return None
        counted_in_float32(self.file, here[:-1], typed_buffer, self.sink)
        symbol = Symbol(
            ".".join(here), identifier(buffer.name), typed.type, typed.interval, key=(buffer.name,)
        )
        return made_statement(here, buffer.name, spec.like_expr, source, typed, symbol)

    def _reads_buffers(self, expr: Expr, source: Excerpt) -> bool:
        """Whether an expression reads other buffers, which is reported: their types are known no sooner than its own."""
        read = next((name for name in names_read(expr) if name.path in self.named), None)
        if read is None:
            return False
        message = f"a buffer is like an expression of roles, and `{read.path}` is a buffer"
        help = f"write what `{read.path}` is like"
        self.sink.add(rules.BUFFER_ASSIGNED.at(source.span_of(read.start, read.end), message, help=help))
        return True
