"""What a schema file says before anything in it is checked: its imports, the names that it declares, its mistakes of form.

From the outlines of all files follow the order of the files, what each sees of others, and which of them an edit of one
concerns.
"""

from __future__ import annotations

import hashlib

from specgen.diagnostics import Diagnostic, Span
from specgen.source import nodes
from specgen.source.gymnasium_uses import Use
from specgen.source.imports import SECTIONS
from specgen.values import dataclass, replace

SUFFIXES = (
    "Params",
    "Consts",
    "Constants",
    "Networks",
    "Objects",
    "Learned",
    "Root",
    "Next",
    "Data",
    "NextData",
    "Specs",
    "Observation",
    "Picture",
    "Reward",
    "Keys",
    "InverseKeys",
    "Terms",
    "Output",
)
"""What the names of generated records end with, behind the name of their declaration."""

PIPELINE_SUFFIXES = ("Config", "Metrics")
"""What the names of classes beside the parts of a pipeline end with."""

PYTHON_SUFFIXES = ("Protocol", "Setup", "Dims", "State", "Reset", "Step")
"""What else they end with where a Python class is behind an environment."""

CHAT_SUFFIXES = ("Data", "NextData", "Specs", "Row", "Source", "Tools")
"""What they end with where an environment holds conversations."""

TRANSFORM_PYTHON_SUFFIXES = ("Protocol", "Setup", "Inputs", "Carried", "Map", "Reset", "Step")
"""What else they end with where a Python class is behind a transform."""


METHODS_SUFFIX = "Methods"
"""What a class of methods beside a transform ends with."""


@dataclass(frozen=True, slots=True)
class ClassName:
    """The name of a declaration that becomes a class, and where it stands.

    Attributes:
        text: the name.
        what: what has it, as messages call it (`environment`).
        function: what a function of that name would be called.
        suffixes: what the names of the records beside the class may end with.
        span: where it stands.
    """

    text: str
    what: str
    function: str
    suffixes: tuple[str, ...]
    span: Span

    @property
    def forms(self) -> list[str]:
        """Every top-level name that the declaration may take in its module."""
        return [self.text, f"{self.function}()", *(self.text + suffix for suffix in self.suffixes)]


@dataclass(frozen=True, slots=True)
class Outline:
    """What a schema file says before anything in it is checked.

    Attributes:
        path: the file, as it is named among the sources.
        root: its `import:` and the names that it declares, as nodes; None for a file that can't be parsed.
        loaded: whether its declarations have the right form, so that they can be checked.
        classes: the names that become classes, but for those that no class can have.
        uses: the Gymnasium environments that it names.
        diagnostics: what is wrong in its form and in its names.
        specs: a digest of what its `specs:` say.
        functions: a digest of what its `functions:` say; empty where it has none.
        visible: a digest of all that files that import it may know; comments, layout and the documentation that no
            importing file shows are not in it.
        extends: whether a loss of it extends another one, or a model is like another one.
        assembles: whether it has pipelines, which depend on all that stands behind what they import.
    """

    path: str
    root: nodes.Mapping | None
    loaded: bool
    classes: tuple[ClassName, ...]
    uses: tuple[Use, ...]
    diagnostics: tuple[Diagnostic, ...]
    specs: str
    functions: str
    visible: str
    extends: bool
    assembles: bool

    @property
    def shown(self) -> str:
        """The file as diagnostics name it."""
        return self.path if self.root is None else self.root.span.file


def names_alone(root: nodes.Mapping) -> nodes.Mapping:
    """A file's imports, and its declarations without what they say."""
    kept: list[tuple[nodes.Scalar, nodes.Node]] = []
    for key, node in root.entries:
        if key.text == "import":
            kept.append((_key(key), _without_text(node)))
        elif key.text in SECTIONS and isinstance(node, nodes.Mapping):
            entries = tuple((_key(name), _NOTHING) for name, _ in node.entries)
            kept.append((_key(key), nodes.Mapping(entries, node.span)))
    return nodes.Mapping(tuple(kept), root.span)


_NOTHING = nodes.Sequence((), Span("", 1, 1, 1, 1))


def _without_text(node: nodes.Node) -> nodes.Node:
    """A node that does not keep the text of its file."""
    if isinstance(node, nodes.Scalar):
        return _key(node)
    if isinstance(node, nodes.Sequence):
        return replace(node, items=tuple(map(_without_text, node.items)))
    return nodes.Mapping(tuple((_key(key), _without_text(value)) for key, value in node.entries), node.span)


def _key(scalar: nodes.Scalar) -> nodes.Scalar:
    return replace(scalar, origin=None)


def content_digest(root: nodes.Mapping, sections: tuple[str, ...]) -> str:
    """A digest of what the sections of a file say, wherever in the file they say it.

    Left out is the documentation that files which import it don't show: that of transforms, their parameters and
    what they read.
    """
    digest = hashlib.sha256()
    for section in sections:
        node = root.get(section)
        parts = [section]
        if node is not None:
            _add_content(node, (section,), parts)
        for part in parts:
            raw = part.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()


def _add_content(node: nodes.Node, path: tuple[str, ...], parts: list[str]) -> None:
    """Add what a node says, with what tells apart how it is nested."""
    if isinstance(node, nodes.Scalar):
        parts.append(f"{node.style} {type(node.value).__name__} {node.text}")
    elif isinstance(node, nodes.Sequence):
        parts.append("[")
        for item in node.items:
            _add_content(item, path, parts)
        parts.append("]")
    else:
        parts.append(f"{{ {sorted(node.lost)}")
        for key, value in node.entries:
            if not _is_unshown(here := (*path, key.text)):
                parts.append(key.text)
                _add_content(value, here, parts)
        parts.append("}")


def _is_unshown(path: tuple[str, ...]) -> bool:
    """Whether `path` is a documentation that no other file shows."""
    if path[0] != "transforms" or path[-1] != "doc":
        return False
    return len(path) == 3 or (len(path) == 5 and path[2] in ("params", "in"))
