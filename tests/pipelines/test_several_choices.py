"""Pipelines over an action of several choices at once, `MultiDiscrete` to Gymnasium, or of bits, `MultiBinary`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.modules import IndependentBernoulli, MultiCategorical, MultiOneHotCategorical
from specgen_runtime.training import read_log
from tensordict import TensorDict

from tests.pipelines.small import small_config
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import:
  - specgen_std/losses/LOSS
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter

envs:
  Dials:
    doc: Each of three dials is to be turned to where it is said; 1 is told as 1, and 0 as -1.
    state: {wanted: "int64[3]"}
    action: {action: "ACTION"}
    observation: {observation: "float32[3]"MASK}
    reset: {wanted: "randint(0, 2, shape=3)"}
    step:
      next.wanted: "randint(0, 2, shape=3)"
      reward: "mean(float32(CHOICE == wanted))"
    observe: {observation: 2 * float32(wanted) - 1SHOWN}

chains:
  DialsTrain: {env: Dials, transforms: [{StepCounter: {max_steps: 4}}, RewardSum]}

pipelines:
  Training:
    doc: A training.
    env: DialsTrain
    networks: {actor_network: {mlp: [32], activation: tanhDIST}CRITIC}
    loss: BODY
    value_estimator: {gae: {gamma: 0.9, lmbda: 0.95}}
    data: {on_policy: {num_envs: 32, num_steps: 8, DATA}}
    optimizer: {adam: {lr: 1.0e-2}, max_grad_norm: 0.5}
    evaluate: {every: 4_096, episodes: 20}
    stop: {frames: 4_096}
"""

PPO = (
    "ppo",
    "{ClipPPOLoss: {entropy_coeff: 0.001, normalize_advantage: true}}",
    "epochs: 4, minibatch_size: 64",
)
LOSSES = {
    "ppo": PPO,
    "kl_penalty": ("ppo", "KLPENPPOLoss", PPO[2]),
    "a2c": ("policy_gradient", "{A2CLoss: {entropy_coeff: 0.001}}", "epochs: 1, minibatch_size: 64"),
    "reinforce": ("policy_gradient", "ReinforceLoss", "epochs: 1, minibatch_size: 64"),
}  # fmt: skip

KINDS: dict[str, tuple[str, str, type, int]] = {
    "sizes that differ": ("multi_categorical(3, 2, 4)", "action", MultiCategorical, 9),
    "sizes alike": ("categorical(3)[3]", "action", MultiCategorical, 9),
    "one-hot vectors in a row": (
        "multi_onehot(3, 2, 4)",
        "stack(argmax(action[:3]), argmax(action[3:5]), argmax(action[5:]))",
        MultiOneHotCategorical,
        9,
    ),
    "one-hot rows": ("onehot(3)[3]", "argmax(action, axis=-1)", MultiOneHotCategorical, 9),
    "bits": ("binary[3]", "int64(action)", IndependentBernoulli, 3),
}
"""Actions: the choices that they say, the distribution over them, and how many numbers that is told."""


def schema(kind: str, loss: str = "ppo", dist: str = "", mask: tuple[str, str] = ("", "")) -> str:
    action, choice, _, _ = KINDS[kind]
    source, body, data = LOSSES[loss]
    changes = {
        "LOSS": source, "ACTION": action, "CHOICE": choice, "BODY": body, "DATA": data, "DIST": f", dist: {dist}" if dist else "",
        "CRITIC": ", critic_network: {mlp: [32], activation: tanh}", "SHOWN": mask[1],
        "MASK": f", allowed: \"{mask[0]}\"}}\n    masks: {{action: allowed" if mask[0] else "",
    }  # fmt: skip
    text = SCHEMA
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


@contextmanager
def made(text: str, folder: Path) -> Iterator[Any]:
    with imported(generate({"dials.yaml": text}, "dialled"), "dialled", folder) as package:
        yield importlib.import_module(f"{package.__name__}.dials")


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_each_choice(kind: str, tmp_path: Path) -> None:
    """Random choices are right in one of three, and all of an episode give at most 4."""
    with made(schema(kind), tmp_path) as module:
        parts = module.train(module.TrainingConfig(), folder=tmp_path / "run")
        assert read_log(tmp_path / "run" / "log.csv")[-1]["evaluation"] > 3.8
        seen = torch.tensor([[1.0, -1, 1], [-1, 1, 1]])
        dist = parts.policy.get_dist(TensorDict({"observation": seen}, [2]))
        assert type(dist) is KINDS[kind][2]
        index = dist.mode.long()
        if kind == "one-hot rows":
            index = index.argmax(-1)
        elif kind == "one-hot vectors in a row":
            index = torch.stack([part.argmax(-1) for part in index.split((3, 2, 4), -1)], -1)
        assert index.tolist() == [[1, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored_is_what_was_drawn(kind: str, tmp_path: Path) -> None:
    """One number for each step: the sum over the choices; ratios begin at 1, and actions are in the spec."""
    with made(schema(kind), tmp_path) as module:
        parts = module.Training(small_config(module))
        batch = next(iter(parts.collector))
        dist = parts.policy.get_dist(batch.clone())
        assert batch["logits"].shape == (2, 4, KINDS[kind][3])
        assert batch["action_log_prob"].shape == (2, 4)
        torch.testing.assert_close(batch["action_log_prob"], dist.log_prob(batch["action"]))
        spec = parts.env.action_spec
        assert all(spec.is_in(step) for step in batch["action"].unbind(1))
        with torch.no_grad():
            parts.estimator(batch)
        metrics = module.update(parts, batch.select(*parts.stored).reshape(-1))
        assert float(metrics.mean_ratio) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_trained_goes_on_from_a_checkpoint(loss: str, tmp_path: Path) -> None:
    with made(schema("sizes that differ", loss), tmp_path) as module:
        whole = module.train(small_config(module), folder=tmp_path / "whole")
        module.train(small_config(module, total_frames=24), folder=tmp_path / "parts")
        parts = module.train(small_config(module), folder=tmp_path / "parts", resume=True)
        for key, value in whole.policy.state_dict().items():
            torch.testing.assert_close(parts.policy.state_dict()[key], value, rtol=0, atol=0)


MASKS = {
    "sizes that differ": ("bool[9]", "stack(true, wanted[0] == 1, false, true, true, true, true, true, false)"),
    "one-hot vectors in a row": ("bool[9]", "stack(true, wanted[0] == 1, false, true, true, true, true, true, false)"),
    "sizes alike": ("bool[3, 3]", "stack(wanted < 1, wanted > 0, wanted > 5, axis=-1)"),
    "one-hot rows": ("bool[3, 3]", "stack(wanted < 1, wanted > 0, wanted > 5, axis=-1)"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MASKS)
def test_no_choice_is_drawn_that_is_not_allowed(kind: str, tmp_path: Path) -> None:
    shape, shown = MASKS[kind]
    with made(schema(kind, mask=(shape, f", allowed: '{shown}'")), tmp_path) as module:
        parts = module.Training(small_config(module, num_envs=16, num_steps=8))
        batch = next(iter(parts.collector))
        dist = parts.policy.get_dist(batch.clone())
        torch.testing.assert_close(batch["action_log_prob"], dist.log_prob(batch["action"]))
        assert batch["action_log_prob"].isfinite().all()
        index = dist._read(batch["action"])
        assert (index < 3).all()
        assert (2 * index[..., 0] - 1 <= batch["observation"][..., 0]).all()
        assert "allowed" in parts.stored
        module.train(small_config(module), folder=tmp_path / "run")


@pytest.mark.parametrize(
    ("kind", "dist"),
    [
        ("sizes that differ", "categorical"),
        ("one-hot rows", "onehot_categorical"),
        ("bits", "bernoulli"),
    ],
)
def test_the_distribution_may_be_named(kind: str, dist: str) -> None:
    texts = [generate({"dials.yaml": schema(kind, dist=named)}, "named")["dials.py"] for named in ("", dist)]
    assert texts[0].split('"""')[2:] == texts[1].split('"""')[2:]


def test_a_policy_chooses_intervals_of_numbers(tmp_path: Path) -> None:
    """`ActionDiscretizer` makes several choices of a vector of numbers."""
    text = """\
specgen: 1
import: [specgen_std/losses/ppo, specgen_std/transforms/actions, specgen_std/transforms/reward_sum, specgen_std/transforms/step_counter]
envs:
  Reach:
    doc: A hand is moved to a place that is told.
    state: {place: "float32[2] in [-1, 1]"}
    action: {action: "float32[2] in [-1, 1]"}
    observation: {observation: "float32[2] in [-1, 1]"}
    reset: {place: "uniform(-1, 1, shape=2)"}
    step: {next.place: "uniform(-1, 1, shape=2)", reward: "-mean(abs(action - place))"}
    observe: {observation: place}
chains:
  ReachTrain:
    env: Reach
    transforms: [{ActionDiscretizer: {num_intervals: [5, 3]}}, {StepCounter: {max_steps: 4}}, RewardSum]
pipelines:
  Training:
    env: ReachTrain
    networks: {actor_network: {mlp: [8]}, critic_network: {mlp: [8]}}
    loss: {ClipPPOLoss: {normalize_advantage: true}}
    value_estimator: {gae: {gamma: 0.9, lmbda: 0.95}}
    data: {on_policy: {num_envs: 32, num_steps: 8, epochs: 2, minibatch_size: 64}}
    optimizer: {adam: {lr: 1.0e-2}}
    stop: {frames: 4_096}
"""
    with made(text, tmp_path) as module:
        parts = module.train(small_config(module), folder=tmp_path / "run")
        batch = next(iter(parts.collector))
        dist = parts.policy.get_dist(batch.clone())
        assert isinstance(dist, MultiCategorical)
        assert dist.nvec == (5, 3)
        assert batch["action"].dtype == torch.int64


def test_each_agent_of_a_group_has_several_choices(tmp_path: Path) -> None:
    """Log-probabilities are summed over the choices of an agent, and not over agents."""
    text = """\
specgen: 1
import: [specgen_std/losses/mappo]
envs:
  Crew:
    doc: Two sailors turn two dials each.
    groups: {sailor: {agents: 2, doc: Sailors.}}
    state: {sailor.wanted: "int64[2]"}
    action: {sailor.action: "multi_categorical(3, 2)"}
    observation: {sailor.observation: "float32[2]"}
    reset: {sailor.wanted: "randint(0, 2, shape=(sailor, 2))"}
    step:
      next.sailor.wanted: "randint(0, 2, shape=(sailor, 2))"
      sailor.reward: "mean(float32(sailor.action == sailor.wanted), axis=-1)"
      terminated: "all(next.sailor.wanted > 0)"
    observe: {sailor.observation: float32(sailor.wanted)}
pipelines:
  Training:
    env: Crew
    networks: {sailor.actor_network: {mlp: [8]}, sailor.critic_network: {mlp: [8]}}
    loss: {sailor: {MAPPOLoss: {entropy_coeff: 0.01}}}
    value_estimator: {multi_agent_gae: {gamma: 0.9, lmbda: 0.95}}
    data: {on_policy: {num_envs: 16, num_steps: 16, epochs: 4, minibatches: 4}}
    optimizer: {adam: {lr: 3.0e-3}}
    stop: {frames: 4_096}
"""
    with made(text, tmp_path) as module:
        parts = module.Training(module.TrainingConfig(num_envs=4, num_steps=4))
        batch = next(iter(parts.collector))
        assert batch["sailor", "action"].shape == (4, 4, 2, 2)
        assert batch["sailor", "action_log_prob"].shape == (4, 4, 2)
        parts.sailor_estimator(batch)
        found = module.update(parts, batch.select(*parts.stored).reshape(-1))
    torch.testing.assert_close(found.sailor_kl_approx, torch.tensor(0.0), atol=1e-5, rtol=0)


def test_choices_stand_beside_other_actions(tmp_path: Path) -> None:
    """Several choices, bits and numbers in one policy, each with its part of the last layer."""
    text = schema("sizes that differ")
    text = text.replace(
        'action: {action: "multi_categorical(3, 2, 4)"}',
        'action: {action.dials: "multi_categorical(3, 2, 4)", action.lamps: "binary[2]", action.force: "float32[1] in [-1, 1]"}',
    ).replace(
        "float32(action == wanted))",
        "float32(action.dials == wanted)) - abs(action.force[0]) + float32(action.lamps[1])",
    )
    with made(text, tmp_path) as module:
        parts = module.train(small_config(module), folder=tmp_path / "run")
        batch = next(iter(parts.collector))
        dists = parts.policy.get_dist(batch.clone()).dists
        assert type(dists["action", "dials"]) is MultiCategorical
        assert type(dists["action", "lamps"]) is IndependentBernoulli
        each = sum(dist.log_prob(batch[key]) for key, dist in dists.items())
        torch.testing.assert_close(batch["action_log_prob"], each)


def test_behaviour_is_cloned(tmp_path: Path) -> None:
    """From recorded choices, the dials as they are wanted."""
    text = re.sub(
        r"    loss: .*?(?=    stop:)",
        "    loss: BCLoss\n    data: {recorded: {path: data/dials, batch_size: 64}}\n    optimizer: {adam: {lr: 1.0e-2}}\n",
        schema("sizes that differ"),
        flags=re.DOTALL,
    )
    text = text.replace(", critic_network: {mlp: [32], activation: tanh}", "").replace(
        "losses/ppo", "losses/behavior_cloning"
    )
    with made(text.replace("frames: 4_096", "updates: 100"), tmp_path) as module:
        wanted = torch.randint(2, (512, 3), generator=torch.Generator().manual_seed(0))
        data = TensorDict({"observation": 2.0 * wanted - 1, "action": wanted}, [512])
        data.memmap(str(tmp_path / "data"))
        config = module.TrainingConfig(
            recorded=str(tmp_path / "data"), evaluate_every=100, checkpoint_every=100, evaluate_episodes=20
        )
        module.train(config, folder=tmp_path / "run")
        assert read_log(tmp_path / "run" / "log.csv")[-1]["evaluation"] > 3.9
