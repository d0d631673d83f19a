"""How the templates learn, beside their peers: `python -m benchmarks.learning DQNCartPole TD3Pendulum --seeds 0 1 2`.

A template is trained until an evaluation reaches its threshold, three times: as it is printed; by the same printed loop with
TorchRL's loss, from the same weights, on the same environment and buffer, where it has the loss; and by Stable-Baselines3 on
Gymnasium's environment with the same hyper-parameters, where it has the algorithm. Seconds are of this process, without those of
the evaluations. All stay in `--folder`: what is there already is not trained again, and `--table` only shows it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib.figure
import torch
from specgen_runtime.training import evaluate, read_curve

from benchmarks import learning_stable_baselines3, learning_torchrl
from benchmarks.learning_templates import TEMPLATES, Template

OURS, TORCHRL, STABLE_BASELINES3 = "specgen", "TorchRL's loss", "Stable-Baselines3"
ARMS = (OURS, TORCHRL, STABLE_BASELINES3)


@dataclass
class Clock:
    """Seconds of this process that went into a training, without its evaluations."""

    seconds: float = 0.0
    since: float = field(default_factory=time.process_time)

    def evaluate(self, *arguments: Any, **named: Any) -> Any:
        """As `evaluate`, while the clock stands still."""
        self.seconds += time.process_time() - self.since
        score = evaluate(*arguments, **named)
        self.since = time.process_time()
        return score


@dataclass(frozen=True)
class Result:
    """How a training ended.

    Attributes:
        count: frames, or updates where the data are recorded, at the last evaluation.
        seconds: of this process until then.
        best: the best evaluation.
        reached: whether that is the threshold.
    """

    count: int
    seconds: float
    best: float
    reached: bool


def measure(template: Template, arm: str, seed: int, folder: Path, recorded: str) -> Result | None:
    """Train once, unless that was done; None if the peer lacks the algorithm.

    Args:
        template: what is trained.
        arm: by whom.
        seed: of all random numbers.
        folder: of the run.
        recorded: folder of the data, where they are recorded.
    """
    kept = folder / "result.json"
    if kept.is_file():
        return Result(**json.loads(kept.read_text()))
    if folder.exists():
        raise FileExistsError(f"{folder} holds a training that did not end: remove it")
    config = replace(template.config(), seed=seed, checkpoint_every=10**9)
    if hasattr(config, "recorded"):
        config = replace(config, recorded=recorded)
    clock = Clock()
    if arm == STABLE_BASELINES3:
        if template.stable_baselines3 is None:
            return None
        learning_stable_baselines3.train(template.stable_baselines3(config), template, config, folder, clock)
    else:
        parts = template.parts
        if arm == TORCHRL:
            if template.torchrl is None:
                return None
            parts = learning_torchrl.parts_with(template.torchrl, parts)
        with mock.patch.object(template.module, "evaluate", clock.evaluate):
            template.module.train(config, folder=folder, parts_class=parts)
    _, counts, scores = read_curve(folder, template.column, over=template.over)
    best = float(max(scores))
    result = Result(int(counts[-1]), clock.seconds, best, best >= config.stop_return)
    kept.write_text(json.dumps(vars(result)))
    return result


def table(found: dict[str, dict[str, list[Result | None]]], seeds: Sequence[int]) -> str:
    """Markdown: a row for each template and arm; what did not reach the threshold has its best return in brackets."""
    listed = ", ".join(map(str, seeds))
    lines = [
        f"| template, and the return that is asked for | | frames or updates to it, seeds {listed} | seconds |",
        "|---|---|---|---|",
    ]
    for name, arms in found.items():
        template = TEMPLATES[name]
        label = f"`{name}`, {template.config().stop_return:g}"
        for arm, results in arms.items():
            ended = [result for result in results if result is not None]
            if not ended:
                continue
            if len(ended) < len(seeds):
                of = (str(seed) for seed, result in zip(seeds, results, strict=True) if result is not None)
                arm = f"{arm}, seed {', '.join(of)}"
            counts = (
                f"{one.count:,}" if one.reached else f"not by {one.count:,} ({one.best:.4g})" for one in ended
            )
            seconds = (f"{one.seconds:.1f}" for one in ended)
            lines.append(f"| {label} | {arm} | {', '.join(counts)} | {', '.join(seconds)} |")
            label = ""
    return "\n".join(lines)


def draw(names: Iterable[str], folder: Path, seeds: Sequence[int], path: Path) -> None:
    """Draw a panel for each template: the evaluations of each arm, a line for each seed."""
    names = list(names)
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = matplotlib.figure.Figure(figsize=(4.2 * columns, 3 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for name, panel in zip(names, panels, strict=False):  # names first: panels that are left stay there
        template = TEMPLATES[name]
        for color, arm in enumerate(ARMS):
            label: str | None = arm
            for seed in seeds:
                run = folder / name / arm / str(seed)
                if (run / "result.json").is_file():
                    _, counts, scores = read_curve(run, template.column, over=template.over)
                    panel.plot(
                        counts, scores, f"C{color}.-", alpha=0.7, linewidth=1, markersize=3, label=label
                    )
                    label = None
        panel.axhline(template.config().stop_return, linestyle="--", color="grey", linewidth=1)
        panel.set(title=name, xlabel=template.over, ylabel=template.column)
        panel.grid(alpha=0.3)
    for panel in panels:
        panel.set_axis_off()
    handles: dict[str, Any] = {}
    for panel in figure.axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(ARMS))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)


def main() -> int:
    """Train what is named, and show all that is in the folder."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("templates", nargs="*", help=f"which: {', '.join(TEMPLATES)} (default: all)")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/learning"), help="where runs and results stay"
    )
    parser.add_argument(
        "--recorded", default="data/pendulum", help="what examples/offline_pendulum.py has recorded"
    )
    parser.add_argument("--picture", type=Path, default=None, help="default: curves.png in the folder")
    parser.add_argument("--table", action="store_true", help="train nothing")
    given = parser.parse_args()
    unknown = sorted(set(given.templates) - TEMPLATES.keys())
    if unknown:
        parser.error(f"no templates called {', '.join(unknown)}; there are {', '.join(TEMPLATES)}")
    torch.set_num_threads(1)
    found: dict[str, dict[str, list[Result | None]]] = {}
    for name in given.templates or TEMPLATES:
        for seed in given.seeds:
            for arm in given.arms:
                run = given.folder / name / arm / str(seed)
                if given.table and not (run / "result.json").is_file():
                    result = None
                else:
                    result = measure(TEMPLATES[name], arm, seed, run, given.recorded)
                found.setdefault(name, {}).setdefault(arm, []).append(result)
                if not given.table:
                    print(name, arm, seed, result, flush=True)
    print(table(found, given.seeds))
    shown = [name for name, arms in found.items() if any(any(results) for results in arms.values())]
    draw(shown, given.folder, given.seeds, given.picture or given.folder / "curves.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
