"""Transforms of actions on the meta device, where tensors have shapes and no numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.specs import Bounded
from specgen_runtime.testing import check_devices
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs import Pendulum
from specgen_std.transforms import ActionDiscretizer, ActionScaling

BATCHES = [(), (3,), (2, 3)]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("standard_normal", [True, False])
def test_scaled_actions_on_the_meta_device(batch: tuple[int, ...], standard_normal: bool) -> None:
    scaling = ActionScaling(standard_normal=standard_normal)
    check_devices(lambda: TransformedEnv(Pendulum(batch_size=batch), scaling.clone()), ["meta", "cpu"])
    env = TransformedEnv(Pendulum(batch_size=batch), scaling).to("meta")
    assert env.action_spec.shape == (*batch, 1)
    assert env.to("cpu").action_spec == Bounded(-1.0 if standard_normal else 0.0, 1.0, (*batch, 1))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("sampling", [None, "random"])
def test_chosen_intervals_on_the_meta_device(
    batch: tuple[int, ...], categorical: bool, sampling: Any
) -> None:
    cells = ActionDiscretizer(5, categorical=categorical, sampling=sampling)
    check_devices(lambda: TransformedEnv(Pendulum(batch_size=batch), cells.clone()), ["meta", "cpu"])
    env = TransformedEnv(Pendulum(batch_size=batch), cells).to("meta")
    assert env.action_spec.shape == (*batch, 1 if categorical else 5)
    assert env.action_spec.device == torch.device("meta")
    data = env.to("cpu").rollout(2)
    assert data["action"].shape[-1] == (1 if categorical else 5)
