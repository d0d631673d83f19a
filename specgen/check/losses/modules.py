"""`modules`: objects that a loss is passed, and whose methods expressions call, such as a normalizer of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from specgen.check.attributes import LOSS_ATTRIBUTES
from specgen.check.losses.model import CheckedModule, LossRole
from specgen.check.names import Names, refused
from specgen.check.network_types import CALLED
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import loss_modules as rules
from specgen.expr import Binding, Expr, SourceText, Symbol, Type, Typed, full, tree
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import is_float
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.tree import calls_in, subexpressions
from specgen.schema.load import SchemaFile
from specgen.schema.loss import PassedModule
from specgen.values import dataclass, replace

_METHODS: Final = {
    "normalizer": ("normalize",),
    "value_norm": ("normalize", "denormalize", "scale"),
}
"""The methods of each protocol that expressions call."""


@dataclass
class Modules:
    """The modules of one loss.

    Attributes:
        file, path: where the loss is declared.
        given: what it declares.
        names: the namespace of the loss.
        sink: takes every mistake.
        checked: those whose declaration is right.
    """

    file: SchemaFile
    path: tuple[str, ...]
    given: Mapping[str, PassedModule]
    names: Names
    sink: Sink
    checked: tuple[CheckedModule, ...] = ()
    _known: dict[str, CheckedModule] = field(default_factory=dict)

    def declare(self) -> None:
        """Check the names."""
        for name, given in self.given.items():
            here = (*self.path, "modules", name)
            span = self.file.key_span(*here)
            if name in LOSS_ATTRIBUTES:
                self.sink.add(refused(name, "every loss has it", "module", span))
            elif self.names.claim(name, "module", span):
                symbol = Symbol(".".join(here), name, CALLED, full("float32"), span=span)
                made = CheckedModule(
                    name, given.protocol, given.optional, given.update, given.estimated, given.doc, symbol
                )
                self._known[name] = made
        self.checked = tuple(self._known.values())

    def updated(self, roles: tuple[LossRole, ...]) -> None:
        """Check what the modules are updated by: entries that the data always hold."""
        known = {role.name: role for role in roles}
        for name, made in self._known.items():
            if made.update is None:
                continue
            role = known.get(made.update)
            if made.estimated and role is not None and role.missing != "estimate":
                message = f"`{made.update}` is nothing that the value estimator fills in, and updates `{name}` never"
                remedy = f"leave it out, or declare `{made.update}` with `missing: estimate`"
                span = self.file.key_span(*self.path, "modules", name, "estimated")
                self.sink.add(rules.MODULE.at(span, message, help=remedy))
                continue
            if role is not None and role.type is not None and not role.optional and role.when is None:
                continue
            wrong = "it is no key of the loss"
            help = suggestion(made.update, known)
            if role is not None:
                wrong = "it has no type" if role.type is None else "the data may lack it"
            message = (
                f"`{name}` is updated by what the data hold under a key, and not by `{made.update}`: {wrong}"
            )
            span = self.file.span(*self.path, "modules", name, "update")
            self.sink.add(rules.MODULE.at(span, message, help=help))

    @property
    def scope(self) -> dict[str, Binding]:
        """What `given(…)` asks for."""
        return {
            one.name: Binding(
                CALLED, full("float32"), what="module", symbol=one.symbol, optional=one.optional
            )
            for one in self.checked
        }

    @property
    def functions(self) -> dict[str, Builtin]:
        """How expressions call the methods."""
        return {
            f"{one.name}.{name}": _method(one, name)
            for one in self.checked
            for name in _METHODS[one.protocol]
        }

    def fits(self, expr: Expr, source: SourceText) -> bool:
        """Whether an expression calls methods that the modules have, and reads no module as if it were a value.

        A module whose declaration is wrong is reported there alone.
        """
        for call in calls_in(expr):
            name, _, called = call.function.path.partition(".")
            if name not in self.given:
                continue
            one = self._known.get(name)
            if one is None:
                return False
            if called not in (known := _METHODS[one.protocol]):
                what = f"no `{called}`" if called else "methods"
                message = f"`{name}` has {what} that expressions call"
                if not called:
                    message = f"`{name}` is a module: expressions call its methods"
                near = suggestion(called, known) or f"they are {', '.join(known)}"
                self._error(call.function, message, near, source)
                return False
        asked = [call.args[0] for call in calls_in(expr) if call.function.path == "given" and call.args]
        for part in subexpressions(expr):
            if isinstance(part, tree.Name) and part.path.split(".")[0] in self.given and part not in asked:
                one = self._known.get(part.path.split(".")[0])
                if one is not None:
                    help = f"call a method: {one.name}.{_METHODS[one.protocol][0]}(x)"
                    self._error(part, f"`{part.path}` is a module, not a value", help, source)
                return False
        return True

    def _error(self, at: Expr, message: str, help: str, source: SourceText) -> None:
        self.sink.add(rules.MODULE.at(source.span_of(at.start, at.end), message, help=help))


def _method(module: CheckedModule, name: str) -> Builtin:
    takes = () if name == "scale" else (Param("x"),)
    return Builtin(
        name=name,
        form=f"{module.name}.{name}({', '.join(one.name for one in takes)})",
        family="network",
        doc=f"`{name}` of the module `{module.name}`.",
        params=takes,
        infer=lambda site: _infer(site, module),
        interval=lambda args, node: full(node.type.dtype),
        torch=_show,
        reference=_reference,
        layout=lambda args: (),
        agreement="ulp",
    )


def _infer(site: Site, module: CheckedModule) -> Typed | None:
    end = site.start + len(module.name)
    receiver = Typed(
        "name", CALLED, full("float32"), start=site.start, end=end, text=module.name, symbol=module.symbol
    )
    if not site.values:
        return site.node(Type("float32", (), "const"), (receiver,))
    (value,) = site.values
    if value.type.python or not is_float(value.type.dtype):
        message = f"`{module.name}` takes floating-point tensors, `{site.written(value)}` is {value.type}"
        site.fail(rules.MODULE, message, at=value)
        return None
    return site.node(replace(value.type, col=False), (receiver, value))


def _show(node: Typed, printer: Printer) -> Printed:
    receiver, *values = node.args
    called = printer.show(receiver)
    if not values:
        return method(method(called, node.op), "squeeze", "-1")
    (value,) = values
    if value.type.dims:
        return method(called, node.op, printer.logical(value).text)
    # one number has the form in which the data store it, with a trailing 1
    stored = printer.show(value) if value.type.col else method(printer.show(value), "unsqueeze", "-1")
    return method(method(called, node.op, stored.text), "squeeze", "-1")


def _reference(np: Any, module: Any, *values: Any) -> Any:
    raise NotImplementedError("what a module of the user computes is its own business")
