"""`conversation_advantage`: of conversations of several answers, in any layout, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.llm import conversation_advantage, group_advantage, groups_of_workers


def test_answers_share_the_advantage_of_their_conversation() -> None:
    """Two groups of two conversations of up to three answers; behind the end of one its last row is repeated."""
    reward = torch.tensor([[1.0, 0.0, 2.0], [0.5, 9.0, 9.0], [0.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    mask = torch.tensor([[True] * 3, [True, False, False], [True] * 3, [True] * 3])
    group = torch.tensor([7, 7, 2, 2]).reshape(4, 1, 1).expand(4, 3, 1)
    conversation = torch.tensor([[12], [11], [9], [30]]).expand(4, 3)
    found = conversation_advantage(reward.unsqueeze(-1), group, conversation, mask)
    expected = group_advantage(torch.tensor([3.0, 0.5, 4.0, 1.0]), torch.tensor([7, 7, 2, 2]))
    torch.testing.assert_close(found, torch.where(mask, expected.unsqueeze(-1), 0.0).unsqueeze(-1))
    order = torch.randperm(12)
    flat = (value.reshape(12, -1)[order] for value in (reward, group))
    again = conversation_advantage(*flat, conversation.reshape(-1)[order], mask.reshape(-1)[order])
    torch.testing.assert_close(again, found.reshape(12, 1)[order])
    alone = conversation_advantage(reward[:2, :1], group[:2, 0], conversation[:2, 0])
    torch.testing.assert_close(alone.flatten(), group_advantage(reward[:2, 0], group[:2, 0, 0]))


def test_what_is_no_conversation() -> None:
    with pytest.raises(ValueError, match=r"got \[2, 1\], \[2, 1\] and \[3\]"):
        conversation_advantage(torch.zeros(2, 1), torch.zeros(2, 1).long(), torch.zeros(3).long())
    with pytest.raises(ValueError, match=r"groups \[5\] have one reward each"):
        conversation_advantage(torch.zeros(2, 1), torch.tensor([[5], [5]]), torch.tensor([1, 1]))
    reward, group, conversation = torch.zeros(4, 1), torch.zeros(4, 1).long(), torch.tensor([1, 1, 2, 2])
    for mask, said in (
        (torch.ones(3).bool(), r"torch.bool \[3\]"),
        (torch.ones(4).long(), r"torch.int64 \[4\]"),
    ):
        with pytest.raises(ValueError, match=rf"bool \[4\], got {said}"):
            conversation_advantage(reward, group, conversation, mask)
    group[3] = 1
    with pytest.raises(ValueError, match="have one group, those of 2 differ"):
        conversation_advantage(reward, group, conversation)


@pytest.mark.parametrize(("rows", "workers"), [(4, 0), (4, -2), (4, 3), (0, 2)])
def test_rows_that_are_not_equally_many_of_each_worker_are_refused(rows: int, workers: int) -> None:
    with pytest.raises(ValueError, match=f"{rows} rows are not equally many of each of {workers} workers"):
        groups_of_workers(torch.zeros(rows, dtype=torch.int64), workers)
