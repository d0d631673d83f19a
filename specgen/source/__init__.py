"""Schema files as nodes that remember file, line and column."""

from specgen.source.characters import decode
from specgen.source.imports import SECTIONS, Declared, Imports, declared, resolve_imports
from specgen.source.nodes import Mapping, Node, Scalar, Sequence, Style, report_slips
from specgen.source.parse import parse_yaml
from specgen.source.python import PythonSchema, from_python, parse_source, shown_path, to_yaml

__all__ = [
    "SECTIONS",
    "Declared",
    "Imports",
    "Mapping",
    "Node",
    "PythonSchema",
    "Scalar",
    "Sequence",
    "Style",
    "declared",
    "decode",
    "from_python",
    "parse_source",
    "parse_yaml",
    "report_slips",
    "resolve_imports",
    "shown_path",
    "to_yaml",
]
