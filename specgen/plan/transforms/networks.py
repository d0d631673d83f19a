"""What a class says of the networks that it calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specgen.check.chains.model import CheckedChain
from specgen.check.transforms.entries import Role
from specgen.check.transforms.model import CalledNetwork, CheckedTransform
from specgen.check.transforms.networks import network_rows, readable, with_sizes
from specgen.code import using
from specgen.expr.sizes import Dims, Sym
from specgen.literals import literal
from specgen.plan.items import Item
from specgen.plan.model import CalledNetworkPlan, CallPlan, Field, RecordPlan
from specgen.plan.transforms.functions import network_doc
from specgen.plan.transforms.text import dtype_code
from specgen.values import replace


def plan_networks(transform: CheckedTransform) -> tuple[CalledNetworkPlan, ...]:
    """The networks of a transform."""
    roles = readable(transform.roles, transform.outputs)
    return tuple(plan_network(network, roles, network.name) for network in transform.networks)


def plan_network(network: CalledNetwork, roles: Mapping[str, Role], keyword: str) -> CalledNetworkPlan:
    """A network under a keyword of a constructor."""
    reads = literal(tuple(map(row_sizes, network_rows(network, roles))))
    rows = CallPlan("NetworkRows", (reads, dtype_code(network.dtype), literal(row_sizes(network.dims))))
    return CalledNetworkPlan(keyword, rows, network.frozen)


def chain_networks(chain: CheckedChain) -> tuple[CalledNetworkPlan, ...]:
    """The networks that the transforms of a chain call, as keywords of its constructor."""
    return tuple(plan for plan, _ in _of_chain(chain))


def networks_record(chain: CheckedChain) -> list[Item]:
    """The record of the networks of a chain; nothing for one that calls none."""
    called = using("RowNetwork", "RowNetwork")
    fields = tuple(Field(plan.name, called, doc=doc) for plan, doc in _of_chain(chain))
    doc = (f"The networks that transforms of `{chain.name}` call.",)
    return [RecordPlan(f"{chain.name}Networks", doc, fields)] if fields else []


def network_docs(chain: CheckedChain) -> Iterator[str]:
    """What each network of a chain is, for its constructor."""
    for plan, doc in _of_chain(chain):
        yield f"{plan.name}: {doc}{'; it stays as it is' if plan.frozen else ''}."


def _of_chain(chain: CheckedChain) -> Iterator[tuple[CalledNetworkPlan, str]]:
    for instance in chain.instances:
        transform = instance.transform
        roles = readable(transform.roles, transform.outputs)
        rows = (*instance.rows, *instance.inverse_rows)
        found = {name: {row.sizes.get(name) for row in rows} for row in rows for name in row.sizes}
        sizes = {name: size for name, (size, *others) in found.items() if size is not None and not others}
        for network in transform.networks:
            known = with_sizes(network, roles, sizes)
            plan = plan_network(known, roles, instance.networks[network.name])
            plan = replace(plan, of=f"{transform.name}_{instance.position}")
            yield plan, f"{network_doc(transform, network.name)}, of {transform.name}"


def row_sizes(dims: Dims) -> tuple[int | str, ...]:
    """Dimensions of a row: numbers, and names of sizes; `_` is any."""
    return tuple(size if isinstance(size, int) else _name(size) for size in dims)


def _name(size: object) -> str:
    return size.name if isinstance(size, Sym) and size.name else "_"
