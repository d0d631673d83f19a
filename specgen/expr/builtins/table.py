"""The table of all built-ins."""

from __future__ import annotations

import copyreg
import math
from typing import Final

from specgen.expr.builtins.batch import BATCH
from specgen.expr.builtins.bound_facts import FACTS
from specgen.expr.builtins.constants import CONSTANTS
from specgen.expr.builtins.dimensions import DIMENSIONS
from specgen.expr.builtins.discrete_draws import DISCRETE_DRAWS
from specgen.expr.builtins.draws import DRAWS
from specgen.expr.builtins.functions import FUNCTIONS
from specgen.expr.builtins.images import IMAGES
from specgen.expr.builtins.indexing import INDEX
from specgen.expr.builtins.integrators import CALL, INTEGRATORS
from specgen.expr.builtins.layouts import LAYOUTS
from specgen.expr.builtins.operators import OPERATORS
from specgen.expr.builtins.products import PRODUCTS
from specgen.expr.builtins.record import Builtin
from specgen.expr.builtins.reductions import REDUCTIONS
from specgen.expr.builtins.scans import SCANS
from specgen.expr.builtins.shapes import SHAPES
from specgen.expr.builtins.statistics import STATISTICS

TABLE: Final[dict[str, Builtin]] = {
    builtin.name: builtin
    for builtin in (
        *OPERATORS,
        *FUNCTIONS,
        *REDUCTIONS,
        *STATISTICS,
        *SCANS,
        *SHAPES,
        *IMAGES,
        *LAYOUTS,
        *DIMENSIONS,
        INDEX,
        *PRODUCTS,
        *CONSTANTS,
        *FACTS,
        *DRAWS,
        *DISCRETE_DRAWS,
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


def _by_name(name: str) -> Builtin:
    return CALL if name == CALL.name else BATCH.get(name) or TABLE[name]


# A built-in is kept, and sent to other processes, by its name.
copyreg.pickle(Builtin, lambda builtin: (_by_name, (builtin.name,)))
