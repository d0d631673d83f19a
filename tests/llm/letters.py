"""A project with a tiny language model that is to answer in lower-case letters, all of it declared."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from specgen.cli import main
from tests.llm.models import tiny_model, tiny_tokenizer
from tests.pipelines.small import differing, rows

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


def trained_and_resumed(made: Any, config: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The parts of a training of twelve updates, behind the proof that one stopped at the eighth goes on to the same bits.

    Args:
        made: the module that trains.
        config: its hyper-parameters.
        folder: for both runs.
        monkeypatch: stops the second one.
    """
    whole = made.train(config, folder=folder / "whole")
    update, count = made.update, 0

    def stopping(*args: Any) -> Any:
        nonlocal count
        count += 1
        if count == 8:
            raise InterruptedError
        return update(*args)

    monkeypatch.setattr(made, "update", stopping)
    with pytest.raises(InterruptedError):
        made.train(config, folder=folder / "stopped")
    count = 100
    torch.manual_seed(12345)
    resumed = made.train(config, folder=folder / "stopped", resume=True)
    assert 100 < count < 112, "it began anew"
    assert differing(whole.state_dict(), resumed.state_dict()) == []
    assert rows(folder / "whole") == rows(folder / "stopped")
    return whole


@contextmanager
def training_module(project: Path, schema: str, functions: str) -> Iterator[Any]:
    """The module of a pipeline, in the folder of its project, which is written and built first.

    Args:
        project: the folder.
        schema: all that is declared.
        functions: those of the user.
    """
    before = Path.cwd()
    write_project(
        project, schema, functions.replace("from letters_rl import", "from letters_rl.letters import")
    )
    os.chdir(project)
    sys.path.insert(0, str(project))
    try:
        yield importlib.import_module("letters_rl.letters")
    finally:
        os.chdir(before)
        sys.path.remove(str(project))
        for name in [name for name in sys.modules if name.split(".")[0] in ("letters_rl", "letters_user")]:
            del sys.modules[name]
