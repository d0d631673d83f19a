"""Epsilon-greedy exploration."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.modules import EGreedyModule, QValueActor
from specgen_runtime.specs import Categorical, Composite, OneHot, TensorSpec
from tensordict import TensorDict
from tensordict.nn import InteractionType, TensorDictSequential
from tensordict.nn.probabilistic import set_interaction_type
from torch import nn

SPECS = [Categorical(3), OneHot(3)]


def greedy(spec: TensorSpec, *batch: int) -> TensorDict:
    torch.manual_seed(0)
    data = TensorDict({"observation": torch.randn(*batch, 4)}, batch)
    result: TensorDict = QValueActor(nn.Linear(4, 3), spec=spec)(data)
    return result


@pytest.mark.parametrize("spec", SPECS, ids=["categorical", "one-hot"])
@pytest.mark.parametrize("batch", [(), (3,), (50,), (4, 3)])
def test_explores_by_epsilon_and_stays_in_the_spec(spec: TensorSpec, batch: tuple[int, ...]) -> None:
    data = greedy(spec, *batch)
    before = data["action"].clone()
    assert torch.equal(EGreedyModule(spec, eps_init=0.0, eps_end=0.0)(data.clone())["action"], before)
    after = EGreedyModule(spec, eps_init=1.0)(data.clone())["action"]
    assert spec.is_in(after)
    assert after.dtype == before.dtype
    assert after.shape == before.shape


def test_share_of_random_actions() -> None:
    data = TensorDict({"action": torch.zeros(40_000, dtype=torch.int64)}, [40_000])
    torch.manual_seed(0)
    share = (EGreedyModule(Categorical(4), eps_init=0.4)(data)["action"] != 0).float().mean().item()
    assert share == pytest.approx(0.4 * 3 / 4, abs=0.01)


@pytest.mark.parametrize("mode", [InteractionType.DETERMINISTIC, InteractionType.MODE, InteractionType.MEAN])
def test_is_silent_unless_exploring(mode: InteractionType) -> None:
    data = greedy(Categorical(3), 50)
    module = EGreedyModule(Categorical(3), eps_init=1.0)
    before = data["action"].clone()
    with set_interaction_type(mode):
        assert torch.equal(module(data)["action"], before)
    with set_interaction_type(InteractionType.RANDOM):
        assert not torch.equal(module(data)["action"], before)


def test_annealing() -> None:
    module = EGreedyModule(Categorical(3), eps_init=1.0, eps_end=0.2, annealing_num_steps=8)
    seen = []
    for _ in range(10):
        module.step()
        seen.append(round(module.eps.item(), 5))
    assert seen == [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2, 0.2]
    once = EGreedyModule(Categorical(3), eps_init=1.0, eps_end=0.2, annealing_num_steps=8)
    once.step(3)
    assert once.eps.item() == pytest.approx(0.7)
    once.step(0)
    assert once.eps.item() == pytest.approx(0.7)
    with pytest.raises(ValueError, match="must not be negative"):
        once.step(-1)
    assert set(once.state_dict()) == {"eps_init", "eps_end", "eps"}


@pytest.mark.parametrize("spec", SPECS, ids=["categorical", "one-hot"])
def test_random_actions_keep_to_the_mask(spec: TensorSpec) -> None:
    mask = torch.rand(200, 3) < 0.5
    mask[:, 1] = True
    data = TensorDict({"action": spec.rand((200,)), "mask": mask}, [200])
    module = EGreedyModule(spec, eps_init=1.0, action_mask_key="mask")
    action = module(data)["action"]
    index = action if action.ndim == 1 else action.int().argmax(-1)
    assert mask.gather(-1, index.unsqueeze(-1)).all()
    assert module.spec == spec  # the mask stays out of the spec that was given
    with pytest.raises(KeyError, match="the action mask 'mask'"):
        module(data.exclude("mask"))


def test_nested_actions_and_composites() -> None:
    data = TensorDict({"agents": TensorDict({"action": torch.zeros(5, 2, dtype=torch.int64)}, [5, 2])}, [5])
    key = ("agents", "action")
    module = EGreedyModule(Composite(agents=Composite(action=Categorical(4))), eps_init=1.0, action_key=key)
    assert module(data)[key].shape == (5, 2)
    assert (data[key] != 0).any()


def test_in_a_sequence() -> None:
    policy = TensorDictSequential(QValueActor(nn.Linear(4, 3), spec=OneHot(3)), EGreedyModule(OneHot(3)))
    out = policy(TensorDict({"observation": torch.randn(6, 4)}, [6]))
    assert OneHot(3).is_in(out["action"])


def test_refuses() -> None:
    with pytest.raises(TypeError, match="spec must be the spec of the action, got NoneType"):
        EGreedyModule(None)  # type: ignore[arg-type]
    for init, end in ((0.1, 0.5), (1.5, 0.1), (0.5, -0.1)):
        with pytest.raises(ValueError, match=r"within \[0, 1\]"):
            EGreedyModule(Categorical(3), eps_init=init, eps_end=end)
    with pytest.raises(ValueError, match="annealing_num_steps must be positive"):
        EGreedyModule(Categorical(3), annealing_num_steps=0)
    with pytest.raises(KeyError, match="no entry 'move'"):
        EGreedyModule(Composite(action=Categorical(3)), action_key="move")
    with pytest.raises(KeyError, match="the action 'action'"):
        EGreedyModule(Categorical(3))(TensorDict({}, [2]))
    with pytest.raises(ValueError, match="the action has shape"):
        EGreedyModule(OneHot(3))(TensorDict({"action": torch.zeros(5, 4)}, [5]))


@pytest.mark.peers
@pytest.mark.parametrize("space", ["one-hot", "categorical"])
def test_draws_are_torchrls(space: str) -> None:
    modules, data = pytest.importorskip("torchrl.modules"), pytest.importorskip("torchrl.data")
    mine_spec, their_spec = (
        (OneHot(3), data.OneHot(3)) if space == "one-hot" else (Categorical(3), data.Categorical(3))
    )
    mine = EGreedyModule(mine_spec, eps_init=0.7, annealing_num_steps=10)
    theirs = modules.EGreedyModule(their_spec, eps_init=0.7, annealing_num_steps=10)
    batch = greedy(mine_spec, 64)
    torch.manual_seed(3)
    a = [mine(batch.clone())["action"], mine.step(2), mine(batch.clone())["action"]]
    torch.manual_seed(3)
    b = [theirs(batch.clone())["action"], theirs.step(2), theirs(batch.clone())["action"]]
    assert torch.equal(a[0], b[0])
    assert torch.equal(a[2], b[2])
    assert mine.eps.item() == pytest.approx(theirs.eps.item(), abs=1e-7)
