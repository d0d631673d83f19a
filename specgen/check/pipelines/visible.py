"""What the names of a pipeline mean: each that which its file sees, also where another pipeline inherits it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.losses.model import CheckedLoss
from specgen.check.model import Checked
from specgen.check.unseen import unseen
from specgen.diagnostics import Diagnostic, Note, Sink, Span
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules.llm import UNKNOWN_MODEL
from specgen.diagnostics.rules.yaml import IMPORT_CLASH
from specgen.pipeline_module import NAMES_IN_PIPELINES
from specgen.schema.load import find
from specgen.schema.pipeline import names_losses
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar, Sequence
from specgen.values import dataclass


@dataclass(frozen=True)
class Visible:
    """What pipelines of a file may name.

    Attributes:
        envs: checked environments and chains.
        losses: checked losses.
        models: checked language models; None for one with mistakes.
        declared_envs, declared_losses: the names of all in sight, those with mistakes included.
    """

    envs: Mapping[str, object]
    losses: Mapping[str, Checked[CheckedLoss]]
    models: Mapping[str, Checked[CheckedLanguageModel] | None]
    declared_envs: Collection[str]
    declared_losses: Collection[str]

    def named_in(self, node: MappingNode) -> Visible:
        """What a pipeline names of it."""
        texts = frozenset(_texts(node))
        return Visible(
            {name: one for name, one in self.envs.items() if name in texts},
            {name: one for name, one in self.losses.items() if name in texts},
            {name: one for name, one in self.models.items() if name in texts},
            tuple(name for name in sorted(self.declared_envs) if name in texts),
            tuple(name for name in sorted(self.declared_losses) if name in texts),
        )


def _texts(node: Node) -> Iterator[str]:
    """All keys and texts below a node."""
    match node:
        case MappingNode(entries=entries):
            for key, value in entries:
                yield key.text
                yield from _texts(value)
        case Sequence(items=items):
            for item in items:
                yield from _texts(item)
        case Scalar(text=text):
            yield text


@dataclass(frozen=True)
class Scopes:
    """What names of a pipeline mean that may inherit some of other files.

    Attributes:
        files: what the files see in which it is written.
        merged: names under which a pipeline says more of what it inherits, by place: where that name is written.
    """

    files: Mapping[str, Visible]
    merged: Mapping[Span, Span] = field(default_factory=dict)

    def at(self, span: Span) -> Visible:
        """What a name may mean that is written at a place."""
        return self.files[self.written(span).file]

    def written(self, span: Span) -> Span:
        """Where a name at a place is written first."""
        return self.merged.get(span, span)

    def over(self, inherited: Scopes) -> Scopes:
        """These scopes, and those of what is inherited."""
        return Scopes({**inherited.files, **self.files}, {**inherited.merged, **self.merged})

    def named_in(self, node: MappingNode) -> Scopes:
        """What a pipeline names of it."""
        return Scopes({file: one.named_in(node) for file, one in self.files.items()}, self.merged)


def unknown_environment(name: str, declared: Collection[str], span: Span) -> Diagnostic:
    """What is said of an environment that nothing declares; an id of Gymnasium's has a version, which no name here has."""
    if re.fullmatch(r"[\w./:-]+-v\d+", name):
        help = f"declare it, `envs: {{MyEnv: {{gymnasium: {{id: {name}}}}}}}`, and write `env: MyEnv`, or a chain around it"
        return schema_rules.UNKNOWN_DECLARATION.at(span, f"unknown environment `{name}`", help=help)
    return unseen("environment", name, ("envs", "chains"), declared, span)


def unknown_names(node: MappingNode, scopes: Scopes) -> Iterator[Diagnostic]:
    """What a pipeline names that its file does not see: environments, losses, models; said of one that is there to be extended."""
    for place in ("env",), ("evaluate", "env"):
        for env in _names(find(node, place)):
            known = scopes.at(env.span).declared_envs
            if env.text not in known:
                yield unknown_environment(env.text, known, env.span)
    losses = find(node, ("loss",))
    if isinstance(losses, MappingNode):
        several = names_losses(key.text for key, _ in losses.entries)
        for loss in (
            (one for _, value in losses.entries for one in _names(value)) if several else _names(losses)
        ):
            known = scopes.at(loss.span).declared_losses
            if loss.text not in known:
                yield unseen("loss", loss.text, ("losses",), known, loss.span)
    networks = find(node, ("networks",))
    bodies = [body for _, body in networks.entries] if isinstance(networks, MappingNode) else []
    for model in (
        find(node, ("data", "recorded", "ref_model")),
        *(find(body, ("causal_lm",)) for body in bodies),
    ):
        if isinstance(model, Scalar) and model.text not in (known := scopes.at(model.span).models):
            yield unseen("model", model.text, ("models",), known, model.span, rule=UNKNOWN_MODEL)


def _names(node: Node | None) -> Iterator[Scalar]:
    """The name at a place: a text, or the key of its arguments."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, MappingNode):
        yield from (key for key, _ in node.entries)


def report_two_of_a_name(named: Iterable[tuple[str, str, Span]], module: str, sink: Sink) -> None:
    """Report names that mean one thing where a pipeline inherits them, and another one where it writes them itself.

    What is of another module, and called as something that every pipeline imports, is reported, too.

    Args:
        named: what is named: the name, the module that it is of, and where.
        module: the module of the pipeline, whose own names are checked where they are declared.
        sink: takes the mistakes.
    """
    first: dict[str, tuple[str, Span]] = {}
    for name, origin, span in named:
        other, before = first.setdefault(name, (origin, span))
        if other != origin:
            message = f"`{name}` is that of {origin} here, and that of {other} elsewhere in this pipeline"
            notes = [Note(f"that of {other}", before)]
            sink.add(IMPORT_CLASH.at(span, message, notes=notes, help="rename one of them"))
        elif before == span and origin != module and name in NAMES_IN_PIPELINES:
            message = f"`{name}` is that of {origin} here, and the module of a pipeline has another one"
            sink.add(IMPORT_CLASH.at(span, message, help=f"rename the `{name}` of {origin}"))
