"""Names of Python classes in schemas, `package.module:Class`; the classes are never imported here."""

from __future__ import annotations

import keyword
import re

from specgen.check.model import PythonSource
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import python_env as rules
from specgen.source import Scalar

_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def python_source(
    scalar: Scalar, own_module: str, sink: Sink, what: str = "class", example: str = "Class"
) -> PythonSource:
    """The class or function that a text names; a mistake goes to the sink.

    Args:
        scalar: the text.
        own_module: the module that is generated from the schema, in which it can't stand.
        sink: takes the mistakes.
        what: what is named, a `class` or a `function`.
        example: a name for one.
    """
    module, _, name = scalar.text.partition(":")
    if (fault := _fault(scalar, what, example)) is not None:
        start, end, message, help = fault
        sink.add(rules.CLASS_NAME.at(scalar.span_of(start, end), message, help=help))
    elif module == own_module:
        sink.add(
            rules.CLASS_NAME.at(
                scalar.span_of(0, len(module)),
                f"`{module}` is the module that is generated from this file",
                help=f"write the {what} in a module of its own",
            )
        )
    return PythonSource(module, name)


def _fault(scalar: Scalar, what: str, example: str) -> tuple[int, int, str, str] | None:
    """What is wrong with the name of a class or function: from where to where, the message, and what to write."""
    text = scalar.text
    module, colon, name = text.partition(":")
    form = f"the form is `package.module:{example}`"
    if not colon:
        head, _, last = text.rpartition(".")
        whole = last[:1].isupper() if what == "class" else bool(head)
        meant = f"{head or 'package.module'}:{last}" if whole else f"{text}:{example}"
        sound = _unusable(meant.partition(":")[0]) is None and (whole or what == "class")
        message = f"`{text}` does not say which {what} of which module is meant"
        return 0, len(text), message, f"write `{meant}`" if sound else form
    if (at := _unusable(module)) is not None:
        end = max(at[1], at[0] + 1)
        return (
            at[0],
            end,
            f"`{module}` is no module" if module else "no module is named",
            _help(module, name, form),
        )
    if not _is_name(name):
        start = len(module) + 1
        message = f"`{name}` is no {what}" if name else f"no {what} is named"
        help = f"the {what} stands at the top of its module" if "." in name else form
        return min(start, len(text) - 1), len(text), message, help
    return None


def _help(module: str, name: str, form: str) -> str:
    if module.startswith("."):
        return "there is nothing that it could be relative to: write the module in full"
    if "/" in module or module.endswith(".py"):
        meant = module.removesuffix(".py").strip("/").replace("/", ".")
        if _unusable(meant) is None:
            return f"a module is named as `import` has it: write `{meant}:{name}`"
    return form


def _unusable(module: str) -> tuple[int, int] | None:
    """Where the first part of a dotted name that is no identifier stands."""
    at = 0
    for part in module.split("."):
        if not _is_name(part):
            return at, at + len(part)
        at += len(part) + 1
    return None


def _is_name(part: str) -> bool:
    return _PART.match(part) is not None and not keyword.iskeyword(part)
