"""The page of built-ins in the documentation, made from the table."""

from __future__ import annotations

from typing import Final

from specgen.expr.builtins.record import Builtin
from specgen.expr.builtins.table import TABLE

_HEADINGS: Final = {
    "operator": "Operators",
    "elementwise": "Elementwise functions",
    "condition": "Conditions",
    "reduction": "Reductions",
    "scan": "Along an axis",
    "shape": "Putting arrays together and taking them apart",
    "index": "Indexing",
    "product": "Products",
    "constant": "Constants",
    "cast": "Conversions",
    "fact": "What a name stands for",
    "draw": "Random draws",
    "integrator": "Integrators",
}
_AGREEMENT: Final = {"bit": "same bits", "ulp": "last digits", "statistical": "statistical"}

_INTRODUCTION: Final = """\
<!-- Written by `specgen.expr.docs`; the tests compare this page with the table of built-ins. -->
# Built-in functions and operators

Expressions are written for one environment; the printed code works for any batch of them. Beside the
functions below there are the numbers `pi` and `inf`, and `True` and `False`.

The last column says how exactly the printed code agrees with the plain meaning: to the *same bits*, or
but for the *last digits*, because libraries round differently or sum in another order.
"""


def builtins_markdown() -> str:
    """The text of `docs/language/builtins.md`."""
    parts = [_INTRODUCTION]
    for family, heading in _HEADINGS.items():
        members = [builtin for builtin in TABLE.values() if builtin.family == family]
        parts.append(f"\n## {heading}\n\n| | | agrees to |\n|---|---|---|\n")
        parts += [_row(builtin) for builtin in members]
    return "".join(parts)


def _row(builtin: Builtin) -> str:
    signature = builtin.signature.replace("|", "\\|")
    return f"| `{signature}` | {builtin.doc} | {_AGREEMENT[builtin.agreement]} |\n"
