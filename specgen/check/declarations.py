"""The names of declarations: they become classes of one module, which their package shows beside others."""

from __future__ import annotations

import builtins
import keyword
import posixpath
from collections.abc import Iterator, Mapping

from specgen.check.model import snake
from specgen.check.names import MADE_FUNCTIONS, article, refusal, refused
from specgen.check.specs import function_of
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import schema as rules
from specgen.imported import NAMES_READ
from specgen.schema.load import SchemaFile
from specgen.source import Mapping as MappingNode

SECTIONS = {"envs": "environment", "transforms": "transform", "chains": "chain", "losses": "loss"}
"""The sections whose entries become classes, and what an entry is called."""

SUFFIXES = (
    "Params",
    "Consts",
    "Root",
    "Next",
    "Data",
    "NextData",
    "Specs",
    "Observation",
    "Reward",
    "Keys",
    "InverseKeys",
    "Terms",
    "Output",
)
"""What the names of generated records end with, behind the name of their declaration."""

PYTHON_SUFFIXES = ("Protocol", "Setup", "Dims", "State", "Reset", "Step")
"""What else they end with where a Python class is behind an environment."""

PYTHON_NAMES = frozenset(
    name for name, value in vars(builtins).items() if type(value).__module__ != "_sitebuiltins"
)
"""Python's own names, but for what it adds for interactive use."""

_TYPES = frozenset(
    [
        "any",
        "binary",
        "bool",
        "bounded",
        "categorical",
        "float",
        "float16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "like",
        "multi_categorical",
        "multi_onehot",
        "number",
        "onehot",
        "text",
        "uint8",
        "unbounded",
    ]
)


def check_declarations(files: Mapping[str, SchemaFile], modules: Mapping[str, str], sink: Sink) -> None:
    """Check the names of all declarations.

    Args:
        files: the loaded files.
        modules: the dotted generated module of each file.
        sink: takes names that are no Python names, and names that would be given twice.
    """
    shown: dict[tuple[str, str], tuple[str, Span]] = {}
    for path, file in files.items():
        package = modules[path].rpartition(".")[0]
        for section in ("models", "pipelines"):
            if getattr(file.module, section):
                message = f"`{section}` are not available yet"
                sink.add(rules.NOT_AVAILABLE.at(file.key_span(section), message))
        if file.module.consts:
            message = "constants of a whole file are not available yet"
            help = "declare them under `consts` of the environment that reads them"
            sink.add(rules.NOT_AVAILABLE.at(file.key_span("consts"), message, help=help))
        for name in file.module.specs:
            _refuse(
                name, "spec", "it is a type" if name in _TYPES else None, file.key_span("specs", name), sink
            )
        _check_functions(file, sink)
        taken: dict[str, tuple[str, Span]] = {}
        for what, name, span in _declared(file):
            if _refuse(name, what, _hides(file, name), span, sink):
                continue
            clash = next((taken[form] for form in _forms(file, name) if form in taken), None)
            clash = clash or shown.get((package, name))
            if clash is not None:
                other, first = clash
                where = (
                    ""
                    if first.file == span.file
                    else f" of the same package, in `{posixpath.basename(first.file)}`"
                )
                sink.add(
                    rules.NAME_TAKEN.at(
                        span,
                        f"the {what} `{name}` would be written over {article(other)} {other}{where}",
                        notes=[Note("the first one", first)],
                        help=f"give this {what} another name",
                    )
                )
                continue
            taken |= dict.fromkeys(_forms(file, name), (what, span))
            shown[package, name] = (what, span)


def _check_functions(file: SchemaFile, sink: Sink) -> None:
    """The functions of all declarations stand beside each other: those of environments, chains and named specs."""
    taken = {
        f"{snake(name)}_{function}": (f"generated `{function}` of `{name}`", file.key_span(section, name))
        for section, names in (("envs", file.module.envs), ("chains", file.module.chains))
        for name in names
        for function in MADE_FUNCTIONS
    }
    for name, env in file.module.envs.items():
        for function in env.functions:
            if function in MADE_FUNCTIONS:
                continue  # said where the environment is checked
            made, span = f"{snake(name)}_{function}", file.key_span("envs", name, "functions", function)
            if made in taken:
                other, first = taken[made]
                sink.add(
                    rules.NAME_TAKEN.at(
                        span,
                        f"the function `{function}` of `{name}` and the {other} would both be `{made}()`",
                        notes=[Note("the first one", first)],
                        help="give this function another name",
                    )
                )
            taken.setdefault(made, (f"function `{function}` of `{name}`", span))
    for name in file.module.specs:
        function, span = function_of(name), file.key_span("specs", name)
        if function in taken:
            other, first = taken[function]
            sink.add(
                rules.NAME_TAKEN.at(
                    span,
                    f"the spec `{name}` and the {other} would both be `{function}()`",
                    notes=[Note("the first one", first)],
                    help="give this spec another name",
                )
            )
        taken.setdefault(function, (f"spec `{name}`", span))


def _declared(file: SchemaFile) -> Iterator[tuple[str, str, Span]]:
    for section, what in SECTIONS.items():
        node = file.root.get(section)
        for key, _ in node.entries if isinstance(node, MappingNode) else ():
            yield what, key.text, key.span


def _forms(file: SchemaFile, name: str) -> list[str]:
    """Every top-level name that a declaration may take in its module."""
    env = file.module.envs.get(name)
    more = PYTHON_SUFFIXES if env is not None and env.python is not None else ()
    return [name, f"{snake(name)}()", *(name + suffix for suffix in (*SUFFIXES, *more))]


def _hides(file: SchemaFile, name: str) -> str | None:
    """What generated code reads that a name of the declaration would hide, or ``None``."""
    for form in _forms(file, name):
        made = form.removesuffix("()")
        if made != form and name not in file.module.losses:
            continue  # other functions have more to their name
        if keyword.iskeyword(made):
            return f"its function would be called `{made}`, which is a Python keyword"
        if made in PYTHON_NAMES:
            return f"`{made}` is a name of Python's own"
        if made in NAMES_READ:
            return f"generated code imports `{made}`"
    return None


def _refuse(name: str, what: str, used: str | None, span: Span, sink: Sink) -> bool:
    reason = "a dot is for nested keys" if "." in name else refusal(name) or used
    if reason is not None:
        sink.add(refused(name, reason, what, span))
    return bool(reason)
