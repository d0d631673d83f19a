"""Draws of one number that are added to a vector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.model import Statement
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import expression_lints as rules
from specgen.expr import Symbol, Typed
from specgen.expr.sizes import product

_SUMS = ("+", "-")
_PASSED_ON = ("+", "-", "*", "/", "neg", "cast", "clip", "sqrt", "exp", "tanh", "uniform", "normal", "site")
"""What keeps a noise a noise; a comparison or a choice does not."""


def warn_one_noise(statements: Iterable[Statement], sink: Sink) -> None:
    """Warn of sums of a vector and a random number without dimensions.

    A vector of the declaration (a formation, the angles of a ring) may be moved as a whole by a uniform draw.
    """
    noises: dict[Symbol, str] = {}
    for statement in statements:
        tree = statement.typed
        for node in tree.nodes:
            found = _noise_on_vector(node, noises)
            if found is None:
                continue
            vector, noise = found
            text = statement.source.text
            dims = ", ".join(map(str, vector.type.dims or ()))
            shown = f"{dims}," if len(vector.type.dims or ()) == 1 else dims
            sink.add(
                rules.ONE_NOISE.at(
                    statement.source.span_of(noise.start, noise.end),
                    f"`{text[noise.start : noise.end]}` is one random number, "
                    f"`{text[vector.start : vector.end]}` is {vector.type}: all elements get the same",
                    help=f"say shape=({shown}) in the draw",
                )
            )
        kind = _kind(tree, noises)
        if kind is not None and tree.type.dims == ():
            noises[statement.symbol] = kind


def _noise_on_vector(node: Typed, noises: Mapping[Symbol, str]) -> tuple[Typed, Typed] | None:
    """The two sides of a sum of a vector and one random number."""
    if node.op not in _SUMS or len(node.args) != 2:
        return None
    for noise, vector in (node.args, node.args[::-1]):
        dims = vector.type.dims
        kind = _kind(noise, noises) if noise.type.dims == () else None
        if kind is None or not dims or product(vector.type.sizes) == 1 or _kind(vector, noises) is not None:
            continue
        if vector.type.level == "batch" or kind == "normal":
            return vector, noise
    return None


def _kind(node: Typed, noises: Mapping[Symbol, str]) -> str | None:
    """What a value is drawn from if it is a draw, or such moved and scaled."""
    if node.op == "name":
        return None if node.symbol is None else noises.get(node.symbol)
    if node.op == "site" and node.site is not None:
        return node.site.kind if node.site.kind != "randint" else None
    if node.op not in _PASSED_ON:
        return None
    return next((kind for part in node.args if (kind := _kind(part, noises)) is not None), None)
