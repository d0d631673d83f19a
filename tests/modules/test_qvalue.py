"""Greedy policies over action values."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.modules import (
    DistributionalQValueModule,
    QValueActor,
    QValueModule,
    action_index,
    find_action_space,
)
from specgen_runtime.modules.action_space import action_leaf
from specgen_runtime.specs import Categorical, Composite, MultiOneHot, OneHot, Unbounded
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

VALUES = torch.tensor([[1.0, 3.0, 2.0], [5.0, 5.0, 0.0]])


def test_categorical() -> None:
    out = QValueModule("categorical")(TensorDict({"action_value": VALUES}, [2]))
    assert out["action"].tolist() == [1, 0]
    assert out["action"].dtype == torch.int64
    assert out["chosen_action_value"].tolist() == [[3.0], [5.0]]


@pytest.mark.parametrize(("spec", "dtype"), [(None, torch.int64), (OneHot(3), torch.bool)])
def test_one_hot_marks_one_action_even_in_a_tie(spec: OneHot | None, dtype: torch.dtype) -> None:
    out = QValueModule("one-hot", spec=spec)(TensorDict({"action_value": VALUES}, [2]))
    assert out["action"].dtype == dtype
    assert out["action"].int().tolist() == [[0, 1, 0], [1, 0, 0]]


def test_several_choices() -> None:
    values = torch.tensor([[1.0, 3.0, 2.0, 2.0, 0.0], [5.0, 4.0, 0.0, 1.0, 7.0]])
    module = QValueModule("mult-one-hot", var_nums=[2, 3], action_mask_key="mask")
    mask = torch.ones(2, 5, dtype=torch.bool)
    out = module(TensorDict({"action_value": values, "mask": mask}, [2]))
    assert out["action"].tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]
    assert out["chosen_action_value"].tolist() == [[5.0], [12.0]]
    mask[1, 4] = False
    out = module(TensorDict({"action_value": values, "mask": mask}, [2]))
    assert out["action"][1].tolist() == [1, 0, 0, 1, 0]
    from_spec = QValueModule(spec=MultiOneHot([2, 3]))
    assert (from_spec.action_space, from_spec.var_nums) == ("mult_one_hot", (2, 3))
    assert MultiOneHot([2, 3]).is_in(from_spec(values[0])[0])
    unknown = QValueModule("mult_one_hot", var_nums=[2, 3], spec=Composite(action=None))
    assert unknown(values[0])[0].tolist() == [0, 1, 1, 0, 0]
    for name in ("multi_one_hot", "multi-one-hot"):  # other names that TorchRL has for it
        assert QValueModule(name, var_nums=[2, 3])(values[0])[0].tolist() == [0, 1, 1, 0, 0]
        assert find_action_space(name, MultiOneHot([2, 3])) == "mult_one_hot"


def test_several_choices_refuses() -> None:
    with pytest.raises(ValueError, match="needs var_nums, how many values each choice has, or a spec"):
        QValueModule("mult-one-hot")
    with pytest.raises(ValueError, match=r"must be positive integers, one of each choice, got \[2, 0\]"):
        QValueModule("mult-one-hot", var_nums=[2, 0])
    with pytest.raises(
        ValueError, match="var_nums are of actions of several choices, but action_space is 'one_hot'"
    ):
        QValueModule("one-hot", var_nums=[2, 3])
    with pytest.raises(
        ValueError, match=r"choices of \[2, 3\] values have 5 entries in all, got shape \(2, 3\)"
    ):
        QValueModule("mult-one-hot", var_nums=[2, 3])(VALUES)
    with pytest.raises(KeyError, match="it says nothing about the action"):
        action_leaf(Composite(action=None))


@pytest.mark.peers
def test_several_choices_equal_torchrl() -> None:
    modules = pytest.importorskip("torchrl.modules")
    torch.manual_seed(0)
    values, log_probs = torch.randn(16, 5), torch.randn(16, 7, 5).log_softmax(-2)
    own = QValueModule("mult-one-hot", var_nums=[2, 3])(values)
    for mine, theirs in zip(own, modules.QValueModule("mult_one_hot", var_nums=[2, 3])(values), strict=True):
        torch.testing.assert_close(mine, theirs)
    support = torch.linspace(-1, 1, 7)
    own = DistributionalQValueModule("mult_one_hot", support, var_nums=[2, 3])(log_probs)
    expected = modules.DistributionalQValueModule("mult_one_hot", support, var_nums=[2, 3])(log_probs)
    for mine, theirs in zip(own, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_masks() -> None:
    mask = torch.tensor([[True, False, True], [False, True, True]])
    module = QValueModule("categorical", action_mask_key="mask")
    out = module(TensorDict({"action_value": VALUES, "mask": mask}, [2]))
    assert out["action"].tolist() == [2, 1]
    assert out["chosen_action_value"].tolist() == [[2.0], [5.0]]
    assert (out["action_value"][~mask] == torch.finfo(torch.float32).min).all()
    with pytest.raises(KeyError, match="the action mask 'mask'"):
        module(TensorDict({"action_value": VALUES}, [2]))


def test_plain_tensors() -> None:
    action, values, chosen = QValueModule("categorical")(VALUES[0])
    assert (action.item(), chosen.item()) == (1, 3.0)
    assert torch.equal(values, VALUES[0])


def test_actor_wraps_plain_modules_and_takes_tensordict_modules() -> None:
    network = nn.Linear(4, 3)
    actor = QValueActor(network, spec=Categorical(3))
    assert actor.in_keys == ["observation"]
    assert set(actor.out_keys) == {"action_value", "action", "chosen_action_value"}
    data = TensorDict({"obs": torch.randn(5, 4)}, [5])
    inner = TensorDictModule(network, in_keys=["obs"], out_keys=["q"])
    other = QValueActor(
        inner, action_space="categorical", action_value_key="q", action_key=("agents", "action")
    )
    out = other(data)
    assert torch.equal(out["agents", "action"], out["q"].argmax(-1))
    assert actor.spec == Categorical(3)
    assert other.spec is None


def test_actor_refuses() -> None:
    inner = TensorDictModule(nn.Linear(4, 3), in_keys=["obs"], out_keys=["q"])
    with pytest.raises(KeyError, match="does not write 'action_value'"):
        QValueActor(inner, action_space="categorical")
    with pytest.raises(ValueError, match="the module reads"):
        QValueActor(inner, in_keys=["observation"], action_value_key="q", action_space="categorical")
    with pytest.raises(ValueError, match="not known"):
        QValueActor(nn.Linear(4, 3))
    with pytest.raises(ValueError, match="'one_hot', but the spec of the action is 'categorical'"):
        QValueActor(nn.Linear(4, 3), spec=Categorical(3), action_space="one-hot")
    with pytest.raises(TypeError, match=r"must be an nn\.Module"):
        QValueActor(3, action_space="categorical")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="3 action values, the action spec has 4"):
        QValueActor(nn.Linear(4, 3), spec=Categorical(4))(TensorDict({"observation": torch.zeros(2, 4)}, [2]))
    with pytest.raises(RuntimeError, match="out_keys must be"):
        QValueModule("categorical", out_keys=["action", "q", "v"])
    with pytest.raises(KeyError, match="action value 'action_value' is not in the tensordict"):
        QValueModule("categorical")(TensorDict({"q": VALUES}, [2]))


def test_action_space() -> None:
    assert (
        find_action_space("one-hot")
        == find_action_space("one_hot")
        == find_action_space(OneHot(3))
        == "one_hot"
    )
    assert find_action_space(Composite(action=Categorical(3))) == "categorical"
    with pytest.raises(ValueError, match=r"Unbounded.* has no values"):
        find_action_space(Unbounded(3))
    with pytest.raises(
        ValueError, match="must be 'one-hot', 'mult-one-hot', 'categorical' or 'multi-categorical'"
    ):
        find_action_space("discrete")
    with pytest.raises(KeyError, match="no entry 'action'"):
        find_action_space(Composite(move=Categorical(3)))


@pytest.mark.parametrize("batch", [(), (3,), (7,), (4, 3)])
def test_action_index(batch: tuple[int, ...]) -> None:
    values = torch.randn(*batch, 3)
    index = torch.randint(3, batch)
    assert torch.equal(action_index(index, values, "categorical"), index)
    assert torch.equal(action_index(index.unsqueeze(-1), values, "categorical"), index)
    one_hot = nn.functional.one_hot(index, 3)
    for dtype in (torch.bool, torch.int64, torch.float32):
        assert torch.equal(action_index(one_hot.to(dtype), values, "one_hot"), index)


def test_action_index_refuses() -> None:
    values = torch.randn(5, 3)
    with pytest.raises(ValueError, match="is action_space='categorical' meant"):
        action_index(torch.zeros(5, dtype=torch.int64), values, "one_hot")
    with pytest.raises(ValueError, match="is action_space='one-hot' meant"):
        action_index(torch.zeros(5, 3), values, "categorical")
    with pytest.raises(ValueError, match="must be an integer"):
        action_index(torch.zeros(5), values, "categorical")


@pytest.mark.parametrize("wrong", [[1, 3], [-1, 0], [2, 0]])
def test_classes_that_there_are_not_are_no_other_joint_action(wrong: list[int]) -> None:
    action, values = torch.tensor([[1, 2], wrong]), torch.randn(2, 6)
    place = 1 if wrong[1] == 3 else 0
    message = rf"choice {place} of an action is a class from 0 to {[1, 2][place]}, got {wrong[place]}"
    with pytest.raises(ValueError, match=message):
        action_index(action, values, "multi_categorical", [2, 3])
    action[1] = 0
    assert action_index(action, values, "multi_categorical", [2, 3]).tolist() == [5, 0]
    each = torch.vmap(lambda one, q: action_index(one, q, "multi_categorical", [2, 3]))
    assert each(action, values).tolist() == [5, 0]  # whose values can't be looked at


@pytest.mark.peers
@pytest.mark.parametrize("space", ["one-hot", "categorical"])
def test_equals_torchrl(space: str) -> None:
    peer = pytest.importorskip("torchrl.modules")
    network = nn.Linear(4, 3)
    data = TensorDict({"observation": torch.randn(6, 4)}, [6])
    mine = QValueActor(network, action_space=space)(data.clone())  # type: ignore[arg-type]
    theirs = peer.QValueActor(network, action_space=space)(data.clone())
    assert set(mine.keys()) == set(theirs.keys())
    for key in theirs.keys():  # noqa: SIM118 - a tensordict iterates over its batch
        assert mine[key].dtype == theirs[key].dtype
        assert torch.equal(mine[key], theirs[key])
