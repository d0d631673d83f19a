"""Networks of a transform: what they read and give, and their calls in expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from specgen.check.attributes import TRANSFORM_ATTRIBUTES
from specgen.check.model import Parameter, identifier
from specgen.check.names import Names, refused
from specgen.check.network_types import CALLED, called_network, network_node, network_type
from specgen.check.statements import SectionResult
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.flow import computed_of
from specgen.check.transforms.model import CalledNetwork, sizes_of
from specgen.check.transforms.roles import PATTERNS
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import transform_networks as rules
from specgen.expr import SpecType, Symbol, Type, Typed, full
from specgen.expr.builtins.record import Builtin
from specgen.expr.builtins.site import Site
from specgen.expr.builtins.table import CALLABLE
from specgen.expr.dtypes import is_abstract
from specgen.expr.sizes import Dim, Dims, Rest, Sym, names_in, replaced
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform
from specgen.values import dataclass, replace


@dataclass
class Networks:
    """The networks of a transform.

    Attributes:
        checked: those without a mistake.
        functions: how expressions call them, by name.
        symbols: what they are in programs, by path below the transform.
    """

    checked: tuple[CalledNetwork, ...] = ()
    functions: dict[str, Builtin] = field(default_factory=dict)
    symbols: dict[str, Symbol] = field(default_factory=dict)


def check_networks(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    roles: Iterable[Role],
    outputs: Iterable[Output],
    names: Names,
    sink: Sink,
) -> Networks:
    """Check `networks` of the transform at `path`."""
    by_name = readable(roles, outputs)
    result = Networks()
    for name in transform.networks:
        here = (*path, "networks", name)
        reason = "every transform has it" if name in TRANSFORM_ATTRIBUTES else None
        reason = "it is a function" if name in CALLABLE else reason
        if reason is not None:
            sink.add(refused(name, reason, "network", file.key_span(*here)))
            continue
        if not names.claim(name, "network", file.key_span(*here)):
            continue
        checked = _network(file, here, transform, by_name, sink)
        if checked is None:
            continue
        result.checked += (checked,)
        symbol = network_symbol(f"transforms.{path[-1]}", name)
        result.symbols[f"networks.{name}"] = symbol
        result.functions[name] = network_function(checked, by_name, symbol)
    return result


def _network(
    file: SchemaFile, here: tuple[str, ...], transform: Transform, roles: Mapping[str, Role], sink: Sink
) -> CalledNetwork | None:
    """The network at `here`; None after reporting what is wrong with it."""
    name, declared = here[-1], transform.networks[here[-1]]
    sound = True
    if not declared.in_:
        span = file.span(*here, "in")
        sink.add(rules.NETWORK_DECLARED.at(span, f"`{name}` reads nothing", help="name a role: `in: [x]`"))
        sound = False
    for index, read in enumerate(declared.in_):
        span = file.span(*here, "in", index)
        role = roles.get(read)
        if role is None:
            sound = False
            if read not in transform.in_:
                help = suggestion(read, roles) or f"the roles are {', '.join(roles) or 'none'}"
                sink.add(schema_rules.UNKNOWN_DECLARATION.at(span, f"no role `{read}`", help=help))
        elif role.form not in ("each", "key"):
            message = f"`{name}` can't read `{read}`, which is several keys at once"
            sink.add(rules.NETWORK_DECLARED.at(span, message))
            sound = False
        elif not _own_dims(role):
            sound = False
            message = f"nobody knows which dimensions of `{read}` are those of one row of `{name}`"
            help = f'name the dimensions that it reads: `{read}: {{type: "{role.pattern}[..., n]"}}`'
            sink.add(rules.NETWORK_DECLARED.at(span, message, help=help))
    spec = network_type(file, (*here, "out"), sink)
    if spec is None:
        return None
    open_ended = any(isinstance(size, Rest) or size == Sym.named("_") for size in spec.dims)
    if spec.kind not in ("pattern", "unbounded") or is_abstract(spec.dtype) or open_ended:
        message = f"`{declared.out}` is not what one network gives for one row"
        help = "write a dtype and dimensions: float32[64], or float32[k] for a size that it alone knows"
        sink.add(rules.NETWORK_DECLARED.at(file.span(*here, "out"), message, help=help))
        return None
    if not sound:
        return None
    doc = " ".join(declared.doc.split())
    return CalledNetwork(name, tuple(declared.in_), spec.dtype, spec.dims, declared.frozen, doc)


def readable(roles: Iterable[Role], outputs: Iterable[Output]) -> dict[str, Role]:
    """What networks may read, by name: roles, and what the policy writes, as if it were a role of its declared type."""
    found = {role.name: role for role in roles}
    for output in outputs:
        role = found.get(output.each or "")
        if output.inverse and role is not None and output.declared:
            dtype, dims = output.dtype or role.pattern, role.dims if output.dims is None else output.dims
            spec = SpecType("pattern", dtype, dims)
            found[output.name] = replace(
                role, name=output.name, pattern=dtype, dims=dims, spec=spec, form="each"
            )
    return found


def _own_dims(role: Role) -> Dims:
    """The dimensions of a role that a network reads of one row: those behind `...`."""
    return tuple(size for size in role.dims if not isinstance(size, Rest))


def network_rows(network: CalledNetwork, roles: Mapping[str, Role]) -> tuple[Dims, ...]:
    """The dimensions of one row of each thing that a network reads."""
    return tuple(_own_dims(roles[name]) for name in network.reads)


def with_sizes(network: CalledNetwork, roles: Mapping[str, Role], sizes: Mapping[str, int]) -> CalledNetwork:
    """A network where some sizes are known; those of what it reads are told by that."""
    reads = (size for dims in network_rows(network, roles) for size in dims if not isinstance(size, Rest))
    told = {name for size in reads for name in names_in(size)}
    known = {name: size for name, size in sizes.items() if name not in told}
    dims = tuple(size if isinstance(size, Rest) else replaced(size, known) for size in network.dims)
    return replace(network, dims=dims)


def network_symbol(owner: str, name: str) -> Symbol:
    """A network as programs of `owner` read it."""
    return Symbol(f"{owner}.networks.{name}", identifier(name), CALLED, full("float32"))


def network_function(network: CalledNetwork, roles: Mapping[str, Role], symbol: Symbol) -> Builtin:
    """How expressions call a network, which `symbol` is in their program."""
    rows = network_rows(network, roles)
    return called_network(
        network.name,
        network.reads,
        network.doc,
        lambda site: _infer(site, network, rows, roles, symbol),
    )


def _infer(
    site: Site, network: CalledNetwork, rows: tuple[Dims, ...], roles: Mapping[str, Role], symbol: Symbol
) -> Typed | None:
    lead: Dims | None = None
    sizes: dict[str, Dim] = {}
    for value, own, name in zip(site.values, rows, network.reads, strict=True):
        kind, role = value.type, roles[name]
        dtypes = {*PATTERNS.get(role.pattern, (role.pattern,)), role.pattern}
        behind, front = kind.dims[len(kind.dims) - len(own) :], kind.dims[: len(kind.dims) - len(own)]
        fitting = kind.level == "batch" and kind.dtype in dtypes and _match(own, behind, sizes)
        if not fitting or (front and not _has_rest(role)):
            message = f"`{network.name}` reads {role.spec} here, `{site.written(value)}` is {kind}"
            site.fail(rules.NETWORK_CALLED, message, at=value)
            return None
        if lead is not None and lead != front:
            message = f"`{network.name}` reads rows of the same dimensions, `{site.written(value)}` is {kind}"
            site.fail(rules.NETWORK_CALLED, message, at=value)
            return None
        lead = front
    dims = (*(lead or ()), *(replaced(size, sizes) for size in network.dims if not isinstance(size, Rest)))
    return network_node(site, symbol, Type(network.dtype, dims, "batch"))


def _has_rest(role: Role) -> bool:
    return any(isinstance(size, Rest) for size in role.dims)


def _match(own: Dims, found: Dims, sizes: dict[str, Dim]) -> bool:
    """Whether dimensions are those of a row; a name is what it stands for where it is met first."""
    if len(own) != len(found):
        return False
    for want, have in zip(own, found, strict=True):
        if isinstance(have, Rest) or isinstance(want, Rest):
            return False
        if isinstance(want, Sym) and want.name == "_":
            continue
        if isinstance(want, Sym) and want.name:
            if sizes.setdefault(want.name, have) != have:
                return False
        elif want != have:
            return False
    return True


def declared_where_called(
    file: SchemaFile,
    path: tuple[str, ...],
    outputs: Iterable[Output],
    sections: Iterable[SectionResult],
    networks: Networks,
    sink: Sink,
) -> None:
    """Report outputs of the transform at `path` that networks compute, and that say no type."""
    computed = computed_of(networks.functions, sections)
    for output in outputs:
        if output.name in computed and not output.declared:
            sink.add(
                rules.NETWORK_DECLARED.at(
                    file.key_span(*path, "out", output.name),
                    f"`{output.name}` is computed by a network, and has no type",
                    help=f'declare it, `{output.name}: {{type: "float32[64]"}}`: no network runs when specs are made',
                )
            )


def known_sizes(
    file: SchemaFile,
    path: tuple[str, ...],
    outputs: Iterable[Output],
    roles: Iterable[Role],
    params: Iterable[Parameter],
    sink: Sink,
) -> None:
    """Report outputs of the transform at `path` with a size that no role has and no static parameter is."""
    known = {"_", *sizes_of(roles), *(param.name for param in params if param.static)}
    for output in outputs:
        sizes = [size for dim in output.dims or () if isinstance(dim, Sym) for size in names_in(dim)]
        if (unknown := next((size for size in sizes if size not in known), None)) is not None:
            sink.add(
                rules.NETWORK_DECLARED.at(
                    file.span(*path, "out", output.name, "type"),
                    f"nobody knows the size `{unknown}` of `{output.name}` when specs are made",
                    help=f"write a number, or declare a parameter, `{unknown}: {{type: int, min: 1, static: true}}`",
                )
            )
