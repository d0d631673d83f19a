"""The parts of a pipeline as they are printed: a line for each, which names it and its class."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from specgen_runtime.modules import SafeSequential
from specgen_runtime.training import command_line
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.pipelines.dqn_cartpole import DQNCartPole, DQNCartPoleConfig, update
from specgen_std.pipelines.ppo_cartpole import PPOCartPole, PPOCartPoleConfig, train


def test_parts_are_named_with_their_classes() -> None:
    parts = PPOCartPole(PPOCartPoleConfig(num_envs=16, evaluate_episodes=3, actor_lr=0.25, critic_lr=0.5))
    assert repr(parts).splitlines() == [
        "PPOCartPole(",
        f"    device: {torch.device(parts.device)}",
        "    env: CartPoleTrain [16]",
        "    eval_env: CartPoleTrain [3]",
        "    actor_network: ProbabilisticActor",
        "    critic_network: ValueOperator",
        "    policy: actor_network",
        "    loss: ClipPPOLoss",
        "    estimator: GAE",
        "    actor_optimizer: Adam, lr=0.25",
        "    critic_optimizer: Adam, lr=0.5",
        "    collector: not asked for yet",
        ")",
    ]
    assert parts.collector is parts.collector
    assert repr(parts).splitlines()[-2] == "    collector: Collector"


def test_what_collects_has_the_parts_that_took_the_places_of_others() -> None:
    class Shorter(DQNCartPole):
        def __init__(self, config: DQNCartPoleConfig) -> None:
            super().__init__(config)
            self.env = CartPoleTrain(batch_size=[3], length=0.25)
            self.policy = SafeSequential(self.value_network)
            self.optimizer = torch.optim.SGD(self.loss.parameters(), lr=0.5)

    parts = Shorter(DQNCartPoleConfig())
    batch = next(iter(parts.collector))
    assert batch.shape[0] == 3
    assert torch.equal(batch["action"], batch.get("action_value").argmax(-1)), "nothing explores"
    before = [parameter.clone() for parameter in parts.loss.parameters()]
    update(parts, batch.reshape(-1))
    moved = zip(before, parts.loss.parameters(), strict=True)
    for old, new in moved:
        assert new.grad is not None
        assert torch.allclose(new, old - 0.5 * new.grad)


def test_the_printed_loop_takes_a_class_that_extends_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Shorter(PPOCartPole):
        def __init__(self, config: PPOCartPoleConfig | None = None) -> None:
            super().__init__(config)
            self.env.params = self.env.params._replace(length=0.25)

    config = PPOCartPoleConfig(total_frames=512, evaluate_episodes=2)
    parts = train(config, folder=tmp_path / "called", parts_class=Shorter)
    assert isinstance(parts, Shorter)
    options = ["--total-frames", "512", "--evaluate-episodes", "2", "--folder", str(tmp_path / "typed")]
    monkeypatch.setattr("sys.argv", ["shorter.py", *options])
    typed = command_line(partial(train, parts_class=Shorter))
    assert isinstance(typed, Shorter)
    found = zip(parts.loss.parameters(), typed.loss.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in found)
    monkeypatch.setattr("sys.argv", ["shorter.py", "--help"])
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        command_line(train)
    said = capsys.readouterr().out
    assert "--folder" in said
    assert "parts" not in said, "a class is no option"


def test_no_part_is_told_by_its_address() -> None:
    said = repr(DQNCartPole())
    assert said.startswith("DQNCartPole(\n")
    assert "    buffer: TensorDictReplayBuffer\n" in said
    assert " at 0x" not in said


def test_a_state_of_other_parts_is_told_by_its_names() -> None:
    parts = PPOCartPole(PPOCartPoleConfig(num_envs=16))
    state = parts.state_dict()
    parts.load_state_dict({**state, "mine": 1})
    del state["critic_optimizer"], state["collector"]
    said = (
        r"what PPOCartPole is to restore lacks 'critic_optimizer', 'collector', and has 'optimizer', which is none of"
        r" its parts: it is what `state_dict` of a PPOCartPole gave"
    )
    before = parts.actor_network.state_dict()
    with pytest.raises(ValueError, match=said):
        parts.load_state_dict({**state, "optimizer": {}})
    torch.testing.assert_close(parts.actor_network.state_dict(), before)
