"""`group_advantage` and `MCAdvantage`: against TorchRL's, in replay buffers, over what `ChatEnv` gives, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatEnv, MCAdvantage, MCAdvantageSelector, chats_of, group_advantage
from specgen_runtime.llm.conversations.messages import as_rows
from tensordict import TensorDict, TensorDictBase, lazy_stack
from torch import Tensor

DATA = [{"query": f"question {index}", "answer": str(index)} for index in range(7)]


def trajectory(group: Any, rewards: Sequence[float], width: int = 3) -> TensorDict:
    """A trajectory of one step for each reward."""
    steps = len(rewards)
    done = torch.zeros(steps, 1, dtype=torch.bool)
    done[-1] = True
    name = torch.full((steps, 1), group) if isinstance(group, int) else as_rows([group] * steps, (steps,))
    return TensorDict(
        {
            "group": name,
            "tokens": torch.arange(steps * width).reshape(steps, width),
            "next": {"reward": torch.tensor(rewards).reshape(steps, 1), "done": done},
        },
        batch_size=[steps],
    )


def one_by_one(reward: Tensor, group: Tensor) -> Tensor:
    made = torch.zeros_like(reward)
    for name in torch.unique(group):
        these = reward[group == name]
        made[group == name] = (these - these.mean()) / these.std().clamp_min(1e-6)
    return made


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_formula(dtype: torch.dtype, tolerance: float) -> None:
    generator = torch.Generator().manual_seed(0)
    reward = torch.randn(12, 1, generator=generator, dtype=dtype)
    group = torch.tensor([5, 5, 9, 9, 9, 5, 2, 2, 2, 2, 5, 9]).reshape(12, 1)
    found = group_advantage(reward, group)
    assert found.shape == (12, 1)
    assert found.dtype == dtype
    torch.testing.assert_close(found, one_by_one(reward, group), rtol=tolerance, atol=tolerance)
    shuffled = torch.randperm(12, generator=generator)
    torch.testing.assert_close(group_advantage(reward[shuffled], group[shuffled]), found[shuffled])
    assert torch.equal(group_advantage(reward.flatten(), group), found.flatten())


def test_equal_rewards_have_exactly_no_advantage() -> None:
    reward = torch.tensor([0.1, 0.1, 0.1, 0.0, 1.0, 1.0, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7])
    group = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2])
    found = group_advantage(reward, group)
    assert found[:3].tolist() == [0.0] * 3
    assert found[6:].tolist() == [0.0] * 7
    assert found[3:6].abs().min() > 0.5


@pytest.mark.peers
def test_equal_rewards_in_torchrl() -> None:
    peers = pytest.importorskip("torchrl.objectives.llm")
    data = [trajectory(1, [0.7]) for _ in range(7)]
    mine, theirs = (feed(each(7, prompt_key="group"), data)[-1] for each in (MCAdvantage, peers.MCAdvantage))
    assert theirs["advantage"].abs().min() > 0.01
    assert not mine["advantage"].any()


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:std")
def test_a_group_of_one_in_torchrl() -> None:
    peers = pytest.importorskip("torchrl.objectives.llm")
    assert peers.MCAdvantage(1, prompt_key="group").inv(trajectory(1, [1.0]))["advantage"].isnan().all()
    with pytest.raises(ValueError, match="grpo_size >= 2, got 1"):
        MCAdvantage(1)


def test_a_group_of_one() -> None:
    with pytest.raises(ValueError, match=r"groups \[3, 4\] have one reward each"):
        group_advantage(torch.ones(4), torch.tensor([1, 1, 3, 4]))
    with pytest.raises(ValueError, match=r"got groups \[3\] of rewards \[4, 1\]"):
        group_advantage(torch.ones(4, 1), torch.tensor([1, 1, 3]))


def test_held_back_until_the_group_is_full() -> None:
    transform = MCAdvantage(3, prompt_key="group")
    first = trajectory(1, [1.0])
    assert transform.inv(first) is None
    assert transform.inv(trajectory(2, [5.0])) is None
    assert transform.inv(trajectory(1, [2.0])) is None
    assert {name: count for name, count in transform.get_stats().items() if count} == {
        "completed_trajectories": 3,
        "completed_decisions": 3,
        "successful_trajectories": 3,
        "trajectory_return_sum": 8.0,
        "trajectory_return_max": 5.0,
        "queued_groups": 2,
        "queued_trajectories": 3,
        "max_queued_trajectories_per_group": 2,
    }
    assert (transform.queued_groups, transform.completed_decisions, transform.written_groups) == (2, 3, 0)
    out = transform.inv(trajectory(1, [6.0]))
    assert out["next", "reward"].flatten().tolist() == [1.0, 2.0, 6.0]
    wanted = one_by_one(torch.tensor([1.0, 2.0, 6.0]), torch.zeros(3))
    torch.testing.assert_close(out["advantage"].flatten(), wanted)
    assert out["advantage"].shape == (3, 1)
    assert "advantage" not in first, "the input is not changed"
    transform.clear_queues()
    stats = transform.get_stats()
    assert (stats["written_groups"], stats["queued_groups"]) == (1, 0)
    transform.reset_stats()
    assert transform.get_stats() == MCAdvantage(3).get_stats()


@pytest.mark.parametrize("given", [None, "sum"])
def test_steps_with_a_reward_for_each_token(given: Any) -> None:
    """Steps have as many rewards as tokens; of one trajectory they may not stack."""
    transform = MCAdvantage(2, prompt_key="group", trajectory_return=given)
    rewards = [[[1.0, 2.0], [3.0]], [[0.0, 1.0, -1.0]]]
    out = None
    for each in rewards:
        steps = [
            TensorDict(
                {
                    "group": torch.tensor([1]),
                    ("next", "reward"): torch.tensor(values)[:, None],
                    ("next", "done"): torch.tensor([number == len(each) - 1]),
                }
            )
            for number, values in enumerate(each)
        ]
        assert out is None
        out = transform.inv(lazy_stack(steps, 0))
    assert out is not None
    flat = torch.tensor([value for each in rewards for step in each for value in step])
    if given is None:
        wanted = one_by_one(flat, torch.zeros(6))
    else:
        of_sums = one_by_one(torch.tensor([6.0, 0.0]), torch.zeros(2))
        wanted = of_sums.repeat_interleave(torch.tensor([3, 3]))
    found = out.get("advantage", as_list=True)
    assert [each.shape for each in found] == [(2, 1), (1, 1), (3, 1)]
    torch.testing.assert_close(torch.cat(found)[:, 0], wanted)
    assert (transform.trajectory_return_sum, transform.completed_decisions) == (6.0, 3)


def feed(transform: Any, data: list[TensorDictBase]) -> list[Any]:
    return [transform.inv(each.clone()) for each in data]


LENGTHS = [("a", [0.0, 1.0]), ("b", [2.0]), ("a", [3.0]), ("b", [0.5, 0.25, 1.0]), ("a", [0.0]), ("b", [1.0])]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"trajectory_return": "sum"},
    {"trajectory_return": "max"},
    {"trajectory_return": "mean"},
    {"trajectory_return": "sum", "keep_return_bounds": (0.0, 1.4)},
    {"trajectory_return": "sum", "candidate_group_size": 3, "keep_return_bounds": (0.1, 0.9)},
    {"trajectory_return": "sum", "candidate_group_size": 3, "candidate_selection_min_size": 3},
]


@pytest.mark.peers
@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("given", OPTIONS)
def test_equals_torchrl(given: dict[str, Any], numbered: bool) -> None:
    peers = pytest.importorskip("torchrl.objectives.llm")
    size = 2 if "candidate_group_size" in given else 3
    names = {"a": 1, "b": 2} if numbered else {"a": "a", "b": "b"}
    data = [trajectory(names[name], rewards) for name, rewards in LENGTHS]
    mine, theirs = (each(size, prompt_key="group", **given) for each in (MCAdvantage, peers.MCAdvantage))
    found, wanted = feed(mine, data), feed(theirs, data)
    assert any(each is not None for each in wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            for key in ("advantage", "tokens", ("next", "reward"), ("next", "done")):
                torch.testing.assert_close(one.get(key), other.get(key))
    counts = theirs.get_stats()
    if not given:  # they do not count the return of trajectories then, nor which of them were chosen
        counts = {name: n for name, n in counts.items() if "groups" in name or "queued" in name}
    if "candidate_group_size" not in given:
        counts = {name: n for name, n in counts.items() if "select" not in name}
    for name in counts:
        assert mine.get_stats()[name] == getattr(mine, name) == counts[name], name


def _give(transform: MCAdvantage, reward: float, results: Any) -> None:
    out = transform.inv(trajectory(1, [reward]))
    results.put(None if out is None else out["advantage"].flatten().tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_share_groups(method: Any) -> None:
    transform = MCAdvantage(3, prompt_key="group")
    shared = [transform.is_shared]
    assert transform.inv(trajectory(1, [1.0])) is None
    assert transform.share_memory_() is transform
    shared.append(transform.is_shared)
    assert shared == [False, True]
    assert transform.queued_trajectories == 1
    context = torch.multiprocessing.get_context(method)
    results = context.Queue()
    there = (2.0, 6.0) if method == "fork" else (2.0,)  # those that are spawned take seconds to start
    processes = [context.Process(target=_give, args=(transform, reward, results)) for reward in there]
    for process in processes:
        process.start()
    if method == "spawn":
        _give(transform, 6.0, results)
    found = [results.get(timeout=60) for _ in range(2)]
    for process in processes:
        process.join(60)
    assert sum(each is None for each in found) == 1, "one of them has the last trajectory"
    wanted = one_by_one(torch.tensor([1.0, 2.0, 6.0]), torch.zeros(3)).sort().values
    whole = next(torch.tensor(each) for each in found if each is not None)
    torch.testing.assert_close(whole.sort().values, wanted)
    assert (transform.queued_groups, transform.written_groups, transform.completed_trajectories) == (0, 1, 3)


@pytest.mark.peers
def test_in_a_replay_buffer() -> None:
    data = pytest.importorskip("torchrl.data")
    from specgen_runtime.interop import transform_to_torchrl

    transform = MCAdvantage(2, prompt_key="group")
    buffer = data.ReplayBuffer(storage=data.LazyTensorStorage(8), batch_size=4)
    buffer.append_transform(transform_to_torchrl(transform))
    buffer.extend(trajectory(1, [1.0]))
    assert len(buffer) == 0
    buffer.extend(torch.cat([trajectory(2, [0.0]), trajectory(1, [3.0]), trajectory(2, [0.0])]))
    assert len(buffer) == 4
    stored = buffer.storage[:]
    assert stored["group"].flatten().tolist() == [1, 1, 2, 2]
    half = 0.5**0.5
    assert stored["advantage"].flatten().tolist() == pytest.approx([-half, half, 0.0, 0.0])
    assert transform.get_stats()["dead_groups"] == 1


def answers_of(env: ChatEnv) -> Callable[[Any], Any]:
    generator = torch.Generator().manual_seed(0)

    def policy(tensordict: TensorDictBase) -> TensorDictBase:
        full = [
            [*chat, {"role": "assistant", "content": "x" * int(torch.randint(9, (), generator=generator))}]
            for chat in chats_of(tensordict.get(("history", "prompt")))
        ]
        return tensordict.set(("history", "full"), as_rows(full, env.batch_size))

    return policy


@pytest.mark.parametrize("prompt_key", ["group", "query"])
def test_over_what_conversations_give(prompt_key: str) -> None:
    def reward(answers: Any, rows: Any) -> list[float]:
        return [float(len(chat[-1]["content"])) for chat in answers]

    env = ChatEnv(DATA, reward=reward, group=3, batch_size=(6,))
    rollout = env.rollout(2, answers_of(env), break_when_any_done=False)
    out = MCAdvantage(3, prompt_key=prompt_key).inv(rollout)
    assert out.batch_size == (12,)
    wanted = one_by_one(out["next", "reward"], out["group"])
    torch.testing.assert_close(out["advantage"], wanted)
    assert wanted.abs().max() > 0.5
    for group in range(4):
        rows = out[out["group"].flatten() == group]
        assert len(rows) == 3
        assert len({row["query"] for row in rows.get("query").tolist()}) == 1
        assert [len(str(chat[-1]["content"])) for chat in chats_of(rows.get(("history", "full")))] == rows[
            "next", "reward"
        ].flatten().tolist()
    torch.testing.assert_close(
        group_advantage(rollout["next", "reward"], rollout["group"]).sum(), torch.tensor(0.0)
    )


def test_entries_of_other_sizes_are_stacked_lazily() -> None:
    transform = MCAdvantage(2, prompt_key="group", trajectory_return="sum")
    transform.inv(trajectory(1, [1.0, 2.0], width=3))
    out = transform.inv(trajectory(1, [0.0], width=5))
    assert [tuple(step["tokens"].shape) for step in out.unbind(0)] == [(3,), (3,), (5,)]
    half = 0.5**0.5
    assert [step["advantage"].item() for step in out.unbind(0)] == pytest.approx([half, half, -half])


def test_groups_by_what_is_asked() -> None:
    row = {"query": "a", "of": [1, {"x": None}]}
    transform = MCAdvantage(2, prompt_key="group")
    assert transform.inv(trajectory(row, [1.0])) is None
    assert transform.inv(trajectory({**row, "of": [2]}, [1.0])) is None
    assert len(transform.inv(trajectory({"of": [1, {"x": None}], "query": "a"}, [2.0]))) == 2
    with pytest.raises(TypeError, match=r"names the group of a trajectory by .*object.*, of class object"):
        transform.inv(trajectory({"query": object()}, [1.0]))


def test_what_has_not_ended() -> None:
    transform = MCAdvantage(2, prompt_key="group")
    data = trajectory(1, [1.0, 2.0])
    data["next", "done"][-1] = False
    with pytest.raises(
        RuntimeError, match=r"row 1 goes on after its last step, where \('next', 'done'\) is False"
    ):
        transform.inv(torch.stack([trajectory(1, [1.0, 2.0]), data]))
    with pytest.raises(RuntimeError, match="with a dimension of time: got a single step"):
        transform.inv(data[0])
    with pytest.raises(KeyError, match="MCAdvantage reads 'query', which is not in the data"):
        MCAdvantage(2).inv(trajectory(1, [1.0]))
    with pytest.raises(RuntimeError, match="give it to a replay buffer, not to an environment"):
        ChatEnv(DATA).append_transform(MCAdvantage(2)).reset()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            {"trajectory_return": "last"},
            "trajectory_return must be one of 'sum', 'max', 'mean' and None, got 'last'",
        ),
        ({"keep_return_bounds": (0, 1)}, "it needs trajectory_return"),
        ({"candidate_group_size": 4}, "it needs trajectory_return"),
        (
            {"trajectory_return": "sum", "keep_return_bounds": (1, 1)},
            r"is \(low, high\), increasing, got \(1, 1\)",
        ),
        ({"trajectory_return": "sum", "candidate_group_size": 1}, "got 2, 2, 1"),
        ({"trajectory_return": "sum", "candidate_selection_min_size": 3}, "got 2, 3, 2"),
    ],
)
def test_arguments(given: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        MCAdvantage(2, **given)


RETURNS = [0.0, 0.0, 1.0, 0.25, 0.5, 0.0, 1.0]


@pytest.mark.peers
@pytest.mark.parametrize("bounds", [None, (0.1, 0.9), (0.3, 0.4), (2.0, 3.0)])
@pytest.mark.parametrize("strategy", ["first", "uniform", "balanced"])
def test_selectors_equal_torchrl(strategy: Any, bounds: tuple[float, float] | None) -> None:
    peers = pytest.importorskip("torchrl.objectives.llm")
    for count in (3, 5, 7):
        candidates = TensorDict({"return": torch.tensor(RETURNS[:count])}, [count])
        found, wanted = (
            each(strategy).select(candidates, group_size=3, keep_return_bounds=bounds)
            for each in (MCAdvantageSelector, peers.MCAdvantageSelector)
        )
        assert found == wanted


def test_many_candidates() -> None:
    generator = torch.Generator().manual_seed(0)
    returns = torch.rand(24, generator=generator).square()
    candidates = TensorDict({"return": returns}, [24])
    bounds = (0.48, 0.52)
    exact, exchanged = (
        MCAdvantageSelector(max_combinations=most).select(candidates, group_size=4, keep_return_bounds=bounds)
        for most in (100_000, 10)
    )
    assert exact is not None
    assert exchanged is not None
    assert 0.48 < returns[exchanged].mean() < 0.52
    nearest = min(abs(returns[list(four)].mean() - 0.5) for four in combinations(range(24), 4))
    assert abs(returns[exact].mean() - 0.5) == pytest.approx(float(nearest), abs=1e-6)
    with pytest.raises(ValueError, match="a group of 25 can't be chosen from 24"):
        MCAdvantageSelector().select(candidates, group_size=25)
    refused: list[dict[str, Any]] = [{"strategy": "best"}, {"max_combinations": 0}, {"in_keys": []}]
    for wrong in refused:
        with pytest.raises(ValueError, match="got"):
            MCAdvantageSelector(**wrong)


class Longest(MCAdvantageSelector):
    """Takes the longest trajectories."""

    def __init__(self) -> None:
        super().__init__(in_keys=["return", "trajectories"])

    def select(self, candidates: TensorDictBase, *, group_size: int, **bounds: Any) -> list[int]:
        lengths = [len(each) for each in candidates.get("trajectories").unbind(0)]
        return sorted(range(len(lengths)), key=lambda index: -lengths[index])[:group_size]


def test_a_selector_of_ones_own() -> None:
    transform = MCAdvantage(
        2,
        prompt_key="group",
        trajectory_return="sum",
        candidate_group_size=3,
        candidate_selection_min_size=3,
        candidate_selector=Longest(),
    )
    out = [transform.inv(trajectory(1, rewards)) for rewards in ([1.0], [2.0, 0.0], [3.0, 0.0, 0.0])][-1]
    assert out["next", "reward"].flatten().tolist() == [3.0, 0.0, 0.0, 2.0, 0.0]
