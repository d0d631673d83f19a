"""Pipelines with convolutions, shared trunks and recurrent layers: what is printed of them, trained."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.modules import Trunk, own_parameters, set_recurrent_mode
from torch import nn

from tests.pipelines.small import differing, optimizers, parts_class, rows, small_config
from tests.support import generate, imported

PIXELS = """\
specgen: 1
doc: A row of cells that is seen as an image.
import: [specgen_std/transforms/init_tracker, specgen_std/transforms/step_counter, specgen_std/transforms/reward_sum]
envs:
  Row:
    doc: Walk to the right end of a row of cells, which is drawn.
    dims: {side: 8}
    state: {cell: {kind: categorical, n: side}}
    action: {action: {kind: categorical, n: 2}}
    observation: {pixels: {kind: bounded, low: 0, high: 1, shape: [1, side, side], dtype: float32}}
    reset: {cell: 0}
    step:
      next.cell: clip(cell + 2 * action - 1, 0, side - 1)
      terminated: next.cell == side - 1
      reward: where(terminated, 1.0, 0.0)
    observe:
      pixels: reshape(float32(one_hot(cell * side + cell, side * side)), (1, side, side))
chains:
  RowTrain:
    doc: The row with a time limit.
    env: Row
    transforms: [InitTracker, {StepCounter: {max_steps: 30}}, RewardSum]
"""
DQN = """\
specgen: 1
doc: Deep Q-learning from pixels.
import: [pixels, specgen_std/losses/dqn]
pipelines:
  DQNPixels:
    doc: Deep Q-learning from pixels.
    env: RowTrain
    networks: {value_network: {cnn: [[4, 3, 1], [8, 3, 2]], mlp: [16], init: {orthogonal: {}}}}
    policy: {explore: {epsilon_greedy: {eps: 0.2}}}
    loss: {DQNLoss: {double_dqn: true}}
    data: {replay: {num_envs: 8, capacity: 1_000, batch_size: 32, updates: 2}}
    target_updater: {soft: {tau: 0.01}}
    optimizer: {adam: {lr: 1.0e-3}}
    stop: {frames: 2_000}
"""
SHARED = """\
specgen: 1
doc: Two networks on one trunk.
import: [pixels, specgen_std/losses/ppo]
pipelines:
  PPOPixels:
    doc: Two networks on one trunk, which the critic's optimizer moves.
    env: RowTrain
    networks:
      encoder: {cnn: [[4, 3, 1], [8, 3, 2]], mlp: [16], activation: tanh}
      actor_network: {trunk: encoder, mlp: [16]}
      critic_network: {trunk: encoder, mlp: [16]}
    loss: {ClipPPOLoss: {entropy_bonus: false}}
    value_estimator: {gae: {gamma: 0.9, lmbda: 0.9}}
    data: {on_policy: {num_envs: 8, num_steps: 16, minibatch_size: 32}}
    optimizer: {actor: {of: [loss_objective], adam: {lr: 1.0e-3}}, critic: {of: [encoder, critic_network], adam: {lr: 1.0e-3}}}
    stop: {frames: 2_000}
"""
ACTION = """\
specgen: 1
doc: Values of actions from pixels.
import: [specgen_std/chains/pendulum, specgen_std/losses/sac]
pipelines:
  SACEnsemble:
    doc: Values of actions behind layers of their own.
    env: PendulumTrain
    networks:
      encoder: {mlp: [16], activation: tanh}
      actor_network: {trunk: encoder, mlp: [16]}
      qvalue_network: {mlp: [16], dropout: 0.1, init: {orthogonal: {}}}
    loss: {SACLoss: {}}
    data: {replay: {num_envs: 4, capacity: 1_000, batch_size: 32}}
    target_updater: {soft: {tau: 0.01}}
    optimizer: {adam: {lr: 1.0e-3}}
    stop: {frames: 2_000}
"""
MEMORY = """\
specgen: 1
doc: A memory of episodes that end within a batch, in a chain that does not say where they begin.
import: [specgen_std/envs/pendulum, specgen_std/transforms/step_counter, specgen_std/losses/ppo]
chains:
  Short{kind}: {{doc: Pendulum for five steps., env: Pendulum, transforms: [{{StepCounter: {{max_steps: 5}}}}]}}
pipelines:
  Memory{kind}:
    doc: A memory of episodes.
    env: Short{kind}
    networks:
      encoder: {{mlp: [12], activation: tanh}}
      memory: {{trunk: encoder, {layer}: 8}}
      actor_network: {{trunk: memory}}
      critic_network: {{trunk: memory, mlp: [8]}}
    loss: {{ClipPPOLoss: {{entropy_bonus: false}}}}
    value_estimator: {{gae: {{gamma: 0.9, lmbda: 0.9}}}}
    data: {{on_policy: {{num_envs: 4, num_steps: 16, minibatches: 2}}}}
    optimizer: {{adam: {{lr: 1.0e-3}}}}
    device: {device}
    stop: {{frames: 2_000}}
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    """The printed modules of the pipelines above."""
    texts = {"pixels.yaml": PIXELS, "dqn.yaml": DQN, "shared.yaml": SHARED, "actions.yaml": ACTION}
    apart = "{env: cpu, policy: cpu, data: cpu, loss: cpu}"  # with copies that act
    for layer, device in (("gru", "cpu"), ("lstm", apart)):
        texts[f"{layer}.yaml"] = MEMORY.format(kind=layer.upper(), layer=layer, device=device)
    with imported(generate(texts, "trunks"), "trunks", tmp_path_factory.mktemp("made")):
        names = ("dqn", "shared", "actions", "gru", "lstm")
        yield {name: importlib.import_module(f"trunks.{name}") for name in names}


NAMES = ("dqn", "shared", "actions", "gru", "lstm")


@pytest.mark.parametrize("name", NAMES)
def test_a_training_that_was_stopped_goes_on_bit_by_bit(
    name: str, modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = modules[name]
    numbers = {"minibatch_size": 8} if name == "shared" else {}
    config = small_config(module, num_envs=4, **numbers)
    fresh = parts_class(module)(config)
    whole = module.train(config, folder=tmp_path / "whole")
    for attribute, optimizer in optimizers(whole).items():
        before = optimizers(fresh)[attribute].param_groups[0]["params"]
        moved = optimizer.param_groups[0]["params"]
        for one, other in zip(before, moved, strict=True):
            assert not torch.equal(one, other), f"{attribute} left {tuple(one.shape)} as it was"
    save = module.Run.save

    def stopping(run: Any) -> None:
        save(run)
        raise InterruptedError

    monkeypatch.setattr(module.Run, "save", stopping)
    with pytest.raises(InterruptedError):
        module.train(config, folder=tmp_path / "stopped")
    monkeypatch.setattr(module.Run, "save", save)
    torch.manual_seed(12345)
    resumed = module.train(config, folder=tmp_path / "stopped", resume=True)
    assert differing(whole.state_dict(), resumed.state_dict()) == []
    assert rows(tmp_path / "whole") == rows(tmp_path / "stopped")


@pytest.mark.parametrize("name", NAMES)
def test_each_parameter_is_moved_by_one_optimizer(name: str, modules: dict[str, ModuleType]) -> None:
    parts = parts_class(modules[name])(small_config(modules[name]))
    moved = [
        id(one) for optimizer in optimizers(parts).values() for one in optimizer.param_groups[0]["params"]
    ]
    assert len(moved) == len(set(moved))
    assert set(moved) == {id(one) for one in parts.loss.parameters() if one.requires_grad}


def test_a_trunk_is_moved_by_who_names_it(modules: dict[str, ModuleType]) -> None:
    parts = modules["shared"].PPOPixels(small_config(modules["shared"]))
    encoder = {id(one) for one in parts.encoder.parameters()}
    found = {
        name: {id(one) for one in optimizer.param_groups[0]["params"]} & encoder
        for name, optimizer in optimizers(parts).items()
    }
    assert found == {"actor_optimizer": set(), "critic_optimizer": encoder}
    assert {id(one) for one in own_parameters(parts.actor_network)} == {
        id(one) for one in parts.actor_network.parameters()
    } - encoder


@pytest.mark.parametrize(("name", "layer"), [("shared", nn.Conv2d), ("gru", nn.RNNBase)])
def test_a_trunk_is_run_once_for_policy_and_critic(
    name: str, layer: type[nn.Module], modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss runs it once for both, and says what it says where each of them runs it."""
    module = modules[name]
    parts = parts_class(module)(small_config(module, num_envs=4, num_steps=8))
    batch = next(iter(parts.collector))
    with torch.no_grad():
        parts.estimator(batch)
    trunk = parts.encoder if name == "shared" else parts.memory
    calls = 0
    forward = Trunk._run

    def counting(self: Trunk, tensordict: Any) -> Any:
        nonlocal calls
        calls += any(isinstance(part, layer) for part in self.modules()) and torch.is_grad_enabled()
        return forward(self, tensordict)

    monkeypatch.setattr(Trunk, "_run", counting)
    found = []
    for shared in (True, False):
        for one in parts.loss.parameters():
            one.grad = None
        calls = 0
        if shared:
            with trunk.once():
                losses = parts.loss(batch)
        else:
            losses = parts.loss(batch)
        assert calls == (1 if shared else 2)
        torch.autograd.backward(losses["loss_objective"] + losses["loss_critic"])
        found.append([losses["loss_objective"], *(one.grad for one in parts.loss.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_what_changes_is_run_again() -> None:
    """Within `once`: other inputs, inputs and parameters that were changed in place, and the other mode of gradients."""
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule

    layer = nn.Linear(2, 3)
    trunk = Trunk(TensorDictModule(layer, in_keys=["x"], out_keys=["y"]))
    data = TensorDict({"x": torch.ones(4, 2)}, [4])
    with trunk.once():
        first = trunk(data.copy())["y"]
        assert trunk(data.copy())["y"] is first
        assert trunk(TensorDict({"x": torch.ones(4, 2)}, [4]))["y"] is not first
        with torch.no_grad():
            assert not trunk(data.copy())["y"].requires_grad
            layer.bias.add_(1.0)
        torch.testing.assert_close(trunk(data.copy())["y"], first + 1)
        data["x"].mul_(2.0)
        torch.testing.assert_close(trunk(data.copy())["y"], layer(data["x"]))
    assert trunk(data.copy())["y"] is not trunk(data.copy())["y"]


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_sequences_of_the_loss_are_the_steps_of_the_collection(
    name: str, modules: dict[str, ModuleType]
) -> None:
    """At the parameters of the collection the loss finds the log-probabilities that were written, with resets within."""
    parts = parts_class(modules[name])(small_config(modules[name], num_envs=4, num_steps=8))
    batches = iter(parts.collector)
    next(batches)
    batch = next(batches)  # begins within episodes, with states that are not zero
    begins = batch["is_init"].squeeze(-1)
    assert begins[:, 1:].any(1).all()
    state = batch["memory_h"]
    assert not state[begins].any()
    assert state[:, 0][~begins[:, 0]].any()
    for minibatch in modules[name].column_minibatches(batch, 2, generator=None):
        assert minibatch.batch_size == (2, 8)
        with set_recurrent_mode(True), torch.no_grad():
            again = parts.actor_network.get_dist(minibatch.copy()).log_prob(minibatch["action"])
        torch.testing.assert_close(again, minibatch["action_log_prob"], atol=1e-5, rtol=1e-5)
        with torch.no_grad():
            parts.estimator(minibatch)
            losses = parts.loss(minibatch)
        torch.testing.assert_close(losses["kl_approx"], torch.zeros(()), atol=1e-6, rtol=0)
        assert losses["max_ratio"].item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_values_of_the_estimator_are_those_of_single_steps(name: str, modules: dict[str, ModuleType]) -> None:
    parts = parts_class(modules[name])(small_config(modules[name], num_envs=4, num_steps=8))
    batches = iter(parts.collector)
    next(batches)
    batch = next(batches)
    states = ["memory_h"] + ["memory_c"] * (name == "lstm")
    with torch.no_grad():
        parts.estimator(batch)
        now, after = [], []
        for step in batch.unbind(1):
            now.append(parts.critic_network(step.select("observation", "is_init", *states))["state_value"])
            following = step["next"].select("observation", "is_init", *states)
            assert not following["is_init"].any()
            after.append(parts.critic_network(following)["state_value"])
    now, after = torch.stack(now, 1), torch.stack(after, 1)
    torch.testing.assert_close(batch["state_value"], now, atol=1e-5, rtol=1e-5)
    gamma, lmbda = parts.config.gamma, parts.config.lmbda
    terminated, done = batch["next", "terminated"], batch["next", "done"]
    delta = batch["next", "reward"] + gamma * after * ~terminated - now
    advantage = torch.zeros_like(now[:, 0])
    for t in reversed(range(8)):
        advantage = delta[:, t] + gamma * lmbda * advantage * ~done[:, t]
        torch.testing.assert_close(batch["advantage"][:, t], advantage, atol=1e-4, rtol=1e-4)


def test_evaluations_have_a_memory(modules: dict[str, ModuleType]) -> None:
    parts = modules["gru"].MemoryGRU(small_config(modules["gru"]))
    rollout = parts.eval_env.rollout(3, parts.policy)
    assert torch.equal(rollout["memory_h"][:, 1:], rollout["next", "memory_h"][:, :-1])
    assert rollout["memory_h"][:, 1:].any()


def test_first_weights_of_members_are_orthogonal_each(modules: dict[str, ModuleType]) -> None:
    parts = modules["actions"].SACEnsemble(small_config(modules["actions"]))
    weights = [one for key, one in parts.loss.qvalue_network_params.items(True, True) if key[-1] == "weight"]
    assert [tuple(one.shape) for one in weights] == [(2, 16, 4), (2, 1, 16)]
    for gain, weight in zip((2.0, 1.0), weights, strict=True):
        assert not torch.equal(weight[0], weight[1])
        for member in weight.detach():
            short = member.T if member.shape[0] > member.shape[1] else member
            torch.testing.assert_close(short @ short.T, gain * torch.eye(len(short)), atol=1e-5, rtol=1e-5)
