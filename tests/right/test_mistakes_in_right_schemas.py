"""One mistake put into each right declaration: the lint for it, and no other message, is what comes out."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specgen.check.declarations import check_declarations
from specgen.check.file import check_file
from specgen.check.losses.parents import ParentLoss, whole_losses
from specgen.diagnostics import Sink
from specgen.project.library import library_schemas
from specgen.schema.load import load, to_data
from specgen.source import from_python, parse_yaml
from specgen.source.imports import SECTIONS

FOLDER = Path(__file__).parent / "schemas"
Data = dict[str, Any]
Mistake = Callable[[Data], bool]
"""Puts a mistake into a declaration; whether it has a place for it."""


def declarations() -> Iterator[tuple[str, str, str, Data]]:
    """Every declaration of the right schemas and of the library: where it is from, section, name."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))}
    texts |= {path: text for path, text in library_schemas().items() if path.split("/")[0] != "chains"}
    whole = whole_declarations(texts)
    for path, text in texts.items():
        root = parse_yaml(path, text, Sink())
        assert root is not None
        data = to_data(root)
        for section in ("envs", "transforms", "losses"):
            for name, declared in data.get(section, {}).items():
                if section == "losses":
                    declared = whole.get(name, {"allow": []})
                if "gymnasium" not in declared and "allow" not in declared:
                    yield path, section, name, declared


def whole_declarations(texts: dict[str, str]) -> dict[str, Data]:
    """Every loss that is not abstract, with what it inherits."""
    parents: dict[str, ParentLoss] = {}
    waiting = {path: parse_yaml(path, text, Sink()) for path, text in texts.items()}
    while waiting:
        path, root = next(iter(waiting.items()))
        file = load(path, root, Sink()) if root is not None else None
        assert file is not None
        del waiting[path]
        losses = file.module.losses
        if any(loss.extends and loss.extends not in {**parents, **losses} for loss in losses.values()):
            waiting[path] = root  # its parents come first
        else:
            parents |= whole_losses(file, path, parents, (), Sink()).parents
    nodes = {name: one.node for name, one in parents.items() if one.node is not None and not one.abstract}
    return {
        name: {section: said for section, said in to_data(node).items() if section != "extends"}
        for name, node in nodes.items()
    }


ALL = {f"{section}-{name}": (section, name, data) for _, section, name, data in declarations()}


FUNCTIONS = {
    name: function
    for path, text in library_schemas().items()
    if (root := parse_yaml(path, text, Sink())) is not None
    for name, function in to_data(root).get("functions", {}).items()
}
"""Those of the library's files, which its losses call."""


def codes(section: str, name: str, declared: Data) -> list[str]:
    """What the checker says of one declaration; nothing is generated."""
    sink = Sink()
    called = {word: FUNCTIONS[word] for word in FUNCTIONS if f"{word}(" in str(declared)}
    root = from_python("x.py", {"functions": called, section: {name: declared}}, sink)
    assert root is not None
    file = load("x.py", root, sink)
    if file is not None:
        check_declarations(file, sink)
        check_file(file, "made.x", {section: {} for section in SECTIONS}, {}, {}, {}, sink)
    return [item.code for item in sink.items]


def declared_in(section: str, entry: Any) -> Mistake:
    def add(data: Data) -> bool:
        data.setdefault(section, {})["nobody"] = copy.deepcopy(entry)
        return "signature" not in data

    return add


def idle_state(data: Data) -> bool:
    data.setdefault("state", {})["nobody"] = "float32"
    data.setdefault("reset", {})["nobody"] = "0.0"
    return True


def frozen_state(data: Data) -> bool:
    """A state key whose assignment was forgotten, and which the reward reads."""
    key = next((key for key in data["step"] if key == "reward"), None)
    if key is None:
        return False
    idle_state(data)
    data["step"][key] = f"({data['step'][key]}) + nobody"
    return True


def hidden_clock(data: Data) -> bool:
    idle_state(data)
    data["state"]["nobody"], data["reset"]["nobody"] = "int64", "0"
    over = f"({data['step'].get('terminated', 'false')}) or next.nobody >= 9"
    data["step"] = {"next.nobody": "nobody + 1", **data["step"], "terminated": over}
    return True


def copied_flag(data: Data) -> bool:
    over = data["step"].get("terminated")
    if over is None or over in ("true", True) or "truncated" in data["step"]:
        return False
    data["step"]["truncated"] = "terminated"
    return True


def late_reward(data: Data) -> bool:
    step = data.get("step", {})
    late = [key for key, text in step.items() if "next.reward" in str(text)]
    for key in late if data.get("in", {}).get("reward") else ():
        step[key] = str(step[key]).replace("next.reward", "reward")
    return bool(late and data.get("in", {}).get("reward"))


def misspelt_key(data: Data) -> bool:
    if "terminated" not in data.get("keys", {}):
        return False
    data["keys"]["terminated"] = "terminted"
    return True


def estimate_of_now(data: Data) -> bool:
    whole = {**data.get("let", {}), **data["terms"]}
    if "value_estimator" not in data or not any("value_estimate(" in text for text in whole.values()):
        return False
    for section in ("let", "terms"):
        data[section] = {
            key: text.replace("(next)", "(now)").replace("(next,", "(now,")
            for key, text in data.get(section, {}).items()
        }
    return True


def leaking_target(data: Data) -> bool:
    found = False
    for section in ("let", "terms"):
        for key, text in data.get(section, {}).items():
            if "stop_grad(value_estimate(" in text or "stop_grad(reward + gamma" in text:
                data[section][key] = text.replace("stop_grad(value_estimate(", "(value_estimate(").replace(
                    "stop_grad(reward + gamma", "(reward + gamma"
                )
                found = True
    if not found or "require" in data:
        return False
    for section in ("let", "terms"):
        data[section] = {
            key: text.replace(".target(", "(").replace(".frozen(next", "(next")
            for key, text in data.get(section, {}).items()
        }
    for network in data["networks"].values():
        data.get("params", {}).pop(network.pop("target", None), None)
    return True


def nothing_trained(data: Data) -> bool:
    """A further term of a frozen network."""
    name, network = list(data["networks"].items())[-1]
    kinds = list(network.get("out", {}).values())
    if len(kinds) != 1 or "[1]" not in kinds[0]:
        return False
    idle = f"{name}.frozen(now)**2"
    if "ensemble" in network:
        idle = f"sum({idle}, axis=ensemble)"
    data["terms"]["loss_idle"] = (
        {"value": idle, "when": f"given({name})"} if network.get("optional") else idle
    )
    return True


def done_for_terminated(data: Data) -> bool:
    texts = [*data.get("let", {}).values(), *data["terms"].values()]
    if not any("terminated" in text for text in texts) or "done" in data["keys"]:
        return False
    data["keys"]["done"] = "done"
    data["keys"].pop("terminated")
    for section in ("let", "terms"):
        data[section] = {
            key: re.sub(r"\bterminated\b", "done", text) for key, text in data.get(section, {}).items()
        }
    return True


MISTAKES: list[tuple[str, str, str, Mistake]] = [
    ("envs", "unread parameter", "SG141", declared_in("params", 0.5)),
    ("envs", "unread constant", "SG141", declared_in("consts", {"type": "float32[2]", "value": [0.0, 1.0]})),
    ("envs", "unread size", "SG141", declared_in("dims", 3)),
    (
        "envs",
        "unread function",
        "SG141",
        declared_in("functions", {"args": {"a_": "float32"}, "returns": "a_"}),
    ),
    ("envs", "idle state", "SG142", idle_state),
    ("envs", "unread action", "SG142", declared_in("action", "categorical(2)")),
    ("envs", "state never stepped", "SG351", frozen_state),
    ("envs", "hidden clock", "SG352", hidden_clock),
    ("envs", "copied flag", "SG354", copied_flag),
    ("transforms", "unread parameter", "SG141", declared_in("params", 0.5)),
    ("transforms", "late reward", "SG355", late_reward),
    ("losses", "unread parameter", "SG141", declared_in("params", 0.5)),
    ("losses", "unread network", "SG141", declared_in("networks", {"out": {"nobody_value": "float32[1]"}})),
    ("losses", "misspelt key", "SG435", misspelt_key),
    ("losses", "estimate of now", "SG431", estimate_of_now),
    ("losses", "gradient through the target", "SG433", leaking_target),
    ("losses", "term that trains nothing", "SG434", nothing_trained),
    ("losses", "done for terminated", "SG432", done_for_terminated),
]


@pytest.mark.parametrize(
    ("section", "what", "code", "mistake"), MISTAKES, ids=[f"{each[0]}-{each[1]}" for each in MISTAKES]
)
def test_the_mistake_is_found_wherever_it_is_made(
    section: str, what: str, code: str, mistake: Mistake
) -> None:
    made = 0
    missed = {}
    for key, (place, name, data) in ALL.items():
        changed = copy.deepcopy(data)
        if place != section or not mistake(changed):
            continue
        made += 1
        found = codes(section, name, changed)
        # written out, what a loss inherits and does not use is warned of
        if set(Counter(found) - Counter(codes(section, name, data))) != {code}:
            missed[key] = found
    assert made, what
    assert missed == {}
