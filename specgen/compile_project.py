"""The compiler as one sentence: outline every file, link them, compile those that are not known yet, gather.

What it takes to compile a file is in `specgen.compile_file`, which is loaded when there is one to compile.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from specgen.check.files import check_files
from specgen.diagnostics import Diagnostic, Rule, Sink, internal_error, tidy
from specgen.diagnostics.rules import yaml as yaml_rules
from specgen.diagnostics.rules.expressions import TAG_REFUSED
from specgen.emit.packages import PackagePlan, plan_packages
from specgen.link import Job, Linked, Source, content_of, digest_of
from specgen.memo import Memo, Memory
from specgen.settings import Config, Library
from specgen.source.imports import imported_by
from specgen.source.model_folders import ModelFolder
from specgen.source.outline import Outline
from specgen.source.spaces import Record
from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.compile_file import CompiledFile, Interface
    from specgen.schema.load import SchemaFile


class Workers(Protocol):
    """Compiles many files at once."""

    def read_files(
        self, sources: Mapping[str, Source], files: dict[str, SchemaFile], into: dict[str, Outline]
    ) -> None:
        """As the function of that name does."""
        ...

    def compile_files(
        self, jobs: Sequence[Job], interfaces: dict[str, Interface], files: dict[str, SchemaFile]
    ) -> dict[str, CompiledFile] | None:
        """As the function of that name does; None when the files are better compiled one after the other."""
        ...


@dataclass(frozen=True)
class Result:
    """What is kept of a compiled file, or of a package's `__init__`.

    Attributes:
        diagnostics: every mistake and warning.
        digest: SHA-256 of the generated text; None when there is none.
        exports: the names that the package shows.
        places: a digest of each other file that the diagnostics point into: they hold while these are the same.
    """

    diagnostics: tuple[Diagnostic, ...] = ()
    digest: str | None = None
    exports: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)


class Files(Mapping[str, str]):
    """Generated files by path: their digests are at hand, their texts are fetched when they are asked for."""

    def __init__(self, digests: Mapping[str, str], fetch: Callable[[str], str]) -> None:
        self.digests = digests
        """SHA-256 of each text."""
        self._fetch = fetch

    def __getitem__(self, path: str) -> str:
        if path not in self.digests:
            raise KeyError(path)
        return self._fetch(path)

    def __contains__(self, path: object) -> bool:
        return path in self.digests

    def __iter__(self) -> Iterator[str]:
        return iter(self.digests)

    def __len__(self) -> int:
        return len(self.digests)


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
    sources: Mapping[str, Source],
    config: Config,
    *,
    gymnasium: Mapping[str, Record] | None = None,
    model_folders: Mapping[str, ModelFolder] | None = None,
    library: Library | None = None,
    memo: Memo | None = None,
    workers: Workers | None = None,
) -> Compiled:
    """Compile schema files.

    Args:
        sources: path of each schema file (below `config.schemas`) and its text.
        config: where the files lie and what the generated package is called.
        gymnasium: recorded Gymnasium environments.
        model_folders: recorded folders of language models, by path.
        library: an installed package whose schemas may be imported.
        memo: what earlier compilations found out; the result is the same with any and with none.
        workers: compiles many files at once.

    Returns:
        The generated files, or the diagnostics that stand in the way (or both, when there are only warnings).
        It is a pure function but for what it adds to `memo`: nothing is read, written or imported. What goes wrong in
        specgen itself is one more diagnostic (SG991), unless the environment variable `SPECGEN_TRACEBACK` is set.
    """
    compilation = _Compilation(
        sources, config, gymnasium or {}, model_folders or {}, library, memo or Memory(), workers
    )
    try:
        return compilation.run()
    except Exception as error:
        return Compiled(diagnostics=settled([*compilation.diagnostics, internal_error(error)]))


class _Compilation:
    """One run of the compiler; what was found when something breaks is still there."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        config: Config,
        records: Mapping[str, Record],
        folders: Mapping[str, ModelFolder],
        library: Library | None,
        memo: Memo,
        workers: Workers | None,
    ) -> None:
        foreign = (
            {f"{library.package}/{path}": text for path, text in library.sources.items()} if library else {}
        )
        self.own = sources.keys() - foreign.keys()
        self.sources: dict[str, Source] = {**dict(sorted(sources.items())), **dict(sorted(foreign.items()))}
        self.contents: dict[str, str] = {}
        self.config = config
        self.records = records
        self.folders = folders
        self.memo = memo
        self.workers = workers
        self.project = Sink()
        self.outlines: dict[str, Outline] = {}
        self.files: dict[str, SchemaFile] = {}
        self.results: dict[str, Result] = {}
        self.texts: dict[str, str] = {}

    def run(self) -> Compiled:
        self._read_with_imports()
        self._link()
        known: dict[str, Result | None] = {
            path: self.memo.get("result", key) for path, key in self.linked.keys.items()
        }
        self.results = {
            path: result for path, result in known.items() if result is not None and self._still_holds(result)
        }
        self._compile(self.linked.keys.keys() - self.results.keys())
        if any(item.unseen for item in self.diagnostics) and self.contents.keys() != self.sources.keys():
            # a file of the library that nobody imports may declare it: the help says so
            self._read(self.sources.keys() - self.contents.keys())
            self._link()
        found = tuple(self.linked.with_imports_named(self.diagnostics))
        if any(item.severity == "error" for item in found) or not self.linked.complete:
            return Compiled(diagnostics=settled(found))
        return Compiled(self._gather(), found)

    def _read_with_imports(self) -> None:
        """Read the project, and of the library the files that are imported; all of it if something is not found.

        Then a file that was meant may be among those that nobody imports.
        """
        wanted: Set[str] = self.own
        while wanted:
            self._read(wanted)
            outlines = [self.outlines[path] for path in wanted if path in self.outlines]
            targets = {
                target
                for outline in outlines
                if outline.root is not None
                for target in imported_by(outline.path, outline.root, self.sources)
            }
            found = self.sources.keys() if None in targets else {target for target in targets if target}
            wanted = found - self.contents.keys()

    def _link(self) -> None:
        """Link what was read."""
        self.project = Sink()
        check_files(self.own, self.config, self.project)
        self.linked = Linked(
            self.sources,
            self.contents,
            self.outlines,
            self.own,
            self.config,
            self.records,
            self.folders,
            self.project,
        )

    def _read(self, paths: Set[str]) -> None:
        """The outlines of files, and a digest of each file."""
        contents = {path: content_of(path, self.sources[path]) for path in sorted(paths)}
        self.contents |= contents
        known: dict[str, Outline | None] = {
            path: self.memo.get("outline", content) for path, content in contents.items()
        }
        new = {path: self.sources[path] for path, outline in known.items() if outline is None}
        read: dict[str, Outline] = {}
        try:
            if new and self.workers is not None:
                self.workers.read_files(new, self.files, read)
            elif new:
                from specgen.compile_file import read_files

                read_files(new, self.files, read)
        finally:
            found = {path: outline or read.get(path) for path, outline in known.items()}
            self.outlines |= {path: outline for path, outline in found.items() if outline is not None}
        for path, outline in read.items():
            self.memo.put("outline", contents[path], outline)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything found so far, in order of place."""
        compiled = {self.outlines[path].shown for path in self.results}
        items = [*self.project.items]
        items += [item for outline in self.outlines.values() for item in outline.diagnostics]
        items = [item for item in items if item.span.file not in compiled]
        return tidy([*items, *(item for result in self.results.values() for item in result.diagnostics)])

    def _still_holds(self, result: Result) -> bool:
        return all(self.linked.contents.get(file) == digest for file, digest in result.places.items())

    def _compile(self, wanted: Iterable[str]) -> None:
        """Compile files, and those that they import of which nobody knows any more what they may know."""
        order, keys = self.linked.order, self.linked.keys
        todo = set(wanted)
        if not todo:
            return
        interfaces: dict[str, Interface] = {}
        for path in reversed(order):
            for target in self.linked.imports[path] if path in todo and path in self.linked.sound else ():
                if target not in todo and target not in interfaces:
                    interface = self.memo.get("interface", keys[target])
                    if interface is None:
                        todo.add(target)
                    else:
                        interfaces[target] = interface
        jobs = [self.linked.job(path) for path in order if path in todo]
        fresh = self.workers.compile_files(jobs, interfaces, self.files) if self.workers is not None else None
        if fresh is None:
            from specgen.compile_file import compile_files

            fresh = compile_files(jobs, interfaces, self.files, self._found)
        for path, file in fresh.items():
            self._keep(path, file)

    def _found(self, path: str, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.results[path] = Result(diagnostics)

    def _keep(self, path: str, file: CompiledFile) -> None:
        key = self.linked.keys[path]
        elsewhere = {
            span.file
            for item in file.diagnostics
            for span in (item.span, *(note.span for note in item.notes))
            if span is not None and span.file != self.outlines[path].shown
        }
        places = {shown: self.linked.contents[shown] for shown in elsewhere}
        digest = None
        if file.text is not None:
            self.texts[path] = file.text
            digest = _sha256(file.text)
            self.memo.put("text", key, file.text)
        if file.interface is not None:
            self.memo.put("interface", key, file.interface)
        self.results[path] = Result(file.diagnostics, digest, file.exports, places)
        self.memo.put("result", key, self.results[path])

    def _gather(self) -> Files:
        """The generated files: modules, and the `__init__` of each package."""
        places = {self.config.path_in_package(path): path for path in self.linked.order if path in self.own}
        packages = plan_packages({place: self.results[path].exports for place, path in places.items()})
        digests = {place: self.results[path].digest for place, path in places.items()}
        digests |= self._packages(packages)

        def fetch(file: str) -> str:
            place = files[file]
            path = places.get(place, place)
            text = self.texts.get(path)
            if text is None:
                key = self.linked.keys[path] if place in places else _package_key(place, packages[place])
                text = self.memo.get("text", key)
            if text is not None and _sha256(text) == digests[place]:
                return text
            # It was known once what comes of the file, and the text itself is gone.
            if place in places:
                self._compile([path])
            else:
                self._print({place: packages[place]})
            return self.texts[path]

        files = {posixpath.join(self.config.output, place): place for place in sorted(digests)}
        return Files({file: digest for file, place in files.items() if (digest := digests[place])}, fetch)

    def _packages(self, packages: Mapping[str, PackagePlan]) -> dict[str, str | None]:
        known: dict[str, Result | None] = {
            place: self.memo.get("result", _package_key(place, plan)) for place, plan in packages.items()
        }
        self._print({place: packages[place] for place, result in known.items() if result is None})
        return {
            place: _sha256(self.texts[place]) if result is None else result.digest
            for place, result in known.items()
        }

    def _print(self, packages: Mapping[str, PackagePlan]) -> None:
        if not packages:
            return
        from specgen.emit.project import render_packages

        for place, text in render_packages(packages).items():
            key = _package_key(place, packages[place])
            self.texts[place] = text
            self.memo.put("text", key, text)
            self.memo.put("result", key, Result(digest=_sha256(text)))


def _package_key(place: str, plan: PackagePlan) -> str:
    return digest_of("package", place, repr(plan))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


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
