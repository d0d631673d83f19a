"""The table of all built-ins."""

from __future__ import annotations

import math
from typing import Final

from specgen.expr.builtins.constants import CONSTANTS
from specgen.expr.builtins.draws import DRAWS
from specgen.expr.builtins.functions import FUNCTIONS
from specgen.expr.builtins.indexing import INDEX
from specgen.expr.builtins.integrators import INTEGRATORS
from specgen.expr.builtins.operators import OPERATORS
from specgen.expr.builtins.products import PRODUCTS
from specgen.expr.builtins.record import Builtin
from specgen.expr.builtins.reductions import REDUCTIONS
from specgen.expr.builtins.shapes import SHAPES

TABLE: Final[dict[str, Builtin]] = {
    builtin.name: builtin
    for builtin in (
        *OPERATORS,
        *FUNCTIONS,
        *REDUCTIONS,
        *SHAPES,
        INDEX,
        *PRODUCTS,
        *CONSTANTS,
        *DRAWS,
        *INTEGRATORS,
    )
}
"""Every built-in by its name, in the order of the documentation."""

NUMBERS: Final[dict[str, float]] = {"pi": math.pi, "inf": math.inf}
"""The named numbers."""

CALLABLE: Final[frozenset[str]] = frozenset(
    name for name in TABLE if name.isidentifier() and name not in ("and", "or", "not", "neg")
)
"""The names that can be called."""

RESERVED: Final[frozenset[str]] = (
    CALLABLE | NUMBERS.keys() | {"next", "now", "acc", "math", "torch", "params"}
)
"""Names that a declaration cannot give to anything of its own."""
