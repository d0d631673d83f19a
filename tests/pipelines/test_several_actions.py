"""Pipelines over environments with several actions: a distribution for each, whose log-probabilities are summed."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.modules import Categorical, MaskedCategorical, TanhNormal
from specgen_runtime.training import read_log
from tensordict import TensorDict

from tests.pipelines.small import losses, small_config
from tests.support import generate, imported

PAGE = Path("docs/language/pipeline_networks.md")
"""Its section on several actions has the pipeline that is trained here."""

MASKED = {
    "force: \"float32[1] in [0, 1]\"}": "force: \"float32[1] in [0, 1]\"}\n    masks: {action.move: allowed}",
    "observation: {observation: \"float32[1] in [-2, 2]\"}": "observation: {observation: \"float32[1] in [-2, 2]\", allowed: \"bool[3]\"}",
    "observe: {observation: place}": 'observe: {observation: place, allowed: "stack(place[0] > 0, true, place[0] <= 0)"}',
    "actions: {force: {scale: {parameter: 0.6}}}": "actions: {force: {dist: truncated_normal}}",
}  # fmt: skip
"""What makes it an environment that allows the two moves that are not away from the middle."""

ONE_ACTION = {
    'action.move: "categorical(3)", action.force: "float32[1] in [0, 1]"': 'action: "float32[1] in [-1, 1]"',
    "(action.move - 1) * action.force": "action",
    ", actions: {force: {scale: {parameter: 0.6}}}": "",
}
"""What makes it an environment with one action, a vector."""

OTHER_LOSSES = {
    "a2c": ("{A2CLoss: {entropy_coeff: 0.01}}", "epochs: 1, minibatch_size: 64"),
    "reinforce": ("ReinforceLoss", "epochs: 1, minibatch_size: 64"),
}


def _schema() -> str:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (str(text) for text in blocks if "PPOHarbor:" in text)
    return found


def _with(replaced: dict[str, str]) -> str:
    text = _schema()
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def _schemas() -> dict[str, str]:
    made = {"ppo": _schema(), "masked": _with(MASKED)}
    for name, (loss, data) in OTHER_LOSSES.items():
        text = re.sub(r"loss: \{ClipPPOLoss.*", f"loss: {loss}", _schema())
        made[name] = text.replace("epochs: 10, minibatch_size: 128", data).replace(
            "losses/ppo", "losses/policy_gradient"
        )
    renamed = {
        "ppo": "Harbor",
        "masked": "MaskedHarbor",
        "a2c": "A2CHarbor",
        "reinforce": "ReinforceHarbor",
        "cloned": "ClonedHarbor",
    }
    made["cloned"] = re.sub(
        r"    loss: .*?(?=    stop:)",
        "    loss: BCLoss\n    data: {recorded: {path: data/harbor, batch_size: 64}}\n    optimizer: {adam: {lr: 1.0e-2}}\n",
        made["ppo"],
        flags=re.DOTALL,
    )
    made["cloned"] = (
        made["cloned"]
        .replace("      critic_network: {mlp: [64, 64], activation: tanh}\n", "")
        .replace("losses/ppo", "losses/behavior_cloning")
        .replace("frames: 20_480", "updates: 400")
    )
    made = {name: text.replace("Harbor", renamed[name]) for name, text in made.items()}
    return {f"{name}.yaml": text for name, text in made.items()}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(generate(_schemas(), "harbor"), "harbor", tmp_path_factory.mktemp("harbor")) as made:
        yield made


def module_of(package: ModuleType, name: str) -> Any:
    return importlib.import_module(f"{package.__name__}.{name}")


def test_it_learns_both_actions(package: ModuleType, tmp_path: Path) -> None:
    """Random actions have a mean return of -9; of a move alone, with random forces, it stays below -2."""
    module = module_of(package, "ppo")
    config = module.PPOHarborConfig(total_frames=6_144, evaluate_every=6_144)
    parts = module.train(config, folder=tmp_path / "run")
    assert read_log(tmp_path / "run" / "log.csv")[-1]["evaluation"] > -1.2
    data = TensorDict({"observation": torch.tensor([[-1.5], [1.5], [0.8]])}, [3])
    dist = parts.policy.get_dist(data)
    move, force = (dist.dists["action", name] for name in ("move", "force"))
    assert isinstance(move, Categorical)
    assert move.probs.argmax(-1).tolist() == [2, 0, 0]
    assert isinstance(force, TanhNormal)
    assert (force.deterministic_sample > 0.6).all()


@pytest.mark.parametrize("name", ["ppo", "masked", *OTHER_LOSSES])
def test_what_is_trained_goes_on_from_a_checkpoint(package: ModuleType, name: str, tmp_path: Path) -> None:
    module = module_of(package, name)
    whole = module.train(small_config(module), folder=tmp_path / "whole")
    module.train(small_config(module, total_frames=24), folder=tmp_path / "parts")
    parts = module.train(small_config(module), folder=tmp_path / "parts", resume=True)
    for key, value in whole.policy.state_dict().items():
        torch.testing.assert_close(parts.policy.state_dict()[key], value, rtol=0, atol=0)
    (loss,) = losses(parts)
    assert loss.tensor_keys.action == "action"
    assert {("action", "move"), ("action", "force")} <= set(parts.stored)


def test_behaviour_is_cloned(package: ModuleType, tmp_path: Path) -> None:
    """The boat of the data goes to the middle at once: by the sign of its place, and by its distance."""
    module = module_of(package, "cloned")
    place = torch.empty(512, 1).uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
    action = {"move": 1 - place.sign().squeeze(-1).long(), "force": place.abs().clamp(0.02, 0.98)}
    TensorDict({"observation": place, "action": action}, [512]).memmap(str(tmp_path / "data"))
    config = module.PPOClonedHarborConfig(
        recorded=str(tmp_path / "data"), evaluate_every=400, checkpoint_every=400, evaluate_episodes=20
    )
    module.train(config, folder=tmp_path / "run")
    assert read_log(tmp_path / "run" / "log.csv")[-1]["evaluation"] > -2.0


def test_the_loss_weighs_by_the_sum(package: ModuleType) -> None:
    module = module_of(package, "ppo")
    parts = module.PPOHarbor(small_config(module))
    batch = next(iter(parts.collector))
    dist = parts.policy.get_dist(batch.clone())
    each = [part.log_prob(batch[key]) for key, part in dist.dists.items()]
    torch.testing.assert_close(batch["action_log_prob"], each[0] + each[1])
    parts.estimator(batch)
    found = parts.loss(batch.select(*parts.stored))
    torch.testing.assert_close(found["kl_approx"], torch.tensor(0.0), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["ppo", "masked", "a2c"])
def test_the_log_has_the_entropy_of_each_action(package: ModuleType, name: str, tmp_path: Path) -> None:
    module = module_of(package, name)
    module.train(small_config(module), folder=tmp_path / "run")
    rows = [row for row in read_log(tmp_path / "run" / "log.csv") if row["entropy"] is not None]
    assert rows
    for row in rows:
        assert row["move_entropy"] + row["force_entropy"] == pytest.approx(row["entropy"], rel=1e-4)


def test_entropies_of_parts_of_an_update_are_means(tmp_path: Path) -> None:
    """A metric of the log that is called as one of an action leaves that one its longer name."""
    text = _schema().replace("epochs: 10", "accumulate: 2, epochs: 10").replace("action.move", "action.loss")
    with imported(generate({"harbor.yaml": text}, "parted"), "parted", tmp_path) as made:
        module = module_of(made, "harbor")
        parts = module.PPOHarbor(small_config(module, accumulate=2))
        batch = next(iter(parts.collector))
        parts.estimator(batch)
        batch = batch.select(*parts.stored).reshape(-1)
        entropies = {
            key[-1]: one.entropy()
            for key, one in parts.policy.get_dist(batch).dists.items()
            if key[-1] == "loss"
        }
        found = module.update(parts, batch)
    torch.testing.assert_close(found.composite_entropy_loss, entropies["loss"].mean())
    assert found.composite_entropy_loss + found.force_entropy == pytest.approx(float(found.entropy), rel=1e-4)


def test_entropies_are_weighed_one_by_one(tmp_path: Path) -> None:
    text = _schema().replace("entropy_coeff: 0.01", "entropy_coeff: {force: 0.25, move: 0.5}")
    with imported(generate({"weighed.yaml": text}, "weighed"), "weighed", tmp_path) as made:
        module = module_of(made, "weighed")
        parts = module.PPOHarbor(small_config(module, entropy_coeff_force=0.0))
        batch = next(iter(parts.collector))
        parts.estimator(batch)
        found = parts.loss(batch.select(*parts.stored))
    entropy = parts.policy.get_dist(batch).dists["action", "move"].entropy().mean()
    torch.testing.assert_close(found["loss_entropy"], -0.5 * entropy)


@pytest.mark.parametrize("loss", ["ClipPPOLoss", "A2CLoss"])
def test_what_weighs_an_entropy_follows_a_schedule(loss: str, tmp_path: Path) -> None:
    weights = '{force: "linear(0.25, 0.05, over=24)", move: 0.5}'
    text = re.sub(r"loss: \{ClipPPOLoss.*", f"loss: {{{loss}: {{entropy_coeff: {weights}}}}}", _schema())
    if loss == "A2CLoss":
        text = text.replace("epochs: 10, minibatch_size: 128", OTHER_LOSSES["a2c"][1])
        text = text.replace("losses/ppo", "losses/policy_gradient")
    with imported(generate({"changing.yaml": text}, "changing"), "changing", tmp_path) as made:
        module = module_of(made, "changing")
        config = small_config(module, entropy_coeff_move=0.25)
        parts = module.train(config, folder=tmp_path / "run")
        assert config.entropy_coeff_force_end == 0.05
        part: Any = parts.loss
        torch.testing.assert_close(part.entropy_coeff, torch.tensor([0.05, 0.25]))
        batch = next(iter(parts.collector))
        parts.estimator(batch)
        found = part(batch.select(*parts.stored))
        dists = parts.policy.get_dist(batch).dists
        move = dists["action", "move"].entropy().mean()
        part.entropy_coeff = {"move": 1.0, "force": 0.0}
        torch.testing.assert_close(part(batch.select(*parts.stored))["loss_entropy"], -move)
        assert not torch.equal(found["loss_entropy"], -move)
        for wrong, error, message in (
            ({"move": 1.0}, ValueError, "entropy_coeff has numbers for"),
            ({"move": 1.0, "forse": 1.0}, ValueError, "got some for"),
            ({"move": 1.0, "force": -1.0}, ValueError, "entropy_coeff must be >= 0, got -1.0"),
            ({"move": "much", "force": 1.0}, TypeError, "must be a real number, got 'much'"),
        ):
            with pytest.raises(error, match=message):
                part.entropy_coeff = wrong
        with pytest.raises(TypeError, match="critic_coeff is one number, got a mapping"):
            part.critic_coeff = {"move": 1.0}


@pytest.mark.parametrize("several", [True, False])
def test_the_divergence_reads_the_distribution_that_acted(several: bool, tmp_path: Path) -> None:
    text = (_schema() if several else _with(ONE_ACTION)).replace("ClipPPOLoss", "KLPENPPOLoss")
    with imported(generate({"penalized.yaml": text}, "penalized"), "penalized", tmp_path) as made:
        module = module_of(made, "penalized")
        parts = module.PPOHarbor(small_config(module))
        batch = next(iter(parts.collector))
        parts.estimator(batch)
        found = parts.loss(batch.select(*parts.stored))
    torch.testing.assert_close(found["kl"], torch.zeros(2, 4), atol=1e-5, rtol=0)


def test_a_mask_is_of_one_action(package: ModuleType) -> None:
    module = module_of(package, "masked")
    parts = module.PPOMaskedHarbor(small_config(module, num_envs=16, num_steps=8))
    batch = next(iter(parts.collector))
    assert batch["allowed"].gather(-1, batch["action", "move"].unsqueeze(-1)).all()
    assert isinstance(parts.policy.get_dist(batch).dists["action", "move"], MaskedCategorical)
    assert "allowed" in parts.stored


def test_workers_collect_several_actions(package: ModuleType, tmp_path: Path) -> None:
    text = (
        _schema()
        .replace("Harbor", "WorkedHarbor")
        .replace("    stop:", "    workers: {processes: 2}\n    stop:")
    )
    with imported(generate({"worked.yaml": text}, "worked"), "worked", tmp_path) as made:
        module = module_of(made, "worked")
        parts = module.PPOWorkedHarbor(small_config(module))
        try:
            batch = next(iter(parts.collector))
        finally:
            parts.collector.shutdown()
    assert batch["action", "force"].shape == (2, 4, 1)


def test_a_policy_says_only_what_differs() -> None:
    """Distributions follow from the actions; scales of two of them are two hyper-parameters."""
    text = _schema().replace(", actions: {force: {scale: {parameter: 0.6}}}", "")
    assert "NormalParamExtractor()" in generate({"harbor.yaml": text}, "plain")["harbor.py"]
    two = _with({
        'action.move: "categorical(3)"': 'action.move: "float32[1] in [-1, 1]"',
        "(action.move - 1)": "action.move",
        "actions: {force: {scale: {parameter: 0.6}}}": "actions: {force: {scale: {parameter: 0.6}}, move: {scale: {parameter: 0.5}}}",
    })  # fmt: skip
    printed = generate({"harbor.yaml": two}, "two")["harbor.py"]
    assert "init_scale: float = 0.5" in printed
    assert "force_init_scale: float = 0.6" in printed


def test_each_agent_of_a_group_chooses_several_actions(tmp_path: Path) -> None:
    """Log-probabilities are summed over the actions of an agent, and not over agents."""
    text = """\
specgen: 1
import: [specgen_std/losses/mappo]
envs:
  Fleet:
    doc: Two boats are moved to the middle of a harbor.
    groups: {boat: {agents: 2}}
    state: {boat.place: "float32[1] in [-2, 2]"}
    action: {boat.action.move: "categorical(3)", boat.action.force: "float32[1] in [0, 1]"}
    observation: {boat.observation: "float32[1] in [-2, 2]"}
    reset: {boat.place: "uniform(-2, 2, shape=(boat, 1))"}
    step:
      next.boat.place: "clip(boat.place + float32(boat.action.move - 1)[:, None] * boat.action.force, -2, 2)"
      boat.reward: "-abs(next.boat.place[:, 0])"
      terminated: "all(abs(next.boat.place) < 0.05)"
    observe: {boat.observation: boat.place}
pipelines:
  MAPPOFleet:
    env: Fleet
    networks: {boat.actor_network: {mlp: [8]}, boat.critic_network: {mlp: [8]}}
    loss: {boat: {MAPPOLoss: {entropy_coeff: 0.01}}}
    value_estimator: {multi_agent_gae: {gamma: 0.9, lmbda: 0.95}}
    data: {on_policy: {num_envs: 16, num_steps: 16, epochs: 4, minibatches: 4}}
    optimizer: {adam: {lr: 3.0e-3}}
    stop: {frames: 4_096}
"""
    with imported(generate({"fleet.yaml": text}, "fleets"), "fleets", tmp_path) as made:
        module = module_of(made, "fleet")
        parts = module.MAPPOFleet(module.MAPPOFleetConfig(num_envs=4, num_steps=4))
        batch = next(iter(parts.collector))
        assert batch["boat", "action_log_prob"].shape == (4, 4, 2)
        parts.boat_estimator(batch)
        found = module.update(parts, batch.select(*parts.stored).reshape(-1))
    torch.testing.assert_close(found.boat_kl_approx, torch.tensor(0.0), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.boat_move_entropy + found.boat_force_entropy, found.boat_entropy)
