"""Greedy policies over quantiles of action values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import (
    MLP,
    DistributionalQValueModule,
    QuantileQValueActor,
    QuantileQValueModule,
    QValueModule,
)
from specgen_runtime.specs import Categorical, Composite, MultiOneHot, OneHot
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn


def quantiles(*batch: int, actions: int = 3) -> torch.Tensor:
    return torch.randn(*batch, 5, actions, generator=torch.Generator().manual_seed(0))


def test_chooses_the_greatest_mean() -> None:
    values = quantiles(4)
    action, same = QuantileQValueModule("categorical")(values)
    assert torch.equal(action, values.mean(-2).argmax(-1))
    assert torch.equal(same, values)
    mask = torch.ones(4, 3, dtype=torch.bool).scatter(-1, action[:, None], False)
    masked = QuantileQValueModule("categorical", action_mask_key="mask")
    out = masked(TensorDict({"action_value": values, "mask": mask}, [4]))
    assert torch.equal(out["action"], values.mean(-2).masked_fill(~mask, -9).argmax(-1))
    assert torch.equal(out["action_value"].mean(-2).argmax(-1), out["action"])
    allowed = mask[:, None].expand_as(values)
    assert torch.equal(out["action_value"][allowed], values[allowed])


def test_one_action_even_in_a_tie_and_one_of_each_choice() -> None:
    action, _ = QuantileQValueModule(spec=OneHot(3))(torch.zeros(2, 5, 3))
    assert action.dtype == torch.bool
    assert action.int().tolist() == [[1, 0, 0], [1, 0, 0]]
    values = quantiles(6, actions=5)
    action, _ = QuantileQValueModule(spec=MultiOneHot([2, 3]))(values)
    choices = [part.long().argmax(-1) for part in action.split([2, 3], -1)]
    expected = [part.mean(-2).argmax(-1) for part in values.split([2, 3], -1)]
    assert all(torch.equal(one, other) for one, other in zip(choices, expected, strict=True))


def test_actor() -> None:
    net = MLP(in_features=4, out_features=(5, 3), num_cells=[8])
    actor = QuantileQValueActor(net, spec=Categorical(3))
    data = TensorDict({"observation": torch.randn(6, 4)}, [6])
    out = actor(data)
    assert torch.equal(out["action_value"], net(data["observation"]))
    assert Categorical(3).expand(6).is_in(out["action"])
    assert (actor.action_space, actor.spec) == ("categorical", Categorical(3))
    inner = TensorDictModule(net, ["observation"], ["q"])
    named = QuantileQValueActor(
        inner, spec=Composite(push=OneHot(3)), action_value_key="q", action_key="push"
    )
    assert torch.equal(named(data)["push"].long().argmax(-1), out["action"])


@pytest.mark.parametrize(
    "made",
    [
        lambda **words: QuantileQValueModule("categorical", **words),
        lambda **words: DistributionalQValueModule(
            "categorical", torch.tensor([-1.0, -2.0, 0, 1, 2]), **words
        ),
    ],
    ids=["quantiles", "atoms"],
)
def test_masks_and_batches_that_do_not_fit(made: Any) -> None:
    masked = made(action_mask_key="mask")
    for mask in (torch.ones(4, 3), torch.ones(4, 1, 3) > 0, torch.ones(4, 5, 3) > 0, torch.ones(4, 2) > 0):
        with pytest.raises(ValueError, match=r"the action mask must be torch.bool of shape \[4, 3\], got"):
            masked(TensorDict({"action_value": quantiles(4).log_softmax(-2), "mask": mask}, [4]))
    one = QValueModule("categorical", action_mask_key="mask")
    with pytest.raises(ValueError, match=r"the action mask must be torch.bool of shape \[4, 3\], got"):
        one(TensorDict({"action_value": quantiles(4)[:, 0], "mask": torch.ones(4, 1, 3) > 0}, [4]))
    with pytest.raises(ValueError, match=r"'action_value' has \(5, 3\) in a batch of \[5\]"):
        made()(TensorDict({"action_value": quantiles()}, [5]))


def test_refuses() -> None:
    with pytest.raises(
        ValueError,
        match=r"quantiles must have shape \(\*batch, n_quantiles, n_actions\), 'action_value' has \(3,\)",
    ):
        QuantileQValueModule("categorical")(torch.zeros(3))
    with pytest.raises(ValueError, match="out_keys must be the action and the quantiles"):
        QuantileQValueModule("categorical", out_keys=["action"])
    with pytest.raises(KeyError, match="QuantileQValueModule: the quantiles 'action_value'"):
        QuantileQValueModule("categorical")(TensorDict({}, [2]))
    with pytest.raises(KeyError, match="does not write 'action_value'"):
        QuantileQValueActor(TensorDictModule(nn.Linear(1, 1), ["a"], ["b"]), spec=OneHot(3))
    with pytest.raises(TypeError, match=r"must be an nn\.Module"):
        QuantileQValueActor(3, spec=OneHot(3))  # type: ignore[arg-type]
