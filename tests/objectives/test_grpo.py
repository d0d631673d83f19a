"""The generated `GRPOLoss`, `DAPO` and `CISPOLoss`: against TorchRL's, by their formulas, and over a small transformer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_std.losses.grpo import DAPO, CISPOLoss, GRPOLoss
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictSequential
from torch import Tensor, nn

from tests.objectives.language_models import LENGTH, Actor, batch, language_model
from tests.objectives.peers import gradients

LOSSES = {"GRPOLoss": GRPOLoss, "DAPO": DAPO, "CISPOLoss": CISPOLoss}
DILUTED = ("clip_fraction", "kl_approx", "entropy", "kl_to_ref", "kl_to_inference")
"""Means that the peer takes over padding, too, where the numbers are 0."""
DILUTED_TERMS = ("loss_kl_to_ref", "loss_kl_to_inference")
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


def peer(name: str, actor: nn.Module, **given: Any) -> Any:
    llm = pytest.importorskip("torchrl.objectives.llm")
    return getattr(llm, name)(actor, **given)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"clip_epsilon": (0.1, 0.3)},
    {"kl_to_ref_coeff": 0.05, "kl_to_inference_coeff": 0.02},
    {"kl_to_ref_coeff": 0.0, "kl_to_inference_coeff": 0.0},
    {"entropy_bonus": False},
    {"entropy_coeff": 0.5, "aggregation": "prompt_mean"},
    {"aggregation": "none"},
    {"reduction": "none"},
    {"reduction": "none", "aggregation": "prompt_mean", "kl_mask_threshold": 0.5},
    {"kl_mask_threshold": 0.5},
    {"kl_mask_threshold": 0.5, "aggregation": "prompt_mean"},
]


@pytest.mark.peers
@pytest.mark.parametrize("share", [1.1, 0.6])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("given", OPTIONS)
@pytest.mark.parametrize("name", LOSSES)
def test_equals_torchrl(
    name: str, given: dict[str, Any], dtype: torch.dtype, tolerance: float, share: float
) -> None:
    actor = Actor(dtype)
    mine, theirs = LOSSES[name](actor, **given), peer(name, actor, **given)
    data = batch(dtype=dtype, share=share)
    found, wanted = mine(data.clone()), theirs(data.clone()).to_tensordict()
    assert (
        set(found.keys()) == set(mine.out_keys) == {key for key, value in wanted.items() if value is not None}
    )
    counts = data["answered"]
    if threshold := given.get("kl_mask_threshold"):
        log_p = actor.get_dist(data).log_prob(data["tokens", "full"])
        counts = counts & (0.5 * (log_p - data["log_probs", "full"]).square() <= threshold)
        assert counts.any(-1).all(), "the peer counts sequences without tokens"
        assert not counts.all()
    masked = bool(threshold)

    def close(got: Tensor, expected: Tensor, what: str, scale: float = 1.0) -> None:
        expected = expected.reshape(got.shape).to(got.dtype) / scale
        bound = max(tolerance, 1e-7) if what == "clip_fraction" else tolerance  # a fraction is float32
        torch.testing.assert_close(got, expected, rtol=bound, atol=bound, msg=lambda m: f"{what}: {m}")

    unreduced = "none" in (given.get("reduction"), given.get("aggregation"))
    share_that_counts = counts.double().mean().item()
    for key, value in found.items():
        if key in DILUTED_TERMS and (unreduced or given.get("aggregation") == "prompt_mean"):
            continue  # one mean over all tokens there, whatever the aggregation is
        if key in DILUTED and masked:
            continue  # the peer filters terms only
        close(value, wanted[key], key, share_that_counts if key in (*DILUTED, *DILUTED_TERMS) else 1.0)
        if not key.startswith("loss_") or (name == "CISPOLoss" and key == "loss_objective"):
            continue
        # the value of CISPO's objective is the peer's, its gradient the paper's
        each = [gradients(loss, loss(data.clone()).get(key).sum()) for loss in (mine, theirs)]
        assert each[0].keys() == each[1].keys()
        for parameter, gradient in each[0].items():
            scale = share_that_counts if key in DILUTED_TERMS else 1.0
            close(gradient, each[1][parameter], f"{key}: {parameter}", scale)


@pytest.mark.peers
def test_states_are_torchrls() -> None:
    mine, theirs = GRPOLoss(Actor()), peer("GRPOLoss", Actor())
    assert mine.state_dict().keys() == theirs.state_dict().keys()
    mine.load_state_dict(theirs.state_dict())
    assert not mine.functional


def by_hand(
    name: str, log_p: Tensor, entropy: Tensor, data: TensorDict, counts: Tensor, aggregation: str
) -> dict[str, Tensor]:
    """The formulas of the papers, one sequence after another."""
    ratio = (log_p - data["log_probs", "full"]).exp()
    advantage = data["advantage"].reshape(-1, 1).expand_as(ratio)
    clipped = ratio.clamp(0.9, 1.3)
    objective = torch.minimum(ratio * advantage, clipped * advantage)
    if name == "CISPOLoss":
        objective = clipped.detach() * advantage * log_p
    apart = data["next", "ref_log_probs", "full"] - log_p
    tokens = {
        "loss_objective": -objective,
        "loss_entropy": -0.01 * entropy,
        "loss_kl_to_ref": 0.5 * (apart.exp() - 1 - apart),
    }
    made = {}
    for key, value in tokens.items():
        rows = [row[which] for row, which in zip(value, counts, strict=True) if which.any()]
        means = torch.stack([row.mean() for row in rows])
        made[key] = torch.cat(rows).mean() if aggregation == "token_mean" else means.mean()
    return made


@pytest.mark.parametrize("marked_by", ["distribution", "data", "both"])
@pytest.mark.parametrize("aggregation", ["token_mean", "prompt_mean"])
@pytest.mark.parametrize("name", LOSSES)
def test_formulas(name: str, aggregation: str, marked_by: str) -> None:
    """Tokens that are not marked, or were not scored, change nothing; sequences without tokens don't count."""
    actor = Actor(torch.float64, marks=marked_by != "data")
    data = batch(5, dtype=torch.float64, of_sequence=True)
    counts = data["answered"].clone()
    counts[3] = False
    if marked_by == "distribution":
        data["answered"] = counts
    else:
        data["masks", "all_assistant_mask"] = counts
    clean = data.clone()
    data["log_probs", "full"][0, -1] = torch.nan
    counts[0, -1] = False
    for key in (("log_probs", "full"), ("next", "ref_log_probs", "full")):
        data[key] = torch.where(counts, data[key], torch.tensor(torch.nan, dtype=torch.float64))
    loss = LOSSES[name](actor, clip_epsilon=(0.1, 0.3), aggregation=aggregation, kl_to_ref_coeff=0.5)
    found = loss(data)
    logits = actor.logits(data["tokens", "full"])
    plain = torch.distributions.Categorical(logits=logits)
    expected = by_hand(
        name, plain.log_prob(data["tokens", "full"]), plain.entropy(), clean, counts, aggregation
    )
    for key, value in expected.items():
        if not (name == "CISPOLoss" and key == "loss_objective"):
            torch.testing.assert_close(found[key], value, msg=key)
        (wanted,) = torch.autograd.grad(value, actor.parameters(), retain_graph=True)
        (got,) = torch.autograd.grad(found[key], actor.parameters(), retain_graph=True)
        torch.testing.assert_close(got, wanted, msg=key)
    torch.testing.assert_close(found["entropy"], plain.entropy()[counts].mean())


def test_sequences_in_several_batch_dimensions() -> None:
    data = batch(2, 3, of_sequence=True)
    for aggregation in ("token_mean", "prompt_mean"):
        loss = GRPOLoss(Actor(), aggregation=aggregation, kl_to_ref_coeff=0.5)
        for (key, value), other in zip(loss(data).items(), loss(data.reshape(-1)).values(), strict=True):
            torch.testing.assert_close(value, other, msg=key)


def test_one_advantage_of_a_sequence_is_that_of_its_tokens() -> None:
    loss = GRPOLoss(Actor())
    data = batch(of_sequence=True)
    wanted = loss(batch())
    one = data.clone()
    one["advantage"] = one["advantage"].unsqueeze(-2)  # [B, 1, 1], as environments of the peer write rewards
    for given in (data, one):
        for key, value in loss(given).items():
            torch.testing.assert_close(value, wanted[key], msg=key)


@pytest.mark.parametrize(
    ("key", "shape", "message"),
    [
        (
            ("log_probs", "full"),
            (4, 1),
            r"sample_log_prob has the shape \[4, 1\], where samples make it \[4, 6\]",
        ),
        (("log_probs", "full"), (4, 5), r"sample_log_prob has the shape \[4, 5\]"),
        (("next", "ref_log_probs", "full"), (4, 6, 1), r"ref_log_probs has the shape \[4, 6, 1\]"),
        ("advantage", (4, 5, 1), r"advantage has the shape \[4, 5, 1\], where samples make it \[4, 6, 1\]"),
    ],
)
def test_other_shapes_are_refused(key: Any, shape: tuple[int, ...], message: str) -> None:
    data = batch()
    data[key] = torch.zeros(shape)
    with pytest.raises(ValueError, match=message):
        GRPOLoss(Actor(), kl_to_ref_coeff=0.5)(data)


def test_keywords_are_checked() -> None:
    for given, message in (
        ({"aggregation": "promt_mean"}, "aggregation must be one of 'token_mean', 'prompt_mean', 'none'"),
        ({"kl_mask_threshold": 0.0}, "kl_mask_threshold must be > 0"),
        ({"kl_to_ref_coeff": -0.1}, "kl_to_ref_coeff must be >= 0"),
        ({"clip_epsilon": 1.5}, "clip_epsilon"),
        ({"clip_epsilon": (0.1, -0.2)}, "clip_epsilon"),
    ):
        with pytest.raises(ValueError, match=message):
            GRPOLoss(Actor(), **given)


@pytest.mark.peers
def test_clipped_tokens_are_learned_from_and_not_in_the_peer() -> None:
    """CISPO's value is the peer's; its gradient goes on where the weight of a token is clipped, as in the paper."""
    actor = Actor(torch.float64)
    data = batch(dtype=torch.float64)
    data["log_probs", "full"] = torch.full_like(data["log_probs", "full"], -20.0)  # every weight is clipped
    mine, theirs = CISPOLoss(actor), peer("CISPOLoss", actor)
    found, wanted = mine(data.clone())["loss_objective"], theirs(data.clone()).loss_objective
    torch.testing.assert_close(found, wanted)
    (got,), (none,) = (torch.autograd.grad(each, actor.parameters()) for each in (found, wanted))
    assert got.any()
    assert not none.any()


@pytest.mark.peers
def test_a_sum_is_one_and_a_mean_in_the_peer() -> None:
    actor, data = Actor(), batch()
    mine, theirs = GRPOLoss(actor, reduction="sum"), peer("GRPOLoss", actor, reduction="sum")
    found, wanted = mine(data.clone())["loss_objective"], theirs(data.clone()).loss_objective
    torch.testing.assert_close(found, wanted * data["answered"].sum())
    peer("GRPOLoss", actor, aggregation="promt_mean")


@pytest.mark.peers
def test_sequences_without_tokens_do_not_count_and_do_in_the_peer() -> None:
    actor, data = Actor(torch.float64), batch(dtype=torch.float64)
    data["answered"][0] = False
    mine, theirs = (
        make(actor, aggregation="prompt_mean", entropy_bonus=False)
        for make in (GRPOLoss, lambda *a, **k: peer("GRPOLoss", *a, **k))
    )
    found, wanted = mine(data.clone())["loss_objective"], theirs(data.clone()).loss_objective.squeeze()
    torch.testing.assert_close(found, wanted * 4 / 3)


def generated(model: ProbabilisticTensorDictSequential, rows: int) -> tuple[Tensor, Tensor]:
    """Tokens that a model draws one after another, and their log-probabilities."""
    tokens = torch.zeros(rows, LENGTH, dtype=torch.int64)
    log_probs = torch.zeros(rows, LENGTH)
    with torch.no_grad():
        for place in range(LENGTH):
            drawn = torch.distributions.Categorical(logits=model[0].module(tokens)[:, place])
            tokens[:, place] = drawn.sample()
            log_probs[:, place] = drawn.log_prob(tokens[:, place])
    return tokens, log_probs


@pytest.mark.parametrize("name", LOSSES)
def test_a_transformer_learns_what_pays(name: str) -> None:
    """The reward is the share of the token 3 in an answer; two steps are made on each batch."""
    model = language_model()
    loss = LOSSES[name](model, entropy_coeff=0.0, aggregation="prompt_mean")
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-2)
    rewards = []
    for _ in range(25):
        tokens, log_probs = generated(model, 32)
        reward = (tokens == 3).float().mean(-1, keepdim=True)
        rewards.append(reward.mean().item())
        data = TensorDict(
            {
                "tokens": {"full": tokens},
                "log_probs": {"full": log_probs},
                "advantage": (reward - reward.mean()) / reward.std().clamp_min(1e-6),
                "masks": {"all_assistant_mask": torch.ones_like(tokens, dtype=torch.bool)},
            },
            [32],
        )
        for _ in range(2):
            outputs = loss(data)
            optimizer.zero_grad()
            sum(value for key, value in outputs.items() if key.startswith("loss")).backward()
            optimizer.step()
    assert rewards[0] < 0.2
    assert sum(rewards[-3:]) / 3 > 0.6


def test_the_others_are_kinds_of_it() -> None:
    assert issubclass(CISPOLoss, GRPOLoss)
    assert issubclass(DAPO, GRPOLoss)
