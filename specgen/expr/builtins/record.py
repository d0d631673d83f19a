"""What a built-in is: one frozen record with everything that is known about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from specgen.expr.interval import Interval
from specgen.expr.types import Static, Typed
from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.expr.builtins.site import Site
    from specgen.expr.printer import Printed, Printer

ParamKind = Literal[
    "value", "axis", "new_axis", "axes", "order", "shape", "new_shape", "sizes", "dtype", "dtype_of", "int", "flag", "word", "like", "function",
]  # fmt: skip
Family = Literal[
    "operator", "elementwise", "condition", "reduction", "scan", "shape", "product", "index", "constant", "cast", "fact",
    "draw", "integrator", "loss", "batch", "network",
]  # fmt: skip
Agreement = Literal["bit", "ulp", "statistical"]

REQUIRED = object()
"""The default of a parameter that has none."""


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter: `value` takes an expression, the others what is known when specgen builds.

    `axes` are several in any order, `order` is one of all axes; a `new_shape` may leave one size open, as -1; a `word`
    is one of `words`, or an enum parameter.
    """

    name: str
    kind: ParamKind = "value"
    default: object = REQUIRED
    variadic: bool = False
    words: tuple[str, ...] = ()

    @property
    def written(self) -> str:
        """Its name, with what stands for it where it is left out."""
        if self.default is REQUIRED:
            return self.name
        default = str(self.default)
        return f"{self.name}={default.lower() if isinstance(self.default, bool) else default}"


IntervalRule = Callable[[tuple[Interval, ...], Typed], Interval]
"""From the intervals of the operands, and the node with its type and options, to its interval."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in function or operator.

    Attributes:
        name: How it is called; an operator's own sign, `neg` for the sign of a number.
        doc: One or two sentences.
        infer: The typing rule: the typed node of a call, or None when it reported why there is none.
        interval: The interval rule.
        torch: Prints a node of it.
        reference: What it means for one environment, `reference(np, *args, **options)`.
        family: What it does with shapes; the documentation and the tests go by it.
        params: Its parameters.
        python: The same for Python numbers, to fold what is known at build.
        layout: From its operands to those whose layout (`Type.col`) its result has, none for a result without a
            trailing 1; None for what its family does.
        agreement: How exactly printed code and reference agree: `bit`, `ulp` (the last digits may
            differ) or `statistical` (draws).
        form: How it is written, where that is not its name with its parameters.
    """

    name: str
    doc: str
    infer: Callable[[Site], Typed | None]
    interval: IntervalRule
    torch: Callable[[Typed, Printer], Printed]
    reference: Callable[..., Any]
    family: Family
    params: tuple[Param, ...]
    python: Callable[..., Static] | None = None
    layout: Callable[[tuple[Typed, ...]], tuple[Typed, ...]] | None = None
    agreement: Agreement = "bit"
    form: str = ""

    @property
    def signature(self) -> str:
        """How it is written, for the documentation and for messages."""
        return self.form or f"{self.name}({', '.join(param.written for param in self.params)})"
