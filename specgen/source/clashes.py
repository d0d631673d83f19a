"""Declarations whose classes would be written over each other: in one module, or in one package that shows both."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from specgen.diagnostics import Note, Sink
from specgen.diagnostics.rules.schema import NAME_TAKEN
from specgen.source.outline import ClassName, Outline


def check_clashes(outlines: Iterable[Outline], modules: Mapping[str, str], sink: Sink) -> None:
    """Compare the names that become classes.

    Args:
        outlines: the files, in order of import.
        modules: the dotted generated module of each file.
        sink: takes names that would be given twice.
    """
    shown: dict[tuple[str, str], ClassName] = {}
    for outline in outlines:
        package = modules[outline.path].rpartition(".")[0]
        taken: dict[str, ClassName] = {}
        for name in outline.classes:
            forms = name.forms
            first = next((taken[form] for form in forms if form in taken), None) or shown.get(
                (package, name.text)
            )
            if first is None:
                taken |= dict.fromkeys(forms, name)
                shown[package, name.text] = name
                continue
            a = "an" if first.what[0] in "aeiou" else "a"
            file = posixpath.basename(first.span.file)
            where = "" if first.span.file == name.span.file else f" of the same package, in `{file}`"
            sink.add(
                NAME_TAKEN.at(
                    name.span,
                    f"the {name.what} `{name.text}` would be written over {a} {first.what}{where}",
                    notes=[Note("the first one", first.span)],
                    help=f"give this {name.what} another name",
                )
            )
