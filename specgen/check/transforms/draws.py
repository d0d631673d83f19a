"""Random draws of a transform: of what shape they are for keys that nobody knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from specgen.check.model import Statement
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import expressions as rules
from specgen.expr import DrawSite, Symbol, Typed
from specgen.expr.dtypes import is_abstract
from specgen.expr.sizes import Rest, names_in


def check_draws(
    statements: Iterable[Statement], given: Collection[Symbol], sink: Sink, *, always: bool = False
) -> None:
    """Report draws whose shape or dtype no key tells.

    Args:
        statements: those of a phase that may draw.
        given: what it reads of the data.
        sink: takes every mistake.
        always: whether a key has to tell the shape of each.
    """
    for statement in statements:
        for node in statement.typed.nodes:
            site = node.site
            if site is not None and site.like not in given and (always or _follows_key(site)):
                sink.add(
                    rules.WRONG_ARGUMENTS.at(
                        statement.source.span_of(node.start, node.end),
                        "nothing tells the shape of this draw for whatever key there is",
                        help=f"write `like=` and the name of {'an output' if always else 'a role'}",
                    )
                )


def _follows_key(site: DrawSite) -> bool:
    """Whether the shape or dtype of a draw is not known by numbers and names of sizes."""
    return is_abstract(site.dtype) or not all(
        not isinstance(size, Rest) and all(name.isidentifier() for name in names_in(size))
        for size in site.dims
    )


def taken_draws(typed: Typed) -> tuple[DrawSite, ...]:
    """The draws of an expression, from left to right, without those in branches that are known not to be taken."""
    if typed.op == "where" and isinstance(typed.args[0].static, bool):
        return taken_draws(typed.args[1 if typed.args[0].static else 2])
    own = () if typed.site is None else (typed.site,)
    return (*(site for part in typed.parts for site in taken_draws(part)), *own)
