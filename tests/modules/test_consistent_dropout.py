"""Dropout with masks in the data: TorchRL's numbers, one mask for each episode, and the same mask in a loss."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.envs import ExplorationType, set_exploration_type
from specgen_runtime.modules import (
    ConsistentDropout,
    ConsistentDropoutModule,
    IndependentNormal,
    NormalParamExtractor,
    ProbabilisticActor,
    get_primers_from_module,
)
from specgen_std.envs import Pendulum
from specgen_std.losses import ClipPPOLoss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn


@pytest.mark.peers
def test_numbers_are_torchrls() -> None:
    theirs = pytest.importorskip("torchrl.modules").ConsistentDropout(0.3)
    mine, x = ConsistentDropout(0.3), torch.randn(4, 5)
    torch.manual_seed(3)
    left, mask = mine(x)
    torch.manual_seed(3)
    wanted = theirs(x)
    torch.testing.assert_close((left, mask), wanted, rtol=0, atol=0)
    torch.testing.assert_close(mask.unique(), torch.tensor([0.0, 1 / 0.7]))
    torch.testing.assert_close(mine(x, mask)[0], left, rtol=0, atol=0)
    assert mine.eval()(x, mask) is x


def test_the_mask_stands_in_the_data() -> None:
    module = ConsistentDropoutModule(0.5, "hidden")
    data = TensorDict({"hidden": torch.ones(3, 40)}, [3])
    module(data)
    assert data["hidden_mask"].shape == (3, 40)
    torch.testing.assert_close(data["hidden"], data["hidden_mask"])
    again = module(TensorDict({"hidden": torch.full((3, 40), 2.0), "hidden_mask": data["hidden_mask"]}, [3]))
    torch.testing.assert_close(again["hidden"], 2 * data["hidden_mask"])
    assert module.eval()(TensorDict({"hidden": torch.ones(3)}, [3])).keys() == {"hidden"}


def test_other_keys() -> None:
    module = ConsistentDropoutModule(0.5, ["x", ("masks", "x")], ["y", ("masks", "x")])
    data = module(TensorDict({"x": torch.ones(3, 4)}, [3]))
    torch.testing.assert_close(data["y"], data["masks", "x"])
    torch.testing.assert_close(data["x"], torch.ones(3, 4))


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_what_is_no_probability_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="p must be in"):
        ConsistentDropoutModule(p, "x")
    with pytest.raises(ValueError, match="p is a probability"):
        ConsistentDropout(p=2 * p if p > 0 else p)
    with pytest.raises(ValueError, match="the keys are that of the entry and that of its mask"):
        ConsistentDropoutModule(0.5, ["a", "b", "c"])
    with pytest.raises(RuntimeError, match="input_shape"):
        ConsistentDropoutModule(0.5, "x").make_tensordict_primer()


def test_one_mask_for_each_episode() -> None:
    torch.manual_seed(0)
    policy = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 16), in_keys=["observation"], out_keys=["hidden"]),
        ConsistentDropoutModule(0.5, "hidden", input_shape=(2, 16)),
        TensorDictModule(nn.Linear(16, 1), in_keys=["hidden"], out_keys=["action"]),
    )
    primer = get_primers_from_module(policy)
    assert primer is not None
    env = Pendulum(batch_size=[2]).append_transform(primer)
    first, second = (env.rollout(4, policy)["hidden_mask"] for _ in range(2))
    assert (first == first[:, :1]).all()
    assert (second == second[:, :1]).all()
    assert (first != second).any()


def test_a_loss_computes_with_the_masks_of_the_data() -> None:
    torch.manual_seed(0)
    network = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 16), in_keys=["observation"], out_keys=["hidden"]),
        ConsistentDropoutModule(0.5, "hidden"),
        TensorDictModule(
            nn.Sequential(nn.Linear(16, 4), NormalParamExtractor()),
            in_keys=["hidden"],
            out_keys=["loc", "scale"],
        ),
    )
    policy = ProbabilisticActor(
        network, in_keys=["loc", "scale"], distribution_class=IndependentNormal, return_log_prob=True
    )
    with set_exploration_type(ExplorationType.RANDOM):
        data = policy(TensorDict({"observation": torch.randn(20, 3)}, [20])).detach()
    data["advantage"] = torch.randn(20, 1)
    loss = ClipPPOLoss(policy, None)
    same = loss(data.exclude("hidden", "loc", "scale"))
    torch.testing.assert_close(same["max_ratio"], torch.tensor(1.0))
    other = loss(data.exclude("hidden", "hidden_mask", "loc", "scale"))  # goes without, and draws others
    assert other["max_ratio"] > 1.1


def test_missing_entries_and_masks_of_other_shapes_are_refused() -> None:
    module = ConsistentDropoutModule(0.5, "hidden")
    with pytest.raises(
        KeyError, match="ConsistentDropoutModule: the input 'hidden' is not in the tensordict"
    ):
        module(TensorDict({"hidden_mask": torch.ones(3, 4)}, [3]))
    with pytest.raises(
        ValueError, match=r"mask 'hidden_mask' has the shape of 'hidden', \[3, 4\], got \[3, 1\]"
    ):
        module(TensorDict({"hidden": torch.ones(3, 4), "hidden_mask": torch.ones(3, 1)}, [3]))
    with pytest.raises(ValueError, match=r"shape of its input, \[3, 4\], got \[4\]"):
        ConsistentDropout(0.5)(torch.ones(3, 4), torch.ones(4))
