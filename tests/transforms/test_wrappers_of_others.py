"""What a chain is told to write in the place of wrappers of Gymnasium and Stable-Baselines3."""

from __future__ import annotations

import re

import pytest
import specgen_std.transforms
from specgen_runtime import transforms

from specgen.schema.other_names import _WRAPPERS, IN_PYTHON, made_in_python, wrapper_named
from tests.support import compile_texts

SCHEMA = """\
specgen: 1
import: [{imported}]
envs:
  Scene:
    state: {{x: float32}}
    action: {{action: categorical(2)}}
    observation: {{observation: "float32[2]", pixels: "float32[3, 96, 96]"}}
    reset: {{x: "uniform(-1, 1)"}}
    step: {{next.x: x + action, reward: x}}
    observe: {{observation: "stack(x, x)", pixels: "x * ones((3, 96, 96))"}}
chains:
  Wrapped: {{env: Scene, transforms: [{transform}]}}
"""


@pytest.mark.parametrize("wrapper", sorted(_WRAPPERS))
def test_it_can_be_written(wrapper: str) -> None:
    told = wrapper_named(wrapper)
    assert told is not None
    found = re.fullmatch(r"write `(.*)`, and import `(specgen_std/transforms/\w+)`", told)
    assert found is not None
    transform, imported = found.groups()
    _, said, _ = compile_texts(
        {"wrapped.yaml": SCHEMA.format(transform=transform, imported=imported)}, "wrapped"
    )
    assert "error" not in str(said), said
    _, said, _ = compile_texts(
        {"wrapped.yaml": SCHEMA.format(transform=wrapper, imported=imported)}, "wrapped"
    )
    assert told in str(said)


def test_what_python_has_and_chains_do_not() -> None:
    bases = {
        *(
            "Compose",
            "Transform",
            "TransformedEnv",
            "GeneratedTransform",
            "FunctionTransform",
            "ReplayTransform",
        ),
        "CommonStatistics",
    }
    assert {*IN_PYTHON} == {*transforms.__all__} - bases - {*specgen_std.transforms.__all__}
    for name in IN_PYTHON:
        told = made_in_python(name)
        assert told is not None
        if issubclass(getattr(transforms, name), transforms.ReplayTransform):
            assert "buffer.append_transform" in told, name
