"""The names of declarations: they become classes of one module, which their package shows beside others."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterator

from specgen.check.language_models.model import maker_of
from specgen.check.model import snake
from specgen.check.names import INVERSE, MADE_FUNCTIONS, refusal, refused
from specgen.check.rewards import reward_protocol
from specgen.check.specs import function_of
from specgen.check.transforms.model import PHASES
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import schema as rules
from specgen.expr.builtins.constants import CASTS
from specgen.expr.builtins.table import CALLABLE
from specgen.imported import NAMES_READ
from specgen.program.torch_text import RECORDS
from specgen.schema.load import SchemaFile
from specgen.source import Mapping as MappingNode
from specgen.source.outline import (
    CHAT_SUFFIXES,
    METHODS_SUFFIX,
    PIPELINE_SUFFIXES,
    PYTHON_SUFFIXES,
    SUFFIXES,
    TRANSFORM_PYTHON_SUFFIXES,
    ClassName,
)

SECTIONS = {
    "envs": "environment",
    "transforms": "transform",
    "chains": "chain",
    "losses": "loss",
    "pipelines": "pipeline",
}
"""The sections whose entries become classes, and what an entry is called."""

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


def check_declarations(file: SchemaFile, sink: Sink) -> tuple[ClassName, ...]:
    """Check the names of a file's declarations, each by itself.

    Args:
        file: the loaded file.
        sink: takes names that no class, spec or function can have, and functions that would be written twice.

    Returns:
        The names that become classes; `check_clashes` compares them with each other and with those of other files.
    """
    if file.module.consts:
        message = "constants of a whole file are not available yet"
        help = "declare them under `consts` of the environment that reads them"
        sink.add(rules.NOT_AVAILABLE.at(file.key_span("consts"), message, help=help))
    for name in file.module.specs:
        _refuse(name, "spec", "it is a type" if name in _TYPES else None, file.key_span("specs", name), sink)
    for name in file.module.models:
        _refuse(name, "model", None, file.key_span("models", name), sink)
    for name in file.module.functions:
        used = _hidden_by_function(name)
        _refuse(name, "function", used, file.key_span("functions", name), sink)
    _check_functions(file, sink)
    return tuple(
        name
        for name in _declared(file)
        if not _refuse(name.text, name.what, _hides(file, name), name.span, sink)
    )


def _check_functions(file: SchemaFile, sink: Sink) -> None:
    """The functions of all declarations stand beside each other: those of environments, chains and named specs."""
    taken = {
        f"{snake(name)}_{function}": (f"generated `{function}` of `{name}`", file.key_span(section, name))
        for section, names in (("envs", file.module.envs), ("chains", file.module.chains))
        for name in names
        for function in (*MADE_FUNCTIONS, *((INVERSE,) if section == "chains" else ()))
    }
    for section, what, names in (
        ("losses", "loss", file.module.losses),
        ("transforms", "transform", file.module.transforms),
    ):
        for name in names:
            forms = [name, snake(name)] if section == "losses" else [name]
            forms += [f"{snake(name)}_{phase}" for phase in PHASES] if section == "transforms" else []
            for form in forms if file.module.functions else ():
                taken.setdefault(form, (f"{what} `{name}`", file.key_span(section, name)))

    def take(made: str, what: str, kind: str, span: Span) -> None:
        if made in taken:
            other, first = taken[made]
            message = f"the {what} and the {other} would both be `{made}()`"
            notes = [Note("the first one", first)]
            sink.add(rules.NAME_TAKEN.at(span, message, notes=notes, help=f"give this {kind} another name"))
        taken.setdefault(made, (what, span))

    for name, env in file.module.envs.items():
        for function in env.functions:
            if function in MADE_FUNCTIONS:
                continue  # said where the environment is checked
            span = file.key_span("envs", name, "functions", function)
            take(f"{snake(name)}_{function}", f"function `{function}` of `{name}`", "function", span)
    for name in file.module.functions:
        take(name, f"function `{name}`", "function", file.key_span("functions", name))
    for name in file.module.specs:
        take(function_of(name), f"spec `{name}`", "spec", file.key_span("specs", name))
    for name in file.module.models:
        take(maker_of(name), f"model `{name}`", "model", file.key_span("models", name))


def _declared(file: SchemaFile) -> Iterator[ClassName]:
    for section, what in SECTIONS.items():
        node = file.root.get(section)
        for key, _ in node.entries if isinstance(node, MappingNode) else ():
            if section == "losses" and (loss := file.module.losses.get(key.text)) and loss.abstract:
                continue  # it has no class
            if section == "pipelines":
                pipeline = file.module.pipelines.get(key.text)
                if pipeline is not None and not pipeline.abstract:
                    yield ClassName(key.text, what, snake(key.text), PIPELINE_SUFFIXES, key.span)
                continue
            env = file.module.envs.get(key.text)
            transform = file.module.transforms.get(key.text) if section == "transforms" else None
            more: tuple[str, ...] = PYTHON_SUFFIXES if env is not None and env.python is not None else ()
            more = (
                TRANSFORM_PYTHON_SUFFIXES if transform is not None and transform.python is not None else more
            )
            if transform is not None and transform.methods is not None:
                more = (*more, METHODS_SUFFIX)
            chats = section == "envs" and env is not None and env.chat is not None
            suffixes = CHAT_SUFFIXES if chats else (*SUFFIXES, *more)
            yield ClassName(key.text, what, snake(key.text), suffixes, key.span)
    for name in file.module.rewards:
        made = reward_protocol(name)
        yield ClassName(made, "reward", snake(made), ("Row",), file.key_span("rewards", name))


def _hidden_by_function(name: str) -> str | None:
    """What a function of this name would hide, or ``None``."""
    if name in CALLABLE or name in CASTS:
        return f"it is the built-in function `{name}`"
    if name in PYTHON_NAMES:
        return "it is a name of Python's own"
    return "generated code calls something else so" if name in RECORDS else None


def _hides(file: SchemaFile, name: ClassName) -> str | None:
    """What generated code reads that a name of the declaration would hide, or ``None``."""
    for form in name.forms:
        made = form.removesuffix("()")
        if made != form and name.text not in file.module.losses:
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
