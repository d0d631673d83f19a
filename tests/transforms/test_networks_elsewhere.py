"""Networks in `inverse`, `update` and `around`: what they compute, what is checked, and how they train."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum, PendulumGym
from specgen_std.transforms import StepCounter
from tensordict import TensorDict
from torch import Tensor, nn

from tests.support import generate, imported
from tests.transforms.envs import rollouts_alike

SCHEMA = Path(__file__).parent / "schemas" / "networks_elsewhere.yaml"
BATCHES = [(), (3,), (4, 3)]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"networks.yaml": SCHEMA.read_text(encoding="utf-8")}, "networks_elsewhere")
    with imported(files, "networks_elsewhere", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("networks_elsewhere.networks")


class Above(nn.Module):
    """How far the first number of each row is above a limit."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, x: Tensor) -> Tensor:
        assert x.ndim == 2
        return x[:, 0] - self.limit


@pytest.mark.parametrize("batch", BATCHES)
def test_latent_actions(generated: ModuleType, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    decoder = nn.Sequential(nn.Linear(4, 1), nn.Tanh())
    env = TransformedEnv(Pendulum(batch_size=batch), generated.Latent(decoder))
    check_env_specs(env)
    assert env.action_keys == ["latent"]
    assert env.action_spec == Bounded(-1.0, 1.0, (*batch, 4))
    assert "decoder.0.weight" in env.transform.state_dict()
    data = env.rollout(5)
    plain = Pendulum(batch_size=batch)
    root = data[..., 0].clone()
    root["action"] = decoder(root["latent"])
    assert torch.equal(plain.step(root)["next", "observation"], data[..., 0]["next", "observation"])
    latent = torch.zeros(*batch, 4, requires_grad=True)
    given = env.transform.inv(TensorDict({"latent": latent}, batch))["action"]
    given.sum().backward()
    assert latent.grad is not None
    assert decoder[0].weight.grad is not None


def test_no_network_runs_for_specs(generated: ModuleType) -> None:
    class Never(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            raise AssertionError("specs need no values")

    env = TransformedEnv(Pendulum(batch_size=(3,)), generated.Latent(Never()))
    assert env.action_spec.shape == (3, 4)
    assert env.fake_tensordict()["latent"].shape == (3, 4)


def test_actions_that_do_not_fit(generated: ModuleType) -> None:
    env = TransformedEnv(Pendulum(batch_size=(3,)), generated.Latent(nn.Linear(4, 2)))
    with pytest.raises(RuntimeError, match=r"Latent makes .*float32 \[3, 2\].*'action' is .*\[3, 1\]"):
        env.rollout(1)
    env = TransformedEnv(Pendulum(batch_size=(3,)), generated.Latent(nn.Linear(5, 1)))
    with pytest.raises(RuntimeError):
        env.rollout(1)


def test_a_frozen_proposal(generated: ModuleType) -> None:
    torch.manual_seed(0)
    proposal = nn.Linear(1, 1)
    env = TransformedEnv(Pendulum(batch_size=(3,)), transform := generated.Beside(proposal, size=0.25))
    check_env_specs(env)
    assert not list(transform.parameters())
    written = torch.tensor([[0.5], [-1.0], [2.0]], requires_grad=True)
    given = transform.inv(TensorDict({"action": written}, 3))["action"]
    torch.testing.assert_close(given, proposal(written).detach() + 0.25 * written)
    given.sum().backward()
    assert torch.equal(written.grad, torch.full((3, 1), 0.25))
    assert proposal.weight.grad is None


@pytest.mark.parametrize("batch", BATCHES)
def test_statistics_of_features(generated: ModuleType, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    encoder = nn.Linear(3, 6)
    transform = generated.Energy(encoder)
    env = TransformedEnv(Pendulum(batch_size=batch), Compose(StepCounter(4), transform))
    check_env_specs(env)
    energy = generated.Energy(encoder)
    env = TransformedEnv(Pendulum(batch_size=batch), Compose(StepCounter(4), energy))
    data = env.rollout(4)
    seen = torch.cat([data["observation"][..., :1, :], data["next", "observation"]], -2)
    squared = encoder(seen).square().mean(-1).double()
    learned = energy.state_dict()
    assert learned["count"] == squared.numel()
    torch.testing.assert_close(learned["energy"], squared.mean().detach())
    assert not learned["energy"].requires_grad
    last = data[..., -1]["next"]
    torch.testing.assert_close(last["divided"], last["observation"] / learned["energy"].float())


def test_rows_that_a_network_leaves_out(generated: ModuleType) -> None:
    torch.manual_seed(0)
    env = TransformedEnv(Pendulum(batch_size=(16,)), Compose(StepCounter(), generated.Wait(Above(limit=0.0))))
    root = env.reset()
    content = root["observation"][:, 0] > 0
    assert content.any()
    assert not content.all()
    after = env.step(env.rand_action(root))["next"]
    assert torch.equal(after["step_count"].squeeze(-1) == 0, content)
    assert torch.equal(after["observation"][content], root["observation"][content])


def test_steps_until_a_network_is_content(generated: ModuleType) -> None:
    torch.manual_seed(0)
    chain = Compose(StepCounter(), generated.Until(Above(limit=0.5)))
    env = TransformedEnv(Pendulum(batch_size=(32,)), chain)
    check_env_specs(env)
    after = env.step(env.rand_action(env.reset()))["next"]
    counts, content = after["step_count"].squeeze(-1), after["observation"][:, 0] > 0.5
    assert counts.min() >= 1
    assert counts.max() == 4
    assert content[counts < 4].all()
    assert (counts < 4).any()


def both(generated: ModuleType, name: str, *batch: int) -> tuple[EnvBase, EnvBase]:
    """A chain of the generated module, and the same put together when it runs."""
    torch.manual_seed(0)
    decoder, counter = nn.Sequential(nn.Linear(4, 1), nn.Tanh()), StepCounter(4)
    encoder, proposal = nn.Linear(3, 6), nn.Linear(1, 1)
    if name == "WritesToGymnasium":
        env, chain = PendulumGym(), Compose(generated.Latent(decoder), counter)
        return generated.WritesToGymnasium(decoder=decoder), TransformedEnv(env, chain)
    if name == "Writes":
        fused = generated.Writes(decoder=decoder, batch_size=batch)
        chain = Compose(generated.Latent(decoder), counter)
    elif name == "Corrects":
        fused = generated.Corrects(teacher=proposal, batch_size=batch)
        chain = Compose(generated.Beside(proposal, size=0.25), counter)
    elif name == "Waits":
        fused = generated.Waits(content=Above(limit=0.0), batch_size=batch)
        last = StepCounter(6, step_count_key="all")
        chain = Compose(StepCounter(), generated.Wait(Above(limit=0.0)), last)
    elif name == "Goes":
        fused = generated.Goes(content=Above(limit=0.5), batch_size=batch)
        chain = Compose(StepCounter(), generated.Until(Above(limit=0.5)))
    elif name == "Weighs":
        fused = generated.Weighs(weight=Above(limit=0.25), batch_size=batch)
        chain = Compose(generated.Weighed(Above(limit=0.25)), counter)
    else:
        fused = generated.Learns(features=encoder, batch_size=batch)
        chain = Compose(counter, generated.Energy(encoder))
    return fused, TransformedEnv(Pendulum(batch_size=batch), chain)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", ["Writes", "Corrects", "Waits", "Goes", "Weighs"])
def test_chains_agree(generated: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    rollouts_alike(both(generated, name, *batch), 9)


@pytest.mark.parametrize("batch", BATCHES)
def test_chains_that_learn_of_features_agree(generated: ModuleType, batch: tuple[int, ...]) -> None:
    data = []
    for env in both(generated, "Learns", *batch):
        env.set_seed(3)
        torch.manual_seed(1)
        data.append(env.rollout(9, break_when_any_done=False))
    assert_identical(*data)


def test_chains_over_gymnasium_agree(generated: ModuleType) -> None:
    rollouts_alike(both(generated, "WritesToGymnasium"), 9)


def test_what_a_network_of_a_chain_gives_is_checked(generated: ModuleType) -> None:
    env = generated.Writes(decoder=nn.Linear(4, 2), batch_size=(3,))
    with pytest.raises(
        RuntimeError, match=r"decoder must return torch.float32 \[rows, 1\] for 3 rows.*\[3, 2\]"
    ):
        env.rollout(1)


def test_networks_of_a_chain_train(generated: ModuleType) -> None:
    decoder = nn.Linear(4, 1)
    env = generated.Writes(decoder=decoder, batch_size=(3,))
    assert list(env.parameters()) == list(decoder.parameters())
    root = env.reset()
    root["latent"] = torch.rand(3, 4).requires_grad_()
    env.step(root)["next", "reward"].sum().backward()
    assert root["latent"].grad.abs().sum() > 0
    assert decoder.weight.grad.abs().sum() > 0


def test_a_chain_that_learns_of_features(generated: ModuleType) -> None:
    env, _ = both(generated, "Learns", 3)
    assert set(env.state_dict()) == {
        "features.weight",
        "features.bias",
        "transforms.1.count",
        "transforms.1.energy",
    }
    env.rollout(4)
    assert not env.state_dict()["transforms.1.energy"].requires_grad
    twin = copy.deepcopy(env)
    with torch.no_grad():
        twin.features.weight.zero_()
        twin.features.bias.fill_(2.0)
    fresh = generated.Learns(features=nn.Linear(3, 6), batch_size=(3,))
    fresh.load_state_dict({**fresh.state_dict(), "features.weight": twin.features.weight * 0})
    for each in (twin, fresh):
        before = each.state_dict()
        each.step(each.rand_action(each.reset()))
        squared = each.features.bias.square().mean().double().detach()
        count = before["transforms.1.count"] + 6
        share = before["transforms.1.energy"] - squared
        expected = squared + share * before["transforms.1.count"] / count
        torch.testing.assert_close(each.state_dict()["transforms.1.energy"], expected)
