"""Parameters that losses keep as buffers, defaults that are computed, and bounds from specs."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.objectives import LossModule
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_std.losses import ClipPPOLoss, CQLLoss, KLPENPPOLoss, SACLoss
from tensordict.nn import TensorDictModule
from torch import nn

from tests.objectives.every_loss import losses, made
from tests.objectives.nets import N_ACT, N_OBS, batch
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
losses:
  BoundedLoss:
    networks:
      actor: {in: [observation], out: {action: "float32[a]"}}
      value: {in: [observation, action], out: {state_action_value: "float32[1]"}}
    keys: {action: {key: action, domain: [action_spec, bounds]}, reward: reward}
    params: {weight: {default: 2.0, buffer: true}, extra: {type: float, optional: true, buffer: true}}
    let:
      near: clip(actor(now), low(action), high(action))
      error: reward - value.frozen(now, action=near)
    terms:
      loss: weight * error**2
      loss_extra: {value: extra * error, when: given(extra)}
  SizedLoss:
    networks:
      actor: {in: [observation], out: {action: "float32[a]"}}
    keys: {action: {key: action, domain: [action_spec]}, reward: reward}
    params:
      share: {default: 0.5, above: 0}
      wanted: {type: float, default: auto, auto: -dim(action) * share}
      entropy: {type: float, default: auto, auto: share * log(4.0), buffer: state_of_entropy}
    terms:
      loss: sum(actor(now)) + wanted * reward + entropy
  PlainLoss:
    extends: SizedLoss
    params: {wanted: {auto: drop, default: 2.0}, entropy: {auto: drop, buffer: drop, default: 3.0, fixed: true}}
"""


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(N_OBS + N_ACT, 1)

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.cat([observation, action], -1))


def actor() -> TensorDictModule:
    torch.manual_seed(0)
    return TensorDictModule(nn.Linear(N_OBS, N_ACT), ["observation"], ["action"])


def value() -> TensorDictModule:
    torch.manual_seed(1)
    return TensorDictModule(Both(), ["observation", "action"], ["state_action_value"])


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"kept": SCHEMA}, "kept")
    with imported(files, "kept", tmp_path_factory.mktemp("kept")) as package:
        yield package


LOW, HIGH = torch.tensor([-0.1, 0.0, -0.2]), torch.tensor([0.1, 0.05, 0.2])
SPEC = Bounded(LOW, HIGH, (N_ACT,))


@pytest.mark.parametrize(
    "given",
    [
        {"action_spec": SPEC},
        {"action_spec": Composite(action=SPEC)},
        {"action_spec": Composite(action=SPEC.expand(4, 2, N_ACT), shape=(4, 2))},
        {"bounds": (LOW, HIGH)},
    ],
    ids=["spec", "composite", "composite with a batch", "bounds"],
)
def test_bounds_are_those_of_the_spec(module: ModuleType, given: dict[str, Any]) -> None:
    loss, data = module.BoundedLoss(actor(), value(), **given), batch(5, 2)
    torch.testing.assert_close((loss.min_action, loss.max_action), (LOW, HIGH))
    near = actor()(data.clone())["action"].clamp(LOW, HIGH)
    error = data["next", "reward"] - value()(data.clone().set("action", near))["state_action_value"]
    torch.testing.assert_close(loss(data)["loss"], (2 * error**2).mean())
    assert {"min_action", "max_action", "weight"} <= set(loss.state_dict())


def test_bounds_of_one_number(module: ModuleType) -> None:
    loss, data = module.BoundedLoss(actor(), value(), bounds=(-0.1, 0.1)), batch(5)
    other = module.BoundedLoss(actor(), value(), bounds=(-0.1 * torch.ones(N_ACT), 0.1 * torch.ones(N_ACT)))
    assert loss.min_action.shape == ()
    torch.testing.assert_close(loss(data), other(data))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {},
            r"BoundedLoss takes one of action_spec and bounds, but not both or none, got action_spec=None and bounds=None",
        ),
        ({"action_spec": SPEC, "bounds": (-1, 1)}, "BoundedLoss takes one of action_spec and bounds"),
        ({"action_spec": Unbounded((N_ACT,))}, "the spec of 'action' has no bounds"),
        ({"bounds": (1.0, -1.0)}, "a lower bound of 'action' is above its upper bound"),
    ],
)
def test_bounds_that_are_none(module: ModuleType, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        module.BoundedLoss(actor(), value(), **given)


def test_a_coefficient_is_assigned_in_place(module: ModuleType) -> None:
    loss, data = module.BoundedLoss(actor(), value(), bounds=(-1, 1), weight=3.0), batch(5)
    first, buffer = loss(data)["loss"], loss.weight
    loss.weight = 6.0
    assert loss.weight is buffer
    torch.testing.assert_close(loss(data)["loss"], 2 * first)
    assert loss.extra is None
    assert "loss_extra" not in loss(data)
    other = module.BoundedLoss(actor(), value(), bounds=(-1, 1), extra=0.5)
    assert other(data)["loss_extra"].requires_grad
    assert "extra" in other.state_dict()
    assert loss.to(torch.float64).weight.dtype == torch.float64


def test_a_coefficient_that_was_left_out_is_assigned_later_and_left_out_again(module: ModuleType) -> None:
    """With the entries that come with it; not where others were selected."""
    loss, data = module.BoundedLoss(actor(), value(), bounds=(-1, 1)), batch(5)
    wanted = module.BoundedLoss(actor(), value(), bounds=(-1, 1), extra=0.5)
    before = list(loss.out_keys)
    loss.extra = 0.5
    assert loss.extra.dtype == torch.float32
    assert loss.state_dict().keys() == wanted.state_dict().keys()
    assert loss.out_keys == wanted.out_keys
    torch.testing.assert_close(loss(data), wanted(data))
    loss.extra = None
    assert loss.out_keys == before
    assert "loss_extra" not in loss(data)
    loss.select_out_keys("loss")
    for extra in (1, None, 1):
        loss.extra = extra
        assert list(loss(data).keys()) == ["loss"]


def test_what_auto_stands_for(module: ModuleType) -> None:
    data = batch(6)
    loss = module.SizedLoss(actor(), action_spec=Composite(action=SPEC.expand(7, N_ACT), shape=(7,)))
    assert loss.wanted.item() == -1.5
    assert loss.state_dict()["_wanted"].item() == -1.5
    assert loss.state_dict()["state_of_entropy"].item() == pytest.approx(0.5 * math.log(4))
    # without a composite around it, all of its dimensions are those of an action
    assert module.SizedLoss(actor(), action_spec=SPEC.expand(7, N_ACT)).wanted.item() == -10.5
    given = module.SizedLoss(actor(), wanted=2.0, entropy=0.0)
    plain = actor()(data.clone())["action"].sum(-1) + 2.0 * data["next", "reward"].squeeze(-1)
    torch.testing.assert_close(given(data)["loss"], plain.mean())


def test_auto_from_the_policy(module: ModuleType) -> None:
    network = actor()
    network.spec = Composite(action=SPEC)
    loss = module.SizedLoss(network)
    assert loss.wanted.item() == -1.5
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert twin.wanted.item() == -1.5


def test_auto_is_settled_when_it_is_read_if_nobody_knows_before(module: ModuleType) -> None:
    loss = module.SizedLoss(actor())
    with pytest.raises(RuntimeError, match=r"nobody says how many numbers 'action' \('action'\) has"):
        loss(batch(3))
    loss._action_spec = SPEC
    assert loss.wanted.item() == -1.5
    assert "_wanted" in loss.state_dict()
    with pytest.raises(ValueError, match=r"wanted is a number or 'auto', got 'atuo'"):
        module.SizedLoss(actor(), wanted="atuo")


def test_what_a_parent_computes_a_child_may_take_as_a_number(module: ModuleType) -> None:
    loss = module.PlainLoss(actor(), wanted=4.0)
    assert isinstance(loss, module.SizedLoss)
    assert (loss.wanted.item(), loss.entropy.item()) == (4.0, 3.0)
    assert {"wanted", "entropy"} <= loss.state_dict().keys()
    loss.wanted = 5.0
    data = batch(3)
    value = loss(data)["loss"].item()
    loss.wanted = 0.0
    reward = data["next", "reward"].mean().item()
    assert value - loss(data)["loss"].item() == pytest.approx(5.0 * reward, rel=1e-5)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"num_qvalue_nets": "a"}, TypeError, "^num_qvalue_nets must be an integer, got 'a'$"),
        ({"num_qvalue_nets": 2.0}, TypeError, "^num_qvalue_nets must be an integer, got 2.0$"),
        ({"num_qvalue_nets": 0}, ValueError, "^num_qvalue_nets must be >= 1, got 0$"),
        ({"alpha_init": "1"}, TypeError, "^alpha_init must be a real number, got '1'$"),
        ({"alpha_init": None}, TypeError, "^alpha_init must be a real number, got None$"),
        ({"alpha_init": math.nan}, ValueError, "^alpha_init must be > 0, got nan$"),
        ({"max_alpha": [1.0]}, TypeError, r"^max_alpha must be a real number, got \[1.0\]$"),
        ({"target_entropy": math.nan}, ValueError, "^target_entropy must be a number, got nan$"),
        ({"target_entropy": "none"}, ValueError, "target_entropy is a number or 'auto', got 'none'$"),
        ({"target_entropy": torch.ones(2)}, TypeError, r"got Tensor of shape \[2\]$"),
    ],
)
def test_what_is_no_number_is_refused(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        made(SACLoss, **given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"clip_epsilon": "a"}, TypeError, "^clip_epsilon must be a real number, got 'a'$"),
        ({"clip_epsilon": (0.1, "b")}, TypeError, r"^clip_epsilon\[1\] must be a real number, got 'b'$"),
        ({"clip_epsilon": (1.0, 0.1)}, ValueError, r"^clip_epsilon\[0\] must be < 1, got 1.0$"),
        ({"clip_epsilon": (0.1, -0.1)}, ValueError, r"^clip_epsilon\[1\] must be >= 0, got -0.1$"),
        ({"clip_epsilon": math.nan}, ValueError, "^clip_epsilon must be >= 0, got nan$"),
        ({"clip_epsilon": (0.1, 0.2, 0.3)}, ValueError, "^clip_epsilon is a number or a pair of numbers"),
        (
            {"normalize_advantage_exclude_dims": 1.5},
            TypeError,
            "^normalize_advantage_exclude_dims is made of whole numbers, got 1.5$",
        ),
        ({"critic_coeff": "1"}, TypeError, "^critic_coeff must be a real number, got '1'$"),
    ],
)
def test_what_is_no_pair_is_refused(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        made(ClipPPOLoss, **given)


@pytest.mark.parametrize("cls", [cls for cls in losses().values() if cls.ranges])
def test_what_the_constructor_refuses_is_refused_later(cls: type[LossModule]) -> None:
    loss = made(cls)
    for name, limits in cls.ranges.items():
        if not hasattr(loss, name) or isinstance(getattr(cls, name, None), property):
            continue  # the other form of a pair, or what only its buffer is assigned of
        before = getattr(loss, name)
        outside = [
            *((f"must be >= {n}", n - 1) for key, n in limits.items() if key == "at_least"),
            *((f"must be > {n}", n) for key, n in limits.items() if key == "above"),
            *((f"must be <= {n}", n + 1) for key, n in limits.items() if key == "at_most"),
            *((f"must be < {n}", n) for key, n in limits.items() if key == "below"),
        ]
        for word, wrong in outside[:1]:
            for value in (wrong, torch.tensor(wrong)):
                with pytest.raises(ValueError, match=f"^{name} {word}, got {wrong}$"):
                    setattr(loss, name, value)
        for value in ("1", True, np.zeros(3)):
            with pytest.raises(TypeError, match=f"^{name} must be an? (integer|real number), got "):
                setattr(loss, name, value)
        if not limits.get("optional"):
            with pytest.raises(TypeError, match=f"^{name} must be an? (integer|real number), got None$"):
                setattr(loss, name, None)
        assert getattr(loss, name) is before
        setattr(loss, name, before)  # what it is may be assigned, a tensor or None


def test_numbers_that_are_assigned_stay_numbers() -> None:
    loss = made(CQLLoss, num_random=3)
    loss.num_random, loss.temperature = np.int64(4), np.array(2)
    assert (loss.num_random, type(loss.num_random)) == (4, int)
    assert (loss.temperature, type(loss.temperature)) == (2.0, float)
    for value in (2.5, torch.ones(2)):
        with pytest.raises(TypeError, match=r"^num_random must be an integer, got "):
            loss.num_random = value
    penalized = made(KLPENPPOLoss)
    penalized.beta = np.array([0.5])
    assert penalized.beta.item() == 0.5


def test_tensors_that_are_assigned_are_one_number() -> None:
    loss = made(ClipPPOLoss)
    loss.entropy_coeff = np.float32(0.25)
    assert loss.entropy_coeff.item() == 0.25
    loss.entropy_coeff = torch.tensor(1)
    loss.entropy_coeff = 0.5  # in place, which a whole number would round to 0
    assert loss.entropy_coeff.item() == 0.5
    with pytest.raises(
        ValueError, match=r"^entropy_coeff must be one number, or of the shape \[\], got \[2\]$"
    ):
        loss.entropy_coeff = torch.ones(2)
    with pytest.raises(
        TypeError, match=r"^entropy_coeff must be a real number, got a tensor of dtype torch.bool$"
    ):
        loss.entropy_coeff = torch.tensor(True)
    assert loss.entropy_coeff.item() == 0.5


def test_both_numbers_of_a_pair_keep_their_limits() -> None:
    pair, one = made(ClipPPOLoss, clip_epsilon=(0.1, 0.3)), made(ClipPPOLoss, clip_epsilon=0.2)
    pair.clip_epsilon_high = 1.5
    for loss, name, wrong, said in (
        (pair, "clip_epsilon_low", -0.3, ">= 0"),
        (pair, "clip_epsilon_low", 1.0, "< 1"),
        (pair, "clip_epsilon_high", -0.1, ">= 0"),
        (one, "clip_epsilon", 1.0, "< 1"),
        (one, "clip_epsilon", math.nan, ">= 0"),
    ):
        with pytest.raises(ValueError, match=f"^{name} must be {said}, got {wrong}$"):
            setattr(loss, name, wrong)
    assert (pair.clip_epsilon_low.item(), pair.clip_epsilon_high.item()) == pytest.approx((0.1, 1.5))


def test_a_tensor_without_numbers_is_in_every_range() -> None:
    loss = made(ClipPPOLoss)
    loss.clip_epsilon = torch.tensor(0.2, device="meta")
    assert loss.clip_epsilon.is_meta


def test_numbers_of_torch_and_numpy_are_taken() -> None:
    loss = made(SACLoss, alpha_init=torch.tensor(0.5), num_qvalue_nets=np.int64(3), max_alpha=np.float32(2.0))
    assert loss.alpha_init.item() == 0.5
    assert loss.num_qvalue_nets == 3
    assert loss.max_log_alpha.item() == pytest.approx(math.log(2.0))


def test_compiled(module: ModuleType) -> None:
    loss, data = module.SizedLoss(actor(), action_spec=SPEC), batch(6)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(data)["loss"], loss(data)["loss"])
