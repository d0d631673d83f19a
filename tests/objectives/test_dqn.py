"""The generated `DQNLoss`: against TorchRL's, by hand, and its contract."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from specgen_runtime.modules import QValueActor
from specgen_runtime.objectives import HardUpdate, SoftUpdate, ValueEstimators
from specgen_runtime.specs import Binary, Categorical, OneHot
from specgen_std.losses.dqn import DQNLoss, dqn_loss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

N_OBS, N_ACT = 4, 3
SPACES = ["one-hot", "categorical"]
CONFIGURATIONS = [
    {"delay_value": delay, "double_dqn": double, "loss_function": distance, "action_space": space}
    for delay, double, distance, space in itertools.product(
        (True, False), (True, False), ("l1", "l2", "smooth_l1"), SPACES
    )
    if delay or not double
]


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(N_OBS, 16), nn.Tanh(), nn.Linear(16, N_ACT))


def batch(*shape: int, space: str = "categorical", seed: int = 1) -> TensorDict:
    generator = torch.Generator().manual_seed(seed)
    action = torch.randint(N_ACT, shape, generator=generator)
    return TensorDict(
        {
            "observation": torch.randn(*shape, N_OBS, generator=generator),
            "action": nn.functional.one_hot(action, N_ACT) if space == "one-hot" else action,
            "next": {
                "observation": torch.randn(*shape, N_OBS, generator=generator),
                "reward": 3 * torch.randn(*shape, 1, generator=generator),
                "done": torch.rand(*shape, 1, generator=generator) < 0.6,
                "terminated": torch.rand(*shape, 1, generator=generator) < 0.4,
            },
        },
        shape,
    )


def pair(configuration: dict[str, Any], **further: Any) -> tuple[DQNLoss, Any]:
    """The two losses over equal networks, with target networks that differ from them."""
    objectives, modules = pytest.importorskip("torchrl.objectives"), pytest.importorskip("torchrl.modules")
    space = configuration["action_space"]
    mine = DQNLoss(QValueActor(network(), action_space=space), **configuration, **further)
    theirs = objectives.DQNLoss(
        modules.QValueActor(network(), action_space=space), **configuration, **further
    )
    other = network(seed=9).state_dict()
    if configuration["delay_value"]:
        for name, value in other.items():
            path = ("module", "0", "module", *name.split("."))
            mine.target_value_network_params.data.get(path).copy_(value)
            theirs.target_value_network_params.data.get(path).copy_(value)
    return mine, theirs


def ident(configuration: dict[str, Any]) -> str:
    return "-".join(str(value) for value in configuration.values())


@pytest.mark.peers
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=ident)
@pytest.mark.parametrize("shape", [(32,), (3,), (4, 3), (1,)])
def test_equals_torchrl(configuration: dict[str, Any], shape: tuple[int, ...]) -> None:
    mine, theirs = pair(configuration)
    data = batch(*shape, space=configuration["action_space"])
    ours, peers = data.clone(), data.clone()
    value, expected = mine(ours)["loss"], theirs(peers)["loss"]
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(ours["td_error"], peers["td_error"], rtol=1e-6, atol=1e-6)
    value.backward()
    expected.backward()
    gradients = [parameter.grad for parameter in mine.parameters()]
    peer_gradients = [parameter.grad for parameter in theirs.parameters()]
    assert len(gradients) == len(peer_gradients) == 4
    for gradient, peer in zip(gradients, peer_gradients, strict=True):
        torch.testing.assert_close(gradient, peer, rtol=0, atol=1e-6)


@pytest.mark.peers
@pytest.mark.parametrize("reduction", ["mean", "sum", "none", None])
def test_reductions_equal_torchrl(reduction: str | None) -> None:
    mine, theirs = pair(CONFIGURATIONS[0], reduction=reduction)
    data = batch(12, space=CONFIGURATIONS[0]["action_space"])
    torch.testing.assert_close(mine(data.clone())["loss"], theirs(data.clone())["loss"], rtol=1e-6, atol=1e-6)
    weighted = data.clone().set("priority_weight", torch.rand(12))
    torch.testing.assert_close(
        mine(weighted.clone())["loss"], theirs(weighted.clone())["loss"], rtol=1e-6, atol=1e-6
    )


@pytest.mark.peers
def test_targets_after_updates_equal_torchrl() -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    mine, theirs = pair(CONFIGURATIONS[0])
    soft = objectives.SoftUpdate(theirs, tau=0.05)
    ours = SoftUpdate(mine, tau=0.05)
    ours.init_()  # TorchRL's updater copies when it is made
    optimizers = [torch.optim.SGD(loss.parameters(), lr=0.1) for loss in (mine, theirs)]
    data = batch(16, space=CONFIGURATIONS[0]["action_space"])
    for _ in range(5):
        for loss, optimizer in zip((mine, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            loss(data.clone())["loss"].backward()
            optimizer.step()
        ours.step()
        soft.step()
    for key, value in mine.target_value_network_params.items(True, True):
        torch.testing.assert_close(value, theirs.target_value_network_params.get(key), rtol=0, atol=1e-6)


@pytest.mark.peers
def test_checkpoints_of_torchrl_load() -> None:
    mine, theirs = pair(CONFIGURATIONS[0])
    theirs(
        batch(2, space=CONFIGURATIONS[0]["action_space"])
    )  # its estimator's state exists from the first call on
    fresh = DQNLoss(
        QValueActor(network(seed=4), action_space=CONFIGURATIONS[0]["action_space"]), **CONFIGURATIONS[0]
    )
    fresh.load_state_dict(theirs.state_dict(), strict=True)
    data = batch(5, space=CONFIGURATIONS[0]["action_space"])
    torch.testing.assert_close(fresh(data.clone())["loss"], mine(data.clone())["loss"])


@pytest.mark.parametrize(
    ("double", "loss", "priority"), [(True, [4.0, 18.0], [16.0, 324.0]), (False, [9.0, 18.0], [81.0, 324.0])]
)
def test_pure_function_by_hand(double: bool, loss: list[float], priority: list[float]) -> None:
    """The next values are 10 and 40, which another network chose, or 20 and 40, the largest."""
    q = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    next_q = torch.tensor([[10.0, 20.0], [30.0, 40.0]])
    choosing = torch.tensor([[1.0, 0.0], [0.0, 1.0]]) if double else None
    action = torch.tensor([1, 0])
    terms = dqn_loss(
        q,
        next_q,
        choosing,
        action,
        lambda following: 1 + 0.5 * following,
        loss_function="l1",
        double_dqn=double,
    )
    torch.testing.assert_close(terms.loss, torch.tensor(loss))  # |2 - 6| or |2 - 11|, |3 - 21|
    torch.testing.assert_close(terms.priority, torch.tensor(priority).unsqueeze(-1))


def test_default_configuration_and_names() -> None:
    loss = DQNLoss(network(), action_space="categorical")
    assert (loss.loss_function, loss.delay_value, loss.double_dqn, loss.reduction) == (
        "l2",
        True,
        False,
        "mean",
    )
    assert loss.out_keys == ["loss"]
    assert loss.default_value_estimator is ValueEstimators.TD0
    assert loss.value_estimator.gamma == pytest.approx(0.99)
    assert loss.tensor_keys == DQNLoss._AcceptedKeys()
    assert loss.tensor_keys.priority == "td_error"
    assert set(loss.in_keys) == {
        "observation",
        "action",
        ("next", "observation"),
        ("next", "reward"),
        ("next", "done"),
        ("next", "terminated"),
    }


def test_truncation_bootstraps_and_terminated_is_required() -> None:
    loss = DQNLoss(network(), action_space="categorical")
    data = batch(8)
    data["next", "terminated"][:] = False
    data["next", "done"][:] = False
    value = loss(data.clone())["loss"]
    data["next", "done"][:] = True
    assert loss(data.clone())["loss"] == value
    data["next", "terminated"][:] = True
    assert loss(data.clone())["loss"] != value
    del data["next", "terminated"]
    with pytest.raises(KeyError, match="terminated"):
        loss(data)


@pytest.mark.parametrize("space", SPACES)
def test_action_space_is_inferred(space: str) -> None:
    spec = OneHot(N_ACT) if space == "one-hot" else Categorical(N_ACT)
    data = batch(6, space=space)
    expected = DQNLoss(network(), action_space=space)(data.clone())["loss"]  # type: ignore[arg-type]
    for module, given in (
        (QValueActor(network(), spec=spec), None),
        (QValueActor(network(), spec=spec), spec),
        (network(), spec),
        (TensorDictModule(network(), in_keys=["observation"], out_keys=["action_value"]), space),
    ):
        torch.testing.assert_close(DQNLoss(module, action_space=given)(data.clone())["loss"], expected)


def test_constructor_refuses() -> None:
    with pytest.raises(ValueError, match="the action space is not known"):
        DQNLoss(network())
    with pytest.raises(ValueError, match="'one_hot', but the network chooses 'categorical'"):
        DQNLoss(QValueActor(network(), spec=Categorical(N_ACT)), action_space="one-hot")
    with pytest.raises(ValueError, match="a Binary action has no values"):
        DQNLoss(network(), action_space=Binary(3))
    with pytest.raises(ValueError, match="double_dqn=True needs delay_value=True"):
        DQNLoss(network(), action_space="categorical", double_dqn=True, delay_value=False)
    with pytest.raises(ValueError, match="loss_function must be one of 'l2', 'l1', 'smooth_l1', got 'zzz'"):
        DQNLoss(network(), action_space="categorical", loss_function="zzz")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reduction must be"):
        DQNLoss(network(), action_space="categorical", reduction="zzz")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be an nn\.Module, got str"):
        DQNLoss("net", action_space="categorical")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"DQNLoss takes no gamma: use loss\.make_value_estimator"):
        DQNLoss(network(), action_space="categorical", gamma=0.9)  # type: ignore[call-arg]


def test_actions_of_the_other_encoding_are_refused() -> None:
    with pytest.raises(ValueError, match="is action_space='categorical' meant"):
        DQNLoss(network(), action_space="one-hot")(batch(5))
    with pytest.raises(ValueError, match="is action_space='one-hot' meant"):
        DQNLoss(network(), action_space="categorical")(batch(5, space="one-hot"))


@pytest.mark.parametrize("space", SPACES)
def test_keyword_call_without_batch(space: str) -> None:
    loss = DQNLoss(network(), action_space=space)  # type: ignore[arg-type]
    data = batch(space=space)
    inputs = {
        "observation": data["observation"],
        "next_observation": data["next", "observation"],
        "next_reward": data["next", "reward"],
        "next_done": data["next", "done"],
        "next_terminated": data["next", "terminated"],
        "action": data["action"],
    }
    torch.testing.assert_close(loss(**inputs), loss(data.clone())["loss"])


def test_set_keys_of_every_role() -> None:
    actor = QValueActor(
        network(),
        in_keys=["observation"],
        action_space="categorical",
        action_key="act",
        action_value_key="values",
    )
    loss = DQNLoss(actor)
    data = batch(6)
    expected = DQNLoss(network(), action_space="categorical")(data.clone())["loss"]
    data.rename_key_("action", "act")
    data["next"].rename_key_("reward", "r")
    data["next"].rename_key_("terminated", "over")
    loss.set_keys(
        action="act", action_value="values", reward="r", terminated="over", priority=("extra", "priority")
    )
    torch.testing.assert_close(loss(data)["loss"], expected)
    assert data["extra", "priority"].shape == (6, 1)
    with pytest.raises(ValueError, match="does not accept 'priority_key'"):
        loss.set_keys(priority_key="td_error")  # type: ignore[call-arg]


def test_masked_actions_are_not_chosen() -> None:
    actor = QValueActor(network(), spec=Categorical(N_ACT), action_mask_key="action_mask")
    loss = DQNLoss(actor, double_dqn=True)
    data = batch(32)
    data["action_mask"] = torch.ones(32, N_ACT, dtype=torch.bool)
    mask = torch.zeros(32, N_ACT, dtype=torch.bool)
    mask[:, 1] = True
    data["next", "action_mask"] = mask
    loss.reduction = "none"
    loss(data)
    with torch.no_grad():
        chosen = network()(data["observation"]).gather(-1, data["action"].unsqueeze(-1))
        after = network()(data["next", "observation"])[:, 1:2]
    target = data["next", "reward"] + loss.value_estimator.gamma * ~data["next", "terminated"] * after
    torch.testing.assert_close(data["td_error"], (chosen - target) ** 2)


def test_checkpoints_round_trip_and_continue_identically() -> None:
    def step(loss: DQNLoss, updater: HardUpdate, data: TensorDict) -> torch.Tensor:
        loss.zero_grad()
        value: torch.Tensor = loss(data.clone())["loss"]
        value.backward()
        with torch.no_grad():
            for parameter in loss.parameters():
                parameter -= 0.1 * parameter.grad
        updater.step()
        return value.detach()

    first = DQNLoss(network(), action_space="categorical", double_dqn=True)
    updater = HardUpdate(first, value_network_update_interval=2)
    data = batch(16)
    for _ in range(3):
        step(first, updater, data)
    state = copy.deepcopy((first.state_dict(), updater.state_dict()))
    second = DQNLoss(network(seed=5), action_space="categorical", double_dqn=True)
    second.load_state_dict(state[0], strict=True)
    other = HardUpdate(second, value_network_update_interval=2)
    other.load_state_dict(state[1])
    for _ in range(3):
        assert torch.equal(step(first, updater, data), step(second, other, data))
    with pytest.raises(RuntimeError, match="Unexpected key"):
        DQNLoss(network(), action_space="categorical", delay_value=False).load_state_dict(state[0])


def test_priority_is_rewritten_in_place_and_detached() -> None:
    loss = DQNLoss(network(), action_space="categorical")
    data = batch(5)
    loss(data)
    first = data["td_error"]
    assert first.shape == (5, 1)
    assert not first.requires_grad
    data["next", "reward"] += 1
    loss(data)
    assert data["td_error"] is first


def test_sequence_networks_and_float64() -> None:
    inner = TensorDictModule(network(), in_keys=["observation"], out_keys=["hidden"])
    head = TensorDictModule(nn.Linear(N_ACT, N_ACT), in_keys=["hidden"], out_keys=["action_value"])
    loss = DQNLoss(TensorDictSequential(inner, head), action_space="categorical").double()
    data = batch(5).apply(lambda value: value.double() if value.is_floating_point() else value)
    assert loss(data)["loss"].dtype == torch.float64


@pytest.mark.parametrize("double", [False, True])
def test_compiles_without_graph_breaks_in_the_pure_function(double: bool) -> None:
    torch.manual_seed(0)
    q, next_q = torch.randn(7, N_ACT), torch.randn(7, N_ACT)
    action, choosing = torch.randint(N_ACT, (7,)), torch.randn(7, N_ACT) if double else None
    explained = torch._dynamo.explain(dqn_loss)(
        q, next_q, choosing, action, torch.neg, loss_function="l2", double_dqn=double
    )
    assert explained.graph_break_count == 0


@pytest.mark.parametrize("space", SPACES)
def test_torchs_default_dtype_does_not_matter(space: str) -> None:
    """Of networks and data in float32, the loss and its gradients are the same bits under any default."""
    values = []
    data = batch(5, space=space)
    actor = QValueActor(network(), action_space=space)
    for dtype in (torch.float32, torch.float64, torch.float16):
        torch.set_default_dtype(dtype)
        try:
            loss = DQNLoss(copy.deepcopy(actor), action_space=space, delay_value=True)
            out = loss(data.clone())["loss"]
            out.backward()
        finally:
            torch.set_default_dtype(torch.float32)
        grads = [p.grad for p in loss.parameters() if p.grad is not None]
        values.append((out.detach(), *grads))
    for other in values[1:]:
        assert [v.dtype for v in other] == [torch.float32] * len(other)
        assert all(torch.equal(a, b) for a, b in zip(values[0], other, strict=True))
