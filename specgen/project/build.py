"""Building and checking a project: read, compile, compare, write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from specgen.diagnostics import Diagnostic, Sink, internal_error, tidy, working_on
from specgen.diagnostics.rules.gymnasium import NOT_RECORDED
from specgen.diagnostics.rules.project import PYTHON_SCHEMA, UNREADABLE
from specgen.diagnostics.rules.yaml import ENCODING, IMPORT_MISSING
from specgen.project.cache import input_digest, remember, still_current
from specgen.project.config import Project
from specgen.project.discover import Sources, read_sources
from specgen.project.gymnasium_lock import LOCK_NAME, find_uses, lock_text, missing, read_lock, record_missing
from specgen.project.library import PACKAGE, library_lock, library_schemas
from specgen.project.staleness import Report, compare
from specgen.project.write import RefusedError, Written, build_lock, remove_leftovers, replace_all, write
from specgen.settings import Library
from specgen.source import Mapping as MappingNode
from specgen.source import from_python, parse_yaml
from specgen.source.spaces import Record

if TYPE_CHECKING:
    from specgen.pipeline import Compiled
    from specgen.settings import Config
    from specgen.source import PythonSchema


class Core(Protocol):
    """`specgen.pipeline.compile_sources`."""

    def __call__(
        self,
        sources: Mapping[str, str | PythonSchema],
        config: Config,
        *,
        gymnasium: Mapping[str, Record] | None = None,
        library: Library | None = None,
    ) -> Compiled:
        """Compile schema files."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What a check or a build found and did.

    Attributes:
        diagnostics: Every mistake and warning, in order of place.
        shown: The texts that diagnostics show lines of.
        schemas: How many schema files there are.
        report: How the generated files compare; None when errors stood in the way.
        written: What a build wrote; None for a check, and when errors stood in the way.
        recorded: The Gymnasium environments that a build recorded.
        strict: Whether warnings stand in the way, too.

    """

    diagnostics: tuple[Diagnostic, ...]
    shown: Mapping[str, str]
    schemas: int
    report: Report | None = None
    written: Written | None = None
    recorded: tuple[str, ...] = ()
    strict: bool = False

    @property
    def has_errors(self) -> bool:
        """Whether an error stood in the way, or a warning where that is as bad."""
        return any(self.strict or item.severity == "error" for item in self.diagnostics)


def _silent(_: str) -> None:
    """Say nothing of what goes on."""


def check(
    project: Project,
    *,
    strict: bool = False,
    core: Core | None = None,
    say: Callable[[str], None] = _silent,
) -> Outcome:
    """Whether the schemas are right and the generated files up to date; nothing is written.

    Args:
        project: What to check.
        strict: Take warnings for errors.
        core: The compiler, if not specgen's own.
        say: Told what goes on.

    Raises:
        OSError: When the disk refuses.

    """
    return _outcome_of(lambda: _check(project, strict, core, say))


def _check(project: Project, strict: bool, core: Core | None, say: Callable[[str], None]) -> Outcome:
    sink = Sink()
    say("reading schemas")
    sources = read_sources(project, sink)
    records = _records(project, sources, sink)
    sink.extend(missing(find_uses(_roots(sources)), records))
    return _compile(project, sources, records, sink, core, say, strict)[0]


def build(
    project: Project,
    *,
    force: bool = False,
    strict: bool = False,
    core: Core | None = None,
    say: Callable[[str], None] = _silent,
) -> Outcome:
    """Compile the schemas and write what is missing or changed; errors leave every file as it is.

    Args:
        project: What to build.
        force: Also overwrite generated files that were edited by hand.
        strict: Take warnings for errors.
        core: The compiler, if not specgen's own.
        say: Told what goes on.

    Raises:
        RefusedError: When somebody's work would be lost; nothing was written.
        OSError: When the disk refuses.

    """
    return _outcome_of(lambda: _build(project, force, strict, core, say))


def _outcome_of(run: Callable[[], Outcome]) -> Outcome:
    """What a run came to; an exception that should not be there is one diagnostic (SG991)."""
    working_on("pyproject.toml")
    try:
        return run()
    except (RefusedError, OSError):
        raise
    except Exception as error:
        return Outcome((internal_error(error),), {}, 0)


def _build(
    project: Project, force: bool, strict: bool, core: Core | None, say: Callable[[str], None]
) -> Outcome:
    with build_lock(project.root, project.config.output):
        for folder in (project.config.output, project.config.schemas):
            remove_leftovers(project.root / folder)
        sink = Sink()
        say("reading schemas")
        sources = read_sources(project, sink)
        old = _records(project, sources, sink)
        uses = find_uses(_roots(sources))
        if any(use.key not in old for use in uses):
            say("asking Gymnasium for its spaces")
        records = record_missing(uses, old, project.config.gymnasium_modules, sink)
        outcome, report = _compile(project, sources, records, sink, core, say, strict)
        if report is None:
            return outcome
        say("writing")
        written = write(report, force)
        lock = project.root / project.config.schemas / LOCK_NAME
        kept = {use.key: records[use.key] for use in uses}
        text = lock_text(kept)
        if kept and not (lock.is_file() and lock.read_text(encoding="utf-8") == text):
            replace_all({lock: text})
        recorded = tuple(sorted(set(records) - set(old)))
        return Outcome(outcome.diagnostics, outcome.shown, outcome.schemas, report, written, recorded)


def _compile(
    project: Project,
    sources: Sources,
    records: Mapping[str, Record],
    sink: Sink,
    core: Core | None,
    say: Callable[[str], None],
    strict: bool,
) -> tuple[Outcome, Report | None]:
    config = project.config
    library = Library(PACKAGE, library_schemas()) if _uses_library(project, sources) else None
    key = input_digest(sources.schemas, config, records, library.sources if library is not None else {})
    known = still_current(key, project.root, config.output) if core is None and not sink.items else None
    if known is not None:
        report = Report(project.root, {}, unchanged=known)
        return Outcome((), sources.shown, len(sources.schemas), report), report
    # The compiler needs pydantic and jinja2; who asks for an explanation, or has changed nothing, does not.
    from specgen.pipeline import compile_sources

    say(f"compiling {len(sources.schemas)} schema files")
    compiled = (core or compile_sources)(sources.schemas, config, gymnasium=records, library=library)
    found = _merge(sink.items, compiled.diagnostics)
    shown = dict(sources.shown)
    if library is not None:
        shown |= {f"{library.package}/{path}": text for path, text in library.sources.items()}
    outcome = Outcome(found, shown, len(sources.schemas), strict=strict)
    if outcome.has_errors:
        return outcome, None
    if core is None and not found:
        remember(key, compiled.files)
    working_on("pyproject.toml")
    say("comparing")
    report = compare(compiled.files, project.root, config.output)
    return Outcome(found, shown, len(sources.schemas), report), report


def _merge(rim: tuple[Diagnostic, ...], core: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """Both findings, without what follows from the rim's.

    Where the rim knows why an environment is not recorded, that is enough; and a file that could
    not be read is no missing import.
    """
    known = {item.span for item in rim}
    unread = any(item.code in (UNREADABLE.code, ENCODING.code, PYTHON_SCHEMA.code) for item in rim)
    follows = [
        (item.code == NOT_RECORDED.code and item.span in known)
        or (item.code == IMPORT_MISSING.code and unread)
        for item in core
    ]
    return tidy([*rim, *(item for item, drop in zip(core, follows, strict=True) if not drop)])


def _records(project: Project, sources: Sources, sink: Sink) -> dict[str, Record]:
    path = f"{project.config.schemas}/{LOCK_NAME}"
    records = read_lock(project.root / path, path, sink)
    lock = library_lock() if _uses_library(project, sources) else None
    return records if lock is None else {**read_lock(lock, str(lock), sink), **records}


def _uses_library(project: Project, sources: Sources) -> bool:
    """Whether any file may import the standard library; reading all of it takes time."""
    if project.config.package == PACKAGE:
        return False
    texts = (text if isinstance(text, str) else text.text for text in sources.schemas.values())
    return any(f"{PACKAGE}/" in text for text in texts)


def _roots(sources: Sources) -> dict[str, MappingNode]:
    """The files that may name Gymnasium environments; what is wrong in them the compiler says."""
    roots: dict[str, MappingNode] = {}
    for path, text in sources.schemas.items():
        if not isinstance(text, str):
            root = from_python(path, text.data, Sink())
        else:
            root = parse_yaml(path, text, Sink()) if "gymnasium" in text else None
        if root is not None:
            roots[path] = root
    return roots
