"""What `specgen check` accepts, the runtime can make; what the runtime refuses, the check refuses first."""

from __future__ import annotations

import importlib
import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import specgen.emit.project
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)

from specgen.settings import Config
from tests.support import compile_sources, imported

CONFIG = Config("schemas", "random_specs", "random_specs")
Fields = dict[str, Any]
"""The long form of a spec, of plain numbers."""

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"]
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([-128, -129, 127, 128, 255, 256, 32767, 2**31 - 1, 2**31, -(2**63), 2**63 - 1, 2**63]),
    st.sampled_from([0.5, -0.25, 1e-7, 3e38, 3.5e38, 1e300, math.inf, -math.inf, math.nan, -0.0]),
)
COUNTS = st.one_of(
    st.integers(-1, 5), st.sampled_from([127, 128, 129, 255, 256, 257]), st.sampled_from([32768, 32769])
)
LARGE_COUNTS = st.sampled_from([2**24, 2**24 + 1, 2**31, 2**53 + 2, 2**63 - 1, 2**63, 2**64])


@st.composite
def nested(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Numbers of a shape."""
    if not shape:
        return draw(NUMBERS)
    return [draw(nested(shape[1:])) for _ in range(shape[0])]


@st.composite
def declarations(draw: st.DrawFn) -> Fields:
    """Long forms: most are nearly right, in one way or another."""
    kind = draw(
        st.sampled_from(
            ["bounded"] * 4
            + ["unbounded", "categorical", "onehot", "multi_categorical", "multi_onehot", "binary"]
        )
    )
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 2, 3, 0, -1]), max_size=3))
    fields: Fields = {"kind": kind}
    if shape:
        fields["shape"] = shape
    if draw(st.integers(0, 3)):
        fields["dtype"] = draw(st.sampled_from(DTYPES))
    if kind == "bounded":
        ends = [draw(bound(tuple(max(size, 0) for size in shape))) for _ in range(2)]
        # mostly in order, so that most get further than that
        numbers = all(isinstance(end, (int, float)) and not math.isnan(end) for end in ends)
        if numbers and draw(st.integers(0, 3)):
            ends.sort()
        fields |= {"low": ends[0], "high": ends[1]}
    elif kind == "categorical":
        fields["n"] = draw(st.one_of(COUNTS, LARGE_COUNTS))
    elif kind == "onehot":
        fields["n"] = draw(COUNTS)
    elif kind == "multi_categorical":
        fields["nvec"] = draw(st.lists(st.one_of(COUNTS, LARGE_COUNTS), max_size=3))
    elif kind == "multi_onehot":
        fields["nvec"] = draw(st.lists(COUNTS, max_size=3))
    return fields


def bound(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    return st.one_of(NUMBERS, NUMBERS, nested(shape), nested((*shape, 2)), nested(shape[1:]))


def short_form(fields: Fields) -> str:
    """The short form of the same declaration."""
    dtype, counts = fields.get("dtype"), fields.get("nvec", [fields["n"]] if "n" in fields else [])
    head = dtype or "float32"
    if fields["kind"] not in ("bounded", "unbounded"):
        inner = [*map(str, counts), *([f"dtype={dtype}"] if dtype else [])]
        head = f"{fields['kind']}({', '.join(inner)})" if inner or counts else fields["kind"]
    shape = f"[{', '.join(map(str, fields['shape']))}]" if "shape" in fields else ""
    domain = f" in [{fields['low']}, {fields['high']}]" if "low" in fields else ""
    return head + shape + domain.replace("nan", "inf - inf")  # a name could be one of `dims`


ENDS = ("low", "high")


def as_floats(value: Any) -> Any:
    """A whole number beyond 64 bits is a number of a float dtype all the same."""
    return [as_floats(item) for item in value] if isinstance(value, list) else float(value)


def by_hand(fields: Fields) -> TensorSpec:
    """The object, made from the fields without the compiler."""
    shape = tuple(fields.get("shape", ()))
    dtype = getattr(torch, fields["dtype"]) if "dtype" in fields else None
    nvec = fields.get("nvec", [])
    match fields["kind"]:
        case "bounded":
            dtype = dtype or torch.float32
            low, high = (as_floats(fields[end]) if dtype.is_floating_point else fields[end] for end in ENDS)
            return Bounded(low, high, shape, "cpu", dtype)
        case "unbounded" | "binary" if dtype is torch.bool and not shape:
            return Categorical(2, (), "cpu", torch.bool)
        case "unbounded" if dtype is torch.bool:
            return Binary(shape=shape, device="cpu", dtype=torch.bool)
        case "unbounded":
            return Unbounded(shape, "cpu", dtype or torch.float32)
        case "categorical":
            return Categorical(fields["n"], shape, "cpu", dtype or torch.int64)
        case "onehot":
            return OneHot(fields["n"], (*shape, fields["n"]), "cpu", dtype or torch.bool)
        case "multi_categorical":
            return MultiCategorical(nvec, (*shape, len(nvec)), "cpu", dtype or torch.int64)
        case "multi_onehot":
            return MultiOneHot(nvec, (*shape, sum(nvec)), "cpu", dtype or torch.bool)
        case _:
            return Binary(shape=shape, device="cpu", dtype=dtype or torch.int8)


def compiled(specs: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The files of a library of specs as YAML writes them, or the codes of what is wrong with it."""
    text = "specgen: 1\nspecs:\n" + "".join(f"  {name}: {spec}\n" for name, spec in specs.items())
    made = compile_sources({"schemas/lib.yaml": text}, CONFIG)
    assert bool(made.files) is not bool(made.diagnostics), text
    return {path.removeprefix("random_specs/"): text for path, text in made.files.items()}, [
        item.code for item in made.diagnostics
    ]


def yaml(fields: Fields) -> str:
    """JSON is YAML, but for how it writes numbers that are none."""
    text = json.dumps(fields)
    return text.replace("-Infinity", "-.inf").replace("Infinity", ".inf").replace("NaN", ".nan")


_PACKAGES = itertools.count()


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(drawn=st.lists(declarations(), min_size=5, max_size=12))
def test_what_is_accepted_can_be_made(
    drawn: list[Fields], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specgen.emit.project, "format_python", dict)
    accepted: list[Fields] = []
    for fields in drawn:
        long, codes = compiled({"one": yaml(fields)})
        short, _ = compiled({"one": json.dumps(short_form(fields))})
        assert long == short, (fields, short_form(fields), codes)
        if long:
            accepted.append(fields)
        assert all(code.startswith(("SG1", "SG2", "SG8")) for code in codes), (fields, codes)
    names = {f"s{index}": fields for index, fields in enumerate(accepted)}
    if not names:
        return
    made, codes = compiled({name: yaml(fields) for name, fields in names.items()})
    assert not codes
    with imported(made, "random_specs", tmp_path / str(next(_PACKAGES))):
        module = importlib.import_module("random_specs.lib")
        for name, fields in names.items():
            spec = getattr(module, f"{name}_spec")("cpu")
            assert spec == by_hand(fields), fields
            if all(count < 2**62 for count in (*fields.get("nvec", ()), fields.get("n", 0))):
                assert spec.is_in(spec.rand()), fields


MISTAKES: list[tuple[Fields, str]] = [
    ({"kind": "bounded", "low": 1, "high": 0}, "SG201"),
    ({"kind": "bounded", "shape": [2], "low": [0, 1], "high": [1, 0]}, "SG201"),
    ({"kind": "bounded", "low": math.inf, "high": math.inf}, "SG201"),
    ({"kind": "bounded", "low": -math.inf, "high": -math.inf}, "SG201"),
    ({"kind": "bounded", "low": math.nan, "high": 1}, "SG104"),
    ({"kind": "bounded", "low": 0, "high": [0, math.nan], "shape": [2]}, "SG104"),
    ({"kind": "bounded", "low": -1, "high": 1, "dtype": "uint8"}, "SG203"),
    ({"kind": "bounded", "low": 0, "high": 128, "dtype": "int8"}, "SG203"),
    ({"kind": "bounded", "low": 0, "high": 0.5, "dtype": "int32"}, "SG203"),
    ({"kind": "bounded", "low": 0, "high": math.inf, "dtype": "int64"}, "SG203"),
    ({"kind": "bounded", "low": 0, "high": 2**63, "dtype": "int64"}, "SG203"),
    ({"kind": "bounded", "low": 0, "high": 1e39}, "SG203"),
    ({"kind": "bounded", "low": 0, "high": 1, "dtype": "bool"}, "SG202"),
    ({"kind": "bounded", "low": [0, 0], "high": 1, "shape": [3]}, "SG204"),
    ({"kind": "bounded", "low": [[0], [0]], "high": 1, "shape": [2]}, "SG204"),
    ({"kind": "bounded", "low": 0, "high": 1, "shape": [0]}, "SG209"),
    ({"kind": "unbounded", "shape": [-1]}, "SG209"),
    ({"kind": "unbounded", "shape": [2**62, 4]}, "SG209"),
    ({"kind": "unbounded", "dtype": "float16"}, "SG202"),
    ({"kind": "categorical", "n": 0}, "SG209"),
    ({"kind": "categorical", "n": -1}, "SG209"),
    ({"kind": "categorical", "n": 257, "dtype": "uint8"}, "SG208"),
    ({"kind": "categorical", "n": 129, "dtype": "int8"}, "SG208"),
    ({"kind": "categorical", "n": 3, "dtype": "bool"}, "SG208"),
    ({"kind": "categorical", "n": 2**24 + 2, "dtype": "float32"}, "SG208"),
    ({"kind": "categorical", "n": 2**63}, "SG208"),
    ({"kind": "multi_categorical", "nvec": [2, 257], "dtype": "uint8"}, "SG208"),
    ({"kind": "multi_categorical", "nvec": [1, 2**63 - 1, 2]}, "SG208"),
    ({"kind": "multi_categorical", "nvec": []}, "SG202"),
    ({"kind": "multi_onehot", "nvec": [2, 0]}, "SG209"),
    ({"kind": "multi_onehot", "nvec": []}, "SG202"),
    ({"kind": "onehot", "n": 0}, "SG209"),
]


@pytest.mark.parametrize(("fields", "code"), MISTAKES, ids=lambda value: str(value)[:80])
def test_mistakes_are_diagnostics(fields: Fields, code: str) -> None:
    files, codes = compiled({"one": yaml(fields)})
    assert files == {}
    assert codes == [code]


MADE_BY_NOBODY = [each for each, code in MISTAKES if each.get("dtype") != "float16"]


@pytest.mark.parametrize("fields", MADE_BY_NOBODY, ids=lambda value: str(value)[:80])
def test_the_runtime_refuses_most_of_them_too(fields: Fields) -> None:
    """The check is stricter where an object could be made, but not used: these are the exceptions."""
    try:
        by_hand(fields)
    except (ValueError, RuntimeError, TypeError, OverflowError):
        return
    stricter: list[Fields] = [
        {"kind": "bounded", "low": math.inf, "high": math.inf},
        {"kind": "bounded", "low": -math.inf, "high": -math.inf},
        {"kind": "bounded", "low": 0, "high": 1, "dtype": "bool"},
        {"kind": "bounded", "low": 0, "high": 1, "shape": [0]},
        {"kind": "unbounded", "shape": [-1]},
        {"kind": "unbounded", "shape": [2**62, 4]},
        {"kind": "categorical", "n": -1},
        {"kind": "categorical", "n": 2**24 + 2, "dtype": "float32"},
        {"kind": "categorical", "n": 2**63},
        {"kind": "multi_categorical", "nvec": [1, 2**63 - 1, 2]},
    ]
    assert fields in stricter


class TestEmptyDomains:
    """Bounds that are legal one by one."""

    @pytest.mark.parametrize(
        "text", ["float32 in [-inf, inf]", "float32 in [-inf, 1]", "float64 in [0, inf]"]
    )
    def test_half_open_ones_are_not(self, text: str) -> None:
        assert compiled({"one": text})[1] == []

    @pytest.mark.parametrize(
        "text", ["float32 in [inf - inf, 1]", "int64 in [0, inf - inf]", "int32 in [0, inf % 2]"]
    )
    def test_what_is_no_number(self, text: str) -> None:
        assert compiled({"one": text})[1] == ["SG802"]
