"""The generated `A2CLoss`, `ReinforceLoss`, `PPOLoss` and `ClipPPOLoss`: against TorchRL's, and where they differ."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import specgen_runtime.modules
import torch
from specgen_std.losses.policy_gradient import A2CLoss, ReinforceLoss
from specgen_std.losses.ppo import ClipPPOLoss, PPOLoss
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch import nn

from tests.objectives.peers import N_OBS, batch, gradients, policy, state_value, with_equal_parameters

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*arget.*updater.*", "ignore:.*No target network updater.*", "ignore:.*log-probability.*"
)

LOSSES = {loss.__name__: loss for loss in (A2CLoss, ReinforceLoss, PPOLoss, ClipPPOLoss)}
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


def categorical(dtype: torch.dtype = torch.float32, seed: int = 0) -> ProbabilisticTensorDictSequential:
    """A policy over three actions, whose entropy has a closed form."""
    torch.manual_seed(seed)
    return ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Linear(N_OBS, 3, dtype=dtype), ["observation"], ["logits"]),
        ProbabilisticTensorDictModule(
            ["logits"], ["action"], distribution_class=torch.distributions.Categorical, return_log_prob=True
        ),
    )


def steps(*shape: int, dtype: torch.dtype, discrete: bool = True, estimated: bool = False) -> TensorDict:
    """Data of another policy and critic; without advantages where the loss is to estimate them."""
    data = batch(*shape, dtype=dtype).exclude("priority_weight")
    generator = torch.Generator().manual_seed(5)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*shape, *size, generator=generator, dtype=torch.float64).to(dtype)

    if discrete:
        data["action"] = torch.randint(3, shape, generator=generator)
    data["action_log_prob"] = -1.1 + 0.3 * normal()
    if not estimated:
        data["state_value"] = normal(1)
        data["advantage"], data["value_target"] = 1 + normal(1), normal(1)
    data["next", "done"][..., -1, :] = True
    return data


def pair(name: str, dtype: torch.dtype, *, discrete: bool = True, **given: Any) -> tuple[Any, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    made = []
    for kind in (LOSSES[name], getattr(objectives, name)):
        made.append(kind((categorical if discrete else policy)(dtype), state_value(dtype), **given))
    with_equal_parameters(*made)
    return made[0], made[1]


def compare(mine: Any, theirs: Any, data: Any, tolerance: float, *, but: tuple[str, ...] = ()) -> None:
    """Every output, and the gradient of every term to every parameter."""
    results = []
    for loss in (mine, theirs):
        torch.manual_seed(11)
        results.append(loss(data()))
    assert set(results[0].keys()) == set(results[1].keys())
    assert set(results[0].keys()) == set(mine.out_keys)
    for key in list(results[0].keys()):
        if key not in but:
            other = results[1][key].reshape(results[0][key].shape).to(results[0][key].dtype)  # fractions
            torch.testing.assert_close(
                results[0][key], other, rtol=tolerance, atol=tolerance, msg=lambda m, key=key: f"{key}: {m}"
            )
    for term in (key for key in list(results[0].keys()) if key.startswith("loss_")):
        found = []
        for loss in (mine, theirs):
            torch.manual_seed(11)
            found.append(gradients(loss, loss(data())[term].sum()))
        assert found[0].keys() == found[1].keys(), term
        for name, gradient in found[0].items():
            torch.testing.assert_close(
                gradient, found[1][name], rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
            )


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "A2CLoss": [
        {"entropy_bonus": bonus, "critic_coeff": critic, "clip_value": clip}
        for bonus, critic, clip in itertools.product((True, False), (None, 0.5), (None, 0.2))
    ]
    + [{"entropy_coeff": 0.0}, {"entropy_coeff": None}],
    "ReinforceLoss": [
        {"clip_value": clip, "delay_value": delay} for clip in (None, 0.2) for delay in (True, False)
    ],
    "PPOLoss": [
        {"entropy_bonus": bonus, "critic_coeff": critic, "clip_value": clip, "normalize_advantage": normalize}
        for bonus, critic, clip, normalize in itertools.product(
            (True, False), (None, 0.5), (None, 0.2), (True, False)
        )
    ]
    + [
        {"log_explained_variance": False},
        {"entropy_coeff": None, "critic_coeff": 0.0},
        {"delay_actor": True},
        {"delay_actor": True, "max_importance_ratio": 1.5},
    ],
    "ClipPPOLoss": [
        {"clip_epsilon": epsilon, "max_importance_ratio": ratio, "delay_actor": delay, "clip_value": clip}
        for epsilon, ratio, delay, clip in itertools.product(
            (0.2, 0.05), (None, 1.2), (True, False), (None, 0.2)
        )
    ]
    + [
        {"normalize_advantage": True, "entropy_coeff": 0.5},
        {"clip_epsilon": (0.05, 0.4)},
        {"clip_epsilon": (0.05, 1.5), "clip_value": 0.1, "delay_actor": True},
        {"clip_epsilon": 0.1, "clip_value": True},
        {"clip_epsilon": 0.1, "clip_value": False},
    ],
}


@pytest.mark.peers
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize(("name", "given"), [(name, one) for name, all in OPTIONS.items() for one in all])
def test_equals_torchrl(name: str, given: dict[str, Any], dtype: torch.dtype, tolerance: float) -> None:
    mine, theirs = pair(name, dtype, **given)
    compare(mine, theirs, lambda: steps(24, dtype=dtype), tolerance)


NORMED = ["A2CLoss", "PPOLoss", "ClipPPOLoss"]


def normed_pair(name: str) -> tuple[Any, Any]:
    """Both losses with a scale of advantages that has seen something."""
    modules = specgen_runtime.modules, pytest.importorskip("torchrl.modules")
    mine, theirs = pair(name, torch.float64)
    mine.advantage_norm, theirs.advantage_norm = (one.PopArtValueNorm(beta=0.9).double() for one in modules)
    for loss in (mine, theirs):
        loss.make_value_estimator(gamma=0.875, lmbda=0.75)  # the peer rounds others to single precision
        loss.advantage_norm.update(torch.linspace(-3.0, 5.0, 8)[:, None])
    return mine, theirs


@pytest.mark.peers
@pytest.mark.parametrize("name", NORMED)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("estimated", [False, True])
def test_advantages_over_a_scale_of_returns(name: str, estimated: bool, masked: bool) -> None:
    """It learns from the targets that the loss estimates, of samples that count, and not from those in the data."""
    mine, theirs = normed_pair(name)
    start = mine.advantage_norm.scale().clone()

    def data() -> TensorDict:
        made = steps(6, 4, dtype=torch.float64, estimated=estimated)
        return made.set(("collector", "mask"), torch.arange(24).reshape(6, 4) % 5 > 0) if masked else made

    found = [loss(data())["loss_objective"] for loss in (mine, theirs)]
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)
    scales = [loss.advantage_norm.scale() for loss in (mine, theirs)]
    torch.testing.assert_close(*scales)
    assert torch.equal(scales[0], start) is not estimated
    mine.eval()(data())
    assert torch.equal(mine.advantage_norm.scale(), scales[0])


def test_a_scale_and_a_standardised_batch_exclude_each_other() -> None:
    norm = specgen_runtime.modules.PopArtValueNorm()
    with pytest.raises(ValueError, match="normalize_advantage and advantage_norm exclude each other"):
        PPOLoss(categorical(), state_value(), normalize_advantage=True, advantage_norm=norm)
    with pytest.raises(TypeError, match="`advantage_norm` is a ValueNorm; Linear has no method"):
        A2CLoss(categorical(), state_value(), advantage_norm=nn.Linear(1, 1))  # type: ignore[arg-type]


@pytest.mark.peers
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("loss_critic_type", ["l1", "l2"])
@pytest.mark.parametrize("reduction", ["sum", "none", "mean"])
def test_reductions_and_distances(name: str, loss_critic_type: str, reduction: str) -> None:
    mine, theirs = pair(name, torch.float64, loss_critic_type=loss_critic_type, reduction=reduction)
    but = ("explained_variance", "ESS")  # the peer's go over the first dimension only
    compare(mine, theirs, lambda: steps(5, 4, dtype=torch.float64), 1e-10, but=but)


@pytest.mark.peers
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("estimator", ["TD0", "TD1", "TDLambda", "GAE"])
def test_advantages_that_the_loss_estimates(name: str, estimator: str) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    mine, theirs = pair(name, torch.float64)
    numbers = {"gamma": 0.875} | ({"lmbda": 0.75} if estimator in ("TDLambda", "GAE") else {})
    mine.make_value_estimator(estimator, **numbers)
    theirs.make_value_estimator(getattr(objectives.ValueEstimators, estimator), **numbers)
    but = ("explained_variance", "ESS")
    compare(mine, theirs, lambda: steps(5, 7, dtype=torch.float64, estimated=True), 1e-10, but=but)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["A2CLoss", "PPOLoss", "ClipPPOLoss"])
@pytest.mark.parametrize("samples", [1, 3])
def test_an_entropy_without_a_closed_form(name: str, samples: int) -> None:
    mine, theirs = pair(name, torch.float64, discrete=False, samples_mc_entropy=samples, entropy_coeff=0.5)
    compare(mine, theirs, lambda: steps(24, dtype=torch.float64, discrete=False), 1e-10)


@pytest.mark.parametrize("name", ["PPOLoss", "ClipPPOLoss"])
def test_without_a_critic(name: str) -> None:
    loss = LOSSES[name](categorical())
    data = steps(6, dtype=torch.float32)
    assert "loss_critic" not in loss(data.exclude("value_target"))
    assert "loss_critic" not in loss.out_keys
    with pytest.raises(ValueError, match="a critic_coeff needs a critic_network"):
        LOSSES[name](categorical(), critic_coeff=0.5)


def test_statistics_of_every_sample() -> None:
    """The peer's effective sample size and explained variance go over the first dimension; ours over all samples."""
    loss = ClipPPOLoss(categorical(torch.float64), state_value(torch.float64))
    data = steps(5, 4, dtype=torch.float64)
    outputs = loss(data)
    flat = loss(data.reshape(-1))
    for key in ("ESS", "explained_variance"):
        assert outputs[key].shape == ()
        torch.testing.assert_close(outputs[key], flat[key])


def test_what_it_clips_by_is_scheduled_in_place() -> None:
    loss: Any = ClipPPOLoss(categorical(), state_value(), clip_epsilon=(0.1, 0.3))
    assert {"clip_epsilon_low", "clip_epsilon_high"} <= loss.state_dict().keys()
    data = steps(24, dtype=torch.float32)
    loss.clip_epsilon_low = loss.clip_epsilon_high = 0.2
    torch.testing.assert_close(
        loss(data)["loss_objective"], ClipPPOLoss(categorical(), state_value())(data)["loss_objective"]
    )
    with pytest.raises(AttributeError, match="assign clip_epsilon_low or clip_epsilon_high"):
        loss.clip_epsilon = 0.1
    one: Any = ClipPPOLoss(categorical(), state_value(), clip_value=True)
    assert one.clip_value == one.clip_epsilon
    one.clip_epsilon = 0.1
    assert one.clip_epsilon.item() == pytest.approx(0.1)
    with pytest.raises(AttributeError, match=r"has no clip_epsilon_low: assign clip_epsilon$"):
        one.clip_epsilon_low = 0.1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"clip_epsilon": (0.1, 0.2), "clip_value": True}, "clip_value=True stands for clip_epsilon"),
        ({"clip_epsilon": (0.1, 0.2, 0.3)}, "clip_epsilon is a number or a pair of numbers, got 3"),
        ({"clip_epsilon": -0.1}, "clip_epsilon must be >= 0, got -0.1"),
        ({"clip_epsilon": (1.5, 0.1)}, r"clip_epsilon\[0\] must be < 1, got 1.5"),
        ({"critic_coeff": -1.0}, "critic_coeff must be >= 0"),
    ],
)
def test_coefficients_that_are_none(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClipPPOLoss(categorical(), state_value(), **given)


def test_what_none_stands_for() -> None:
    with_critic: Any = PPOLoss(categorical(), state_value())
    without = PPOLoss(categorical())
    assert with_critic.critic_coeff.item() == 1.0
    assert with_critic.entropy_coeff.item() == pytest.approx(0.01)
    assert without.critic_coeff is None
    assert "critic_coeff" not in without.state_dict()
    # what there is was decided when the loss was made
    with_critic.critic_coeff = 0.0
    assert with_critic(steps(5, dtype=torch.float32))["loss_critic"] == 0
    assert "loss_critic" in with_critic.out_keys


@pytest.mark.parametrize("name", ["PPOLoss", "ClipPPOLoss"])
def test_log_probabilities_of_another_shape_are_refused(name: str) -> None:
    """The peer pairs each sample with all others: its objective is another number."""
    data = steps(6, dtype=torch.float32)
    data["action_log_prob"] = data["action_log_prob"].unsqueeze(-1)
    with pytest.raises(
        RuntimeError, match=r"'action_log_prob', the sample_log_prob, .* of each sample, \[6\]; got \[6, 1\]"
    ):
        LOSSES[name](categorical(), state_value())(data)


@pytest.mark.peers
def test_torchrl_pairs_samples() -> None:
    _, theirs = pair("PPOLoss", torch.float64)
    data = steps(6, dtype=torch.float64)
    right = theirs(data.clone())["loss_objective"]
    data["action_log_prob"] = data["action_log_prob"].unsqueeze(-1)
    wrong = theirs(data)["loss_objective"]
    assert abs(wrong - right) > 0.01


def test_coefficients_are_on_the_device_that_is_asked_for() -> None:
    loss = ClipPPOLoss(policy(), state_value(), device="meta")
    assert {loss.get_buffer(name).device.type for name in ("entropy_coeff", "clip_epsilon")} == {"meta"}
    assert next(loss.parameters()).device.type == "cpu"
    assert ClipPPOLoss(policy(), state_value(), device=None).entropy_coeff.device.type == "cpu"
