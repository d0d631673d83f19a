"""`TopKRewardSelector`: which trajectories come into a replay buffer, against TorchRL's where that keeps its word."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.data import LazyStackStorage, ReplayBuffer
from specgen_runtime.llm import TopKRewardSelector
from tensordict import TensorDict, TensorDictBase, lazy_stack


def answer(prompt: str, rewards: list[float]) -> TensorDict:
    """One step with a reward for each token."""
    following = TensorDict(
        {"reward": torch.tensor(rewards)[:, None], "done": torch.ones(1, 1, dtype=torch.bool)}
    )
    return TensorDict({"text": prompt, "next": following})


def answers(count: int) -> TensorDictBase:
    """Answers to ten prompts, five to each, the later the longer and the better."""
    return lazy_stack(
        [answer(f"prompt {index // 5}", [float(index)] * (index + 5)) for index in range(count)]
    )


def test_the_documented_example() -> None:
    """Three of five: what TorchRL's documentation says, of which its 0.14 writes the two above the median."""
    buffer = ReplayBuffer(storage=LazyStackStorage(50), batch_size=5)
    buffer.append_transform(TopKRewardSelector(total_dialog_turns=5, topk_size=3, prompt_key="text"))
    for part in answers(50).chunk(25):
        buffer.extend(part)
    assert len(buffer) == 30
    first = [float(buffer[index]["next", "reward"][0]) for index in range(6)]
    assert first == [4.0, 3.0, 2.0, 9.0, 8.0, 7.0]


@pytest.mark.peers
def test_torchrl_gives_those_above_the_median() -> None:
    peers = pytest.importorskip("torchrl.data")
    theirs = peers.TopKRewardSelector(5, 3, prompt_key="text", verbose=False)
    found = theirs.inv(answers(5))
    assert [float(each["next", "reward"][0]) for each in found.unbind(0)] == [4.0, 3.0]


def test_groups_are_waited_for_and_forgotten() -> None:
    select = TopKRewardSelector(3, 1, prompt_key="text")
    assert select.inv(lazy_stack([answer("a", [1.0]), answer("b", [5.0]), answer("a", [2.0])])) is None
    restored = TopKRewardSelector(3, 1, prompt_key="text")
    restored.load_state_dict(select.state_dict())
    for transform in (select, restored):
        best = transform.inv(lazy_stack([answer("a", [4.0, 0.0])]))
        assert best.shape == (1,)
        assert best[0]["next", "reward"].flatten().tolist() in ([4.0, 0.0], [2.0])
        assert transform.inv(lazy_stack([answer("a", [9.0])])) is None, "the group begins anew"


def test_equal_rewards_and_trajectories_of_several_steps() -> None:
    select = TopKRewardSelector(2, 1, prompt_key="group")
    done = torch.tensor([[False], [True], [False], [True]])
    group = torch.zeros(4, 1, dtype=torch.int64)

    def data(*rewards: float) -> TensorDict:
        following = {"reward": torch.tensor(rewards)[:, None], "done": done}
        return TensorDict({"group": group, "next": following}, batch_size=[4])

    assert select.inv(data(1.0, 2.0, 2.0, 1.0)) is None, "none is better"
    assert select.inv(data(0.0, 2.0, 2.0, 1.0))["next", "reward"].flatten().tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"topk_size": 4}, ValueError, "topk_size=4 and 3"),
        ({"topk_size": 0}, ValueError, "1 <= topk_size"),
        ({"prompt_key": "query"}, KeyError, "TopKRewardSelector reads 'query'"),
        ({"rewards_key": "score"}, KeyError, "TopKRewardSelector reads 'score'"),
        ({"done_key": "over"}, KeyError, "TopKRewardSelector reads 'over'"),
    ],
)
def test_what_is_wrong(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    data = lazy_stack([answer("a", [float(index)]) for index in range(3)])
    with pytest.raises(error, match=text):
        TopKRewardSelector(
            **{"total_dialog_turns": 3, "topk_size": 2, "prompt_key": "text", **arguments}
        ).inv(data)
