"""`Checkpoints`: the states of a training in a folder, each whole or not there."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from specgen_runtime.data.saving import link_saved
from specgen_runtime.durable import load_values, replace_file, save_values, sync_folder
from specgen_runtime.reported import ReportedError
from specgen_runtime.training.state import plain_state, restored_state

__all__ = ["Checkpoints", "SavesItself", "load_parts"]

_MANIFEST = "checkpoints.json"


class Restorable(Protocol):
    """What goes on from a state: the parts of a pipeline, or of a loop of one's own."""

    def state_dict(self) -> Any:
        """The state."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Restore what `state_dict` gave."""


class SavesItself(Protocol):
    """What writes its rows into a folder of its own: replay buffers."""

    def dumps(self, path: str | Path) -> None:
        """Save all of it in a folder."""

    def loads(self, path: str | Path) -> None:
        """Go on from what was saved there."""


class DamagedCheckpointError(ReportedError, OSError):
    """A checkpoint whose files are not what was written."""


class Checkpoints:
    """The last checkpoints of a training, oldest first.

    One is written as `checkpoint-<frames>.new` and renamed when all of it is on the disk; then `checkpoints.json`,
    which is replaced at once, names it; then the oldest goes. Whatever ends the process meanwhile, the ones that the
    file names are whole.

    Args:
        folder: where they are; it exists.
        keep: how many stay (>= 1).
    """

    def __init__(self, folder: Path, keep: int) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, found {keep}")
        self.folder = folder
        self.keep = keep
        self.kept = self._named()

    @property
    def last(self) -> Path | None:
        """The folder of the last one; None if there is none."""
        return self.kept[-1] if self.kept else None

    def save(self, frames: int, state: Mapping[str, Any], buffers: Mapping[str, SavesItself]) -> Path:
        """Write a checkpoint.

        Args:
            frames: what it is named by.
            state: what `plain_state` takes.
            buffers: what is saved beside it, by name.

        Raises:
            OSError: there is no space left, for example. The checkpoints before it are as they were.
            TypeError: `state` holds what can't be saved.
        """
        plain = plain_state(state)
        self._remove_unnamed()
        target = self._free_name(frames)
        new = target.with_name(f"{target.name}.new")
        try:
            new.mkdir()
            for name, buffer in buffers.items():
                if self.last is not None:  # only what is new of its rows is written
                    link_saved(self.last / name, new / name)
                buffer.dumps(new / name)
            save_values(new / "state.pt", plain)
            sync_folder(new)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        os.replace(new, target)
        sync_folder(self.folder)
        earlier = [path for path in self.kept if _count(path) != _count(target)]
        kept = [*earlier, target][-self.keep :]
        named = json.dumps({"kept": [path.name for path in kept]}) + "\n"
        try:
            replace_file(self.folder / _MANIFEST, named.encode())
        finally:
            # The file may be the new one even where its folder could not be synchronised.
            self.kept = self._named()
        self._remove_unnamed()
        return target

    def load(self, buffers: Mapping[str, SavesItself]) -> dict[str, Any]:
        """The state of the last checkpoint; buffers go on from theirs.

        Raises:
            FileNotFoundError: there is none.
            DamagedCheckpointError: a file of it is gone, or is not what was written.
        """
        if self.last is None:
            raise FileNotFoundError(f"there is no checkpoint in {self.folder}")
        try:
            plain = load_values(self.last / "state.pt")
            for name, buffer in buffers.items():
                buffer.loads(self.last / name)
        except (OSError, json.JSONDecodeError) as error:
            remedy = "start a new run in another folder"
            if len(self.kept) > 1:
                remedy = f"remove it, and the run goes on from {self.kept[-2].name}"
            raise DamagedCheckpointError(f"{self.last} is damaged: {error}; {remedy}") from error
        state: dict[str, Any] = restored_state(plain)
        return state

    def _named(self) -> list[Path]:
        """Those that the file names, oldest first; who removes a folder of them goes on from the one before."""
        manifest = self.folder / _MANIFEST
        named = json.loads(manifest.read_text(encoding="utf-8"))["kept"] if manifest.is_file() else []
        return [self.folder / name for name in named if (self.folder / name).is_dir()]

    def _free_name(self, frames: int) -> Path:
        """A name that no kept checkpoint has; one of the same count is there until the new one is."""
        target = self.folder / f"checkpoint-{frames}"
        return self.folder / f"checkpoint-{frames}-again" if target in self.kept else target

    def _remove_unnamed(self) -> None:
        """Remove what a killed process left behind, and what is old."""
        for path in self.folder.glob("checkpoint-*"):
            if path not in self.kept:
                shutil.rmtree(path, ignore_errors=True)


def load_parts(parts: Restorable, folder: str | Path) -> None:
    """Let parts go on from the last checkpoint of a run, without its loop.

    Replay buffers and counters stay in the folder: who goes on training resumes the run. Simulators begin new episodes.

    Args:
        parts: those of the run's pipeline, made with a configuration of the same sizes.
        folder: of the run.

    Raises:
        FileNotFoundError: there is no checkpoint in the folder.
        ValueError: the checkpoint is of other parts, or of other sizes. The parts may hold some of it then.
    """
    folder = Path(folder)
    if folder.name.startswith("checkpoint-") and (folder.parent / _MANIFEST).is_file():
        raise FileNotFoundError(f"{folder} is one checkpoint of a run, whose folder is {folder.parent}")
    state = Checkpoints(folder, 1).load({})
    try:
        with warnings.catch_warnings():  # nobody goes on with the episodes of a simulator here
            warnings.filterwarnings("ignore", message=".* new episodes begin", category=UserWarning)
            parts.load_state_dict(state["parts"])
    except (KeyError, RuntimeError, ValueError) as error:
        said = f"it lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        if resized := list(_resized(parts.state_dict(), state["parts"])):
            more = f", and {len(resized) - _SHOWN} more" if len(resized) > _SHOWN else ""
            said = f"it has {', '.join(resized[:_SHOWN])}{more}"
        raise ValueError(
            f"the checkpoint in {folder} does not fit {type(parts).__name__}: {said}; "
            f"{folder / 'config.json'} says what it was trained with"
        ) from error


_SHOWN = 3
"""How many tensors of other sizes are named."""


def _resized(own: Any, saved: Any, name: str = "") -> Iterator[str]:
    """The tensors of a saved state that have another shape in one's own, by name."""
    if isinstance(own, Mapping) and isinstance(saved, Mapping):
        for key in own:
            if key in saved:
                yield from _resized(own[key], saved[key], f"{name}.{key}" if name else str(key))
    elif isinstance(own, Tensor) and isinstance(saved, Tensor) and own.shape != saved.shape:
        yield f"{name} of shape {list(saved.shape)} for {list(own.shape)}"


def _count(checkpoint: Path) -> str:
    """What a checkpoint is named by."""
    return checkpoint.name.split("-")[1]
