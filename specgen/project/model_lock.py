"""The lock file of language models: what `specgen models lock` recorded of their folders, for checking and building."""

from __future__ import annotations

from pathlib import Path

from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules.llm_lock import BROKEN_MODEL_LOCK
from specgen.source.model_folders import ModelFolder, folders_from_json

LOCK_NAME = "language_models.lock.json"


def read_lock(file: Path, path: str, sink: Sink) -> dict[str, ModelFolder]:
    """The records in the lock file; a missing file has none, a broken one is a diagnostic."""
    try:
        return folders_from_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        said = str(error).splitlines()[0][:200]
        help = "delete it and run `specgen models lock`"
        sink.add(BROKEN_MODEL_LOCK.at(Span(path, 1, 1, 1, 2), f"`{path}` cannot be read: {said}", help=help))
        return {}
