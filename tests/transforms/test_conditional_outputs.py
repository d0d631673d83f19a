"""Outputs that exist under a condition only: the keys that users pass are for those that there are."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs import Pendulum

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
transforms:
  Some:
    params: {p: {type: bool, default: false, static: true}, q: {type: float, optional: true}}
    in: {x: {each: [observation], type: "float32[...]"}}
    out:
      y: {each: x, name: "y_{}"}
      z: {each: x, name: "z_{}", when: p}
      w: {each: x, name: "w_{}", when: given(q)}
      v: {each: x, name: "w_{}", when: not given(q) and p}
    map: {y: 2 * x, z: 3 * x, w: q * x, v: 5 * x}
  Scaled:
    params: {scale: {type: "float[...]", optional: true}}
    in: {x: {each: [observation], type: "float[...]"}}
    out: {y: {each: x, name: same}}
    map: {y: "where(given(scale), scale * x, x)"}
"""


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(generate({"some.yaml": SCHEMA}, "some"), "some", tmp_path_factory.mktemp("some")) as made:
        yield made


def test_a_tensor_that_is_not_given_is_not_read(some: ModuleType) -> None:
    # It was converted to the input's dtype before the map that does without it was called.
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert some.Scaled()._apply_transform(x).equal(x)
    made = some.Scaled(scale=[2, 3, 4])._apply_transform(x)
    assert made.dtype is torch.float64
    assert made.tolist() == [2, 6, 12]
    plain, scaled = (TransformedEnv(Pendulum(), some.Scaled(scale=scale)) for scale in (None, [2, 3, 4]))
    assert plain.reset()["observation"].shape == scaled.reset()["observation"].shape == (3,)


@pytest.mark.parametrize(
    ("given", "factors"),
    [({}, [2]), ({"q": 7.0}, [2, 7]), ({"p": True}, [2, 3, 5]), ({"p": True, "q": 7.0}, [2, 3, 7])],
)
def test_out_keys_are_for_what_exists(some: ModuleType, given: dict[str, Any], factors: list[float]) -> None:
    names = [f"k{place}" for place in range(2 * len(factors))]
    env = TransformedEnv(Pendulum(), some.Some(["observation", "th"], names, **given))
    data = env.reset()
    for place, name in enumerate(names):
        source = data["observation" if place < len(factors) else "th"]
        assert data[name].equal(factors[place % len(factors)] * source)
    assert set(data.keys()) & {"y_th", "z_th", "w_th"} == set()
    for wrong in (names[:-1], [*names, "more"]):
        each = "one" if len(factors) == 1 else str(len(factors))
        with pytest.raises(ValueError, match=f"Some needs {each} of out_keys for each of in_keys, got"):
            some.Some(["observation", "th"], wrong, **given)
