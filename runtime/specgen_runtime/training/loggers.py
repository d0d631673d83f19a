"""Where a training's numbers go besides the CSV file: TensorBoard, Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from specgen_runtime.extras import import_extra

__all__ = ["Logger", "make_loggers"]


class Logger(Protocol):
    """What gets each row of the log."""

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Take the numbers of a row."""

    def close(self) -> None:
        """Write what is not written yet."""


class TensorBoardLogger:
    """Writes event files of TensorBoard into `tensorboard/`; rows after `step` of an earlier process are hidden."""

    def __init__(self, folder: Path, config: Mapping[str, Any], step: int, resumed: bool) -> None:
        tensorboard = import_extra(
            "torch.utils.tensorboard", "loggers=('tensorboard',) needs the package tensorboard", "tensorboard"
        )
        purge = step + 1 if resumed else None
        self._writer = tensorboard.SummaryWriter(str(folder / "tensorboard"), purge_step=purge)
        if not resumed:
            self._writer.add_text("config", "\n\n".join(f"{name}: {value}" for name, value in config.items()))

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Take the numbers of a row."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is not written yet."""
        self._writer.close()


class WandbLogger:
    """A run of Weights & Biases; its id is kept in `wandb_id`, so that a resumed training goes on with it."""

    def __init__(self, folder: Path, config: Mapping[str, Any], step: int, resumed: bool) -> None:
        wandb = import_extra("wandb", "loggers=('wandb',) needs the package wandb", "wandb")
        kept = folder / "wandb_id"
        known = kept.read_text(encoding="utf-8").strip() if resumed and kept.is_file() else None
        self._run = wandb.init(
            dir=str(folder),
            name=folder.name,
            config=dict(config),
            id=known,
            resume="allow" if known else None,
        )
        kept.write_text(self._run.id, encoding="utf-8")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Take the numbers of a row."""
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        """Write what is not written yet."""
        self._run.finish()


LOGGERS: dict[str, type[TensorBoardLogger] | type[WandbLogger]] = {
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
}


def make_loggers(
    names: Sequence[str], folder: Path, config: Mapping[str, Any], step: int, resumed: bool
) -> list[Logger]:
    """The loggers of these names.

    Raises:
        ValueError: there is none of a name.
        ImportError: the package of one is not installed.
    """
    unknown = [name for name in names if name not in LOGGERS]
    if unknown:
        raise ValueError(f"loggers: there is no {unknown[0]!r}, only {', '.join(LOGGERS)}")
    return [LOGGERS[name](folder, config, step, resumed) for name in names]
