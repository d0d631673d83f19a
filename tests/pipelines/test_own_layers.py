"""Networks of pipelines whose layers are a class of one's own."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from specgen_runtime.modules import MakesLayers, own_layers
from torch import Tensor, nn

from tests.pipelines.small import optimizers, small_config
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
doc: Layers of one's own.
import: [specgen_std/chains/pendulum, specgen_std/losses/ppo]
pipelines:
  Mine:
    doc: Policy and critic on layers of one's own, the critic with further ones that read the action, too.
    env: PendulumTrain
    params: {width: 24}
    networks:
      encoder: {python: own_nets.encoders:Encoder, features: width}
      actor_network: {trunk: encoder, gru: 8}
      critic_network: {trunk: encoder, in: [observation], python: own_nets.encoders:Encoder, features: 8, mlp: [8]}
    loss: {ClipPPOLoss: {entropy_bonus: false}}
    value_estimator: {gae: {gamma: 0.9, lmbda: 0.9}}
    data: {on_policy: {num_envs: 4, num_steps: 16, minibatches: 2}}
    optimizer: {adam: {lr: 1.0e-3}}
    stop: {frames: 2_000}
"""
ENCODER = """\
import torch
from torch import nn


class Encoder(nn.Module):
    made = []

    def __init__(self, *, in_shapes, out_features):
        super().__init__()
        Encoder.made.append((in_shapes, out_features))
        self.layers = nn.ModuleList(nn.Linear(shape[0], out_features) for shape in in_shapes)

    def forward(self, *inputs):
        return torch.tanh(sum(layer(one) for layer, one in zip(self.layers, inputs, strict=True)))
"""


def test_a_pipeline_trains_them(tmp_path: Path) -> None:
    files = generate({"mine.yaml": SCHEMA}, "owned")
    with (
        imported(files, "owned", tmp_path),
        imported({"__init__.py": "", "encoders.py": ENCODER}, "own_nets", tmp_path),
    ):
        module = importlib.import_module("owned.mine")
        config = small_config(module)
        fresh = module.Mine(config)
        made = importlib.import_module("own_nets.encoders").Encoder.made
        assert [(list(shapes), size) for shapes, size in made] == [([(3,)], 24), ([(24,), (3,)], 8)]
        parts = module.train(config, folder=tmp_path / "run")
        before, after = (optimizers(one)["optimizer"].param_groups[0]["params"] for one in (fresh, parts))
        assert {id(one) for one in parts.encoder.parameters()} <= {id(one) for one in after}
        for one, other in zip(before, after, strict=True):
            assert not torch.equal(one, other)


class Wide(nn.Module):
    def __init__(self, *, in_shapes: Sequence[tuple[int, ...]], out_features: int) -> None:
        super().__init__()
        self.layer = nn.Linear(in_shapes[0][0], out_features + 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def _number(*, in_shapes: Sequence[tuple[int, ...]], out_features: int) -> nn.Module:
    return out_features  # type: ignore[return-value]


def _pair(*, in_shapes: Sequence[tuple[int, ...]], out_features: int) -> nn.Module:
    return nn.GRU(in_shapes[0][0], out_features, batch_first=True)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (Wide, ValueError, r"layers of Wide give torch.float32 of shape \[2, 5\] .* of shape \[2, 4\]"),
        (_number, TypeError, "_number makes a int, and layers are an nn.Module"),
        (_pair, TypeError, "layers of _pair give a tuple, expected a tensor"),
    ],
)
def test_what_they_give_is_checked(make: MakesLayers, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        own_layers(make, in_shapes=[(3,)], out_features=4)


def test_layers_are_in_training_afterwards() -> None:
    def dropped(*, in_shapes: Sequence[tuple[int, ...]], out_features: int) -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(), nn.Linear(3, out_features))

    layers = own_layers(dropped, in_shapes=[(3,)], out_features=4)
    assert all(module.training for module in layers.modules())
    norm = next(module for module in layers.modules() if isinstance(module, nn.BatchNorm1d))
    assert norm.num_batches_tracked == 0


def test_layers_that_do_not_fit_their_inputs_are_named_with_them() -> None:
    def narrow(*, in_shapes: Sequence[tuple[int, ...]], out_features: int) -> nn.Module:
        return nn.Linear(in_shapes[0][0] + 1, out_features)

    wanted = r"layers of .*narrow in actor_network can't be called with .* 'observation' \[2, 3\]: RuntimeError: mat1 and"
    with pytest.raises(ValueError, match=wanted):
        own_layers(narrow, in_shapes=[(3,)], out_features=4, network="actor_network", in_keys=["observation"])
