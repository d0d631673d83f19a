"""Environments of conversations that a schema declares: what their functions give, what is checked, and chains."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatEnv, as_rows, chats_of
from specgen_runtime.testing import check_env
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import RewardSum, StepCounter
from tensordict import TensorDict, TensorDictBase

from tests.support import compile_texts, generate, imported

PACKAGE, USER = "chats_rl", "chats_user"

SCHEMA = """
specgen: 1
import: [specgen_std/transforms/reward_sum, specgen_std/transforms/step_counter, shared]
rewards:
  exact: {python: "chats_user:exact", reads: {answer: str, marks: "list[float]"}, metrics: [length]}
envs:
  Sums:
    chat: {source: "chats_user:load", system: Be brief., group: 2, reward: exact}
  Streamed:
    chat: {source: "chats_user:stream", reward: exact}
  Loaded:
    chat: {source: "chats_user:loader", prompt: question, reward: long}
  Hinted:
    chat: {source: "chats_user:load", reward: exact, tools: "chats_user:hint", max_turns: 3}
  Texts:
    chat: {source: "chats_user:words", input: text, template: chatml_format}
  Given:
    chat: {group: 2}
chains:
  SumsTrain:
    env: Sums
    transforms: [RewardSum, StepCounter: {max_steps: 3}]
  HintedTrain:
    env: Hinted
    transforms: [StepCounter: {step_count_key: answers}, RewardSum: {out_keys: [episode.total]}]
  TextsTrain:
    env: Texts
"""

SHARED = """
specgen: 1
rewards:
  long: {python: "chats_user:long"}
"""

FUNCTIONS = """
from torch import tensor
from torch.utils.data import DataLoader
from specgen_runtime.llm import Scores

began = 0

def row(n):
    return {"query": f"What is {n} + {n}?", "answer": str(2 * n), "marks": [0.0, 1]}

def load():
    return [row(n) for n in range(6)]

def stream():
    global began
    began += 1
    yield from load()

def loader():
    return DataLoader([{"question": f"{n}?"} for n in range(6)], batch_size=2)

def words():
    return ["a", "b"]

def exact(answers, rows):
    said = [chat[-1]["content"] for chat in answers]
    return Scores(
        [row["marks"][text == row["answer"]] for text, row in zip(said, rows)], length=[len(text) for text in said]
    )

def long(answers, rows):
    return tensor([float(len(chat[-1]["content"])) for chat in answers])

def hint(chat, row):
    return None if chat[-1]["content"] == row["answer"] else [{"role": "user", "content": "No."}]
"""


@contextmanager
def chats(folder: Path, functions: str = FUNCTIONS, schema: str = SCHEMA) -> Iterator[ModuleType]:
    """The generated module; its functions stand in `chats_user`."""
    (folder / f"{USER}.py").write_text(functions, encoding="utf-8")
    files = generate({"chats.yaml": schema, "shared.yaml": SHARED}, PACKAGE)
    try:
        with imported(files, PACKAGE, folder):
            yield importlib.import_module(f"{PACKAGE}.chats")
    finally:
        sys.modules.pop(USER, None)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[ModuleType]:
    with chats(tmp_path) as module:
        yield module


def answering(text: str) -> Any:
    def policy(tensordict: TensorDictBase) -> TensorDictBase:
        prompts = chats_of(tensordict.get(("history", "prompt")))
        full = [[*chat, {"role": "assistant", "content": text}] for chat in prompts]
        return tensordict.set(("history", "full"), as_rows(full, tensordict.batch_size))

    return policy


@pytest.mark.parametrize("name", ["Sums", "SumsTrain", "Streamed", "Loaded", "Hinted", "HintedTrain"])
@pytest.mark.parametrize("size", [None, (4,), (2, 3)])
def test_the_contract(made: ModuleType, name: str, size: tuple[int, ...] | None) -> None:
    ordered = name in ("Streamed", "Loaded")  # no seed changes the order of such a source
    check_env(lambda: getattr(made, name)(batch_size=size), steps=10, deterministic=ordered)


@pytest.mark.parametrize("name", ["Texts", "TextsTrain"])
def test_the_contract_of_texts(made: ModuleType, name: str) -> None:
    check_env(lambda: getattr(made, name)(batch_size=(2,)), steps=10)


def test_it_is_the_environment_by_hand(made: ModuleType) -> None:
    user = importlib.import_module(USER)
    options: Any = {"reward": user.exact, "metrics": ["length"], "group": 2, "system_prompt": "Be brief."}
    by_hand = TransformedEnv(
        ChatEnv(user.load(), **options, batch_size=(4,), seed=3),
        Compose(RewardSum(), StepCounter(max_steps=3)),
    )
    declared = made.SumsTrain(batch_size=(4,), seed=3)
    assert declared.specs == by_hand.specs
    data, other = (env.rollout(8, answering("4"), break_when_any_done=False) for env in (declared, by_hand))
    assert set(data.keys(True, True)) == set(other.keys(True, True))
    for key in data.keys(True, True):
        one, two = data[key], other[key]
        assert torch.equal(one, two) if isinstance(one, torch.Tensor) else one == two, key


def test_rewards_and_metrics(made: ModuleType) -> None:
    data = made.SumsTrain(batch_size=(2,)).rollout(12, answering("10"), break_when_any_done=False)
    assert data["next", "reward"].sum() == 4  # each of six prompts is asked twice for each of two rows
    assert data["next", "metrics", "length"].unique().tolist() == [2]
    assert data["next", "terminated"].all()
    assert data["next", "step_count"].unique().tolist() == [1]


def test_tools_and_turns(made: ModuleType) -> None:
    env = made.HintedTrain(batch_size=(1,))
    data = env.rollout(3, answering("wrong"))[0]
    assert data["next", "truncated"].flatten().tolist() == [False, False, True]
    assert data["next", "answers"].flatten().tolist() == [1, 2, 3]
    assert [message["content"] for message in data[-1]["history", "full"]][1::2] == ["wrong"] * 3
    assert ("next", "episode", "total") in data.keys(True)


def test_a_loader_is_taken_in_its_own_order(made: ModuleType) -> None:
    env = made.Loaded(batch_size=(6,))
    assert [row["question"] for row in env.reset()["question"]] == [f"{n}?" for n in range(6)]
    assert env.rollout(1, answering("four"))["next", "reward"].unique().tolist() == [4]


def test_a_generator_function_is_called_for_each_epoch(made: ModuleType) -> None:
    env = made.Streamed(batch_size=(4,))
    asked = [row["query"] for _ in range(3) for row in env.reset()["query"]]
    assert asked == [f"What is {n} + {n}?" for n in [*range(6)] * 2]
    assert importlib.import_module(USER).began == 2


def test_another_source(made: ModuleType) -> None:
    rows = [{"query": f"{n}", "answer": "x", "marks": []} for n in range(4)]
    env = made.SumsTrain(source=rows, shuffle=False, batch_size=(8,))
    assert [row["query"] for row in env.reset()["query"]] == ["0", "0", "1", "1", "2", "2", "3", "3"]


def test_without_a_source_each_reset_is_given_the_prompts(made: ModuleType) -> None:
    env = made.Given()
    root = env.reset(_asked("a", "b"))
    assert [chat[0]["content"] for chat in root["history", "prompt"]] == ["a", "b"]
    with pytest.raises(RuntimeError, match="no source of prompts"):
        env.reset()


def _asked(*texts: str) -> TensorDictBase:
    return TensorDict({"query": as_rows(list(texts), (len(texts),))}, batch_size=[len(texts)])


def test_the_place_in_the_source_is_its_state(made: ModuleType) -> None:
    env = made.Sums(batch_size=(4,))
    env.reset()
    state = pickle.loads(pickle.dumps(env.state_dict()))
    following = env.reset()["query"]
    other = made.Sums(batch_size=(4,))
    other.load_state_dict(state)
    assert other.reset()["query"] == following


@pytest.mark.parametrize(
    ("row", "error", "said"),
    [
        ({"query": "a", "marks": []}, ValueError, "no 'answer', which the reward chats_user:exact reads"),
        ({"query": "a", "answer": 4, "marks": []}, TypeError, "'answer' of a row of the source is int 4"),
        ({"query": "a", "answer": "4", "marks": ["x"]}, TypeError, "'marks' .* reads it as list\\[float\\]"),
        ({"query": "a", "answer": "4", "marks": [True]}, TypeError, "'marks' .* list \\[True\\]"),
    ],
)
def test_rows_are_compared_with_what_the_reward_reads(
    made: ModuleType, row: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=f"^Sums: .*{said}"):
        made.Sums(source=[row]).reset()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "def exact",
            "def other",
            "says `python: chats_user:exact`, but 'chats_user' has no function 'exact'",
        ),
        ("def load", "def other", "says `source: chats_user:load`, but 'chats_user' has no function 'load'"),
        ("def hint", "def other", "says `tools: chats_user:hint`, but 'chats_user' has no function 'hint'"),
    ],
)
def test_functions_that_are_missing(tmp_path: Path, old: str, new: str, said: str) -> None:
    with chats(tmp_path, FUNCTIONS.replace(old, new)) as made, pytest.raises(ImportError, match=said):
        made.Hinted()


def test_modules_that_are_missing(tmp_path: Path) -> None:
    schema = SCHEMA.replace("chats_user:load", "no_such_module:load")
    with chats(tmp_path, schema=schema) as made, pytest.raises(ImportError, match="there is no module"):
        made.Sums()


def test_importing_the_module_imports_no_function(tmp_path: Path) -> None:
    with chats(tmp_path) as made:
        assert made.Sums is not None
        assert USER not in sys.modules


def test_a_reward_that_changes_is_seen_by_files_that_import_it() -> None:
    texts = {"chats.yaml": SCHEMA, "shared.yaml": SHARED}
    assert not compile_texts(texts, PACKAGE)[2]
    texts["shared.yaml"] = SHARED.replace('"chats_user:long"', '"chats_user:long", reads: {question: int}')
    files, said, codes = compile_texts(texts, PACKAGE)
    assert codes == {"SG530"}
    assert not files
    assert "`long` reads it as `int`" in said


def test_groups_advantages_and_devices(made: ModuleType) -> None:
    env = made.SumsTrain(batch_size=(4,), device="cpu")
    assert env.rollout(2, break_when_any_done=False).device == torch.device("cpu")
    with pytest.raises(ValueError, match="groups of 2 don't fill a batch of 3"):
        made.SumsTrain(batch_size=(3,))
