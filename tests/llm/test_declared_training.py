"""Models, a reward, an environment of conversations and its chain, all declared: built by the command, then trained."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from specgen_runtime.llm import chats_of, group_advantage
from specgen_std.losses.grpo import GRPOLoss

from specgen.cli import main
from tests.llm.models import tiny_model, tiny_tokenizer

PYPROJECT = '[tool.specgen]\nschemas = "schemas"\noutput = "letters_rl"\npackage = "letters_rl"\n'

SCHEMA = """
specgen: 1
import: [specgen_std/transforms/reward_sum, specgen_std/transforms/step_counter]
models:
  policy:
    doc: The model that learns.
    causal_lm: {path: checkpoints/first, dtype: float32}
    generate: {max_new_tokens: 5}
    pad_output: true
    pad_to: 64
    max_length: 59
  reference:
    like: policy
    frozen: true
    log_probs_key: ref_log_probs
rewards:
  letters:
    python: "letters_user:letters"
    reads: {query: str}
    metrics: [share]
envs:
  Letters:
    chat: {source: "letters_user:load", system: Repeat., group: 4, reward: letters}
chains:
  LettersTrain:
    env: Letters
    transforms:
      - RetrieveKL: {gen_model: policy, ref_model: reference, coeff: 0.05}
      - RewardSum
      - StepCounter
"""

FUNCTIONS = '''
from __future__ import annotations

from collections.abc import Sequence

from letters_rl import LettersRewardRow, LettersRow
from specgen_runtime.llm import Message, Scores


def load() -> list[LettersRow]:
    return [{"query": letter} for letter in "abcd"]


def letters(answers: Sequence[Sequence[Message]], rows: Sequence[LettersRewardRow]) -> Scores:
    """The share of the answer that is a lower-case letter."""
    said = [str(chat[-1]["content"]) for chat in answers]
    found = [sum("a" <= one <= "z" for one in text) / max(5, len(text)) for text in said]
    return Scores(found, share=found)
'''


def run(project: Path, *words: str) -> str:
    done = CliRunner().invoke(main, ["--root", str(project), *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project that was built behind its models, in the present folder."""
    (tmp_path / "schemas").mkdir()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (tmp_path / "schemas" / "letters.yaml").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "letters_user.py").write_text(FUNCTIONS, encoding="utf-8")
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model("llama", tokenizer, initializer_range=0.1)
    model.save_pretrained(tmp_path / "checkpoints" / "first")
    tokenizer.save_pretrained(tmp_path / "checkpoints" / "first")
    assert "recorded checkpoints/first" in run(tmp_path, "models", "lock")
    assert "wrote    letters_rl/letters.py" in run(tmp_path, "build", "--strict")
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
