"""The typed expression language: parsed to a tree of its own, inferred, printed as torch."""

from specgen.expr.assign import check_assignable
from specgen.expr.dtypes import CONCRETE, join
from specgen.expr.infer import infer
from specgen.expr.interval import ANYTHING, NUMBERS, Interval, full, point, store
from specgen.expr.parser import parse
from specgen.expr.source_text import SourceText
from specgen.expr.spec_types import SpecType, parse_type
from specgen.expr.symbols import Symbol
from specgen.expr.torch_text import to_torch
from specgen.expr.tree import Expr, free_names
from specgen.expr.types import Binding, DrawSite, Function, Level, Static, Type, Typed

__all__ = [
    "ANYTHING",
    "CONCRETE",
    "NUMBERS",
    "Binding",
    "DrawSite",
    "Expr",
    "Function",
    "Interval",
    "Level",
    "SourceText",
    "SpecType",
    "Static",
    "Symbol",
    "Type",
    "Typed",
    "check_assignable",
    "free_names",
    "full",
    "infer",
    "join",
    "parse",
    "parse_type",
    "point",
    "store",
    "to_torch",
]
