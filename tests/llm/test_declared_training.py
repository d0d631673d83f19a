"""Models, a reward, an environment of conversations and its chain, all declared: built by the command, then trained."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from specgen_runtime.llm import chats_of, group_advantage
from specgen_std.losses.grpo import GRPOLoss

from tests.llm.letters import write_project
from tests.llm.models import tiny_tokenizer


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project that was built behind its models, in the present folder."""
    write_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        yield tmp_path
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] in ("letters_rl", "letters_user")]:
            del sys.modules[name]


def test_a_declared_chain_trains_a_declared_model(project: Path) -> None:
    torch.manual_seed(0)
    made = importlib.import_module("letters_rl.letters")
    policy, reference = made.policy_model(), made.reference_model()
    first = [parameter.detach().clone() for parameter in policy.model.parameters()]
    env = made.LettersTrain(policy=policy, reference=reference, batch_size=(16,), seed=0)
    loss_module = GRPOLoss(policy.get_new_version(generate=False))
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=3e-2)
    shares, penalties = [], []
    for _ in range(24):
        with torch.no_grad():
            data = env.rollout(1, policy)[:, 0]
        plain = data["next", "metrics", "share"]
        penalty = data["next", "kl_penalty"].sum(-1, keepdim=True)
        torch.testing.assert_close(data["next", "reward"], plain - 0.05 * penalty)
        torch.testing.assert_close(data["next", "episode_reward"], data["next", "reward"])
        assert data["tokens", "full"].shape == data["next", "kl_penalty"].shape == (16, 64)
        assert data["group"].flatten().bincount()[-4:].tolist() == [4] * 4
        assert {chat[0]["content"] for chat in chats_of(data.get(("history", "full")))} == {"Repeat."}
        data["advantage"] = group_advantage(data["next", "reward"], data["group"])
        losses = loss_module(data)
        optimizer.zero_grad()
        (losses["loss_objective"] + losses["loss_entropy"]).backward()
        optimizer.step()
        shares.append(float(plain.mean()))
        penalties.append(float(penalty.mean()))
    assert penalties[0] == pytest.approx(0, abs=1e-5)  # the policy begins as the reference
    assert penalties[-1] > 0.1
    assert sum(shares[-4:]) / 4 > sum(shares[:4]) / 4 + 0.2
    pairs = list(zip(first, reference.model.parameters(), policy.model.parameters(), strict=True))
    assert all(torch.equal(one, kept) and not kept.requires_grad for one, kept, _ in pairs)
    assert any(not torch.equal(one, moved) for one, _, moved in pairs)


def test_another_tokenizer_in_the_folder_is_noticed(project: Path) -> None:
    made = importlib.import_module("letters_rl.letters")
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<new>"])
    tokenizer.save_pretrained(project / "checkpoints" / "first")
    with pytest.raises(ValueError, match=r"tokenizer in 'checkpoints/first' .* `specgen models lock`"):
        made.policy_model()
