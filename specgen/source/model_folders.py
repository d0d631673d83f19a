"""Records of the folders of language models: what their configurations, tokenizers and chat templates say, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from specgen.values import dataclass


@dataclass(frozen=True)
class Template:
    """What is known of a chat template without rendering it.

    Attributes:
        digest: SHA-256 of its text.
        generation: whether it has generation blocks, which say what the assistant said.
        rewrites: whether it cuts or replaces parts of contents.
        refuses: the roles that it raises an error for.
    """

    digest: str
    generation: bool = False
    rewrites: bool = False
    refuses: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelFolder:
    """What a folder of a language model, or of a tokenizer, says; None for what it does not say.

    Attributes:
        model_type: the family of the model.
        vocab_size: how many tokens it has numbers for.
        positions: the longest sequence that it knows.
        tokenizer: SHA-256 of what its fast tokenizer does.
        slow: whether there is a tokenizer, and no fast one.
        tokens: how many ids the tokenizer has: the last one, and one more.
        pad, eos, bos: the special tokens, as text.
        padding_side: where the tokenizer pads.
        template: its chat template.
    """

    model_type: str | None = None
    vocab_size: int | None = None
    positions: int | None = None
    tokenizer: str | None = None
    slow: bool = False
    tokens: int | None = None
    pad: str | None = None
    eos: str | None = None
    bos: str | None = None
    padding_side: str | None = None
    template: Template | None = None


def folders_from_json(text: str) -> dict[str, ModelFolder]:
    """The records of a lock file, by path.

    Raises:
        ValueError: the text is no lock file.
    """
    try:
        data = json.loads(text)
        return {str(path): _folder(value) for path, value in data["folders"].items()}
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"not a lock file of language models: {fault!r}") from fault


def folders_to_json(folders: Mapping[str, ModelFolder]) -> str:
    """The text of a lock file: sorted; what is not known is left out."""
    data = {
        "about": "Facts of the folders of language models, recorded by `specgen models lock`. Commit this file.",
        "folders": {path: _plain(folder) for path, folder in sorted(folders.items())},
    }
    return json.dumps(data, indent=2, sort_keys=True) + "\n"


def _plain(folder: ModelFolder | Template) -> dict[str, Any]:
    values = {name: getattr(folder, name) for name in type(folder).__dataclass_fields__}
    kept = {name: value for name, value in values.items() if value not in (None, False, ())}
    return {name: _plain(value) if isinstance(value, Template) else value for name, value in kept.items()}


_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("vocab_size", "positions", "tokens"), int),
    **dict.fromkeys(("slow", "generation", "rewrites"), bool),
}


def _folder(data: Mapping[str, Any]) -> ModelFolder:
    values = {name: _checked(name, value) for name, value in data.items() if name != "template"}
    found = data.get("template")
    if found is None:
        return ModelFolder(**values)
    template = {name: _checked(name, value) for name, value in found.items() if name != "refuses"}
    refuses = tuple(_checked("refuses", role) for role in found.get("refuses", ()))
    return ModelFolder(**values, template=Template(**template, refuses=refuses))


def _checked(name: str, value: Any) -> Any:
    if type(value) is not _KINDS.get(name, str) or (type(value) is int and value < 0):
        raise ValueError(f"{value!r} stands where {name!r} is meant")
    return value
