"""Reads and writes the files of a project: all input and output of the compiler."""

from specgen.project.config import ConfigError, Project, load_project
from specgen.project.discover import Sources, find_schemas, read_sources
from specgen.project.staleness import KINDS, Report, compare
from specgen.project.write import RefusedError, Written, build_lock, write

__all__ = [
    "KINDS",
    "ConfigError",
    "Project",
    "RefusedError",
    "Report",
    "Sources",
    "Written",
    "build_lock",
    "compare",
    "find_schemas",
    "load_project",
    "read_sources",
    "write",
]
