"""Plain Python data gives the same nodes as the YAML that says the same."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgen.diagnostics import Sink
from specgen.source import Mapping, Node, Scalar, Sequence, from_python, parse_yaml, shown_path, to_yaml


def plain(node: Node) -> Any:
    if isinstance(node, Mapping):
        return {key.text: plain(value) for key, value in node.entries}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return node.value


def test_the_text_is_the_yaml_one_would_write() -> None:
    data = {
        "specgen": 1,
        "envs": {
            "Pendulum": {
                "params": {
                    "g": 10.0,
                    "lr": 1e-5,
                    "big": 1e22,
                    "n": 3,
                    "on": True,
                    "inf": -math.inf,
                    "unset": None,
                },
                "step": {
                    "next.th": "th + next.thdot * dt",
                    "w": "a: b",
                    "x": "1e-4",
                    "y": "true",
                    "z": "",
                    "s": " #",
                },
                "low": [-1, [0.5, math.inf]],
                "done": ["", "agents"],
                "none": {},
                "empty": [],
                "chain": ["RewardSum", {"StepCounter": {"max_steps": 5}}, [["a"]]],
            }
        },
    }
    text = to_yaml(data)
    assert text == (
        "specgen: 1\n"
        "envs:\n"
        "  Pendulum:\n"
        "    params:\n"
        "      g: 10.0\n"
        "      lr: 1.0e-05\n"
        "      big: 1.0e+22\n"
        "      n: 3\n"
        "      on: true\n"
        "      inf: -.inf\n"
        "    step:\n"
        "      next.th: th + next.thdot * dt\n"
        '      w: "a: b"\n'
        '      x: "1e-4"\n'
        '      y: "true"\n'
        '      z: ""\n'
        '      s: " #"\n'
        "    low: [-1, [0.5, .inf]]\n"
        "    done:\n"
        '      - ""\n'
        "      - agents\n"
        "    none: {}\n"
        "    empty: []\n"
        "    chain:\n"
        "      - RewardSum\n"
        "      - StepCounter:\n"
        "          max_steps: 5\n"
        "      -\n"
        "        -\n"
        "          - a\n"
    )
    sink = Sink()
    root = from_python("a.py", data, sink)
    assert not sink.items
    assert root is not None
    del data["envs"]["Pendulum"]["params"]["unset"]  # type: ignore[index]
    assert plain(root) == data
    assert root.span.file == shown_path("a.py") == "a.py (as YAML)"
    assert root == parse_yaml(shown_path("a.py"), text, Sink())


TREES = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text(max_size=6), TREES, max_size=5))
def test_any_plain_data_comes_back(data: dict[str, Any]) -> None:
    sink = Sink()
    root = from_python("a.py", data, sink)
    if root is None or sink.items:
        # Only characters that no schema may have (keys that differ in them meet), and empty data.
        assert {item.code for item in sink.items} <= {"SG012", "SG011", "SG006"}
        return
    assert plain(root) == data
    assert repr(plain(root)) == repr(data)


def test_what_is_no_plain_data_is_named() -> None:
    with pytest.raises(TypeError, match=r"^\$\.a\.b\[1\]: object is no plain data"):
        to_yaml({"a": {"b": [1, object()]}})
    with pytest.raises(TypeError, match=r"^\$\.a: a key is int, not text"):
        to_yaml({"a": {3: 1}})
    with pytest.raises(TypeError, match="NoneType"):
        to_yaml({"a": ["x", None]})


def test_control_characters_are_diagnostics() -> None:
    sink = Sink()
    from_python("a.py", {"doc": "x\x00y"}, sink)
    assert [item.code for item in sink.items] == ["SG012"]
    assert isinstance(from_python("a.py", {"doc": "two\nlines"}, Sink()).get("doc"), Scalar)  # type: ignore[union-attr]
