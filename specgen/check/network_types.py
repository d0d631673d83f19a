"""Networks that expressions call, of losses and of transforms: their types, with sizes that only networks know."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from specgen.check.names import refusal, refused, shortened
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import SpecType, Symbol, Type, Typed, full, parse_type
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.printer import Printed, Printer
from specgen.expr.sizes import Sym
from specgen.schema.load import SchemaFile

CALLED = Type("function", (), "const")
"""What a network is for the program that calls it."""

_SIZE = re.compile(r"[A-Za-z_]\w*")


def network_type(file: SchemaFile, here: tuple[str, ...], sink: Sink) -> SpecType | None:
    """The type at a place, where names are sizes; None after reporting that it is none. A range is reported."""
    source = file.scalar(*here)
    bare, ranged, _ = source.text.partition(" in ")
    if ranged:
        message = f"`{shortened(source.text)}` has a range, and what data and networks hold can be any value"
        help = f'write "{bare.strip()}", and wrap what is read where a range is needed: clip(x, 0, 3)'
        sink.add(schema_rules.WRONG_TYPE.at(source.span, message, help=help))
    _, _, inside = bare.partition("[")
    sizes = {name: Sym.named(name) for name in _SIZE.findall(inside)}
    if wrong := next((size for size in sizes if refusal(size, foreign=True)), None):
        sink.add(refused(wrong, refusal(wrong, foreign=True) or "", "size", source.span))
        return None
    return parse_type(source, sink, sizes)


def called_network(
    name: str, reads: Iterable[str], doc: str, infer: Callable[[Site], Typed | None]
) -> Builtin:
    """How expressions call a network.

    Args:
        name: how it is called.
        reads: what its arguments are called.
        doc: one line.
        infer: its typing rule, which makes a node by `network_node`.
    """
    reads = tuple(reads)
    return Builtin(
        name=name,
        family="network",
        doc=doc,
        params=tuple(map(Param, reads)),
        infer=infer,
        interval=lambda args, node: full(node.type.dtype),
        torch=_show,
        reference=_reference,
        layout=lambda args: (),
        agreement="ulp",
    )


def network_node(site: Site, symbol: Symbol, type: Type) -> Typed:
    """The call of a network, which is `symbol` in its program, with what the site gives it."""
    called = Typed("name", CALLED, full("float32"), text=symbol.name, symbol=symbol)
    return site.node(type, (called, *site.values))


def _show(node: Typed, printer: Printer) -> Printed:
    called, *values = node.args
    return Printed(f"{printer.text(called)}({', '.join(printer.logical(value).text for value in values)})")


def _reference(np: Any, network: Any, *values: Any) -> Any:
    # The interpreter makes an array of everything that a name stands for.
    return np.asarray(network).item()(*values)
