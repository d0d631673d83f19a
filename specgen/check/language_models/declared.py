"""The `models:` section: each model with what it has from those that it is like, and whether its settings go together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specgen.check.inherited import in_sight
from specgen.check.language_models.keys import read_key
from specgen.check.language_models.model import TEMPLATES, CheckedLanguageModel, is_file
from specgen.check.language_models.recorded import check_recorded
from specgen.check.language_models.settings import check_settings
from specgen.check.model import Checked
from specgen.check.python_source import python_source
from specgen.check.sources import PythonSource
from specgen.check.unseen import unseen
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import llm as rules
from specgen.expr.symbols import Key
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping as MappingNode
from specgen.source.model_folders import ModelFolder

_PLAIN = ("input", "generate", "pad_output", "padding_side", "pad_to", "max_length", "frozen")
_DEFAULTS: Mapping[str, Any] = {
    "input": "history",
    "pad_output": False,
    "padding_side": "left",
    "frozen": False,
}
_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "npu", "xla")
_DEVICE = re.compile(rf"({'|'.join(_DEVICES)})(:[0-9]+)?\Z")


def check_models(
    file: SchemaFile,
    module: str,
    imported: Mapping[str, Checked[CheckedLanguageModel] | None],
    folders: Mapping[str, ModelFolder],
    sink: Sink,
) -> dict[str, Checked[CheckedLanguageModel]]:
    """Check every model of a file.

    Args:
        file: the loaded file.
        module: its dotted generated module.
        imported: the models of other files that it sees; None for one with mistakes.
        folders: what is recorded of the folders of models, by path.
        sink: takes every mistake; what is wrong in a model is not said again of those that are like it.
    """
    checker = _Checker(file, module, imported, folders, sink)
    found = {name: checker.model(name) for name in file.module.models}
    return {name: Checked(model) for name, model in found.items() if model is not None}


class _Checker:
    def __init__(
        self,
        file: SchemaFile,
        module: str,
        imported: Mapping[str, Checked[CheckedLanguageModel] | None],
        folders: Mapping[str, ModelFolder],
        sink: Sink,
    ) -> None:
        self.file, self.module, self.imported, self.sink = file, module, imported, sink
        self.folders = folders
        self.done: dict[str, CheckedLanguageModel | None] = {}
        self.begun: list[str] = []

    def model(self, name: str) -> CheckedLanguageModel | None:
        """A model of the file; None for one with mistakes, and for one that is like such."""
        if name not in self.done:
            self.begun.append(name)
            self.done[name] = self._checked(name)
            self.begun.pop()
        return self.done[name]

    def _checked(self, name: str) -> CheckedLanguageModel | None:
        declared = self.file.module.models[name]
        base = None
        if declared.like is not None:
            base = self._like(name, declared.like)
            if base is None:
                return None
        if self._lacks_values(name):
            return None
        mine = Sink()
        model = self._made(name, base, mine)
        check_settings(model, mine)
        if not mine.has_errors:
            self._check_recorded(model, base, mine)
        own, like = self.file.whole_span("models", name), self.file.span("models", name, "like")
        self.sink.extend(in_sight(item, own, like) for item in mine.items)
        return None if mine.has_errors else model

    def _lacks_values(self, name: str) -> bool:
        """Whether a key has no value, or one that was refused, which is reported where files are read."""
        here = ("models", name)
        nodes = (find(self.file.root, place) for place in (here, (*here, "causal_lm")))
        return any(isinstance(node, MappingNode) and node.lost for node in nodes)

    def _check_recorded(
        self, model: CheckedLanguageModel, base: CheckedLanguageModel | None, sink: Sink
    ) -> None:
        """Check what is recorded; what follows from fields of the model that it is like is said there alone."""
        found, said = Sink(), Sink()
        check_recorded(model, found)
        if base is not None:
            check_recorded(base, said)
        before = {(item.code, item.span) for item in said.items}
        for item in found.items:
            if (item.code, item.span) not in before:
                sink.add(item)

    def _like(self, name: str, other: str) -> CheckedLanguageModel | None:
        span = self.file.span("models", name, "like")
        if other in self.begun:
            circle = [*self.begun[self.begun.index(other) :], other]
            message = "models that are like each other in a circle: " + " -> ".join(circle)
            self.sink.add(
                rules.MODEL_SETTINGS.at(span, message, help="let one of them say what it is itself")
            )
            return None
        if other in self.file.module.models:
            return self.model(other)
        if other in self.imported:
            found = self.imported[other]
            return None if found is None else found.value
        known = {*self.file.module.models, *self.imported} - {name}
        self.sink.add(unseen("model", other, ("models",), known, span, rule=rules.UNKNOWN_MODEL))
        return None

    def _made(self, name: str, base: CheckedLanguageModel | None, sink: Sink) -> CheckedLanguageModel:
        declared, path = self.file.module.models[name], ("models", name)
        given = {field for field in type(declared).model_fields if getattr(declared, field) is not None}
        inner = declared.causal_lm
        given |= {
            part for part in ("path", "factory", "dtype", "attention") if inner and getattr(inner, part)
        }
        places = dict(base.places) if base is not None else {}
        for field in given:
            at = ("causal_lm", field) if field in ("path", "factory", "dtype", "attention") else (field,)
            places[field] = self.file.span(*path, *at)
        values: dict[str, Any] = {field: getattr(base, field, _DEFAULTS.get(field)) for field in _PLAIN}
        values |= {field: getattr(declared, field) for field in _PLAIN if field in given}
        if declared.generate is not None:
            for field in type(declared.generate).model_fields:
                places[f"generate.{field}"] = self.file.span(*path, "generate", field)
        source = self._source(name, base, sink)
        tokenizer = declared.tokenizer
        if tokenizer is None:
            tokenizer = source["path"] if base is None or base.tokenizer is None else base.tokenizer
        return CheckedLanguageModel(
            name=name,
            module=self.module,
            doc=" ".join(declared.doc.split()),
            tokenizer=tokenizer,
            weights=self.folders.get(source["path"] or ""),
            tokenizer_folder=self.folders.get(tokenizer or ""),
            template=self._template(name, base, sink),
            device=self._device(name, base, sink),
            log_probs_key=self._log_probs_key(name, base, sink),
            span=self.file.key_span(*path),
            places=places,
            **source,
            **values,
        )

    def _source(self, name: str, base: CheckedLanguageModel | None, sink: Sink) -> dict[str, Any]:
        """Where the model comes from: its own path or factory, else that of the one that it is like."""
        inner, here = self.file.module.models[name].causal_lm, ("models", name, "causal_lm")
        own = {
            part: None if inner is None else getattr(inner, part) for part in ("path", "dtype", "attention")
        }
        factory: PythonSource | None = None
        if inner is not None and inner.factory is not None:
            factory = python_source(self.file.scalar(*here, "factory"), self.module, sink, "function", "make")
        if base is not None and own["path"] is None and factory is None:
            own["path"], factory = base.path, base.factory
        if base is not None and factory is None:
            own |= {part: own[part] or getattr(base, part) for part in ("dtype", "attention")}
        return {**own, "factory": factory}

    def _template(self, name: str, base: CheckedLanguageModel | None, sink: Sink) -> str | None:
        template = self.file.module.models[name].template
        if template is None:
            return base.template if base is not None else None
        if template not in TEMPLATES and not is_file(template):
            near = next((name for name in TEMPLATES if template and name.startswith(template)), template)
            help = suggestion(near, TEMPLATES) or (
                f"known are {', '.join(TEMPLATES)}; a template of your own is a file, `templates/mine.jinja`"
            )
            span = self.file.span("models", name, "template")
            sink.add(rules.UNKNOWN_MODEL.at(span, f"unknown chat template `{template}`", help=help))
        return template

    def _device(self, name: str, base: CheckedLanguageModel | None, sink: Sink) -> str | None:
        device = self.file.module.models[name].device
        if device is None:
            return base.device if base is not None else None
        if _DEVICE.match(device) is None:
            kind = device.partition(":")[0]
            near = "write `cuda`" if kind.lower() == "gpu" else suggestion(kind, _DEVICES)
            help = near or "write `cpu`, `cuda`, `cuda:1`"
            span = self.file.span("models", name, "device")
            sink.add(rules.MODEL_SETTINGS.at(span, f"`{device}` is no device", help=help))
        return device

    def _log_probs_key(self, name: str, base: CheckedLanguageModel | None, sink: Sink) -> Key | None:
        key = self.file.module.models[name].log_probs_key
        if key is None:
            return base.log_probs_key if base is not None else None
        return read_key(self.file.scalar("models", name, "log_probs_key"), "log_probs_key", sink)
