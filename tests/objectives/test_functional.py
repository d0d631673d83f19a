"""Networks in a loss: parameters taken out, targets, ensembles, stateful copies."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings

import pytest
import torch
from specgen_runtime.objectives import HardUpdate, LossModule
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from tests.objectives.nets import ValueLoss, batch, critic, mlp

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")


class Bare(LossModule):
    pass


def test_params_are_the_very_parameters_and_module_is_no_child() -> None:
    network = critic()
    loss = ValueLoss(network)
    assert loss.critic_params.get(("module", "0", "weight")) is network.module[0].weight
    assert "critic" not in dict(loss.named_children())
    assert {id(p) for p in loss.parameters()} == {id(p) for p in network.parameters()}
    assert loss.functional is True


def test_target_params_are_copies_in_buffers_under_both_names() -> None:
    network = critic()
    loss = ValueLoss(network)
    target = loss.target_critic_params
    assert loss.critic_target_params is target
    with torch.no_grad():
        network.module[0].weight.fill_(5.0)
    assert not (target.get(("module", "0", "weight")) == 5.0).any()
    assert all(not value.requires_grad for value in target.values(True, True))
    assert {name for name, _ in loss.named_buffers()} >= {"target_critic_params.module.0.weight"}
    assert not any("target" in name for name, _ in loss.named_parameters(remove_duplicate=False))


def test_without_targets_the_attribute_is_a_detached_view_that_follows() -> None:
    network = critic()
    loss = ValueLoss(network, delay_value=False)
    with torch.no_grad():
        network.module[0].weight.fill_(5.0)
    for name in ("target_critic_params", "critic_target_params"):
        value = getattr(loss, name).get(("module", "0", "weight"))
        assert (value == 5.0).all()
        assert not value.requires_grad
    with pytest.raises(AttributeError):
        _ = loss.target_actor_params


def test_stateless_module_holds_no_parameters_and_says_so() -> None:
    network = critic()
    loss = ValueLoss(network)
    assert all(parameter.is_meta for parameter in loss.critic.parameters())
    with pytest.raises(RuntimeError, match="critic has no parameters"):
        loss.critic(batch(3))
    with loss.critic_params.to_module(loss.critic):
        value = loss.critic(batch(3))["state_value"]
    torch.testing.assert_close(value, network(batch(3))["state_value"])
    assert network(batch(3))["state_value"].requires_grad  # the given module goes on working


def test_expand_dim_resamples_parameters_and_repeats_buffers() -> None:
    loss = Bare()
    network = critic(batch_norm=True)
    loss.convert_to_functional(network, "critic", expand_dim=3)
    weight = loss.critic_params.get(("module", "0", "weight"))
    original = network.module[0].weight
    assert weight.shape == (3, *original.shape)
    assert weight.requires_grad
    assert original.min() <= weight.min()
    assert weight.max() <= original.max()
    assert not torch.equal(weight[0], weight[1])
    assert loss.critic_params.get(("module", "1", "running_mean")).shape == (3, 8)
    assert loss.critic_params.batch_size == (3,)


def test_ensembles_are_called_in_one_go() -> None:
    loss = Bare()
    loss.convert_to_functional(critic(), "critic", expand_dim=3, create_target_params=True)
    network = loss.functional_network("critic")
    values = network.live(batch(5), "state_value")
    assert values.shape == (3, 5, 1)
    for index in range(3):
        with loss.critic_params[index].to_module(loss.critic):
            expected = loss.critic(batch(5))["state_value"]
        torch.testing.assert_close(values[index], expected)
    torch.testing.assert_close(network.target(batch(5), "state_value"), values)
    assert not network.frozen(batch(5), "state_value").requires_grad


def test_a_list_of_modules_is_stacked() -> None:
    loss = Bare()
    networks = [critic(seed) for seed in range(2)]
    loss.convert_to_functional(networks, "critic", expand_dim=2)
    assert torch.equal(loss.critic_params.get(("module", "0", "weight"))[1], networks[1].module[0].weight)
    with pytest.raises(RuntimeError, match="2 modules were given, and expand_dim=3"):
        loss.convert_to_functional(networks, "other", expand_dim=3)


@pytest.mark.parametrize("wrong", [0, -1, True, 2.0])
def test_expand_dim_must_be_positive(wrong: object) -> None:
    with pytest.raises(ValueError, match="expand_dim must be a positive integer"):
        Bare().convert_to_functional(critic(), "critic", expand_dim=wrong)  # type: ignore[arg-type]


def test_module_must_be_a_module() -> None:
    with pytest.raises(TypeError, match=r"critic must be an nn\.Module, got NoneType"):
        Bare().convert_to_functional(None, "critic")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword"):
        Bare().convert_to_functional(critic(), "critic", expand=3)  # type: ignore[call-arg]


def test_lazy_parameters_are_refused() -> None:
    lazy = TensorDictModule(nn.LazyLinear(1), in_keys=["observation"], out_keys=["state_value"])
    with pytest.raises(ValueError, match="not initialised yet"):
        Bare().convert_to_functional(lazy, "critic")


def test_compare_against_detaches_what_another_network_trains() -> None:
    trunk = nn.Linear(4, 4)
    actor = TensorDictModule(nn.Sequential(trunk, nn.Linear(4, 2)), in_keys=["observation"], out_keys=["loc"])
    value = TensorDictModule(
        nn.Sequential(trunk, nn.Linear(4, 1)), in_keys=["observation"], out_keys=["state_value"]
    )
    loss = Bare()
    loss.convert_to_functional(actor, "actor")
    loss.convert_to_functional(value, "critic", compare_against=list(actor.parameters()))
    shared = loss.critic_params.get(("module", "0", "weight"))
    assert not shared.requires_grad
    assert len([p for p in loss.parameters() if p is trunk.weight]) == 1
    assert len(list(loss.parameters())) == 6
    with torch.no_grad():
        trunk.weight.fill_(3.0)
    assert (shared == 3.0).all()
    loss.double()  # makes new tensors: they must still be shared
    with torch.no_grad():
        loss.actor_params.get(("module", "0", "weight")).fill_(4.0)
    assert (loss.critic_params.get(("module", "0", "weight")) == 4.0).all()
    gradient = loss.functional_network("critic").live(batch(3).apply(_double), "state_value").sum()
    gradient.backward()
    assert loss.actor_params.get(("module", "0", "weight")).grad is None


def test_compare_against_its_own_parameters_detaches_them() -> None:
    network = critic()
    loss = Bare()
    loss.convert_to_functional(network, "critic", compare_against=network.parameters())
    assert not any(value.requires_grad for value in loss.critic_params.values(True, True))


def test_train_and_eval_reach_the_networks_but_not_the_given_module() -> None:
    network = critic(dropout=True)
    loss = ValueLoss(network)
    loss.eval()
    data = batch(64)
    assert torch.equal(loss(data)["loss_value"], loss(data)["loss_value"])
    assert network.training
    loss.train()
    assert not torch.equal(loss(data)["loss_value"], loss(data)["loss_value"])


def test_stateful_copy_is_independent() -> None:
    loss = ValueLoss(critic())
    net = loss.get_stateful_net("critic")
    torch.testing.assert_close(
        net(batch(3))["state_value"], loss.functional_network("critic").live(batch(3), "state_value")
    )
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    assert loss.critic_params.get(("module", "0", "weight")).abs().sum() > 0
    loss.from_stateful_net("critic", net)
    assert loss.critic_params.get(("module", "0", "weight")).abs().sum() == 0


def test_stateful_net_without_copy_holds_the_parameters_themselves() -> None:
    loss = ValueLoss(critic())
    net = loss.get_stateful_net("critic", copy=False)
    assert {id(p) for p in net.parameters()} == {id(p) for p in loss.parameters()}
    with pytest.raises(AttributeError, match="no network 'actor'; it has critic"):
        loss.get_stateful_net("actor")


def test_from_stateful_net_refuses_what_does_not_fit_and_copies_nothing() -> None:
    loss = ValueLoss(critic())
    before = loss.critic_params.data.clone()
    other = TensorDictModule(nn.Linear(4, 1), in_keys=["observation"], out_keys=["state_value"])
    with pytest.raises(RuntimeError, match="the parameters differ"):
        loss.from_stateful_net("critic", other)
    wide = critic()
    wide.module[0] = nn.Linear(5, 8)
    with pytest.raises(RuntimeError, match=r"\(8, 4\) in the loss"):
        loss.from_stateful_net("critic", wide)
    with pytest.raises(RuntimeError, match="float64"):
        loss.from_stateful_net("critic", critic().double())
    assert (loss.critic_params.data == before).all()


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_copies_compute_with_their_own_parameters(how: str) -> None:
    loss = ValueLoss(critic())
    data = batch(6)
    before = loss(data)["loss_value"]
    twin = copy.deepcopy(loss) if how == "deepcopy" else pickle.loads(pickle.dumps(loss))
    torch.testing.assert_close(twin(data)["loss_value"], before)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.mul_(3.0)
    assert twin(data)["loss_value"] != before
    torch.testing.assert_close(loss(data)["loss_value"], before)


def test_moving_to_another_dtype_moves_networks_and_targets() -> None:
    loss = ValueLoss(critic(batch_norm=True)).double()
    data = batch(6).apply(_double)
    value = loss(data)["loss_value"]
    assert value.dtype == torch.float64
    value.backward()
    assert loss.critic_params.get(("module", "0", "weight")).grad is not None
    with torch.no_grad():
        loss.target_critic_params.get(("module", "0", "weight")).fill_(9.0)
    assert loss(data)["loss_value"] != value


def test_recurrent_networks_compute_with_the_bound_weights() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 1, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lstm(x)[0]

    loss = ValueLoss(TensorDictModule(Recurrent(), in_keys=["observation"], out_keys=["state_value"]))
    data = TensorDict({"observation": torch.randn(2, 5, 4)}, [2, 5])
    network = loss.functional_network("critic")
    live, target = network.live(data, "state_value"), network.target(data, "state_value")
    torch.testing.assert_close(live, target)
    assert not target.requires_grad
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter.zero_()
    assert (network.live(data, "state_value") == 0).all()
    torch.testing.assert_close(network.target(data, "state_value"), target)


def test_missing_inputs_and_outputs_are_named() -> None:
    loss = ValueLoss(critic())
    with pytest.raises(KeyError, match="network critic reads 'observation'"):
        loss.functional_network("critic").live(TensorDict({"pixels": torch.zeros(2)}, [2]), "state_value")
    with pytest.raises(KeyError, match="does not write 'value'; it writes 'state_value'"):
        loss.functional_network("critic").live(batch(2), "value")


def test_the_data_is_not_written_to_by_networks() -> None:
    data = batch(4)
    ValueLoss(critic())(data)
    assert "state_value" not in data
    assert "state_value" not in data["next"]


def test_names_of_networks_are_checked() -> None:
    loss = ValueLoss(critic())
    for name in ("critic", "forward", "not an identifier"):
        with pytest.raises(ValueError, match="cannot name a network"):
            loss.convert_to_functional(critic(), name)


def test_vmap_randomness() -> None:
    assert ValueLoss(critic()).vmap_randomness == "error"
    loss = ValueLoss(critic(dropout=True))
    assert loss.vmap_randomness == "different"
    loss.vmap_randomness = "same"
    assert loss.vmap_randomness == "same"
    loss.set_vmap_randomness("error")
    assert loss.vmap_randomness == "error"
    with pytest.raises(ValueError, match="vmap_randomness must be"):
        loss.vmap_randomness = "some"  # type: ignore[assignment]


def test_a_forgotten_updater_is_warned_of() -> None:
    loss = ValueLoss(critic())
    with pytest.warns(UserWarning, match="No target network updater .*critic never change"):
        loss(batch(3))
    HardUpdate(loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(batch(3))


def test_structures_that_cannot_be_copied_are_refused_clearly() -> None:
    network = mlp()
    network.lock = threading.Lock()
    module = TensorDictModule(network, in_keys=["observation"], out_keys=["state_value"])
    with pytest.raises(TypeError, match="critic: the structure of TensorDictModule cannot be copied"):
        Bare().convert_to_functional(module, "critic")


def _double(value: torch.Tensor) -> torch.Tensor:
    return value.double() if value.is_floating_point() else value


@pytest.mark.peers
def test_parameters_drawn_anew_equal_torchrls() -> None:
    peer = pytest.importorskip("torchrl.objectives")

    class Theirs(peer.LossModule):  # type: ignore[name-defined,misc]
        def __init__(self, network: TensorDictModule) -> None:
            super().__init__()
            self.convert_to_functional(network, "critic")

        def _forward_value_estimator_keys(self, **_keys: object) -> None:
            pass

    mine, theirs = ValueLoss(critic(), delay_value=False), Theirs(critic())
    for loss in (mine, theirs):
        torch.manual_seed(11)
        loss.reset_parameters_recursive()
    for key, value in mine.critic_params.items(True, True):
        torch.testing.assert_close(value, theirs.critic_params.get(key))


def test_parameters_drawn_anew_are_in_place_and_in_targets() -> None:
    network = critic(batch_norm=True)
    loss = ValueLoss(network)
    weight = network.module[0].weight
    before = weight.clone()
    network.module[1].running_mean.fill_(3.0)
    loss.reset_parameters_recursive()
    assert loss.critic_params.get(("module", "0", "weight")) is weight
    assert not torch.allclose(weight, before)
    assert weight.requires_grad
    for key, value in loss.critic_params.items(True, True):
        torch.testing.assert_close(value.data, loss.target_critic_params.get(key))
    assert (network.module[1].running_mean == 0).all()


def test_members_of_an_ensemble_are_drawn_anew_each_by_itself() -> None:
    loss = Bare()
    loss.convert_to_functional(critic(), "critic", expand_dim=3)
    torch.manual_seed(0)
    loss.reset_parameters_recursive()
    torch.manual_seed(0)
    for member in range(3):
        for layer in (0, 2):
            fresh = nn.Linear(*((4, 8) if layer == 0 else (8, 1)))
            weight = loss.critic_params.get(("module", str(layer), "weight"))
            torch.testing.assert_close(weight[member].data, fresh.weight.data)
