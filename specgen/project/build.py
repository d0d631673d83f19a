"""Building and checking a project: read, compile, compare, write."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from specgen.compile_project import Files, compile_sources
from specgen.diagnostics import Diagnostic, Sink, internal_error, tidy, working_on
from specgen.diagnostics.rules.gymnasium import NOT_RECORDED
from specgen.diagnostics.rules.project import PYTHON_SCHEMA, UNREADABLE
from specgen.diagnostics.rules.yaml import ENCODING, IMPORT_MISSING
from specgen.link import Source, content_of
from specgen.project import model_lock
from specgen.project.config import Project
from specgen.project.discover import Sources, read_sources
from specgen.project.files import Reader, sha256
from specgen.project.gymnasium_lock import LOCK_NAME, lock_text, missing, read_lock, record_missing
from specgen.project.importing import importing_from
from specgen.project.library import PACKAGE, library_lock, library_schemas
from specgen.project.staleness import Report, compare
from specgen.project.store import Store
from specgen.project.workers import Workers
from specgen.project.write import RefusedError, Written, build_lock, remove_leftovers, replace_all, write
from specgen.settings import Library
from specgen.source import parse_source
from specgen.source.gymnasium_uses import Use, find_uses
from specgen.source.outline import Outline
from specgen.source.spaces import Record
from specgen.values import dataclass, replace


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


def check(project: Project, *, strict: bool = False, say: Callable[[str], None] = _silent) -> Outcome:
    """Whether the schemas are right and the generated files up to date; nothing is written.

    Args:
        project: What to check.
        strict: Take warnings for errors.
        say: Told what goes on.

    Raises:
        OSError: When the disk refuses.

    """
    return Workspace(project).check(strict=strict, say=say)


def build(
    project: Project, *, force: bool = False, strict: bool = False, say: Callable[[str], None] = _silent
) -> Outcome:
    """Compile the schemas and write what is missing or changed; errors leave every file as it is.

    Args:
        project: What to build.
        force: Also overwrite generated files that were edited by hand.
        strict: Take warnings for errors.
        say: Told what goes on.

    Raises:
        RefusedError: When somebody's work would be lost; nothing was written.
        OSError: When the disk refuses.

    """
    return Workspace(project).build(force=force, strict=strict, say=say)


class Workspace:
    """A project that is checked and built again and again: what is known of its files stays in memory.

    A run costs the files that have changed since the last one, and those that import them if what they may know has
    changed, too. What a first run knows comes from the cache on disk.
    """

    def __init__(self, project: Project) -> None:
        """Begin with what is known on disk."""
        self.project = project
        self._store = Store(project.root)
        self._schemas = Reader(bytes)
        self._generated = Reader(sha256)
        self._expected: Mapping[str, str] = {}

    def check(self, *, strict: bool = False, say: Callable[[str], None] = _silent) -> Outcome:
        """As the function `check` does."""
        return _outcome_of(lambda: self._check(strict, say))

    def build(
        self, *, force: bool = False, strict: bool = False, say: Callable[[str], None] = _silent
    ) -> Outcome:
        """As the function `build` does."""
        return _outcome_of(lambda: self._build(force, strict, say))

    def _check(self, strict: bool, say: Callable[[str], None]) -> Outcome:
        sink = Sink()
        say("reading schemas")
        sources = read_sources(self.project, sink, self._schemas)
        records = _records(self.project, sources, sink)
        sink.extend(missing(self._uses(sources), records))
        return self._compile(sources, records, sink, say, strict)

    def _build(self, force: bool, strict: bool, say: Callable[[str], None]) -> Outcome:
        config, root = self.project.config, self.project.root
        with build_lock(root, config.output):
            for folder in (config.output, config.schemas):
                remove_leftovers(root / folder)
            sink = Sink()
            say("reading schemas")
            sources = read_sources(self.project, sink, self._schemas)
            old = _records(self.project, sources, sink)
            uses = self._uses(sources)
            if any(use.key not in old for use in uses):
                say("asking Gymnasium for its spaces")
            with importing_from(root):
                records = record_missing(uses, old, config.gymnasium_modules, sink)
            outcome = self._compile(sources, records, sink, say, strict)
            if outcome.report is None:
                return outcome
            say("writing")
            written = write(outcome.report, force)
            lock = root / config.schemas / LOCK_NAME
            kept = {use.key: records[use.key] for use in uses}
            text = lock_text(kept)
            if kept and not (lock.is_file() and lock.read_text(encoding="utf-8") == text):
                replace_all({lock: text})
            return replace(outcome, written=written, recorded=tuple(sorted(set(records) - set(old))))

    def _compile(
        self,
        sources: Sources,
        records: Mapping[str, Record],
        sink: Sink,
        say: Callable[[str], None],
        strict: bool,
    ) -> Outcome:
        project, config = self.project, self.project.config
        library = None if config.package == PACKAGE else Library(PACKAGE, library_schemas())
        lock = f"{config.schemas}/{model_lock.LOCK_NAME}"
        folders = model_lock.read_lock(project.root / lock, lock, sink)
        say(f"compiling {len(sources.schemas)} schema files")
        with Workers() as workers, _without_collection():
            compiled = compile_sources(
                sources.schemas,
                config,
                gymnasium=records,
                model_folders=folders,
                library=library,
                memo=self._store,
                workers=workers,
            )
        found = _merge(sink.items, compiled.diagnostics)
        shown = dict(sources.shown)
        if library is not None:
            shown |= {f"{library.package}/{path}": text for path, text in library.sources.items()}
        outcome = Outcome(found, shown, len(sources.schemas), strict=strict)
        if not outcome.has_errors:
            working_on("pyproject.toml")
            say("comparing")
            report = compare(compiled.files, project.root, config.output, self._generated, self._expected)
            if isinstance(compiled.files, Files):
                self._expected = compiled.files.digests
            outcome = replace(outcome, report=report)
        self._store.save()
        return outcome

    def _uses(self, sources: Sources) -> list[Use]:
        """Where Gymnasium environments are named; what is wrong in the files the compiler says."""
        uses: list[Use] = []
        for path, source in sorted(sources.schemas.items()):
            text = source if isinstance(source, str) else source.text
            if "gymnasium" in text:
                known: Outline | None = self._store.get("outline", content_of(path, source))
                uses += known.uses if known is not None else _read_uses(path, source)
        return uses


@contextmanager
def _without_collection() -> Iterator[None]:
    """Python's search for cycles takes a fifth of a compilation, and finds next to nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read_uses(path: str, source: Source) -> Iterator[Use]:
    root = parse_source(path, source, Sink())
    return find_uses(root) if root is not None else iter(())


def _outcome_of(run: Callable[[], Outcome]) -> Outcome:
    """What a run came to; an exception that should not be there is one diagnostic (SG991)."""
    working_on("pyproject.toml")
    try:
        return run()
    except (RefusedError, OSError):
        raise
    except Exception as error:
        return Outcome((internal_error(error),), {}, 0)


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
    """Whether any file may import the standard library, whose record takes time to read."""
    if project.config.package == PACKAGE:
        return False
    texts = (text if isinstance(text, str) else text.text for text in sources.schemas.values())
    return any(f"{PACKAGE}/" in text for text in texts)
