"""Models and tokenizers of `transformers` from folders or hubs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from specgen_runtime.extras import import_extra
from specgen_runtime.llm.models.head import accepts
from specgen_runtime.reported import ReportedError
from specgen_runtime.training.devices import available_device
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["check_recorded", "load_model", "load_pair", "load_template", "load_tokenizer", "tokenizer_of"]


class MissingFolderError(ReportedError, FileNotFoundError):
    """A language model, or its tokenizer, that is not where it was looked for."""


class DamagedFileError(ReportedError, ValueError):
    """Weights of a language model that can't be read."""


class ChangedFolderError(ReportedError, ValueError):
    """A folder that holds something else than when it was recorded."""


def load_model(
    path: str,
    *,
    dtype: torch.dtype | str = "auto",
    attention: str | None = None,
    device: DEVICE_TYPING | None = None,
    frozen: bool = False,
    **further: Any,
) -> nn.Module:
    """Return a causal model in evaluation mode.

    Args:
        path: a folder that `save_pretrained` wrote, or a name of the hub.
        dtype: of its parameters; ``"auto"`` for the one that they were saved in.
        attention: which implementation: ``"eager"``, ``"sdpa"``, ``"flash_attention_2"``; None for the model's own.
        device: where it is put.
        frozen: whether its parameters take no gradients.
        **further: what else `AutoModelForCausalLM.from_pretrained` takes.

    Raises:
        ImportError: transformers is not installed.
        OSError: there is no such folder, nor such a name, or it lacks files.
        ValueError: a file of weights can't be read; or `device` names none, or one that this machine does not have.
    """
    place = None if device is None else _device(device)
    transformers = import_extra("transformers", "language models", "llm")
    implementation = {} if attention is None else {"attn_implementation": attention}
    kind = transformers.AutoModelForCausalLM
    loaded = _loaded(kind, path, dtype=dtype, **implementation, **further)
    model = cast("nn.Module", loaded).eval()
    if place is not None:
        model = model.to(place)
    return model.requires_grad_(False) if frozen else model


def load_tokenizer(path: str, **further: Any) -> Any:
    """Return a tokenizer, with its chat template.

    One that was saved as nothing but its ``tokenizer.json`` is loaded as that: `AutoTokenizer` goes by the family of
    the model in the same folder, and may cut texts otherwise.

    Args:
        path: a folder that `save_pretrained` wrote, or a name of the hub.
        **further: what else `AutoTokenizer.from_pretrained` takes.

    Raises:
        ImportError: transformers is not installed.
        OSError: there is no such folder, nor such a name, or it lacks files.
    """
    transformers = import_extra("transformers", "language models", "llm")
    config = Path(path) / "tokenizer_config.json"
    saved_as = (
        json.loads(config.read_text(encoding="utf-8")).get("tokenizer_class") if config.is_file() else None
    )
    generic = saved_as in ("PreTrainedTokenizerFast", "TokenizersBackend")
    kind = transformers.PreTrainedTokenizerFast if generic else transformers.AutoTokenizer
    return _loaded(kind, path, **further)


def load_pair(
    model: nn.Module | str, tokenizer: Any = None, *, needs_tokenizer: bool = True
) -> tuple[nn.Module, Any]:
    """Return a model and its tokenizer; those that are paths are loaded.

    Args:
        model: a model, or a path.
        tokenizer: one, or a path. None: that of the path of the model, or what `tokenizer_of` says.
        needs_tokenizer: whether a model without a path is asked for its own.

    Returns:
        The model, and the tokenizer; None for it if there is none.

    Raises:
        TypeError: the model is neither, or reads no tokens.
        OSError: there is no such folder, nor such a name, or it lacks files.
    """
    if isinstance(model, str):
        tokenizer = model if tokenizer is None else tokenizer
        model = load_model(model)
    elif not isinstance(cast("object", model), nn.Module):
        raise TypeError(f"model is a module of transformers, or a path, got {type(model).__name__}")
    elif not accepts(model, "input_ids"):
        raise TypeError(
            f"model is one of transformers, which reads input_ids; {type(model).__name__} does not"
        )
    if tokenizer is None and needs_tokenizer:
        tokenizer = tokenizer_of(model)
    return model, load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer


def tokenizer_of(model: Any) -> Any:
    """The tokenizer that a model tells: what its `get_tokenizer` gives, or the path that it was loaded from.

    Args:
        model: a model, of `transformers` or not.

    Returns:
        A tokenizer, or the path of one; None if the model tells neither.
    """
    get = getattr(model, "get_tokenizer", None)
    return get() if callable(get) else getattr(model, "name_or_path", None) or None


def _device(device: DEVICE_TYPING) -> torch.device:
    """A device, before anything is loaded: ``meta``, or one of this machine."""
    name = device if isinstance(device, str) else str(torch.device(device))
    return torch.device(name) if name == "meta" else available_device("device", name)


def _loaded(kind: Any, path: str, **keywords: Any) -> Any:
    """What a class of `transformers` makes of a path; an error tells whether there was such a folder."""
    name = str(path)  # those of the hub are `name` or `owner/name`
    if (name.startswith((".", "/", "~")) or name.count("/") > 1) and not Path(path).is_dir():
        if name.startswith("~") and Path(path).expanduser().is_dir():
            raise MissingFolderError(
                f"there is no folder {_place(path)}: '~' is not read as the home folder, write {str(Path(path).expanduser())!r}"
            )
        raise MissingFolderError(
            f"there is no folder {_place(path)}: a language model is read from one that"
            " `save_pretrained` wrote, with its tokenizer"
        )
    try:
        return kind.from_pretrained(path, **keywords)
    except OSError as error:
        if Path(path).is_dir():
            raise
        raise MissingFolderError(
            f"there is no folder {_place(path)}, and as a name of the hub: {error}"
        ) from error
    except import_extra("safetensors", "language models", "llm").SafetensorError:
        _refuse_damaged(Path(path))
        raise


def _refuse_damaged(folder: Path) -> None:
    """Name the first file of weights in a folder that can't be read."""
    safetensors = import_extra("safetensors", "language models", "llm")
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safetensors.safe_open(file, "pt"):
                pass
        except safetensors.SafetensorError as error:
            raise DamagedFileError(
                f"the weights in {str(file)!r} ({file.stat().st_size} bytes) can't be read: {error}. The file may be cut off:"
                " copy or save it again"
            ) from error


def _place(path: str) -> str:
    """A path as a message names it: a relative one with where it begins."""
    return repr(str(path)) if Path(path).is_absolute() else f"{str(path)!r} in {str(Path.cwd())!r}"


def load_template(path: str) -> str:
    """Return the chat template that a file has, as text.

    Args:
        path: the file, in UTF-8.

    Raises:
        FileNotFoundError: there is none.
    """
    return Path(path).read_text(encoding="utf-8")


def check_recorded(path: str, *, tokenizer: str | None = None, template: str | None = None) -> None:
    """Compare the folder of a tokenizer with what was recorded of it when its schema was built.

    Args:
        path: the folder; anything else, such as a name of the hub, is let pass.
        tokenizer: the recorded SHA-256 of what its ``tokenizer.json`` says, but for padding and truncation.
        template: that of its chat template.

    Raises:
        ValueError: one of them is another one now.
    """
    folder = Path(path)
    if not folder.is_dir():
        return
    for what, recorded, saved in (
        ("tokenizer", tokenizer, _saved_tokenizer),
        ("chat template", template, _saved_template),
    ):
        text = None if recorded is None else saved(folder)
        if recorded != (None if text is None else hashlib.sha256(text.encode("utf-8")).hexdigest()):
            raise ChangedFolderError(
                f"the {what} in {path!r} is not the one that was recorded: if it is meant to be another one, run"
                " `specgen models lock`, then `specgen build`, and commit what they write"
            )


def _saved_tokenizer(folder: Path) -> str | None:
    """What the fast tokenizer in a folder does; how it pads and cuts is what calls have left there."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return None
    state = json.loads(file.read_text(encoding="utf-8"))
    kept = {name: value for name, value in state.items() if name not in ("padding", "truncation")}
    return json.dumps(kept, sort_keys=True)


def _saved_template(folder: Path) -> str | None:
    """The chat template in a folder: a file of its own, or a field of the tokenizer's configuration."""
    file, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = json.loads(config.read_text(encoding="utf-8")).get("chat_template") if config.is_file() else None
    if isinstance(found, list):  # several, by name
        found = {one["name"]: one["template"] for one in found}.get("default")
    return found if isinstance(found, str) else None
