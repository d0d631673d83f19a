"""`import:` between schema files: which names of other files a file sees."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Set
from functools import lru_cache

from specgen.diagnostics import Note, Sink, suggestion
from specgen.diagnostics.rules.yaml import IMPORT_CLASH, IMPORT_CYCLE, IMPORT_FORM, IMPORT_MISSING
from specgen.source import nodes
from specgen.source.nodes import Node, Scalar
from specgen.values import dataclass

SECTIONS = (
    "consts",
    "specs",
    "functions",
    "envs",
    "transforms",
    "chains",
    "losses",
    "rewards",
    "models",
    "pipelines",
)
"""The top-level sections whose entries have names."""

SUFFIXES = (".yaml", ".yml", ".py")


@dataclass(frozen=True)
class Declared:
    """A named declaration: where it stands and its node."""

    file: str
    section: str
    key: Scalar
    node: Node

    @property
    def name(self) -> str:
        """The declared name."""
        return self.key.text


@dataclass(frozen=True)
class Imports:
    """The imports of all files, resolved.

    `order` has every file, imported ones before those that import them; `direct` the files that
    each imports, in the order written; `visible` the declarations that it sees through them, by
    section and name. Only direct imports are seen: what a file uses, it names.
    """

    order: tuple[str, ...]
    direct: Mapping[str, tuple[str, ...]]
    visible: Mapping[str, Mapping[str, Mapping[str, Declared]]]


def resolve_imports(
    files: Mapping[str, nodes.Mapping], sink: Sink, unreadable: Collection[str] = ()
) -> Imports:
    """Resolve the `import:` of every file.

    Args:
        files: The root of each file by its path, with forward slashes. An import is relative to the
            importing file; the files of another top folder (an installed library) are imported by
            their whole path, `specgen_std/envs/cartpole`.
        unreadable: Files that exist but could not be parsed; importing one is no further mistake.
        sink: Gets missing files, cycles, names that clash, and imports that are no paths.

    """
    edges = {path: _imports_of(path, files, unreadable, sink) for path in sorted(files)}
    order = _order(edges, sink)
    names = {path: tuple(declared(path, files[path])) for path in edges}
    visible = {path: _visible(path, dict(edges[path]), names, sink) for path in edges}
    direct = {path: tuple(target for target, _ in found) for path, found in edges.items()}
    return Imports(order, direct, visible)


def declared(path: str, root: nodes.Mapping) -> Iterator[Declared]:
    """Every named declaration of a file."""
    for section in SECTIONS:
        found = root.get(section)
        if isinstance(found, nodes.Mapping):
            for key, node in found.entries:
                yield Declared(path, section, key, node)


def imported_by(path: str, root: nodes.Mapping, files: Collection[str]) -> Iterator[str | None]:
    """The file that each import of a file means; None for one that is none of `files`."""
    node = root.get("import")
    for item in node.items if isinstance(node, nodes.Sequence) else ():
        written = item.text if isinstance(item, Scalar) and isinstance(item.value, str) else ""
        yield next((file for file in _candidates_of(path, written) if file in files), None)


def _imports_of(
    path: str, files: Mapping[str, nodes.Mapping], unreadable: Collection[str], sink: Sink
) -> list[tuple[str, Scalar]]:
    node = files[path].get("import")
    if node is None:
        return []
    if not isinstance(node, nodes.Sequence):
        help = f"write import: [{node.text}]" if isinstance(node, Scalar) else None
        sink.add(IMPORT_FORM.at(node.span, "`import` is a list of paths", help=help))
        return []
    found: list[tuple[str, Scalar]] = []
    for item in node.items:
        target = _target(path, item, files, unreadable, sink)
        if target is None or not isinstance(item, Scalar):
            continue
        if any(target == other for other, _ in found):
            sink.add(IMPORT_FORM.at(item.span, f"`{item.text}` is imported twice", help="keep one of them"))
            continue
        found.append((target, item))
    return found


def _target(
    path: str, item: Node, files: Mapping[str, nodes.Mapping], unreadable: Collection[str], sink: Sink
) -> str | None:
    if not isinstance(item, Scalar) or not isinstance(item.value, str) or not item.text:
        sink.add(IMPORT_FORM.at(item.span, "an import is the path of a schema file"))
        return None
    written = item.text
    if "\\" in written or written.startswith("/"):
        message = f"`{written}` is not a relative path with forward slashes"
        sink.add(
            IMPORT_FORM.at(item.span, message, help=f"write {written.lstrip('/').replace(chr(92), '/')}")
        )
        return None
    candidates = _candidates_of(path, written)
    for candidate in candidates:
        if candidate in files:
            return candidate
        if candidate in unreadable:
            return None
    base, here = candidates[0], posixpath.dirname(path) or "."
    known = {import_of(other, path) for other in files if other != path}
    wanted = posixpath.relpath(_bare(base), here)
    help = (
        _same_name(wanted, known)
        or _declaring(wanted, path, files)
        or suggestion(_bare(written), known)
        or suggestion(wanted, known)
    )
    sink.add(IMPORT_MISSING.at(item.span, f"no schema file `{base}`", help=help))
    return None


def import_of(other: str, path: str) -> str:
    """How a file is written in the `import` of the one at `path`."""
    same = _top(other) == _top(path)
    return posixpath.relpath(_bare(other), posixpath.dirname(path) or ".") if same else _bare(other)


def _candidates_of(path: str, written: str) -> tuple[str, ...]:
    """The files that an import in the file at `path` may mean, the likeliest first."""
    return _candidates(posixpath.dirname(path), written, _top(path))


@lru_cache
def _candidates(folder: str, written: str, top: str) -> tuple[str, ...]:
    """The files that an import may mean, in a file of this folder below the `top` one."""
    base = posixpath.normpath(posixpath.join(folder, written))
    bases = [base] if _top(written) == top else [base, written]
    return tuple(start + suffix for start in bases for suffix in ("", *SUFFIXES))


def _bare(path: str) -> str:
    stem, suffix = posixpath.splitext(path)
    return stem if suffix in SUFFIXES else path


def _top(path: str) -> str:
    return path.split("/", 1)[0]


def _same_name(wanted: str, known: Set[str]) -> str | None:
    """The file of that name in another folder: the commonest slip is the path to it."""
    same = [path for path in sorted(known) if posixpath.basename(path) == posixpath.basename(wanted)]
    return f"did you mean '{same[0]}'?" if same else None


def _declaring(wanted: str, path: str, files: Mapping[str, nodes.Mapping]) -> str | None:
    """The file that declares what an import is called after: several transforms may share a file."""
    name = posixpath.basename(wanted).replace("_", "").lower()
    for other, node in files.items():
        for section in SECTIONS:
            entries = node.get(section)
            for key, _ in entries.entries if isinstance(entries, nodes.Mapping) else ():
                if key.text.lower() in (name, f"{name}loss") and other != path:
                    return f"`{key.text}` is declared in '{import_of(other, path)}'"
    return None


def _order(edges: Mapping[str, list[tuple[str, Scalar]]], sink: Sink) -> tuple[str, ...]:
    # Depth first, with the stack kept by hand: chains of imports may be longer than Python's.
    done: dict[str, None] = {}
    for root in edges:
        stack = [(root, iter(edges[root]))]
        active = [root]
        while stack:
            path, rest = stack[-1]
            if path in done:
                stack.pop()
                active.pop()
                continue
            step = next(rest, None)
            if step is None:
                done[path] = None
                stack.pop()
                active.pop()
            elif step[0] in active:
                circle = [*active[active.index(step[0]) :], step[0]]
                message, help = (
                    "imports go in a circle: " + " -> ".join(circle),
                    "move what both need into a third file",
                )
                if step[0] == path:
                    message, help = (
                        "a file imports itself",
                        "remove it: what a file declares, all of it may name",
                    )
                sink.add(IMPORT_CYCLE.at(step[1].span, message, help=help))
            elif step[0] not in done:
                stack.append((step[0], iter(edges[step[0]])))
                active.append(step[0])
    return tuple(done)


def _visible(
    path: str, targets: Mapping[str, Scalar], names: Mapping[str, tuple[Declared, ...]], sink: Sink
) -> Mapping[str, Mapping[str, Declared]]:
    local = {item.name: item for item in names[path]}
    seen: dict[str, Declared] = {}
    visible: dict[str, dict[str, Declared]] = {section: {} for section in SECTIONS}
    for target, where in targets.items():
        if target == path:
            continue
        for item in names[target]:
            here = local.get(item.name)
            other = seen.get(item.name)
            if here is not None:
                notes = [Note("the imported one", item.key.span)]
                message = f"'{item.name}' is declared here and in the imported file `{target}`"
                sink.add(IMPORT_CLASH.at(here.key.span, message, notes=notes, help="rename one of them"))
                visible[item.section].setdefault(item.name, item)  # so that its uses are no further mistake
            elif other is not None:
                notes = [Note("the first one", other.key.span), Note("the second one", item.key.span)]
                message = f"`{other.file}` and `{target}` both declare '{item.name}'"
                sink.add(IMPORT_CLASH.at(where.span, message, notes=notes, help="rename one of them"))
            else:
                seen[item.name] = item
                visible[item.section][item.name] = item
    return visible
