"""Schema files through the stages: parse, load, check, plan, print. What comes of one depends on its text and its imports alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from specgen.check import file as checks
from specgen.check.allow import apply_allow
from specgen.check.declarations import check_declarations
from specgen.check.refused_names import without_reads_of_refused
from specgen.diagnostics import Diagnostic, Note, Sink, working_on
from specgen.diagnostics.rules.schema import NAME_TAKEN
from specgen.emit.project import render_modules
from specgen.link import Job
from specgen.pipeline_module import PIPELINE_IMPORTS
from specgen.plan.file import PlannedEnvs, names_of_two, plan_envs, plan_file
from specgen.plan.items import ModulePlan
from specgen.schema.load import SchemaFile, load
from specgen.source import PythonSchema, parse_source
from specgen.source.gymnasium_uses import find_uses
from specgen.source.outline import Outline, content_digest, names_alone
from specgen.values import dataclass


@dataclass(frozen=True)
class Interface:
    """What the files that import a file may know of it, and their generated modules of its module.

    Attributes:
        checked: its declarations.
        planned: its environments, as parts of its module; None for a file that has mistakes of form.
    """

    checked: checks.Interface
    planned: PlannedEnvs | None


@dataclass(frozen=True)
class CompiledFile:
    """What came of a file.

    Attributes:
        diagnostics: every mistake and warning.
        text: the generated module; None where a mistake stands in the way, and for a file of a library.
        exports: the names that the package shows of the module.
        interface: what importing files may know; None for a file that was not checked, and where there are none.
    """

    diagnostics: tuple[Diagnostic, ...]
    text: str | None
    exports: tuple[str, ...]
    interface: Interface | None


def read_files(
    sources: Mapping[str, str | PythonSchema], files: dict[str, SchemaFile], into: dict[str, Outline]
) -> None:
    """Parse and load files.

    Args:
        sources: path of each file and its text.
        files: takes the declarations of those that have the right form.
        into: takes the outlines, one after the other.
    """
    for path, source in sources.items():
        into[path], file = read_file(path, source)
        if file is not None:
            files[path] = file


def read_file(path: str, source: str | PythonSchema) -> tuple[Outline, SchemaFile | None]:
    """Parse and load a file.

    Returns:
        Its outline, and its declarations when they have the right form.
    """
    working_on(path)
    sink = Sink()
    root = parse_source(path, source, sink)
    if root is None:
        return Outline(path, None, False, (), (), sink.items, "", "", "", False, False), None
    file = load(path, root, sink)
    classes = check_declarations(file, sink) if file is not None else ()
    uses = tuple(find_uses(root))
    specs = content_digest(root, ("specs",))
    functions = content_digest(root, ("functions",)) if root.get("functions") is not None else ""
    visible = content_digest(root, ("specs", "functions", "envs", "transforms", "rewards", "models"))
    extends = file is not None and any(loss.extends for loss in file.module.losses.values())
    extends = extends or (file is not None and any(model.like for model in file.module.models.values()))
    assembles = file is not None and bool(file.module.pipelines)
    names = names_alone(root)
    loaded = file is not None
    outline = Outline(
        path, names, loaded, classes, uses, sink.items, specs, functions, visible, extends, assembles
    )
    return outline, file


def compile_files(
    jobs: Iterable[Job],
    interfaces: dict[str, Interface],
    files: dict[str, SchemaFile],
    found: Callable[[str, tuple[Diagnostic, ...]], None] = lambda path, diagnostics: None,
) -> dict[str, CompiledFile]:
    """Compile files.

    Args:
        jobs: the files, those that are imported before those that import them.
        interfaces: those of the files that they import; takes those of the jobs.
        files: the declarations of files that have been loaded already; loses those that are compiled.
        found: told what was found in each file, as soon as that is known.
    """
    diagnostics: dict[str, tuple[Diagnostic, ...]] = {}
    plans: dict[str, ModulePlan] = {}
    for job in jobs:
        diagnostics[job.path], plan, interface = check_and_plan(job, files.pop(job.path, None), interfaces)
        found(job.path, diagnostics[job.path])
        if plan is not None:
            plans[job.path] = plan
        if interface is not None and job.imported:
            interfaces[job.path] = interface
    texts = render_modules(plans)
    return {
        path: CompiledFile(
            items, texts.get(path), plans[path].exports if path in plans else (), interfaces.get(path)
        )
        for path, items in diagnostics.items()
    }


def check_and_plan(
    job: Job, file: SchemaFile | None, interfaces: Mapping[str, Interface]
) -> tuple[tuple[Diagnostic, ...], ModulePlan | None, Interface | None]:
    """What is found in a file, the plan of its module, and what importing files may know.

    Args:
        job: the file.
        file: its declarations, if they have been loaded already.
        interfaces: those of the files that it imports.

    Returns:
        No plan where a mistake stands in the way, and for a file of a library.
    """
    if file is None:
        root = parse_source(job.path, job.source, Sink())
        file = load(job.path, root, Sink()) if root is not None else None
        assert file is not None, "only files that load are compiled"
    working_on(job.path)
    sink = Sink(job.found)
    if not job.sound:
        apply_allow(file, None, sink)
        return sink.items, None, None
    known = {path: interfaces[path].checked for path in job.imports}
    checked, interface = checks.check_file(
        file, job.module, job.visible, known, job.records, job.folders, sink
    )
    # An environment that has lost entries to a mistake of form may pass the check all the same.
    envs = plan_envs(checked) if not Sink(job.found).has_errors else None
    seen = Interface(interface, envs[1] if envs is not None else None)
    imported = [other for path in job.imports if (other := interfaces[path].planned) is not None]
    # Where a chain is around an environment with mistakes, or a loss extends one, they are said there, and it is not checked.
    classes = sum(not loss.abstract for loss in file.module.losses.values())
    whole = len(checked.chains) == len(file.module.chains) and len(checked.losses) == classes
    whole = whole and len(checked.models) == len(file.module.models) and len(imported) == len(job.imports)
    if job.output is None or envs is None or sink.has_errors or not whole:
        return without_reads_of_refused(sink.items, file.root), None, seen
    plan = plan_file(checked, job.output, envs, imported)
    for name, one in names_of_two(plan):
        place = plan.declared.get(name)
        what = f"what is generated for `{place[1]}`" if place else "something else that it imports"
        used = (
            f"`{name}` of {one.module}" if one.alias is None else f"`{one.name}` of {one.module} as `{name}`"
        )
        message = f"generated code uses {used}, and {what} would be called so"
        renamed = f"`{place[1]}`" if place else "the other one"
        fixed = one.alias is not None or one == PIPELINE_IMPORTS.get(name)
        help = f"rename {'' if fixed else f'the `{name}` of {one.module}, or '}{renamed}"
        sink.add(NAME_TAKEN.at(file.key_span(*(place or ("import",))), message, help=help))
    for name, second in plan.twice:
        places = sorted((plan.declared[name], second), key=lambda place: place[1] != name)
        message = f"what is generated for `{places[0][1]}` and for `{places[1][1]}` would both be `{name}`"
        note = Note("the other one", file.key_span(*places[1]))
        help = f"give `{places[0][1]}` another name"
        sink.add(NAME_TAKEN.at(file.key_span(*places[0]), message, notes=[note], help=help))
    return sink.items, None if sink.has_errors else plan, seen
