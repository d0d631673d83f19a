"""Policies over several actions: heads behind one layer, and one key for the sum of their log-probabilities."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import (
    Categorical,
    NormalParamExtractor,
    OutputHeads,
    ProbabilisticActor,
    SafeModule,
    TanhNormal,
)
from specgen_runtime.testing import assert_identical
from tensordict import TensorDict
from tensordict.nn import (
    CompositeDistribution,
    InteractionType,
    set_composite_lp_aggregate,
    set_interaction_type,
    set_skip_existing,
)
from torch import nn


def _mover(
    net: nn.Module | None = None, in_keys: tuple[str, ...] = ("observation",), **keywords: Any
) -> ProbabilisticActor:
    """A policy over a direction and a force, by one layer where no network is given."""
    torch.manual_seed(0)
    if net is None:
        net = nn.Sequential(nn.Linear(2, 5), OutputHeads((3, nn.Identity()), (2, NormalParamExtractor())))
    keys: list[Any] = [("params", "move", "logits"), ("params", "force", "loc"), ("params", "force", "scale")]
    return ProbabilisticActor(
        SafeModule(net, in_keys=list(in_keys), out_keys=keys),
        in_keys=["params"],
        out_keys=[("action", "move"), ("action", "force")],
        distribution_class=CompositeDistribution,
        distribution_kwargs={
            "distribution_map": {"move": Categorical, "force": TanhNormal},
            "name_map": {"move": ("action", "move"), "force": ("action", "force")},
        },
        return_log_prob=True,
        default_interaction_type=InteractionType.RANDOM,
        **keywords,
    )


@pytest.mark.parametrize("batch", [(7,), (2, 3), ()], ids=str)
@pytest.mark.parametrize("named", [False, True])
def test_a_call_with_tensors_has_a_log_probability_of_each_row(batch: tuple[int, ...], named: bool) -> None:
    """As a call with a tensordict of that batch; they had one number for all rows."""
    observation = torch.randn(*batch, 2, generator=torch.Generator().manual_seed(1))
    actors = [_mover(log_prob_key="log_prob", generator=torch.Generator().manual_seed(0)) for _ in range(2)]
    wanted = actors[0](TensorDict({"observation": observation}, batch))
    found = actors[1](observation=observation) if named else actors[1](observation)
    values = dict(zip(actors[1].out_keys, found, strict=True))
    assert values["log_prob"].shape == batch
    for key, value in values.items():
        assert torch.equal(value, wanted[key])


def test_a_call_with_tensors_of_one_number_for_all_rows_has_one_log_probability() -> None:
    """Where an input has no rows, there is no batch."""

    class Net(nn.Module):
        def forward(self, observation: torch.Tensor, heat: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return observation * heat, observation, observation.exp()

    actor = _mover(Net(), ("observation", "heat"), log_prob_key="log_prob")
    assert actor(torch.randn(5, 3), torch.tensor(2.0))[-1].shape == ()


@pytest.mark.parametrize("aggregate", [False, True])
def test_one_key_of_a_log_probability_of_several_actions_has_the_sum(aggregate: bool) -> None:
    with set_composite_lp_aggregate(aggregate):
        actor = _mover(log_prob_key="action_log_prob", generator=torch.Generator().manual_seed(0))
        assert actor.out_keys[-1] == "action_log_prob"
        data = actor(TensorDict({"observation": torch.randn(7, 2)}, [7]))
        parts = actor.get_dist(data.select("observation")).dists
        wanted = sum(part.log_prob(data[key]) for key, part in parts.items())
        torch.testing.assert_close(data["action_log_prob"], wanted)
        torch.testing.assert_close(actor.log_prob(data.select("observation", "action")), wanted)
        with set_interaction_type(InteractionType.DETERMINISTIC):
            sure = actor(data.select("observation"))
        assert torch.equal(sure["action", "move"], parts["action", "move"].mode)
        again = _mover(log_prob_key="action_log_prob", generator=torch.Generator().manual_seed(0))
        assert torch.equal(again(data.select("observation"))["action", "force"], data["action", "force"])


@pytest.mark.parametrize("aggregate", [False, True])
def test_the_sum_of_log_probabilities_is_written_however_the_policy_is_called(aggregate: bool) -> None:
    def seeded(**keywords: Any) -> ProbabilisticActor:
        generator = torch.Generator().manual_seed(0)
        return _mover(log_prob_key="action_log_prob", generator=generator, **keywords)

    with set_composite_lp_aggregate(aggregate):
        data = TensorDict({"observation": torch.randn(7, 2)}, [7])
        wanted = seeded()(data.clone())
        apart = seeded()(data.clone(), tensordict_out=TensorDict(batch_size=[7]))
        assert_identical(apart, wanted.select(*seeded().out_keys))
        compiled = torch.compile(_mover(log_prob_key="action_log_prob"), backend="eager")(data.clone())
        assert {*compiled.keys(True, True)} == {*wanted.keys(True, True)}
        torch.testing.assert_close(compiled["action_log_prob"], seeded().log_prob(compiled))
        several = seeded(num_samples=torch.Size([3]))(data.select("observation"))
        assert several["action_log_prob"].shape == (3, 7)
        torch.testing.assert_close(several["action_log_prob"], seeded().log_prob(several))
        with set_skip_existing(True):
            kept = wanted.clone().fill_("action_log_prob", 5.0)
            assert (seeded()(kept)["action_log_prob"] == 5).all()


def test_log_probabilities_of_several_actions_without_one_key_are_tensordicts() -> None:
    with set_composite_lp_aggregate(False):
        data = _mover()(TensorDict({"observation": torch.randn(7, 2)}, [7]))
        assert data["action", "move_log_prob"].shape == (7,)
        assert "action_log_prob" not in data


@pytest.mark.peers
def test_torchrl_refuses_one_key_for_several_actions() -> None:
    modules = pytest.importorskip("torchrl.modules")
    with set_composite_lp_aggregate(False), pytest.raises(RuntimeError, match="log_prob_keys must be used"):
        modules.ProbabilisticActor(
            nn.Identity(), in_keys=["params"], out_keys=["a", "b"], log_prob_key="sum", return_log_prob=True
        )


def test_heads_read_their_pieces() -> None:
    heads = OutputHeads((2, nn.Identity()), (4, NormalParamExtractor()))
    values = torch.randn(3, 5, 6)
    first, loc, scale = heads(values)
    assert torch.equal(first, values[..., :2])
    assert torch.equal(loc, values[..., 2:4])
    assert (scale > 0).all()
    with pytest.raises(ValueError, match="one number or more"):
        OutputHeads((0, nn.Identity()))
