"""Losses whose terms, metrics, keys and networks depend on parameters; statistics over the samples; vector terms."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import not_none
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.support import generate, imported

ROOT = Path(__file__).parents[1]
OPTIONS = (ROOT / "cases/good/loss_with_options/loss.yaml").read_text(encoding="utf-8")
MASKS = (ROOT / "cases/good/loss_with_masks/schema.yaml").read_text(encoding="utf-8")
VECTOR = """\
specgen: 1
losses:
  ImitationLoss:
    networks:
      actor_network: {in: [observation], out: {action_pred: "float32[a]"}}
    keys:
      action_target: {key: action, type: "float32[a]"}
      weight: {key: weight, type: "float32[1]", optional: true}
    let:
      pred: actor_network(now)
    terms:
      loss: {value: "distance(pred, stop_grad(action_target), l2)", elementwise: true}
      loss_weighted: sum((pred - action_target)**2) * where(given(weight), weight, 1.0)
"""
WEIGHED = """\
specgen: 1
losses:
  WeighedLoss:
    networks:
      value_network: {in: [observation], out: {value: "float32[1]"}}
      prior_network: {in: [observation], out: {prior: float32}}
    keys:
      weight: {key: weight, type: float32, optional: true}
    let:
      weighed: where(given(weight), value_network(now) * weight, prior_network(now))
    terms:
      loss: weighed
"""
PACKAGE = "losses_with_options"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    texts = {
        "options.yaml": OPTIONS,
        "vector.yaml": VECTOR,
        "masks.yaml": MASKS,
        "weighed.yaml": WEIGHED,
    }
    files = generate(texts, PACKAGE)
    folder = tmp_path_factory.mktemp("made")
    with imported(files, PACKAGE, folder):
        yield folder


@pytest.fixture
def options(generated: Path) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.options")


@pytest.fixture
def vector(generated: Path) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.vector")


class Counted(nn.Linear):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        type(self).calls += 1
        return super().forward(x)


class LogProb(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return -super().forward(x).squeeze(-1).square()


def networks(critic: bool = True) -> dict[str, TensorDictModule]:
    torch.manual_seed(0)
    actor = TensorDictModule(LogProb(4, 1), in_keys=["observation"], out_keys=["log_prob"])
    value = TensorDictModule(Counted(4, 1), in_keys=["observation"], out_keys=["state_value"])
    return {"actor_network": actor} | ({"critic_network": value} if critic else {})


def batch(*shape: int) -> TensorDict:
    generator = torch.Generator().manual_seed(1)
    return TensorDict(
        {
            "observation": torch.randn(*shape, 4, generator=generator),
            "advantage": 2 + torch.randn(*shape, 1, generator=generator),
            "value_target": torch.randn(*shape, 1, generator=generator),
            "state_value": torch.randn(*shape, 1, generator=generator),
            "action_log_prob": -torch.rand(*shape, generator=generator),
        },
        shape,
    )


CHOICES: dict[str, tuple[Any, ...]] = {
    "clip_value": (None, 0.1),
    "critic_coeff": (None, 0.0, 0.5),
    "normalize_advantage": (True, False),
    "entropy_bonus": (True, False),
    "log_explained_variance": (True, False),
}


def by_hand(
    nets: dict[str, TensorDictModule], data: TensorDict, mask: Tensor, **given: Any
) -> dict[str, Tensor]:
    log_p = nets["actor_network"](data.clone())["log_prob"][mask]
    adv, target, old = (data[key].squeeze(-1)[mask] for key in ("advantage", "value_target", "state_value"))
    step = log_p - data["action_log_prob"][mask]
    if given["normalize_advantage"] and adv.numel() > 1:
        adv = (adv - adv.mean()) / adv.std().clamp_min(1e-6)
    low, high = torch.log1p(torch.tensor(-0.2)), torch.log1p(torch.tensor(0.2))
    out = {
        "loss_objective": -torch.minimum(step.exp() * adv, step.clamp(low, high).exp() * adv).mean(),
        "kl_approx": -step.mean(),
        "ESS": (2 * step.logsumexp(0) - (2 * step).logsumexp(0)).exp() / step.numel(),
        "max_ratio": step.exp().max(),
    }
    if given["entropy_bonus"]:
        out |= {"loss_entropy": 0.01 * log_p.mean(), "entropy": -log_p.mean()}
    if given["critic_coeff"]:
        value = nets["critic_network"](data.clone())["state_value"].squeeze(-1)[mask]
        error = nn.functional.smooth_l1_loss(value, target, reduction="none")
        if given["clip_value"] is not None:
            near = old + (value - old).clamp(-given["clip_value"], given["clip_value"])
            error = torch.maximum(error, nn.functional.smooth_l1_loss(near, target, reduction="none"))
            out["value_clip_fraction"] = ((value - old).abs() > given["clip_value"]).float().mean()
        out["loss_critic"] = given["critic_coeff"] * error.mean()
        if given["log_explained_variance"]:
            eps = torch.finfo(target.dtype).eps
            out["explained_variance"] = 1 - (target - value).var(correction=0) / (
                target.var(correction=0) + eps
            )
    return out


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("values", itertools.product(*CHOICES.values()))
def test_there_is_what_the_parameters_ask_for(
    options: ModuleType, values: tuple[Any, ...], masked: bool
) -> None:
    given = dict(zip(CHOICES, values, strict=True))
    nets, data = networks(), batch(6, 2)
    loss = options.PolicyLoss(**nets, **given)
    mask = torch.ones(6, 2, dtype=torch.bool)
    if masked:
        mask = torch.arange(12).reshape(6, 2) % 3 != 1
        data["valid"] = mask
        loss.loss_mask_key = "valid"
        data["advantage"][~mask] = 1e3
    expected = by_hand(nets, data, mask, **given)
    Counted.calls = 0
    outputs = loss(data)
    assert Counted.calls == bool(given["critic_coeff"])
    assert set(outputs.keys()) == set(expected) == set(loss.out_keys)
    for key, value in expected.items():
        torch.testing.assert_close(outputs[key], value, rtol=1e-5, atol=1e-6)
    names = [f"{name}_params" for name in nets]
    for term in (key for key in expected if key.startswith("loss")):
        for net, name in zip(nets.values(), names, strict=True):
            own = list(getattr(loss, name).parameters())
            ours = torch.autograd.grad(outputs[term], own, retain_graph=True, allow_unused=True)
            theirs = torch.autograd.grad(
                expected[term], list(net.parameters()), retain_graph=True, allow_unused=True
            )
            for mine, one in zip(ours, theirs, strict=True):
                assert (mine is None) == (one is None)
                if mine is not None:
                    torch.testing.assert_close(mine, one, rtol=1e-5, atol=1e-6)


def test_keys_of_what_is_left_out_are_not_read(options: ModuleType) -> None:
    loss = options.PolicyLoss(**networks(), clip_value=None)
    assert "state_value" not in loss.in_keys
    data = batch(5)
    del data["state_value"]
    assert "loss_critic" in loss(data)
    clipping = options.PolicyLoss(**networks(), clip_value=0.2)
    assert "state_value" in clipping.in_keys
    with pytest.raises(KeyError, match="old_value 'state_value'"):
        clipping(data)
    bare = options.PolicyLoss(**networks(), critic_coeff=0.0)
    assert "value_target" not in bare.in_keys
    assert "loss_critic" not in bare(data.exclude("value_target"))


def test_an_optional_network(options: ModuleType) -> None:
    loss = options.PolicyLoss(networks()["actor_network"], critic_coeff=None)
    assert loss.critic_network is None
    assert loss.critic_network_params is None
    assert "loss_critic" not in loss(batch(3))
    assert not any("critic" in name for name in loss.state_dict())
    with pytest.raises(ValueError, match="critic_coeff needs a critic_network"):
        options.PolicyLoss(networks()["actor_network"])


def test_renaming_by_the_role(options: ModuleType) -> None:
    """`value` is what the critic writes, and what the data hold of an earlier one."""
    loss = options.PolicyLoss(**networks(), clip_value=0.2)
    before = loss(batch(4))
    nets = networks()
    nets["critic_network"] = TensorDictModule(nets["critic_network"].module, ["observation"], ["v"])
    renamed = options.PolicyLoss(**nets, clip_value=0.2)
    renamed.set_keys(value="v")
    after = renamed(batch(4).rename_key_("state_value", "v"))
    torch.testing.assert_close(after.to_dict(), before.to_dict())


def test_selection_knows_what_there_is(options: ModuleType) -> None:
    loss = options.PolicyLoss(**networks(), entropy_bonus=False)
    with pytest.raises(ValueError, match="loss_entropy"):
        loss.select_out_keys("loss_entropy")
    loss.select_out_keys("loss_critic")
    assert list(loss(batch(3)).keys()) == ["loss_critic"]
    assert "loss_entropy" not in loss.reset_out_keys().out_keys
    outputs = loss(**batch(3).exclude("state_value").to_dict())
    assert len(outputs) == len(loss.out_keys)


def test_the_function_says_what_it_lacks(options: ModuleType) -> None:
    with pytest.raises(TypeError, match="these parameters need"):
        not_none(None)
    value = torch.ones(3)
    assert not_none(value) is value


def test_terms_of_several_numbers(vector: ModuleType) -> None:
    torch.manual_seed(0)
    net = TensorDictModule(nn.Linear(4, 3), in_keys=["observation"], out_keys=["action_pred"])
    data = batch(5)
    data["action"] = torch.randn(5, 3)
    squares = (net(data.clone())["action_pred"] - data["action"]).square()
    for reduction, expected in {"mean": squares.mean(), "sum": squares.sum(), "none": squares}.items():
        outputs = vector.ImitationLoss(net, reduction=reduction)(data)
        torch.testing.assert_close(outputs["loss"], expected)
    loss = vector.ImitationLoss(net)
    torch.testing.assert_close(loss(data)["loss_weighted"], squares.sum(-1).mean())
    data["weight"] = torch.rand(5, 1)
    torch.testing.assert_close(loss(data)["loss_weighted"], (squares.sum(-1) * data["weight"][:, 0]).mean())
    data["valid"] = torch.tensor([True, False, True, True, False])
    loss.loss_mask_key = "valid"
    torch.testing.assert_close(loss(data)["loss"], squares[data["valid"]].mean())


def test_networks_that_only_what_is_in_the_data_needs(generated: Path) -> None:
    """Networks run before the data are asked: whether an entry is there says what becomes of their values."""
    value = TensorDictModule(nn.Linear(4, 1), in_keys=["observation"], out_keys=["value"])
    prior = TensorDictModule(lambda x: x.sum(-1), in_keys=["observation"], out_keys=["prior"])
    loss = importlib.import_module(f"{PACKAGE}.weighed").WeighedLoss(value, prior)
    data = batch(5)
    torch.testing.assert_close(loss(data)["loss"], prior(data.clone())["prior"].mean())
    data["weight"] = torch.rand(5)
    expected = value(data.clone())["value"].squeeze(-1) * data["weight"]
    torch.testing.assert_close(loss(data)["loss"], expected.mean())
    data["weight"] = torch.rand(5, 1)
    with pytest.raises(RuntimeError, match=r"'weight', the weight, is one number of each sample, \[5\]"):
        loss(data)
    wide = TensorDictModule(nn.Linear(4, 1), in_keys=["observation"], out_keys=["prior"])
    with pytest.raises(RuntimeError, match=r"'prior', the prior, is one number .* got \[5, 1\]"):
        importlib.import_module(f"{PACKAGE}.weighed").WeighedLoss(value, wide)(batch(5))


@pytest.fixture
def masks(generated: Path) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.masks")


@pytest.mark.parametrize("of_the_team", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_masks_of_the_declaration(
    masks: ModuleType, reduction: str, weighted: bool, of_the_team: bool
) -> None:
    """A mask of the loss, one of a term, one in the data and that of the collector leave out what any of them does."""
    generator = torch.Generator().manual_seed(2)
    torch.manual_seed(0)
    net = TensorDictModule(nn.Linear(4, 1), in_keys=["observation"], out_keys=["prediction"])
    data = TensorDict(
        {
            "observation": torch.randn(6, 3, 4, generator=generator),
            "agents": {"reward": torch.randn(6, *(() if of_the_team else (3,)), 1, generator=generator)},
            "log_ratio": torch.randn(6, 3, generator=generator)
            .mul(2)
            .index_fill(0, torch.tensor([2]), torch.inf),
            "pad_mask": torch.arange(6) == 4,
            "collector": {"mask": torch.arange(6) != 5},
        },
        [6],
    )
    if weighted:
        data["priority_weight"] = torch.rand(6, generator=generator)
    loss = masks.MaskedLoss(net, reduction=reduction)
    outputs = loss(data)
    target = data["agents", "reward"].squeeze(-1).reshape(6, -1).expand(6, 3)
    error = (net(data.clone())["prediction"].squeeze(-1) - target).square()
    counts = data["log_ratio"].isfinite() & (data["log_ratio"].abs() < 2)
    counts = counts & (~data["pad_mask"] & data["collector", "mask"])[:, None]
    assert 3 < counts.sum() < 12
    weights = (data["priority_weight"][:, None] if weighted else torch.ones(6, 1)).expand(6, 3)
    spread = target[counts].std() if not of_the_team else data["agents", "reward"].expand(6, 3)[counts].std()
    outliers = counts & (error > error[counts].mean())
    for term, values, mask in (("loss_model", error / spread, counts), ("loss_outliers", error, outliers)):
        if reduction == "none":
            expected = torch.where(mask, values * weights, 0.0)
        else:
            expected = (values * weights)[mask].sum()
            expected = expected / weights[mask].sum() if reduction == "mean" else expected
        torch.testing.assert_close(outputs[term], expected)
    torch.testing.assert_close(outputs["error"], error[counts].mean())
    torch.testing.assert_close(outputs["largest"], error[counts].max())
    without = masks.MaskedLoss(net)(data.exclude("pad_mask", "collector"))
    assert without["error"] != outputs["error"]
