"""`draw_curve`: learning curves of runs as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specgen_runtime.extras import import_extra
from specgen_runtime.training.run_log import read_log
from specgen_runtime.typing import Array

__all__ = ["draw_curve", "read_curve"]

_DEFAULT = ("evaluation", "return")


def read_curve(
    folder: str | Path, column: str | None = None, *, over: str = "frames"
) -> tuple[str, Array, Array]:
    """A column of the log of a run.

    Args:
        folder: of the run.
        column: its name; None is `evaluation`, or `return` if there was none.
        over: the column that it is drawn over: `frames`, `updates`, `seconds`.

    Returns:
        The name of the column; float64 `[points]` of `over` and of the column, where a row has both.

    Raises:
        FileNotFoundError: the folder holds no log.
        ValueError: no row has both.
    """
    rows = read_log(Path(folder) / "log.csv")
    names = _DEFAULT if column is None else (column,)
    name = next((name for name in names if any(name in row for row in rows)), None)
    points = [(row[over], row[name]) for row in rows if name in row and over in row] if name else []
    if name is None or not points:
        columns = ", ".join(dict.fromkeys(column for row in rows for column in row))
        held = f"its columns are {columns}" if columns else "nothing was logged"
        raise ValueError(f"{folder}: no row of the log has {' or '.join(names)} over {over}; {held}")
    x, y = np.asarray(points, dtype=np.float64).T
    return name, x, y


def draw_curve(
    folders: str | Path | Sequence[str | Path] | Mapping[str, Sequence[str | Path]],
    path: str | Path | None = None,
    *,
    column: str | None = None,
    over: str = "frames",
    title: str | None = None,
    threshold: float | None = None,
) -> Path:
    """Draw learning curves: one line for a run; for several seeds their mean, and a band from the worst to the best.

    Seeds that were logged at different counts are interpolated; the mean ends where the shortest does. Runs that ended
    before there was anything to draw have no line.

    Args:
        folders: a run; several seeds of one training; or, by label, several seeds each of several trainings.
        path: of the picture (PNG, SVG or PDF, by its ending). None: `curve.png` in the folder of a single run.
        column: of the log; None is `evaluation`, or `return` if there was none.
        over: the column that it is drawn over: `frames`, `updates`, `seconds`.
        title: above the picture; None is the name of the folder of a single run.
        threshold: a value to be marked by a dashed line.

    Returns:
        The path of the picture.

    Raises:
        ValueError: no path is given for several runs; there are no runs, or a log lacks the column that is asked for.
        ImportError: matplotlib is not installed.
    """
    groups = _grouped(folders)
    runs = [Path(folder) for group in groups.values() for folder in group]
    if not runs:
        raise ValueError("draw_curve: give at least one folder")
    if path is None:
        if len(runs) > 1:
            raise ValueError("draw_curve: several runs have no folder in common: give a path")
        path = runs[0] / "curve.png"
    figures: Any = import_extra("matplotlib.figure", "draw_curve needs matplotlib", "train")
    # A figure of its own, without pyplot: it needs no display, and changes nobody's settings.
    figure = figures.Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    name = column or _DEFAULT[0]
    for label, group in groups.items():
        curves = [
            read_curve(folder, column, over=over) for folder in group if _has_curve(folder, column, over)
        ]
        if not curves:
            continue
        name = curves[0][0]
        counts, mean, low, high = _mean_and_band([(x, y) for _, x, y in curves])
        (line,) = axes.plot(counts, mean, label=label or None)
        if len(curves) > 1:
            axes.fill_between(counts, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
    if threshold is not None:
        axes.axhline(threshold, linestyle="--", color="grey", linewidth=1)
    axes.set(xlabel=over, ylabel=name, title=title or (runs[0].resolve().name if len(runs) == 1 else ""))
    axes.grid(alpha=0.3)
    if any(groups):
        axes.legend()
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=150)
    return target


def _grouped(folders: Any) -> dict[str, list[str | Path]]:
    if isinstance(folders, Mapping):
        return {
            label: [group] if isinstance(group, str | Path) else list(group)
            for label, group in folders.items()
        }
    return {"": [folders] if isinstance(folders, str | Path) else list(folders)}


def _has_curve(folder: str | Path, column: str | None, over: str) -> bool:
    """Whether there is anything to draw; a column that is asked for is to be there once anything was logged."""
    rows = read_log(Path(folder) / "log.csv")
    if column is not None:
        return bool(rows)
    return any(over in row and not row.keys().isdisjoint(_DEFAULT) for row in rows)


def _mean_and_band(curves: list[tuple[Array, Array]]) -> tuple[Array, Array, Array, Array]:
    """Counts that all curves reach, and the mean, lowest and highest value there."""
    start = max(x[0] for x, _ in curves)
    stop = min(x[-1] for x, _ in curves)
    counts = np.unique(np.concatenate([x for x, _ in curves]))
    inside = counts[(counts >= start) & (counts <= stop)]
    values = np.stack([np.interp(inside, x, y) for x, y in curves])
    return inside, values.mean(0), values.min(0), values.max(0)
