"""The names of what is printed for parts and methods, which stands in one module with that of other declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specgen.check.losses.model import CheckedLoss
from specgen.check.losses.names import part_function, part_record
from specgen.check.model import snake
from specgen.check.names import INVERSE, MADE_FUNCTIONS
from specgen.check.programs.loss import part_names
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import loss_parts as rules
from specgen.schema.load import SchemaFile
from specgen.source.outline import CHAT_SUFFIXES, PYTHON_SUFFIXES, SUFFIXES, TRANSFORM_PYTHON_SUFFIXES

_SECTIONS = {"envs": "environment", "transforms": "transform", "chains": "chain", "losses": "loss"}
_OF_TRANSFORMS = ("map", "reset", "step", "inverse", "outer", "update", "open", "offline")
"""What is generated for a transform, each under its name and one of these."""


def check_part_names(file: SchemaFile, losses: Iterable[CheckedLoss], sink: Sink) -> None:
    """Report parts and methods whose function or record something else of the module is called, too."""
    taken = dict(_declared(file))
    for loss in losses:
        names = part_names(loss)
        span = file.key_span("losses", loss.name)
        printed: list[tuple[str, tuple[str, ...]]] = [
            (f"part `{one}`", _made(loss, one)) for one in names if len(names) > 1
        ]
        printed += [
            (f"method `{name}`", _made(loss, name)[:1]) for name, one in loss.methods.items() if one.given
        ]
        own = {f"{one} of the loss `{loss.name}`" for one, _ in printed}
        for part, forms in printed:
            said = f"{part} of the loss `{loss.name}`"
            for made in forms:
                what, first = taken.setdefault(made, (said, span))
                if first != span or (what != said and what in own):
                    message = f"the {said} and the {what} would both be `{made}`"
                    notes = [Note("the other one", first)]
                    help = "give one of the two another name"
                    sink.add(rules.PART_NAME.at(span, message, notes=notes, help=help))
                    break


def _made(loss: CheckedLoss, part: str) -> tuple[str, str]:
    """What the function of a part is called, and its record."""
    return f"{part_function(loss.name, part)}()", part_record(loss.name, part)


def _declared(file: SchemaFile) -> Iterator[tuple[str, tuple[str, Span]]]:
    """What other declarations of the file are called in its module."""
    for section, what in _SECTIONS.items():
        for name, declared in getattr(file.module, section).items():
            said = (f"{what} `{name}`", file.key_span(section, name))
            suffixes = (*SUFFIXES, *PYTHON_SUFFIXES, *CHAT_SUFFIXES, *TRANSFORM_PYTHON_SUFFIXES)
            forms = [name, *(name + suffix for suffix in suffixes)]
            if section == "losses":
                forms.append(f"{snake(name)}()")
            elif section == "transforms":
                forms += [f"{snake(name)}_{one}()" for one in _OF_TRANSFORMS]
            else:
                own = getattr(declared, "functions", {})
                forms += [f"{snake(name)}_{one}()" for one in (*MADE_FUNCTIONS, INVERSE, *own)]
            yield from ((form, said) for form in forms)
