"""A project with a tiny language model that is to answer in lower-case letters, all of it declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner

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


def write_project(project: Path, schema: str = SCHEMA, functions: str = FUNCTIONS) -> None:
    """Write the files of the project, with a model of random weights, and build it."""
    (project / "schemas").mkdir()
    (project / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (project / "schemas" / "letters.yaml").write_text(schema, encoding="utf-8")
    (project / "letters_user.py").write_text(functions, encoding="utf-8")
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model("llama", tokenizer, initializer_range=0.1)
    model.save_pretrained(project / "checkpoints" / "first")
    tokenizer.save_pretrained(project / "checkpoints" / "first")
    assert "recorded checkpoints/first" in run(project, "models", "lock")
    assert "wrote    letters_rl/letters.py" in run(project, "build", "--strict")
