"""`ChatEnv`: the contract of environments, groups, turns with tools, rewards, sources, and what it refuses."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from specgen_runtime.envs import SerialEnv, check_env_specs
from specgen_runtime.llm import ChatEnv, History, Message, Scores, chats_of
from specgen_runtime.llm.conversations.messages import as_rows
from specgen_runtime.testing import check_env
from specgen_runtime.transforms import TransformedEnv
from specgen_std.transforms import StepCounter
from tensordict import TensorDict, TensorDictBase

from tests.llm.models import tiny_tokenizer

DATA = [{"query": f"question {index}" * (index + 1), "answer": str(index)} for index in range(7)]


def length(answers: Sequence[Sequence[Message]], rows: Sequence[Mapping[str, Any]]) -> list[float]:
    return [float(len(chat)) + len(row["query"]) for chat, row in zip(answers, rows, strict=True)]


def again(chat: list[Message], row: Mapping[str, Any]) -> list[Message] | None:
    return None if len(chat) > 4 else [{"role": "tool", "content": f"{row['answer']} of {len(chat)}"}]


def say(text: str | Callable[[list[Message]], str], role: str = "assistant") -> Callable[[Any], Any]:
    """A policy that answers every prompt."""

    def policy(tensordict: TensorDictBase) -> TensorDictBase:
        chats = chats_of(tensordict.get(("history", "prompt")))
        full = [
            [*chat, {"role": role, "content": text if isinstance(text, str) else text(chat)}]
            for chat in chats
        ]
        return tensordict.set(("history", "full"), as_rows(full, tensordict.batch_size))

    return policy


def contents(tensordict: TensorDictBase, key: str = "prompt") -> list[list[Any]]:
    return [[message["content"] for message in chat] for chat in chats_of(tensordict.get(("history", key)))]


KINDS: dict[str, Callable[[], Any]] = {
    "one conversation": lambda: ChatEnv(DATA, reward=length, batch_size=()),
    "groups": lambda: ChatEnv(DATA, reward=length, batch_size=(6,), group=3),
    "a group in turn": lambda: ChatEnv(DATA, reward=length, batch_size=(2,), group=4),
    "several turns": lambda: ChatEnv(
        DATA, reward=length, tools=again, max_turns=4, batch_size=(4,), group=2, device="cpu"
    ),
    "two dimensions": lambda: ChatEnv(
        DATA, reward=length, batch_size=(2, 3), group=3, system_prompt="Be brief."
    ),
    "metrics": lambda: ChatEnv(
        DATA, reward=lambda a, r: Scores(length(a, r), turns=[len(c) for c in a]), metrics=["turns"]
    ),
    "a loader": lambda: ChatEnv.from_dataloader(torch.utils.data.DataLoader(DATA, batch_size=3), repeats=3),  # type: ignore[arg-type]
    "texts": lambda: ChatEnv(
        DATA, reward=length, tools=again, max_turns=3, group=2, input_mode="text", tokenizer=tiny_tokenizer()
    ),
    "with a transform": lambda: TransformedEnv(
        ChatEnv(DATA, tools=again, max_turns=None, group=2), StepCounter(3)
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_contract(name: str) -> None:
    check_env(KINDS[name], steps=6, deterministic=name == "a loader", pickling=name != "metrics")


def test_in_a_batch_of_environments() -> None:
    env = SerialEnv(2, lambda: ChatEnv(DATA, reward=length, group=2))
    env.set_seed(3)
    rollout = env.rollout(3, say("yes"), break_when_any_done=False)
    assert rollout.batch_size == (2, 2, 3)
    groups = rollout["group"].squeeze(-1)
    assert torch.equal(groups, torch.arange(3).expand(2, 2, 3))
    queries = [row["query"] for row in rollout[0].get("query").tolist()[0]]
    assert queries != [row["query"] for row in rollout[1].get("query").tolist()[0]], "each has its own order"


def test_one_answer_ends_a_conversation() -> None:
    env = ChatEnv(DATA, reward=length, group=2, system_prompt="Be brief.")
    root = env.reset()
    (first, second), (row, other) = contents(root), root.get("query").tolist()
    assert first == second == ["Be brief.", row["query"]]
    assert row == other
    assert row in DATA
    assert root["turn"].flatten().tolist() == [0, 0]
    step = env.step(say("yes")(root))["next"]
    assert contents(step) == [[*first, "yes"]] * 2
    assert step["reward"].tolist() == [[3.0 + len(row["query"])]] * 2
    assert step["reward"].dtype == torch.float32
    assert step["terminated"].all()
    assert step["done"].all()
    assert not step["truncated"].any()
    assert step["turn"].flatten().tolist() == [1, 1]


def test_histories_are_attributes_of_what_is_observed() -> None:
    env = ChatEnv(batch_size=(2,), system_prompt="Be brief.", input_mode="history")
    root = env.reset(TensorDict(query=["one", "two"], batch_size=(2,)))
    assert root["history"].prompt.content == [["Be brief.", "one"], ["Be brief.", "two"]]
    answers = History.from_chats([[{"role": "assistant", "content": text}] for text in ("1", "2")])
    root["history"].full = root["history"].prompt.extend(answers, dim=-1)
    following = env.step(root)["next", "history"]
    assert following.prompt[:, -1].content == ["1", "2"]
    assert following[1].prompt[0].role == "system"


def test_tools_answer_between_turns() -> None:
    calls: list[int] = []

    def reward(answers: Any, rows: Any) -> list[float]:
        calls.append(len(answers))
        return length(answers, rows)

    env = ChatEnv(DATA, reward=reward, tools=again, max_turns=None)
    rollout = env.rollout(9, say(lambda chat: f"after {len(chat)}"))[0]
    row = rollout[0].get("query").data
    assert contents(rollout[-1]["next"])[0] == [
        row["query"],
        "after 1",
        f"{row['answer']} of 2",
        "after 3",
        f"{row['answer']} of 4",
        "after 5",
    ]
    assert rollout["next", "terminated"].flatten().tolist() == [False, False, True]
    assert rollout["next", "reward"].flatten().tolist() == [0.0, 0.0, 6.0 + len(row["query"])]
    assert calls == [1], "the reward function is called for what has ended only"


def test_a_limit_truncates_while_tools_have_more_to_say() -> None:
    env = ChatEnv(DATA, reward=length, tools=again, max_turns=2)
    rollout = env.rollout(9, say("x"))[0]
    last = rollout[-1]["next"]
    assert rollout.batch_size == (2,)
    assert (last["terminated"].item(), last["truncated"].item()) == (False, True)
    assert last["reward"].item() == 4.0 + len(rollout[0].get("query").data["query"]), "of the answers alone"
    assert len(contents(last)[0]) == 5, "what the tool has said is observed"
    at_its_end = ChatEnv(DATA, tools=again, max_turns=3).rollout(9, say("x"))[0][-1]["next"]
    assert (at_its_end["terminated"].item(), at_its_end["truncated"].item()) == (True, False)


def test_turns_without_tools() -> None:
    assert ChatEnv(DATA, max_turns=3).rollout(9, say("x"))["next", "terminated"].flatten().tolist() == [
        False,
        False,
        True,
    ]
    assert not ChatEnv(DATA, max_turns=None).rollout(5, say("x"))["next", "done"].any()
    silent = ChatEnv(DATA, tools=lambda chat, row: [], max_turns=2).rollout(9, say("x"))[0]
    assert contents(silent[-1]["next"])[0][1:] == ["x", "x"]
    assert silent["next", "truncated"].flatten().tolist() == [False, True]


def test_groups_fill_whoever_ends_first() -> None:
    env = ChatEnv(
        DATA,
        tools=lambda chat, row: None if len(chat[-1]["content"]) else [],
        max_turns=5,
        group=3,
        batch_size=(6,),
    )
    generator = torch.Generator().manual_seed(0)
    policy = say(lambda chat: "x" * int(torch.randint(2, (), generator=generator)))
    rollout = env.rollout(40, policy, break_when_any_done=False)
    ended = rollout["next", "done"].squeeze(-1)
    sizes = Counter(rollout["group"].squeeze(-1)[ended].tolist())
    assert max(sizes.values()) == 3
    assert sum(size == 3 for size in sizes.values()) >= 20
    lengths = rollout["turn"].squeeze(-1)[ended] + 1
    assert len(lengths.unique()) > 2, "conversations of many lengths"
    for group in list(sizes)[:10]:
        rows = rollout[rollout["group"].squeeze(-1) == group].get("query").tolist()
        assert len({row["query"] for row in rows}) == 1


def test_a_reset_of_all_begins_groups_together() -> None:
    env = ChatEnv(DATA, reward=length, group=2, batch_size=(4,))
    check_env_specs(env)
    groups = env.reset()["group"].flatten().tolist()
    assert groups[0] == groups[1] != groups[2] == groups[3]


def test_partial_steps_ask_nobody_else() -> None:
    asked: list[str] = []

    def tools(chat: list[Message], row: Mapping[str, Any]) -> list[Message] | None:
        asked.append(row["query"])
        return None

    env = ChatEnv(DATA, tools=tools, reward=length, batch_size=(3,))
    root = env.reset()
    rows = root.get("query").tolist()
    full = [[], chats_of(root.get(("history", "prompt")))[1] + [{"role": "assistant", "content": "x"}], []]
    root["_step"] = torch.tensor([False, True, False])
    root.set(("history", "full"), as_rows(full, (3,)))
    step = env.step(root)["next"]
    assert asked == [rows[1]["query"]]
    assert step["done"].flatten().tolist() == [False, True, False]
    assert step["turn"].flatten().tolist() == [0, 1, 0]
    assert contents(step)[0] == [rows[0]["query"]]


def test_the_action_specs_own_draw_is_an_empty_answer() -> None:
    env = ChatEnv(DATA, reward=length)
    root = env.reset()
    step = env.step(env.rand_action(root.clone()))["next"]
    assert contents(step)[0] == [*contents(root)[0], ""]


def test_rows_that_are_conversations() -> None:
    chat: list[Message] = [
        {"role": "system", "content": "Own."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    env = ChatEnv([{"messages": chat, "n": 3}], system_prompt="Be brief.")
    root = env.reset()
    assert contents(root) == [["Own.", "a", "b", "c"]]
    assert root.get("query").tolist()[0]["n"] == 3
    env = ChatEnv([chat[1:]], system_prompt="Be brief.", system_role="developer", user_role="human")
    assert chats_of(env.reset().get(("history", "prompt")))[0][0] == {
        "role": "developer",
        "content": "Be brief.",
    }
    env = ChatEnv([{"ask": "a"}], data_key="ask", user_role="human")
    root = env.reset()
    assert chats_of(root.get(("history", "prompt"))) == [[{"role": "human", "content": "a"}]]
    assert root.get("ask").tolist() == [{"ask": "a"}]


def test_prompts_given_to_reset() -> None:
    env = ChatEnv(batch_size=(2,), system_prompt="Be brief.", reward=length)
    root = env.reset(TensorDict({"query": as_rows(["a", "b"], (2,))}, batch_size=[2]))
    assert contents(root) == [["Be brief.", "a"], ["Be brief.", "b"]]
    chats = [[{"role": "user", "content": text}] for text in "ab"]
    for query in (["a", "b"], History.from_chats(chats), as_rows(chats, (2,))):
        again = env.reset(TensorDict({"query": query}, batch_size=[2]))
        assert contents(again) == [["Be brief.", "a"], ["Be brief.", "b"]]
    with pytest.raises(ValueError, match="a conversation begins with a message"):
        ChatEnv().reset(TensorDict({"query": as_rows([[]], (1,))}, batch_size=[1]))
    one = ChatEnv(system_prompt="Be brief.").reset(TensorDict({"query": "hello"}, batch_size=[1]))
    assert contents(one) == [["Be brief.", "hello"]]
    rollout = env.rollout(3, say("x"), tensordict=root, auto_reset=False)
    assert rollout["next", "done"].tolist() == [[[True]], [[True]]]
    root["_reset"] = torch.tensor([[False], [True]])
    root.set("query", as_rows([{"query": "no"}, {"query": "c"}], (2,)))
    assert contents(env.reset(root)) == [["Be brief.", "a"], ["Be brief.", "c"]]
    with pytest.raises(RuntimeError, match="no source of prompts: reset needs a tensordict with 'query'"):
        env.reset()


def test_a_state_resumes_where_it_was_left() -> None:
    def make() -> ChatEnv:
        return ChatEnv(DATA, reward=length, tools=again, max_turns=3, group=2, batch_size=(4,))

    env, other = make(), make()
    env.set_seed(5)
    env.rollout(7, say("x"), break_when_any_done=False)
    state = pickle.loads(pickle.dumps(env.state_dict()))
    other.set_seed(1)
    other.load_state_dict(state)
    found, expected = (each.rollout(9, say("x"), break_when_any_done=False) for each in (other, env))
    assert found.get("query").tolist() == expected.get("query").tolist()
    assert torch.equal(found["group"], expected["group"])
    assert found["group"].min() > 0, "groups are counted on"


def test_metrics_are_in_the_data() -> None:
    def reward(answers: Any, rows: Any) -> Scores:
        return Scores(torch.ones(len(answers)), exact=[chat[-1]["content"] == "x" for chat in answers])

    env = ChatEnv(DATA, reward=reward, metrics=("exact",), tools=again)
    root = env.reset()
    assert root["metrics", "exact"].tolist() == [[0.0]]
    assert env.step(say("x")(root))["next", "metrics", "exact"].tolist() == [[1.0]]
    assert env.step(say("y")(env.reset()))["next", "metrics", "exact"].tolist() == [[0.0]]


def test_from_dataloader() -> None:
    loader = torch.utils.data.DataLoader(DATA, batch_size=2)  # type: ignore[arg-type]
    assert ChatEnv.from_dataloader(loader).batch_size == (2,)
    env = ChatEnv.from_dataloader(loader, repeats=3, group_repeats=True, reward=length)
    assert env.batch_size == (6,)
    assert env.reset()["group"].flatten().tolist() == [0, 0, 0, 1, 1, 1]
    in_turn = ChatEnv.from_dataloader(loader, repeats=3, batch_size=1)
    groups = in_turn.rollout(7, say("x"), break_when_any_done=False)["group"].flatten().tolist()
    assert groups == [0, 0, 0, 1, 1, 1, 2]
    with pytest.raises(ValueError, match="primers"):
        ChatEnv.from_dataloader(loader, primers=1)
    with pytest.raises(ValueError, match=r"one dimension, got \(2, 2\)"):
        ChatEnv.from_dataloader(loader, batch_size=(2, 2))


QUESTION: Message = {"role": "user", "content": "a"}


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        (
            [{"role": "user", "content": "b"}, {"role": "assistant", "content": "x"}],
            r"of row 0 is not \('history', 'prompt'\) with an answer: message 0 is .*'b'.*, in the prompt .*'a'",
        ),
        ([], "message 0 is 'nothing'"),
        ([QUESTION], "of row 0 has no answer after its 1 messages"),
        ([QUESTION, QUESTION], "of row 0 ends with a message of 'user', expected one of 'assistant'"),
    ],
)
def test_what_is_no_answer(messages: list[Message], error: str) -> None:
    env = ChatEnv(["a"])
    root = env.reset().set(("history", "full"), as_rows([messages], (1,)))
    with pytest.raises(RuntimeError, match=error):
        env.step(root)
    if messages and messages[-1] is QUESTION and len(messages) == 2:
        assert ChatEnv(["a"], policy_role=None).step(root)["next", "done"].all()


def test_the_row_is_named() -> None:
    env = ChatEnv(["a"], group=2)
    right = [QUESTION, {"role": "assistant", "content": "x"}]
    with pytest.raises(RuntimeError, match="of row 1 has no answer"):
        env.step(env.reset().set(("history", "full"), as_rows([right, [QUESTION]], (2,))))


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ([1.0], r"was given 2 conversations and gave 'reward' of shape \[1\], expected \[2\]"),
        (torch.ones(2, 2), r"'reward' of shape \[2, 2\]"),
        ([1.0, float("nan")], "'reward' nan for conversation 1"),
        (Scores([1.0, 1.0]), r"gave the metrics \[\], and the environment was told of \['exact'\]"),
        (Scores([1.0, 1.0], exact=[1.0]), r"'exact' of shape \[1\]"),
    ],
)
def test_what_is_no_reward(result: Any, error: str) -> None:
    metrics = ("exact",) if isinstance(result, Scores) else ()
    env = ChatEnv(DATA, reward=lambda answers, rows: result, group=2, metrics=metrics)
    with pytest.raises(ValueError, match=error):
        env.step(say("x")(env.reset()))


def test_rewards_come_as_tensors_too() -> None:
    for result in (torch.tensor([1, 2]), torch.tensor([[1.0], [2.0]], dtype=torch.float64), (1, 2)):
        env = ChatEnv(DATA, reward=lambda answers, rows, result=result: result, group=2)
        reward = env.step(say("x")(env.reset()))["next", "reward"]
        assert reward.tolist() == [[1.0], [2.0]]
        assert reward.dtype == torch.float32


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"batch_size": (4,), "group": 3}, "groups of 3 don't fill a batch of 4"),
        ({"group": 3, "repeats": 2}, "repeats is another word for group, got 3 and 2"),
        ({"max_turns": 0}, "max_turns is at least 1, got 0"),
        ({"input_mode": "images"}, "input_mode is 'history', 'text' or 'tokens', got 'images'"),
        ({"input_mode": "text"}, "needs a tokenizer, whose chat template makes the texts"),
    ],
)
def test_arguments(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        ChatEnv(DATA, **arguments)


def test_what_functions_raise_is_told_with_their_names() -> None:
    def grade(answers: Any, rows: Any) -> list[float]:
        return [float(row["anser"]) for row in rows]

    class Ask:
        def __call__(self, chat: Any, row: Any) -> Any:
            raise ValueError("no server")

    source = [{"query": "Hello", "answer": "1"}]
    for options, error, text in (
        (
            {"reward": grade},
            KeyError,
            r"in the reward function .*grade, which was given 2 conversations and rows",
        ),
        ({"tools": Ask()}, ValueError, r"in the tools .*Ask, which was given 1 conversation and a row"),
    ):
        env = ChatEnv(source, batch_size=(2,), group=2, **options)  # type: ignore[arg-type]
        with pytest.raises(error) as found:
            env.rollout(1)
        (note,) = found.value.__notes__
        assert re.match(rf"{text} with 'answer', 'query'$", note)
