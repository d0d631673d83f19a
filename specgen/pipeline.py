"""The compiler as one sentence: parse, load, check, plan, emit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from specgen.check.files import check_files
from specgen.check.project import check_project
from specgen.diagnostics import Diagnostic, Rule, Sink, internal_error, working_on
from specgen.diagnostics.rules import yaml as yaml_rules
from specgen.diagnostics.rules.expressions import TAG_REFUSED
from specgen.emit import render_project
from specgen.plan.project import plan_project
from specgen.schema.load import SchemaFile, load
from specgen.settings import Config, Library
from specgen.source import Imports, PythonSchema, from_python, parse_yaml, resolve_imports
from specgen.source import Mapping as MappingNode
from specgen.source import Sequence as SequenceNode
from specgen.source.spaces import Record


@dataclass(frozen=True)
class Compiled:
    """What a compilation made.

    Attributes:
        files: path of each generated file and its text; empty when there are errors.
        diagnostics: every mistake and warning, in order of place.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()


def compile_sources(
    sources: Mapping[str, str | PythonSchema],
    config: Config,
    *,
    gymnasium: Mapping[str, Record] | None = None,
    library: Library | None = None,
) -> Compiled:
    """Compile schema files.

    Args:
        sources: path of each schema file (below `config.schemas`) and its text.
        config: where the files lie and what the generated package is called.
        gymnasium: recorded Gymnasium environments.
        library: an installed package whose schemas may be imported.

    Returns:
        The generated files, or the diagnostics that stand in the way (or both, when there are only warnings).
        It is a pure function: nothing is read, written or imported. What goes wrong in specgen itself is one
        more diagnostic (SG991), unless the environment variable `SPECGEN_TRACEBACK` is set.
    """
    sink = Sink()
    try:
        return _compiled(sources, config, gymnasium or {}, library, sink)
    except Exception as error:
        return Compiled(diagnostics=settled([*sink.items, internal_error(error)]))


def _compiled(
    sources: Mapping[str, str | PythonSchema],
    config: Config,
    gymnasium: Mapping[str, Record],
    library: Library | None,
    sink: Sink,
) -> Compiled:
    check_files(sources, config, sink)
    roots = parse_all(sources, library, sink)
    imports = resolve_imports(roots, sink, sources.keys() - roots.keys())
    files: dict[str, SchemaFile] = {}
    for path in imports.order:
        working_on(path)
        if (file := load(path, roots[path], sink)) is not None:
            files[path] = file
    sound = sound_imports(imports, files, roots)
    checked = check_project(files, sound, modules_of(files, config, library), gymnasium, sink)
    if sink.has_errors or len(sound.order) < len(roots):
        return Compiled(diagnostics=settled(sink.items))
    own = {path: config.path_in_package(path) for path in imports.order if not is_library(path, library)}
    plans = plan_project(checked, own)
    return Compiled(render_project(plans, config.output), sink.items)


def parse_all(
    sources: Mapping[str, str | PythonSchema], library: Library | None, sink: Sink
) -> dict[str, MappingNode]:
    """The nodes of every source that can be parsed; what can't is in `sink`."""
    roots: dict[str, MappingNode] = {}
    for path, source in sorted(sources.items()):
        working_on(path)
        root = (
            parse_yaml(path, source, sink)
            if isinstance(source, str)
            else from_python(path, source.data, sink)
        )
        if root is not None:
            roots[path] = root
    for path, text in sorted(library.sources.items()) if library else ():
        shown = f"{library.package}/{path}" if library else path
        if (root := parse_yaml(shown, text, sink)) is not None:
            roots[shown] = root
    return roots


def sound_imports(
    imports: Imports, files: Mapping[str, SchemaFile], roots: Mapping[str, MappingNode]
) -> Imports:
    """The imports among the files whose own are all there: only these can be checked without false alarms."""
    order: list[str] = []
    for path in imports.order:
        wanted = roots[path].get("import")
        count = len(wanted.items) if isinstance(wanted, SequenceNode) else 0
        direct = imports.direct[path]
        if path in files and len(direct) == count and all(target in order for target in direct):
            order.append(path)
    return replace(imports, order=tuple(order))


def settled(items: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Diagnostics without what is said about a value that the YAML reader refused already."""
    items = tuple(items)
    refused = {(item.span.file, item.span.line, item.span.column) for item in items if item.rule in _READER}
    return tuple(
        item
        for item in items
        if item.rule in _READER or (item.span.file, item.span.line, item.span.column) not in refused
    )


_READER = frozenset(rule for rule in vars(yaml_rules).values() if isinstance(rule, Rule)) | {TAG_REFUSED}


def modules_of(files: Iterable[str], config: Config, library: Library | None) -> dict[str, str]:
    """The dotted generated module of each schema file."""
    return {
        path: path.rsplit(".", 1)[0].replace("/", ".")
        if is_library(path, library)
        else config.module_name(path)
        for path in files
    }


def is_library(path: str, library: Library | None) -> bool:
    """Whether a source belongs to the installed library."""
    return library is not None and path.startswith(f"{library.package}/")
