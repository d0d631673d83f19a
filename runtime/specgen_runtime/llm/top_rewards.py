"""`TopKRewardSelector`: the best answers to each prompt, when trajectories come into a replay buffer."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.data.plain_values import from_plain, to_plain
from specgen_runtime.llm.trajectories import group_name, joined, rewards_of, trajectories_in
from specgen_runtime.transforms.keys import normal_key
from specgen_runtime.transforms.replay import ReplayTransform
from specgen_runtime.typing import NestedKey

__all__ = ["TopKRewardSelector"]


class TopKRewardSelector(ReplayTransform):
    """Lets the trajectories with the largest rewards of each prompt into a replay buffer.

    `inv` holds trajectories back until there are `total_dialog_turns` of their prompt, and then gives the `topk_size` of
    them whose mean reward is largest, the best first, behind each other along one dimension; None while no prompt has
    as many. Of a prompt whose mean rewards are all equal none is better: nothing is given.

    Args:
        total_dialog_turns: how many trajectories of a prompt are waited for.
        topk_size: how many of them are given.
        prompt_key: says at the first step of a trajectory which prompt it is of, a text or numbers.
        rewards_key: the rewards, for each step or for each of its tokens.
        done_key: where trajectories end.
        verbose: accepted, without effect.

    Raises:
        ValueError: `topk_size` is not from 1 to `total_dialog_turns`.
        KeyError, RuntimeError, TypeError: at a call: an entry is missing, a trajectory has no end, a prompt is what has
            no equality.
    """

    def __init__(
        self,
        total_dialog_turns: int,
        topk_size: int,
        prompt_key: NestedKey = ("text", "prompt"),
        rewards_key: NestedKey = ("next", "reward"),
        done_key: NestedKey = ("next", "done"),
        verbose: bool = False,
    ) -> None:
        super().__init__([prompt_key, rewards_key, done_key])
        if not 1 <= topk_size <= total_dialog_turns:
            raise ValueError(
                f"1 <= topk_size <= total_dialog_turns, got topk_size={topk_size} and {total_dialog_turns}"
            )
        self.total_dialog_turns, self.topk_size, self.verbose = total_dialog_turns, topk_size, verbose
        self.prompt_key, self.rewards_key = normal_key(prompt_key), normal_key(rewards_key)
        self.done_key = normal_key(done_key)
        self.queues: dict[Any, list[TensorDictBase]] = {}

    def get_extra_state(self) -> dict[str, Any]:
        """The trajectories that are held back, as plain values."""
        return {"queues": [(name, list(map(to_plain, queue))) for name, queue in self.queues.items()]}

    def set_extra_state(self, state: Any) -> None:
        """Hold back what another transform held back."""
        self.queues = {name: list(map(from_plain, queue)) for name, queue in state["queues"]}

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        owner, best = type(self).__name__, []
        for trajectory in trajectories_in(tensordict, self.done_key, owner):
            name = group_name(trajectory, self.prompt_key, owner)
            queue = self.queues.setdefault(name, [])
            queue.append(trajectory)
            if len(queue) == self.total_dialog_turns:
                best += self._best(self.queues.pop(name))
        return joined(best) if best else None  # what replay buffers take for nothing

    def _best(self, queue: list[TensorDictBase]) -> list[TensorDictBase]:
        rewards = [rewards_of(each, self.rewards_key, type(self).__name__) for each in queue]
        means = torch.stack([torch.cat([part.flatten() for part in each]).float().mean() for each in rewards])
        if bool((means == means[0]).all()):
            return []
        order = means.argsort(descending=True, stable=True)
        return [queue[int(index)] for index in order[: self.topk_size]]
