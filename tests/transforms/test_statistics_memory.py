"""What is learned is kept apart from the data that it was learned from."""

from __future__ import annotations

import importlib
from pathlib import Path

import torch
from specgen_runtime.transforms import TransformedEnv

from tests.support import generate, imported
from tests.transforms.test_statistics import Replay

SCHEMA = """
specgen: 1
transforms:
  FirstNumber:
    in: {x: {each: [position], type: "float64[n]"}}
    out: {moved: {each: x, name: moved, type: like(x)}}
    buffers: {first: {each: x, type: float64, init: 0.0}}
    update: {next.first: "batch_sum(x)[0]"}
    map: {moved: x - first}
"""


def test_a_part_of_the_data_that_changes_later(tmp_path: Path) -> None:
    with imported(generate({"part.yaml": SCHEMA}, "parts"), "parts", tmp_path):
        transform = importlib.import_module("parts.part").FirstNumber()
        values = torch.full((3, 2), 5.0, dtype=torch.float64)
        env = TransformedEnv(Replay(values, torch.zeros(3, 1, dtype=torch.bool)), transform)
        env.reset()["position"].fill_(7.0)
        assert [value.item() for value in transform.state_dict().values()] == [5.0]
