"""`Collector`: what it gives, what it refuses, and how it goes on from a state dict."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import Collector
from specgen_runtime.data import LazyTensorStorage, ReplayBuffer
from specgen_runtime.envs import GymEnv, ParallelEnv
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.cartpole import CartPole, CartPoleGym
from specgen_std.transforms.reward_sum import RewardSum
from specgen_std.transforms.vec_norm import VecNorm
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from tests.collectors.policies import ENVS, policy_for, pusher


def _through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


CHAINS: dict[str, Any] = {
    **{name: make for name, make in ENVS.items() if "gymnasium" not in name},
    "reward sum": lambda: TransformedEnv(CartPole(batch_size=[3]), RewardSum()),
    "learned statistics": lambda: TransformedEnv(CartPole(batch_size=[3]), VecNorm(in_keys=["observation"])),
}


@pytest.mark.parametrize("kind", ["random", "module"])
@pytest.mark.parametrize("name", CHAINS)
def test_a_resumed_collection_goes_on_bit_by_bit(name: str, kind: str) -> None:
    def make(seed: int) -> Any:
        torch.manual_seed(seed)
        env = CHAINS[name]()
        keywords = {"frames_per_batch": 21 * env.batch_size.numel(), "init_random_frames": 21}
        return Collector(env, policy_for(name, kind), track_policy_version=True, **keywords)

    whole = make(0)
    run = iter(whole)
    for _ in range(3):
        next(run)
    whole.update_policy_weights_()
    state = _through_a_file(whole.state_dict())
    expected = [next(run).clone() for _ in range(3)]
    resumed = make(1)
    torch.manual_seed(77)
    resumed.load_state_dict(state)
    for batch in expected:
        found = next(iter(resumed))
        assert set(found.keys(True, True)) == set(batch.keys(True, True))
        assert (found == batch).all()
        assert (found["policy_version"] == 1).all()
    assert resumed.frames == whole.frames


def test_a_state_dict_is_not_changed_by_what_follows() -> None:
    collector: Collector[Any] = Collector(CartPole(batch_size=[3]), pusher(), frames_per_batch=60)
    next(iter(collector))
    state = collector.state_dict()
    first = next(iter(collector)).clone()
    next(iter(collector))
    collector.load_state_dict(state)
    assert (next(iter(collector)) == first).all()


def test_environments_with_a_simulator_begin_new_episodes() -> None:
    collector: Collector[Any] = Collector(CartPoleGym(), frames_per_batch=5)
    next(iter(collector))
    state = collector.state_dict()
    assert state["root"] is None
    resumed = Collector(CartPoleGym(), frames_per_batch=5)
    with pytest.warns(UserWarning, match="new episodes begin"):
        resumed.load_state_dict(state)
    assert next(iter(resumed))["observation"].abs().max(-1).values[0] < 0.06


@pytest.mark.parametrize("name", ENVS)
def test_episodes_go_on_over_batches(name: str) -> None:
    """The rows of small batches are those of one rollout."""
    env = ENVS[name]()
    count = env.batch_size.numel()
    env.set_seed(0)
    torch.manual_seed(0)
    policy = policy_for(name, "module")
    torch.manual_seed(0)
    whole = env.rollout(60, policy, break_when_any_done=False)
    env.set_seed(0)
    torch.manual_seed(0)
    collector: Collector[Any] = Collector(env, policy, frames_per_batch=count, total_frames=60 * count)
    found = torch.cat([batch.exclude("collector") for batch in collector], -1)
    assert (found == whole).all()


def test_generated_environments_are_rolled_out_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step of a generated environment makes a transition of its own."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a step by itself")

    monkeypatch.setattr(CartPole, "_write_next", refuse)
    for policy in (None, pusher()):
        collector: Collector[Any] = Collector(
            CartPole(batch_size=[8]), policy, frames_per_batch=800, total_frames=3200
        )
        assert sum(batch.numel() for batch in collector) == 3200


def test_numbers_of_trajectories() -> None:
    torch.manual_seed(0)
    collector: Collector[Any] = Collector(CartPole(batch_size=[2, 3]), frames_per_batch=60, total_frames=600)
    batches = list(collector)
    ids = torch.cat([batch["collector", "traj_ids"] for batch in batches], -1)
    done = torch.cat([batch["next", "done"].squeeze(-1) for batch in batches], -1)
    assert torch.equal(ids[..., 1:] != ids[..., :-1], done[..., :-1])
    assert sorted(ids.unique().tolist()) == list(range(len(ids.unique())))


def test_every_third_number() -> None:
    collector: Collector[Any] = Collector(
        CartPole(batch_size=[2]), frames_per_batch=200, total_frames=200, first_traj_id=1, traj_id_stride=3
    )
    assert ((next(iter(collector))["collector", "traj_ids"] - 1) % 3 == 0).all()


def test_reset_of_some_environments() -> None:
    collector: Collector[Any] = Collector(CartPole(batch_size=[3]), frames_per_batch=9)
    run = iter(collector)
    before = next(run)
    collector.reset(1)
    after = next(run)
    assert torch.equal(after["observation"][0, 0], before["next", "observation"][0, -1])
    assert not torch.equal(after["observation"][1, 0], before["next", "observation"][1, -1])
    assert after["collector", "traj_ids"][:, 0].tolist() == [0, 3, 2]
    collector.reset()
    assert next(run)["collector", "traj_ids"][:, 0].tolist() == [4, 5, 6]


def test_an_index_needs_a_batch() -> None:
    with pytest.raises(RuntimeError, match="needs a batch"):
        Collector(CartPole(), frames_per_batch=9).reset(0)


def test_weights() -> None:
    policy = pusher()
    collector: Collector[Any] = Collector(CartPole(), policy, frames_per_batch=9)
    other = pusher(4)
    for weights in (other, TensorDict.from_module(other), other.state_dict()):
        nn.init.zeros_(policy[0].module.weight)
        collector.update_policy_weights_(weights)
        assert torch.equal(policy[0].module.weight, other[0].module.weight)
    assert collector.version == 3
    with pytest.raises(KeyError, match="differ in their names"):
        collector.update_policy_weights_(nn.Linear(4, 2))
    wrong = TensorDict.from_module(other).data.clone()
    wrong["module", "0", "module", "weight"] = torch.zeros(3, 4)
    with pytest.raises(RuntimeError, match=r"shape \[3, 4\]"):
        collector.update_policy_weights_(wrong)
    with pytest.raises(TypeError, match=r"nn\.Module has weights"):
        Collector(CartPole(), frames_per_batch=9).update_policy_weights_(other)


def test_a_buffer_of_two_dimensions_gets_batches_as_they_are() -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(300, ndim=2))
    flat = ReplayBuffer(storage=LazyTensorStorage(300))
    for each in (buffer, flat):
        collector: Collector[Any] = Collector(
            CartPole(batch_size=[3]), frames_per_batch=30, total_frames=90, replay_buffer=each
        )
        assert list(collector) == [None, None, None]
        assert each.write_count in (30, 90)
    assert buffer.storage.shape == (30, 3) or buffer[:].batch_size == (30, 3)
    assert len(flat) == 90


@pytest.mark.parametrize(
    ("keywords", "error", "text"),
    [
        ({"frames_per_batch": 0}, ValueError, "frames_per_batch"),
        ({"policy": 3}, TypeError, "callable"),
        ({"policy": pusher(), "policy_factory": pusher}, TypeError, "exclude"),
        ({"create_env_kwargs": {"a": 1}}, TypeError, "not for an environment"),
        ({"create_env_fn": int}, TypeError, "found int"),
        ({"split_trajs": True, "track_traj_ids": False}, ValueError, "numbers of trajectories"),
        ({"env_device": "nowhere"}, ValueError, "nowhere"),
    ],
)
def test_refused(keywords: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Collector(**{"create_env_fn": CartPole(), "frames_per_batch": 9, **keywords})


def test_no_environments_are_refused() -> None:
    with pytest.raises(ValueError, match="batch size of 0"):
        Collector(CartPole(batch_size=[0]), None, frames_per_batch=5, total_frames=5)


def test_a_second_step_counter_is_refused() -> None:
    first = Collector(CartPole(), frames_per_batch=9, max_frames_per_traj=4)
    with pytest.raises(ValueError, match="step_count"):
        Collector(first.env, frames_per_batch=9, max_frames_per_traj=4)


@pytest.mark.parametrize("limit", [2.5, True, "4"])
def test_the_longest_trajectory_is_a_whole_number(limit: Any) -> None:
    with pytest.raises(TypeError, match=r"^max_frames_per_traj must be an integer, got "):
        Collector(CartPole(), frames_per_batch=9, max_frames_per_traj=limit)


def test_factories_and_keywords() -> None:
    collector: Collector[Any] = Collector(
        CartPole,
        policy_factory=pusher,
        frames_per_batch=10,
        create_env_kwargs={"batch_size": [5]},
        total_frames=20,
    )
    assert [batch.shape for batch in collector] == [(5, 2)] * 2
    assert collector.next() is None


def test_hooks_and_postproc() -> None:
    seen: list[Any] = []
    collector: Collector[Any] = Collector(
        CartPole(),
        frames_per_batch=4,
        pre_collect_hook=lambda: seen.append("before"),
        postproc=lambda data: data.select("action"),
        post_collect_hook=seen.append,
    )
    batch = next(iter(collector))
    assert seen == ["before", batch]
    assert list(batch.keys()) == ["action"]


def test_failures_close_it() -> None:
    def fails(tensordict: Any) -> Any:
        raise ArithmeticError("no action")

    env = CartPole()
    collector: Collector[Any] = Collector(env, fails, frames_per_batch=4)
    with pytest.raises(ArithmeticError):
        next(iter(collector))
    assert collector.closed
    assert env.is_closed
    with pytest.raises(RuntimeError, match="closed"):
        collector.rollout()


def test_environments_stay_open_at_the_end() -> None:
    env = CartPole()
    collector: Collector[Any] = Collector(env, frames_per_batch=4, total_frames=8)
    list(collector)
    assert not env.is_closed
    collector.shutdown()
    collector.shutdown()
    assert env.is_closed


def test_transforms_know_the_collector() -> None:
    env = TransformedEnv(CartPole(), RewardSum())
    collector: Collector[Any] = Collector(env, pusher(), frames_per_batch=4)
    assert env.transform.collector is collector
    assert env.transform.collector.policy is collector.policy


def test_stateful_policies_go_on() -> None:
    """What a policy writes for the next step reaches it in the next batch."""

    def counting(tensordict: Any) -> Any:
        count = tensordict.get("count", torch.zeros(()))
        tensordict["action"] = torch.zeros((), dtype=torch.int64)
        tensordict["count"] = count + 1
        return tensordict

    collector: Collector[Any] = Collector(CartPole(), counting, frames_per_batch=4, total_frames=12)
    counts = torch.cat([batch["count"] for batch in collector])
    assert counts.tolist() == list(range(1, 13))


def test_gymnasium_and_processes() -> None:
    collector: Collector[Any] = Collector(GymEnv("CartPole-v1"), frames_per_batch=30, total_frames=90)
    batches = list(collector)
    joined = torch.cat(batches)
    done = joined["next", "done"].squeeze(-1)
    going = ~done[:-1]
    assert torch.equal(joined["observation"][1:][going], joined["next", "observation"][:-1][going])
    parallel: Collector[Any] = Collector(
        ParallelEnv(2, CartPole), pusher(), frames_per_batch=30, total_frames=60
    )
    assert [batch.shape for batch in parallel] == [(2, 15)] * 2
    parallel.shutdown()


def test_module_policies_that_take_tensors() -> None:
    class Left(nn.Module):
        def forward(self, observation: torch.Tensor, *state: torch.Tensor) -> torch.Tensor:
            return torch.zeros(observation.shape[:-1], dtype=torch.int64)

    class Two(Left):
        def forward(self, observation: torch.Tensor, *state: torch.Tensor) -> Any:
            return super().forward(observation), observation.sum()

    class Other(nn.Module):
        def forward(self, observation: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
            return torch.zeros(observation.shape[:-1], dtype=torch.int64)

    batch = next(iter(Collector(CartPole(batch_size=[2]), Left(), frames_per_batch=8)))
    assert (batch["action"] == 0).all()
    with pytest.raises(TypeError, match="must return 'action', found Tensor, Tensor"):
        next(iter(Collector(CartPole(), Two(), frames_per_batch=8)))
    made: Collector[Any] = Collector(CartPole(), Other(), frames_per_batch=8)
    with pytest.raises(TypeError, match=r"Other\(observation.*is called with the observations 'observation'"):
        made.next()


def test_entries_of_the_policy_stay() -> None:
    noise = TensorDictModule(lambda observation: observation * 2, ["observation"], [("out", "_noise")])
    batch = next(iter(Collector(CartPole(), TensorDictSequential(pusher(), noise), frames_per_batch=8)))
    assert torch.equal(batch["out", "_noise"], batch["observation"] * 2)


def test_compiled_policies() -> None:
    policy = TensorDictModule(nn.Linear(4, 2), ["observation"], ["logits"])
    collector: Collector[Any] = Collector(
        CartPole(), policy, frames_per_batch=4, compile_policy={"backend": "eager"}
    )
    assert type(collector._call).__name__ == "OptimizedModule"
    assert collector.policy is policy


def test_batches_of_random_actions_have_the_keys_of_the_policy() -> None:
    """TorchRL's replay buffer loses the policy's entries where its first data were of random actions."""
    buffer = ReplayBuffer(storage=LazyTensorStorage(300))
    collector: Collector[Any] = Collector(
        CartPole(batch_size=[3]),
        pusher(),
        frames_per_batch=30,
        total_frames=90,
        init_random_frames=30,
        replay_buffer=buffer,
    )
    list(collector)
    logits = buffer[:]["logits"]
    assert (logits[:30] == 0).all()
    assert (logits[30:] != 0).all()
