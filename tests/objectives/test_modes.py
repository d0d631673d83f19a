"""The modes in which losses and value estimators compute, and losses that leave their networks as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.modules import recurrent_mode
from specgen_runtime.objectives import GAE, LossModule, SoftUpdate
from tensordict import NonTensorData, TensorDict, TensorDictBase
from tensordict.nn import InteractionType, TensorDictModule, TensorDictSequential
from tensordict.nn.probabilistic import interaction_type
from torch import Tensor, nn

from tests.objectives.nets import N_OBS, ValueLoss, batch, critic, mlp

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")


class Observed(LossModule):
    """Keeps the modes that its methods run in."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[object, object]] = []

    def look(self) -> TensorDict:
        self.seen.append((interaction_type(), recurrent_mode()))
        return TensorDict()

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.look()

    def actor_loss(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.look()


class ObservedTwice(Observed):
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        return super().forward(tensordict)


@pytest.mark.parametrize("cls", [Observed, ObservedTwice])
@pytest.mark.parametrize("call", [lambda loss: loss, lambda loss: loss.forward, lambda loss: loss.actor_loss])
def test_forward_and_the_methods_of_terms_run_in_the_modes(
    cls: type[Observed], call: Callable[[Observed], Callable[[TensorDict], object]]
) -> None:
    loss = cls()
    call(loss)(TensorDict())
    loss.deterministic_sampling_mode = InteractionType.RANDOM
    call(loss)(TensorDict())
    assert loss.seen == [(InteractionType.DETERMINISTIC, True), (InteractionType.RANDOM, True)]
    loss.look()
    assert loss.seen[-1] == (None, None)


def test_the_modes_end_with_an_exception() -> None:
    with pytest.raises(KeyError):
        ValueLoss(critic())(TensorDict())
    assert (interaction_type(), recurrent_mode()) == (None, None)


def test_value_estimators_read_sequences() -> None:
    seen = []

    class Network(nn.Module):
        def forward(self, observation: Tensor) -> Tensor:
            seen.append(recurrent_mode())
            return observation.sum(-1, keepdim=True)

    network = TensorDictModule(Network(), in_keys=["observation"], out_keys=["state_value"])
    GAE(gamma=0.9, lmbda=0.9, value_network=network)(batch(2, 5))
    assert seen
    assert all(mode is True for mode in seen)
    assert recurrent_mode() is None


@pytest.mark.peers
def test_torchrls_recurrent_networks_read_sequences_in_losses() -> None:
    """The value of the last step depends on the first, as it does in TorchRL's losses."""
    modules = pytest.importorskip("torchrl.modules")
    torch.manual_seed(0)
    rnn = modules.LSTMModule(input_size=N_OBS, hidden_size=3, in_key="observation", out_key="hidden")
    head = TensorDictModule(nn.Linear(3, 1), in_keys=["hidden"], out_keys=["state_value"])
    network = TensorDictSequential(rnn, head)
    data = batch(2, 6)
    for record in (data, data["next"]):
        record.set("is_init", torch.zeros(2, 6, 1, dtype=torch.bool))
        for name in rnn.in_keys[1:3]:
            record.set(name, torch.zeros(2, 6, 1, 3))

    class ByHand(ValueLoss):
        def forward(self, tensordict: TensorDictBase) -> TensorDict:
            live = self.functional_network("critic").live
            return TensorDict({"loss_value": live(tensordict, "state_value").sum()})

    loss = ByHand(network)
    got = loss(data)["loss_value"]
    with modules.set_recurrent_mode(True):
        expected = network(data.clone())["state_value"].sum()
    torch.testing.assert_close(got, expected)
    assert not torch.allclose(got, network(data.clone())["state_value"].sum())


class Plain(ValueLoss):
    """A loss that takes `functional`."""

    def __init__(self, network: nn.Module, *, delay_value: bool = False, functional: bool = True) -> None:
        LossModule.__init__(self, functional=functional)
        self.convert_to_functional(network, "critic", create_target_params=delay_value)


def test_networks_of_losses_that_are_not_functional_are_children() -> None:
    network = critic()
    loss, functional = Plain(network, functional=False), Plain(critic())
    assert not loss.functional
    assert loss.critic is network is loss.get_stateful_net("critic")
    assert dict(loss.named_children())["critic"] is network
    assert next(name for name, _ in loss.named_parameters()) == "critic.module.0.weight"
    assert loss.critic_params is None
    assert loss.target_critic_params is None
    assert loss.target_networks() == []
    data = batch(6)
    expected = functional(data)["loss_value"]
    got = loss(data)["loss_value"]
    torch.testing.assert_close(got, expected)
    got.backward()
    expected.backward()
    for ours, theirs in zip(network.parameters(), functional.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_frozen_copies_follow_networks_that_are_no_part_of_the_loss() -> None:
    network = critic()
    loss = Plain(network, functional=False)
    frozen = loss.functional_network("critic").frozen
    network.to(torch.float64)
    data = batch(3).to(torch.float64)
    value = frozen(data, "state_value")
    assert not value.requires_grad
    torch.testing.assert_close(value, network(data.clone())["state_value"].detach())


def test_networks_that_are_not_functional_are_set_and_drawn_anew() -> None:
    network, other = critic(), critic(seed=1)
    loss = Plain(network, functional=False)
    loss.from_stateful_net("critic", other)
    for mine, given in zip(network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, given)
    loss.reset_parameters_recursive()
    assert not torch.equal(network.module[0].weight, other.module[0].weight)
    loss.eval()
    assert not network.training


def test_losses_that_are_not_functional_refuse_what_needs_parameters_apart() -> None:
    with pytest.raises(ValueError, match="critic: functional=False leaves networks as they are"):
        Plain(critic(), functional=False, delay_value=True)

    class Shared(LossModule):
        def __init__(self, network: nn.Module, **options: Any) -> None:
            super().__init__(functional=False)
            self.convert_to_functional(network, "one")
            self.convert_to_functional(network, "two", **options)

    with pytest.raises(ValueError, match="two: functional=False"):
        Shared(mlp(), compare_against=mlp().parameters(), expand_dim=2)
    network = mlp()
    with pytest.raises(ValueError, match="another network trains alone"):
        Shared(network, compare_against=network.parameters())
    assert len(list(Shared(network).parameters())) == len(list(network.parameters()))


def test_target_parameters_of_another_loss() -> None:
    """Assigning them is enough: the loss computes with them from then on."""
    loss, other = ValueLoss(critic()), ValueLoss(critic())
    data = batch(5)
    for tensor in other.target_critic_params.values(True, True):
        tensor.data.add_(1)
    before = loss(data)["loss_value"]
    loss.target_critic_params = other.target_critic_params
    assert loss(data)["loss_value"] != before
    torch.testing.assert_close(loss(data)["loss_value"], other(data)["loss_value"])


@pytest.mark.parametrize(
    "keyword", ["gamma", "lmbda", "priority_key", "advantage_key", "value_key", "critic"]
)
def test_keywords_that_were_replaced_say_by_what(keyword: str) -> None:
    with pytest.raises(TypeError, match=f"ValueLoss takes no {keyword}: use "):
        ValueLoss(critic(), **{keyword: 0.9})  # type: ignore[arg-type]

    class Discounted(ValueLoss):
        def __init__(self, network: Any, *, gamma: float) -> None:
            super().__init__(network)
            self.gamma = gamma

    assert Discounted(critic(), gamma=0.5).gamma == 0.5


class TwoEntries(ValueLoss):
    out_keys = ["loss_value", "size"]  # noqa: RUF012

    def forward(self, tensordict: TensorDictBase) -> TensorDict:
        out = super().forward(tensordict)
        return out.set("size", torch.tensor(2.0))


@pytest.mark.parametrize("mode", [None, "exclude", "non_tensor"])
def test_scalars_beside_terms_that_are_not_reduced(mode: Any) -> None:
    loss, data = TwoEntries(critic()), batch(5)
    loss.scalar_output_mode = mode
    assert set(loss(data).keys()) == {"loss_value", "size"}
    loss.reduction = "none"
    out = loss(data)
    assert out["loss_value"].shape == (5,)
    assert ("size" in out) == (mode != "exclude")
    inputs = {"_".join(key) if isinstance(key, tuple) else key: data[key] for key in loss.in_keys}
    assert isinstance(loss(**inputs), tuple) == (mode != "exclude")
    if mode == "non_tensor":
        assert isinstance(out.get("size"), NonTensorData)
        assert out["size"] == 2.0
    with pytest.raises(
        ValueError, match="scalar_output_mode must be 'exclude', 'non_tensor' or None, got 'x'"
    ):
        loss.scalar_output_mode = "x"  # type: ignore[assignment]


def test_tensors_by_keyword_have_the_batch_that_their_roles_say() -> None:
    """Observations alone do not say where the batch ends."""
    shapes = []

    class Imitation(LossModule):
        class _AcceptedKeys:
            action = "action"

        feature_ranks = {"action": 1}  # noqa: RUF012
        in_keys = ["observation", "action"]  # noqa: RUF012
        out_keys = ["loss"]  # noqa: RUF012

        def forward(self, tensordict: TensorDictBase) -> TensorDict:
            shapes.append(tensordict.batch_size)
            return TensorDict({"loss": tensordict["observation"].sum()})

    Imitation()(observation=torch.zeros(5, 3, 3), action=torch.zeros(5, 3))
    assert shapes == [(5,)]


def test_updaters_move_every_member_of_an_ensemble() -> None:
    class Ensemble(LossModule):
        def __init__(self) -> None:
            super().__init__()
            self.convert_to_functional(critic(), "critic", expand_dim=3, create_target_params=True)

    loss = Ensemble()
    for parameter in loss.critic_params.values(True, True):
        parameter.data.fill_(1.0)
    for target in loss.target_critic_params.values(True, True):
        target.data.fill_(0.0)
    SoftUpdate(loss, tau=0.25).step()
    for target in loss.target_critic_params.values(True, True):
        assert target.shape[0] == 3
        assert (target == 0.25).all()
