"""Losses in parts: what is computed together, and that `select_out_keys` leaves the rest alone."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_type_hints

import pytest
import torch
from specgen_runtime.objectives import FunctionalNetwork, LossModule
from tensordict import TensorDict
from torch import Tensor

from tests.objectives.every_loss import batch, losses, made, total
from tests.support import generate, imported

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater", "ignore:.*arget.*updater.*")

PARTS = {
    "SACLoss": [("loss_qvalue",), ("loss_actor", "loss_alpha", "alpha", "entropy"), ("loss_value",)],
    "DDPGLoss": [
        ("loss_value", "pred_value", "target_value", "pred_value_max", "target_value_max", "td_error"),
        ("loss_actor",),
    ],
    "TD3Loss": [
        ("loss_actor", "state_action_value_actor"),
        ("loss_qvalue", "pred_value", "next_state_value", "target_value"),
    ],
    "PPOLoss": [
        ("loss_objective", "loss_entropy", "kl_approx", "entropy", "composite_entropy"),
        ("loss_critic", "explained_variance", "value_clip_fraction"),
    ],
    "IQLLoss": [("loss_actor", "loss_value", "entropy"), ("loss_qvalue",)],
    "REDQLoss": [],
    "DQNLoss": [],
}
"""The entries of the parts of some losses, in the order in which they are computed."""

SEVERAL = {name: cls for name, cls in losses().items() if cls.parts}
every = pytest.mark.parametrize("cls", [pytest.param(cls, id=name) for name, cls in SEVERAL.items()])


def train(outputs: TensorDict) -> None:
    """Compute the gradients of all terms."""
    total(outputs).backward()  # type: ignore[no-untyped-call]


@contextmanager
def counted() -> Iterator[list[tuple[str, str]]]:
    """The runs of networks inside the block: which network, and how."""
    runs: list[tuple[str, str]] = []
    kept = {name: getattr(FunctionalNetwork, name) for name in ("live", "frozen", "target", "dist")}

    def counting(name: str) -> Any:
        def run(self: FunctionalNetwork, *args: Any, **kwargs: Any) -> Any:
            runs.append((self.name, str(args[0]) if name == "dist" else name))
            return kept[name](self, *args, **kwargs)

        return run

    try:
        for name in kept:
            setattr(FunctionalNetwork, name, counting(name))
        yield runs
    finally:
        for name, method in kept.items():
            setattr(FunctionalNetwork, name, method)


@pytest.mark.parametrize("name", PARTS)
def test_entries_that_share_nothing_are_apart(name: str) -> None:
    assert [part.outputs for part in losses()[name].parts.values()] == PARTS[name]


@every
def test_parts_give_what_the_whole_gives(cls: type[LossModule]) -> None:
    """One part after the other draws as all of them do."""
    whole, loss = made(cls), made(cls)
    data = batch(cls.__name__, 6)
    torch.manual_seed(5)
    expected = whole(data)
    train(expected)
    seen: set[str] = set()
    torch.manual_seed(5)
    for part in cls.parts.values():
        outputs = [name for name in part.outputs if name in loss.out_keys_source]
        if not outputs:
            continue
        got = loss.select_out_keys(*outputs)(batch(cls.__name__, 6))
        assert set(got.keys()) == set(outputs)
        for key, value in got.items():
            torch.testing.assert_close(value, expected[key], rtol=0, atol=0, msg=key)
        if any(name.startswith("loss") for name in outputs):
            train(got)
        seen |= set(outputs)
    assert seen == set(whole.out_keys)
    for (name, one), (_, other) in zip(whole.named_parameters(), loss.named_parameters(), strict=True):
        if one.grad is not None:
            torch.testing.assert_close(other.grad, one.grad, msg=name)


@every
def test_what_is_not_selected_is_not_computed(cls: type[LossModule]) -> None:
    loss = made(cls)
    with counted() as runs:
        loss(batch(cls.__name__, 6))
        everything = list(runs)
        runs.clear()
        apart: list[list[tuple[str, str]]] = []
        for part in cls.parts.values():
            outputs = [name for name in part.outputs if name in loss.out_keys_source]
            if not outputs:
                continue
            loss.select_out_keys(*outputs)(batch(cls.__name__, 6))
            apart.append(list(runs))
            runs.clear()
            loss.reset_out_keys()
        loss(batch(cls.__name__, 6))
    assert runs == everything
    assert all(0 < len(one) < len(everything) for one in apart)
    assert sorted(run for one in apart for run in one) == sorted(everything)


@every
def test_data_may_lack_what_is_not_selected(cls: type[LossModule]) -> None:
    loss = made(cls)
    full = list(loss.in_keys)
    lacking = False
    for part in cls.parts.values():
        outputs = [name for name in part.outputs if name in loss.out_keys_source]
        if not outputs:
            continue
        loss.select_out_keys(*outputs)
        assert set(loss.in_keys) <= set(full)
        lacking = lacking or set(loss.in_keys) < set(full)
        data = batch(cls.__name__, 6)
        kept = data.select(*loss.in_keys, *loss._further_keys(), strict=False)
        torch.manual_seed(5)
        expected = loss(data)
        torch.manual_seed(5)
        for key, value in loss(kept).items():
            torch.testing.assert_close(value, expected[key], msg=key)
        loss.reset_out_keys()
    assert lacking
    assert loss.in_keys == full


def test_what_is_selected_is_still_asked_for() -> None:
    loss = made(losses()["SACLoss"]).select_out_keys("loss_qvalue")
    with pytest.raises(KeyError, match="reward"):
        loss(batch("SACLoss", 6).exclude(("next", "reward")))
    with pytest.raises(KeyError, match="next"):
        loss(batch("SACLoss", 6).exclude("next"))


def test_nothing_is_drawn_for_what_is_not_selected() -> None:
    loss = made(losses()["TD3Loss"])
    loss.generator = torch.Generator().manual_seed(3)
    before = loss.generator.get_state()
    loss.select_out_keys("loss_actor")(batch("TD3Loss", 6))
    assert torch.equal(loss.generator.get_state(), before)
    loss.select_out_keys("loss_qvalue")(batch("TD3Loss", 6))
    assert not torch.equal(loss.generator.get_state(), before)


def test_the_priority_is_written_with_its_part() -> None:
    loss = made(losses()["SACLoss"])
    data = batch("SACLoss", 6)
    loss.select_out_keys("loss_actor")(data)
    assert data.get("td_error", None) is None
    loss.select_out_keys("loss_qvalue")(data)
    assert data["td_error"].shape == (6, 1)


def test_delayed_updates_of_the_policy() -> None:
    """The policy is trained every second time, and nothing of it runs in between."""
    loss = made(losses()["TD3Loss"])
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.1)
    actor = list(loss.actor_network_params.flatten_keys().values())
    moved: list[bool] = []
    for step in range(4):
        if step % 2:
            loss.reset_out_keys()
        else:
            loss.select_out_keys("loss_qvalue")
        before = [value.detach().clone() for value in actor]
        optimizer.zero_grad()
        with counted() as runs:
            train(loss(batch("TD3Loss", 6, seed=step)))
        assert (("actor_network", "live") in runs) is bool(step % 2)
        optimizer.step()
        moved.append(any(not torch.equal(new, old) for new, old in zip(actor, before, strict=True)))
    assert moved == [False, True, False, True]


def test_tensors_by_keyword_that_are_not_needed_are_taken() -> None:
    loss = made(losses()["DDPGLoss"])
    data = batch("DDPGLoss", 6)
    inputs = {
        "_".join(key) if isinstance(key, tuple) else key: data[key]
        for key in loss.in_keys
        if key in data.keys(True)
    }
    expected = loss(data)
    loss.select_out_keys("loss_actor")
    torch.testing.assert_close(loss(**inputs), expected["loss_actor"])
    torch.testing.assert_close(
        loss(observation=data["observation"], action=data["action"]), expected["loss_actor"]
    )
    assert loss.out_keys == ["loss_actor"]
    with pytest.raises(TypeError, match="unexpected inputs 'reward'"):
        loss(observation=data["observation"], reward=data["next", "reward"])


def test_estimates_are_those_of_the_selected_parts() -> None:
    loss = made(losses()["PPOLoss"])
    data = batch("PPOLoss", 6).exclude("value_target")
    loss.select_out_keys("loss_objective")
    with counted() as runs:
        loss(data)
    assert all(name == "actor_network" for name, _ in runs)
    assert ("next", "reward") in loss.in_keys
    torch.testing.assert_close(
        loss.select_out_keys("loss_critic")(data.exclude("advantage", "action"))["loss_critic"],
        loss.reset_out_keys()(data)["loss_critic"],
    )


def test_parts_that_the_parameters_leave_out() -> None:
    loss = made(losses()["PPOLoss"])
    assert "loss_critic" in loss(batch("PPOLoss", 6))
    loss.critic_coeff = 0.0  # what is there is decided when the loss is made
    assert loss(batch("PPOLoss", 6))["loss_critic"] == 0
    without = made(losses()["PPOLoss"], critic_coeff=0.0)
    with counted() as runs:
        assert "loss_critic" not in without(batch("PPOLoss", 6))
    assert all(name == "actor_network" for name, _ in runs)


def test_a_selection_compiles_in_one_graph() -> None:
    loss, compiled = made(losses()["DDPGLoss"]), made(losses()["DDPGLoss"])
    loss.select_out_keys("loss_actor")
    compiled.select_out_keys("loss_actor")
    torch._dynamo.reset()
    run: Any = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(
        run(batch("DDPGLoss", 6))["loss_actor"], loss(batch("DDPGLoss", 6))["loss_actor"]
    )


SCHEMA = """\
specgen: 1
losses:
  MixedLoss:
    networks:
      first: {in: [observation], out: {value_a: "float32[1]"}, target: true}
      second: {in: [observation], out: {value_b: "float32[1]"}}
      policy: {policy: action, in: [observation]}
    keys:
      action: {key: action, type: "float32[2]"}
      reward: reward
      terminated: terminated
      weight: {key: weight, type: "float32[1]"}
      priority: td_error
      drawn: drawn
    params: {scale: 2.0, logged: true}
    value_estimator: td0
    let:
      half: 0.5 * scale * weight
      a: first(now)
      goal: stop_grad(value_estimate(first.target(next)))
      dist: policy(now)
      new: rsample(dist)
      log_p: log_prob(dist, new)
      b: second(now)
    terms:
      loss_a: half * (a - goal)**2
      loss_prior: half
      loss_policy: half * log_p
      loss_b: {value: b**2, when: logged}
    metrics:
      new_size: sum(new**2)
      error: {value: a - goal, when: logged}
      b_weight: {value: b * weight, when: logged}
    writes:
      priority: (a - goal)**2
      drawn: weight
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with imported(
        generate({"mixed.yaml": SCHEMA}, "mixed_parts"), "mixed_parts", tmp_path_factory.mktemp("m")
    ):
        yield importlib.import_module("mixed_parts.mixed")


def test_what_connects_entries(mixed: Any) -> None:
    """Runs, draws and estimates do; keys, parameters and cheap values don't."""
    parts = mixed.MixedLoss.parts
    assert {name: part.outputs for name, part in parts.items()} == {
        "a": ("loss_a", "loss_prior", "error"),
        "policy": ("loss_policy", "new_size"),
        "b": ("loss_b", "b_weight"),
    }
    assert mixed.MixedATerms._fields == ("loss_a", "loss_prior", "error", "priority", "drawn")
    assert parts["a"].now == parts["a"].next == ("first",)
    assert parts["policy"].now == ("policy",)
    assert parts["policy"].next == ()


def test_a_part_under_one_condition_has_nothing_optional(mixed: Any) -> None:
    assert set(get_type_hints(mixed.MixedBTerms).values()) == {Tensor}
    assert get_type_hints(mixed.MixedATerms)["error"] == Tensor | None
    b, weight = torch.randn(3), torch.rand(3, 1)
    terms = mixed.mixed_b(b, weight)
    torch.testing.assert_close(terms.loss_b, b**2)
    torch.testing.assert_close(terms.b_weight, b * weight.squeeze(-1))
