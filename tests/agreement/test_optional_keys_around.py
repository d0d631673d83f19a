"""Transforms that step the environment and read keys that may be missing: fused, dynamic and interpreted."""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import FrameSkipTransform, RenameTransform, RewardSum, StepCounter

from tests.agreement.interpreted import interpreted, printed_programs
from tests.agreement.test_optional_keys import ENV, SOURCES, SUBSETS, Subset
from tests.agreement.test_random_chains import same_chains
from tests.support import compile_texts, imported

TRANSFORMS = Path("tests/cases/good/transform_with_optional_keys_around/transforms.yaml").read_text()
POINT = ENV.partition("\ntransforms:\n")[0].replace(
    "import: [specgen_std/transforms/keys, transforms]",
    "import: [transforms, specgen_std/transforms/keys, specgen_std/transforms/reward_sum, "
    "specgen_std/transforms/step_counter, specgen_std/transforms/time]",
)
PLACES = ["Plain", "Nested", "Standing", "Sticking"]


def name(keys: Subset, place: str) -> str:
    return "".join([place, *(key.title() for key in keys)])


def renamed(keys: Subset) -> list[str]:
    if not keys:
        return []
    sources = ", ".join(SOURCES[key] for key in keys)
    return [f"RenameTransform: {{in_keys: [{sources}], out_keys: [{', '.join(keys)}]}}"]


def chain(keys: Subset, place: str) -> str:
    entries = (
        renamed(keys)
        + {
            "Plain": ["Reached", "RewardSum"],
            "Nested": [
                "StepCounter",
                "Reached: {count: 2, gain: 2.0}",
                "FrameSkipTransform: {frame_skip: 2}",
            ],
            "Standing": ["Reached: {count: 2}", "Still", "StepCounter: {max_steps: 5}"],
            "Sticking": ["Stuck", "RewardSum", "StepCounter"],
        }[place]
    )
    allowed = ["    allow: [SG328]"] if place == "Nested" else []
    lines = [f"      - {entry}" for entry in entries]
    return "\n".join([f"  {name(keys, place)}:", "    env: Point", *allowed, "    transforms:", *lines, ""])


def dynamic(made: Any, keys: Subset, place: str) -> list[Any]:
    first = [RenameTransform([SOURCES[key] for key in keys], [*keys])] if keys else []
    reached = made.transforms.Reached
    if place == "Plain":
        return [*first, reached(), RewardSum()]
    if place == "Nested":
        return [*first, StepCounter(), reached(count=2, gain=2.0), FrameSkipTransform(2)]
    if place == "Standing":
        return [*first, reached(count=2), made.transforms.Still(), StepCounter(5)]
    return [*first, made.transforms.Stuck(), RewardSum(), StepCounter()]


@pytest.fixture(scope="module")
def compiled() -> Any:
    texts = {"transforms.yaml": TRANSFORMS}
    chains = "".join(chain(keys, place) for keys, place in product(SUBSETS, PLACES))
    texts["point.yaml"] = POINT + "\n\nchains:\n" + chains
    with printed_programs() as programs:
        files, said, _ = compile_texts(texts, "optional_around")
    assert files, said
    with tempfile.TemporaryDirectory() as folder, imported(files, "optional_around", Path(folder)) as package:
        yield package, programs


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("keys", SUBSETS, ids=lambda keys: "_".join(keys) or "none")
def test_fused_dynamic_and_interpreted(compiled: Any, keys: Subset, place: str) -> None:
    package, programs = compiled
    made = getattr(package.point, name(keys, place))
    for batch in [(), (3,), (2, 3)]:
        fused = made(batch_size=batch)
        point = package.point.Point(batch_size=batch)
        other = TransformedEnv(point, Compose(*dynamic(package, keys, place)))
        if place in ("Plain", "Standing"):
            assert ("goals" in fused.observation_spec) is ("goal" in keys)
            assert ("steps" in fused.observation_spec) is ("weight" in keys)
        with interpreted(sys.modules[made.__module__], programs, place.lower()) as calls:
            same_chains(fused, other)
        assert sum(calls.values()) > 0


@pytest.mark.parametrize("there", [False, True])
def test_steps_after_a_reset(compiled: Any, there: bool) -> None:
    package, _ = compiled
    counts = []
    for least in (0, 3):
        first = [RenameTransform(["mass"], ["weight"])] if there else []
        warm = package.transforms.Warm(least=least)
        env = TransformedEnv(package.point.Point(batch_size=(50,)), Compose(*first, StepCounter(), warm))
        env.set_seed(1)
        torch.manual_seed(1)
        root = env.reset()
        if there:  # one more or less than the weight says, whatever the parameter is
            assert (root["weight"] > 0).all()
        counts.append(root["step_count"].clone())
    if there:
        assert torch.equal(*counts)
        assert len(counts[0].unique()) > 2
    else:
        assert not counts[0].any()
        assert counts[1].max() == 3
