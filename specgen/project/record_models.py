"""Recording the folders of language models: read once, without `transformers`, by `specgen models lock` alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specgen.diagnostics import Diagnostic, Sink, Span, tidy
from specgen.diagnostics.rules.llm_lock import UNREADABLE_FOLDER
from specgen.project.chat_template import read_template
from specgen.project.config import Project
from specgen.project.discover import read_sources
from specgen.project.model_lock import LOCK_NAME
from specgen.project.write import replace_all
from specgen.source import nodes, parse_source
from specgen.source.model_folders import ModelFolder, folders_to_json
from specgen.values import dataclass

_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
"""What families of models call the longest sequence that they know."""

_SLOW = ("vocab.json", "vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
"""The files of tokenizers that are not fast."""


@dataclass(frozen=True)
class Use:
    """A place where a schema names the folder of a model or of a tokenizer, or a name of the hub."""

    path: str
    span: Span


def find_paths(root: nodes.Mapping) -> Iterator[Use]:
    """Every path under `models:` of a file, in order; entries of a wrong form are left to the schema."""
    models = root.get("models")
    for _, model in models.entries if isinstance(models, nodes.Mapping) else ():
        if not isinstance(model, nodes.Mapping):
            continue
        source = model.get("causal_lm")
        named = (source.get("path") if isinstance(source, nodes.Mapping) else None, model.get("tokenizer"))
        for node in named:
            if isinstance(node, nodes.Scalar) and isinstance(node.value, str):
                yield Use(node.value, node.span)


def read_folder(folder: Path) -> ModelFolder:
    """What the folder of a model or of a tokenizer says.

    Args:
        folder: as `save_pretrained` wrote it.

    Raises:
        ValueError: a file in it is no JSON of the right form; the text names it.
        OSError: a file can't be read.
    """
    config = _json(folder / "config.json")
    text = config.get("text_config")
    config = {**config, **text} if isinstance(text, dict) else config  # models that also see
    settings = _json(folder / "tokenizer_config.json")
    special = _json(folder / "special_tokens_map.json")
    fast = _json(folder / "tokenizer.json")
    template = _template(folder, settings)

    def token(name: str) -> str | None:
        value = settings.get(f"{name}_token") or special.get(f"{name}_token")
        value = value.get("content") if isinstance(value, dict) else value
        return value if isinstance(value, str) else None

    side = settings.get("padding_side")
    kind = config.get("model_type")
    return ModelFolder(
        model_type=kind if isinstance(kind, str) else None,
        vocab_size=_number(config, "vocab_size"),
        positions=next((found for name in _POSITIONS if (found := _number(config, name))), None),
        tokenizer=tokenizer_digest(fast) if fast else None,
        slow=not fast and any((folder / name).is_file() for name in _SLOW),
        tokens=_tokens(fast),
        pad=token("pad"),
        eos=token("eos"),
        bos=token("bos"),
        padding_side=side if isinstance(side, str) else None,
        template=None if template is None else read_template(template),
    )


def tokenizer_digest(state: Mapping[str, Any]) -> str:
    """SHA-256 of what a `tokenizer.json` says; how it pads and cuts is what calls have left there, and not in it."""
    kept = {name: value for name, value in state.items() if name not in ("padding", "truncation")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode("utf-8")).hexdigest()


def _template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """The chat template: a file of its own, or a field of the tokenizer's configuration."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = settings.get("chat_template")
    if isinstance(found, list):  # several, by name
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _tokens(state: Mapping[str, Any]) -> int | None:
    """How many ids a `tokenizer.json` has."""
    model, added = state.get("model"), state.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else []
    if isinstance(vocabulary, list):  # of pairs of a text and a score
        ids = list(range(len(vocabulary)))
    ids += [one.get("id") for one in added if isinstance(one, dict)] if isinstance(added, list) else []
    return max((one for one in ids if isinstance(one, int)), default=-1) + 1 or None


def _number(data: Mapping[str, Any], name: str) -> int | None:
    value = data.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _json(file: Path) -> dict[str, Any]:
    """The object in a file; empty where there is no file."""
    if not file.is_file():
        return {}
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name} is no JSON: {str(error).splitlines()[0][:200]}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{file.name} is no JSON object")
    return data


def record_folders(
    uses: Iterator[Use], root: Path, sink: Sink
) -> tuple[dict[str, ModelFolder], tuple[str, ...]]:
    """Read every folder that schemas name.

    Args:
        uses: where they are named.
        root: the folder that relative paths begin in.
        sink: takes folders that can't be read.

    Returns:
        The records by path, and the names that are no folders here: names of the hub, most likely.
    """
    found: dict[str, ModelFolder] = {}
    elsewhere: list[str] = []
    seen: set[str] = set()
    for use in uses:
        if use.path in seen:
            continue
        seen.add(use.path)
        folder = root / use.path
        if not folder.is_dir():
            elsewhere.append(use.path)
            continue
        try:
            found[use.path] = read_folder(folder)
        except (OSError, ValueError) as error:
            sink.add(UNREADABLE_FOLDER.at(use.span, f"`{use.path}` cannot be read: {error}"))
    return found, tuple(elsewhere)


@dataclass(frozen=True)
class Locked:
    """What `specgen models lock` came to.

    Attributes:
        recorded: the folders in the lock file.
        elsewhere: the names that are no folders here.
        written: whether the lock file is another one now.
        diagnostics: what stands in the way: then nothing was written.
        shown: the texts that diagnostics show lines of.
    """

    recorded: tuple[str, ...]
    elsewhere: tuple[str, ...]
    written: bool
    diagnostics: tuple[Diagnostic, ...]
    shown: Mapping[str, str]


def lock_models(project: Project) -> Locked:
    """Record the folders of the models that a project declares, in place of what was recorded before.

    Args:
        project: its schemas may have mistakes of other kinds.

    Raises:
        OSError: the disk refuses.
    """
    sink = Sink()
    sources = read_sources(project, sink)
    uses: list[Use] = []
    for path, source in sorted(sources.schemas.items()):
        mine = Sink()
        root = parse_source(path, source, mine)
        sink.extend(item for item in mine.items if root is None)
        uses += find_paths(root) if root is not None else ()
    found, elsewhere = record_folders(iter(uses), project.root, sink)
    if sink.has_errors:
        return Locked((), (), False, tidy(sink.items), sources.shown)
    file = project.root / project.config.schemas / LOCK_NAME
    text = folders_to_json(found)
    old = file.read_text(encoding="utf-8") if file.is_file() else None
    written = old != text and bool(found or old is not None)
    if written:
        replace_all({file: text})
    return Locked(tuple(sorted(found)), elsewhere, written, (), sources.shown)
