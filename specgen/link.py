"""All files of a project together: what each sees of the others, and a digest of everything that each depends on.

Only outlines are looked at, so that an edit of one file needs no other file to be read as declarations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from specgen.diagnostics import Diagnostic, Sink, Unseen, as_question, did_you_mean
from specgen.settings import Config
from specgen.source import Imports, PythonSchema, declared, resolve_imports
from specgen.source import Sequence as SequenceNode
from specgen.source.clashes import check_clashes
from specgen.source.imports import import_of
from specgen.source.model_folders import ModelFolder
from specgen.source.outline import Outline
from specgen.source.spaces import Record
from specgen.values import dataclass, replace

Source = str | PythonSchema

_SEEN = ("specs", "functions", "envs", "transforms", "chains", "losses", "rewards", "models", "pipelines")
"""The sections whose declarations other files may use."""


@dataclass(frozen=True)
class Job:
    """A file to compile, with all that it depends on but the interfaces of the files that it imports.

    Attributes:
        path: the file, as it is named among the sources.
        source: what it says.
        module: its dotted generated module.
        output: that module's path below the package; None for a file of a library, which is not generated again.
        sound: whether all that it imports is there; if not, it is not checked.
        found: what is known to be wrong with it.
        imports: the files that it imports, in the order written.
        visible: the declarations that it sees of them: by section and name the file that declares it.
        records: recorded Gymnasium environments, those that it names among them.
        folders: recorded folders of language models.
        imported: whether other files import it.
    """

    path: str
    source: Source
    module: str
    output: str | None
    sound: bool
    found: tuple[Diagnostic, ...]
    imports: tuple[str, ...]
    visible: Mapping[str, Mapping[str, str]]
    records: Mapping[str, Record]
    folders: Mapping[str, ModelFolder]
    imported: bool


def digest_of(*parts: str) -> str:
    """A digest of texts; it tells apart whatever differs in any of them."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(raw), raw))
    return digest.hexdigest()


def content_of(path: str, source: Source) -> str:
    """A digest of a file: what it is called and what it says."""
    if isinstance(source, str):
        return digest_of("yaml", path, source)
    return digest_of("python", path, source.text)


class Linked:
    """The files of a project, linked.

    Attributes:
        order: the files that can be compiled and that the project needs, imported ones before those that import them.
        sound: the files that can be checked, with all that they import.
        imports: the files that each of all files imports.
        imported: the files that others import.
        complete: whether every file of the project can be checked.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        contents: Mapping[str, str],
        outlines: Mapping[str, Outline],
        own: Collection[str],
        config: Config,
        records: Mapping[str, Record],
        folders: Mapping[str, ModelFolder],
        sink: Sink,
    ) -> None:
        """Link.

        Args:
            sources: what every file says.
            contents: a digest of each.
            outlines: the outline of each.
            own: the files of the project; others are those of a library.
            config: where the files lie and what the generated package is called.
            records: the recorded Gymnasium environments.
            folders: the recorded folders of language models.
            sink: takes what is wrong with imports, and names that are given twice.
        """
        self._sources, self._contents, self._outlines, self._records = sources, contents, outlines, records
        self._folders = folders
        self._folders_digest = digest_of(repr(sorted(folders.items()))) if folders else ""
        roots = {path: outline.root for path, outline in outlines.items() if outline.root is not None}
        found: Imports = resolve_imports(roots, sink, own - roots.keys())
        self.imports = found.direct
        self._visible = found.visible
        self._outputs = {path: config.path_in_package(path) for path in own}
        self._modules = {
            path: config.module_name(path) if path in own else path.rsplit(".", 1)[0].replace("/", ".")
            for path in outlines
        }
        check_clashes((outlines[path] for path in found.order if outlines[path].loaded), self._modules, sink)
        self._found: dict[str, tuple[Diagnostic, ...]] = {}
        for item in sink.items:
            self._found[item.span.file] = (*self._found.get(item.span.file, ()), item)
        sound: set[str] = set()
        for path in found.order:
            if self._resolves(path) and all(target in sound for target in self.imports[path]):
                sound.add(path)
        self.sound = frozenset(sound)
        self.complete = sound.issuperset(path for path in own if path in roots)
        needed = set(own)
        for path in reversed(found.order):
            if path in needed:
                needed.update(self.imports[path])
        self.order = tuple(path for path in found.order if path in needed and outlines[path].loaded)
        self.imported = frozenset(target for path in self.order for target in self.imports[path])

    def _resolves(self, path: str) -> bool:
        outline = self._outlines[path]
        wanted = outline.root.get("import") if outline.root is not None else None
        count = len(wanted.items) if isinstance(wanted, SequenceNode) else 0
        return outline.loaded and len(self.imports[path]) == count

    @cached_property
    def contents(self) -> dict[str, str]:
        """A digest of each file, by the name that diagnostics have for it."""
        return {self._outlines[path].shown: content for path, content in self._contents.items()}

    @cached_property
    def keys(self) -> dict[str, str]:
        """A digest of everything that comes into the result of each file of `order`."""
        interfaces = {path: self._interface_digest(path) for path in self.imported}
        return {path: self._key(path, interfaces) for path in self.order}

    def _key(self, path: str, interfaces: Mapping[str, str]) -> str:
        return digest_of(
            "result",
            self._contents[path],
            self._modules[path],
            repr(self._outputs.get(path)),
            repr(path in self.sound),
            repr(self._found_in(path)),
            repr(self._seen_by(path)),
            self._records_digest(path),
            self._folders_digest,
            *(part for target in self.imports[path] for part in (target, interfaces[target])),
            *self._inherited_by(path),
        )

    def _inherited_by(self, path: str) -> list[str]:
        """Digests of the files whose losses or models those of a file may extend, directly or through others.

        Of a file with pipelines, of all files that it imports, directly or through others: names that it inherits mean
        what the files see where they are written.
        """
        found: dict[str, str] = {}
        wanted = [path]
        deep = self._outlines[path].assembles
        while wanted:
            here = wanted.pop()
            if not deep and not self._outlines[here].extends:
                continue
            for target in self.imports[here]:
                if target not in found:
                    found[target] = digest_of(
                        self._contents[target], self._modules[target], self._records_digest(target)
                    )
                    wanted.append(target)
        return [part for item in sorted(found.items()) for part in item]

    def _interface_digest(self, path: str) -> str:
        """A digest of all that files that import this one may know of it, wherever in the file it stands."""
        outline = self._outlines[path]
        return digest_of(
            outline.visible,
            self._modules[path],
            repr(path in self.sound),
            repr([item.code for item in outline.diagnostics]),
            repr(self._found_in(path)),
            repr(self._seen_by(path)["specs"]),
            self._records_digest(path),
            *(self._outlines[target].specs for target in self.imports[path]),
            *self._functions_of(path),
            *self._inherited_by(path),
        )

    def _functions_of(self, path: str) -> list[str]:
        """Digests of the functions that those of a file may call, directly or through others."""
        found: dict[str, str] = {}
        wanted = list(self.imports[path])
        while wanted:
            target = wanted.pop()
            if target not in found:
                found[target] = self._outlines[target].functions
                wanted += self.imports[target]
        return [part for item in sorted(found.items()) for part in item if item[1]]

    def _found_in(self, path: str) -> tuple[Diagnostic, ...]:
        return self._found.get(self._outlines[path].shown, ())

    def _seen_by(self, path: str) -> dict[str, dict[str, str]]:
        seen = self._visible[path]
        return {section: {name: item.file for name, item in seen[section].items()} for section in _SEEN}

    def _records_of(self, path: str) -> Mapping[str, Record]:
        used = {use.key for use in self._outlines[path].uses}
        # Of an environment that is not recorded, the check says which recorded one may be meant.
        return {key: self._records[key] for key in used} if used <= self._records.keys() else self._records

    def _records_digest(self, path: str) -> str:
        return repr(sorted(self._records_of(path).items())) if self._outlines[path].uses else ""

    def with_imports_named(self, items: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
        """Diagnostics, those of declarations that their file does not see with the import that would show them.

        It is said here, where all files are known, and not by what checks one file: a result that is kept does not
        depend on files that it does not import.
        """
        for item in items:
            path = None if item.unseen is None else self._paths.get(item.span.file)
            help = None if item.unseen is None or path is None else self._import_help(item.unseen, path)
            yield item if help is None else replace(item, help=help)

    @cached_property
    def _paths(self) -> dict[str, str]:
        """Each file by the name that diagnostics have for it."""
        return {outline.shown: path for path, outline in self._outlines.items()}

    def _import_help(self, wanted: Unseen, path: str) -> str | None:
        places: dict[str, str] = {}
        for other, outline in self._outlines.items():
            if other != path and outline.root is not None and other not in self.imports[path]:
                for one in declared(other, outline.root):
                    if one.section in wanted.sections:
                        places.setdefault(one.name, import_of(other, path))
        if wanted.name in places:
            return f"add `{places[wanted.name]}` to `import`, which declares it"
        near = None if wanted.near else did_you_mean(wanted.name, places)
        return (
            None
            if near is None
            else f"{as_question(near)} Add `{places[near]}` to `import`, which declares it"
        )

    def job(self, path: str) -> Job:
        """What it takes to compile a file."""
        found = (*self._outlines[path].diagnostics, *self._found_in(path))
        return Job(
            path,
            self._sources[path],
            self._modules[path],
            self._outputs.get(path),
            path in self.sound,
            found,
            self.imports[path],
            self._seen_by(path),
            self._records_of(path),
            self._folders,
            path in self.imported,
        )
