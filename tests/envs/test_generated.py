"""`GeneratedEnv`: hand-written examples, and the lifted rollout against stepping one by one."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, EnvSpecs, GeneratedEnv, check_env_specs
from specgen_runtime.envs.generated.lifting import counts_before, sums_before
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn

from tests.envs.native_pendulum import Pendulum, PendulumRoot

BATCHES = [(), (1,), (3,), (7,), (4, 3)]


def same(a: TensorDictBase, b: TensorDictBase) -> None:
    assert a.batch_size == b.batch_size
    assert a.names == b.names
    assert set(a.keys(True, True)) == set(b.keys(True, True))
    for key in a.keys(True, True):
        assert a[key].dtype is b[key].dtype, key
        assert torch.equal(a[key], b[key]), key


def by_hand(env: EnvBase[Any], steps: int, policy: Any = None, stop: bool = True) -> TensorDictBase:
    """What `rollout` promises, written with `reset`, `rand_action`, `step` and `step_and_maybe_reset`."""
    td = env.reset()
    records = []
    for t in range(steps):
        td = env.rand_action(td) if policy is None else policy(td)
        if stop or t == steps - 1:
            record = env.step(td)
            td = env.step_mdp(record)
        else:
            record, td = env.step_and_maybe_reset(td)
        records.append(record)
        if stop and record["next", "done"].any():
            break
    data = torch.stack(records, len(env.batch_size))
    data.names = [*[None] * len(env.batch_size), "time"]
    return data


def twice(make: Any, run: Any, other: Any) -> None:
    """Two runs from the same seeds give the same data and leave the same generators."""
    states = []
    for call in (run, other):
        torch.manual_seed(11)
        env = make()
        env.set_seed(5)
        data = call(env)
        states.append((data, torch.get_rng_state(), env._generator.get_state(), env))
    (a, rng_a, own_a, _), (b, rng_b, own_b, _) = states
    same(a, b)
    assert torch.equal(rng_a, rng_b)
    assert torch.equal(own_a, own_b)


@pytest.mark.parametrize("batch_size", BATCHES)
def test_specs_and_data_agree(batch_size: tuple[int, ...]) -> None:
    env = Pendulum(batch_size=batch_size, max_steps=3)
    check_env_specs(env, seed=0)
    assert env.rollout(2).device is None
    assert set(env.fake_tensordict().keys(True, True)) == set(env.rollout(2).keys(True, True))


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("max_steps", [4, 100])
@pytest.mark.parametrize("batch_size", BATCHES)
def test_rollout_is_stepping(batch_size: tuple[int, ...], max_steps: int, stop: bool) -> None:
    twice(
        lambda: Pendulum(batch_size=batch_size, max_steps=max_steps),
        lambda env: env.rollout(11, break_when_any_done=stop),
        lambda env: by_hand(env, 11, stop=stop),
    )


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("batch_size", BATCHES)
def test_rollout_with_a_policy_is_stepping(batch_size: tuple[int, ...], stop: bool) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 1), nn.Tanh())
    policy = TensorDictModule(net, in_keys=["observation"], out_keys=["action"])
    twice(
        lambda: Pendulum(batch_size=batch_size, max_steps=4),
        lambda env: env.rollout(9, policy, break_when_any_done=stop),
        lambda env: by_hand(env, 9, policy, stop=stop),
    )


@pytest.mark.parametrize("stop", [True, False])
def test_rollout_is_the_general_one(stop: bool) -> None:
    twice(
        lambda: Pendulum(batch_size=(3,), max_steps=4),
        lambda env: env.rollout(9, break_when_any_done=stop),
        lambda env: EnvBase.rollout(env, 9, break_when_any_done=stop),
    )


def rows_out_of_step(env: Pendulum) -> TensorDictBase:
    start = env.reset()
    start["step_count"] = torch.arange(len(start))[:, None]
    return start


@pytest.mark.parametrize("policy", [None, lambda td: td.set("action", torch.full((*td.batch_size, 1), 0.5))])
def test_partial_resets_inside_rollouts(policy: Any) -> None:
    def stepping(env: Pendulum) -> TensorDictBase:
        td, records = rows_out_of_step(env), []
        for t in range(10):
            td = env.rand_action(td) if policy is None else policy(td)
            record, td = (env.step(td), None) if t == 9 else env.step_and_maybe_reset(td)
            records.append(record)
        data = torch.stack(records, 1)
        data.names = [None, "time"]
        return data

    def rolling(env: Pendulum) -> TensorDictBase:
        return env.rollout(
            10, policy, auto_reset=False, tensordict=rows_out_of_step(env), break_when_any_done=False
        )

    def generic(env: Pendulum) -> TensorDictBase:
        return EnvBase.rollout(
            env, 10, policy, auto_reset=False, tensordict=rows_out_of_step(env), break_when_any_done=False
        )

    twice(lambda: Pendulum(batch_size=(4,), max_steps=4), rolling, stepping)
    twice(lambda: Pendulum(batch_size=(4,), max_steps=4), rolling, generic)
    data = rolling(Pendulum(batch_size=(4,), max_steps=4))
    ends = data["next", "done"].squeeze(-1)
    assert ends.any(1).all()
    assert not ends.all(0).any()
    kept = ~ends[:, :-1]
    assert torch.equal(data["th"][:, 1:][kept], data["next", "th"][:, :-1][kept])
    assert (data["step_count"][:, 1:][~kept] == 0).all()


def test_step_and_maybe_reset_is_its_parts() -> None:
    torch.manual_seed(0)
    fast, slow = Pendulum(batch_size=(3,), max_steps=2), Pendulum(batch_size=(3,), max_steps=2)
    fast.set_seed(1)
    slow.set_seed(1)
    a, b = fast.reset(), slow.reset()
    for _ in range(7):
        action = fast.rand_action()["action"]
        a["action"], b["action"] = action, action.clone()
        a["mine"], b["mine"] = action, action
        done_a, a = fast.step_and_maybe_reset(a)
        done_b, b = EnvBase.step_and_maybe_reset(slow, b)
        same(done_a, done_b)
        same(a, b)


def test_users_own_values_stay_in_the_first_row() -> None:
    env = Pendulum(batch_size=(2,))
    start = env.reset()
    start["observation"] = torch.full((2, 3), 0.25)
    for data in (
        env.rollout(3, auto_reset=False, tensordict=start),
        env.rollout(3, lambda td: td.set("action", torch.zeros(2, 1)), auto_reset=False, tensordict=start),
    ):
        assert (data["observation"][:, 0] == 0.25).all()
        assert not (data["observation"][:, 1] == 0.25).any()
    assert "action" not in start.keys(True)


def test_further_entries_are_carried_along() -> None:
    env = Pendulum(batch_size=(2,))
    for policy in (None, lambda td: td.set("action", torch.zeros(2, 1))):
        start = env.reset().set("mine", torch.arange(2))
        data = env.rollout(3, policy, auto_reset=False, tensordict=start)
        assert data["mine"].tolist() == [[0, 0, 0], [1, 1, 1]]


def test_policies_that_change_what_they_read() -> None:
    def policy(td: TensorDict) -> TensorDict:
        td["thdot"] = td["thdot"] * 0
        td["action"] = torch.zeros(*td.batch_size, 1)
        return td

    twice(
        lambda: Pendulum(batch_size=(2,)),
        lambda env: env.rollout(5, policy),
        lambda env: EnvBase.rollout(env, 5, policy),
    )
    assert (Pendulum().rollout(5, policy)["thdot"] == 0).all()


def test_policies_that_write_into_next() -> None:
    def policy(td: TensorDict) -> TensorDict:
        count = td.get("hidden", torch.zeros(*td.batch_size, 1))
        td["hidden"] = count
        td["next", "hidden"] = count + 1
        td["action"] = torch.zeros(*td.batch_size, 1)
        return td

    data = Pendulum(batch_size=(2,)).rollout(4, policy)
    assert data["hidden"][0].flatten().tolist() == [0, 1, 2, 3]


def test_values_in_next_prevail() -> None:
    env = Pendulum()
    td = env.rand_action(env.reset())
    td["next"] = TensorDict({"reward": torch.tensor([5.0])})
    assert env.step(td)["next", "reward"].item() == 5.0
    assert "th" in td["next"].keys(True)


def test_errors_of_the_fast_path() -> None:
    env = Pendulum(batch_size=(3,))
    with pytest.raises(KeyError, match="no 'action'"):
        env.step(env.reset())
    with pytest.raises(RuntimeError, match=r"'action' must be torch.float32 \[3, 1\]"):
        env.step(env.reset().set("action", torch.zeros(3)))
    with pytest.raises(KeyError, match="no 'th'"):
        env.step(env.rand_action(env.reset()).exclude("th"))
    with pytest.raises(RuntimeError, match="batch size"):
        env.step(TensorDict({"action": torch.zeros(2, 1)}, batch_size=(2,)))
    with pytest.raises(TypeError, match="found dict"):
        env.step({})
    with pytest.raises(TypeError, match="keyword"):
        env.reset(options=3)
    with pytest.raises(ValueError, match="at least 1"):
        env.rollout(0)
    with pytest.raises(ValueError, match="step 0 is not in its spec"):
        env.rollout(2, lambda td: td.set("action", torch.full((3, 1), 9.0)))
    with pytest.raises(KeyError, match="no 'action'"):
        env.rollout(2, lambda td: td)
    env.close()
    for call in (env.reset, lambda: env.rollout(2), lambda: env.rand_step(TensorDict(batch_size=(3,)))):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_nothing_handed_out_is_shared_between_steps() -> None:
    env = Pendulum(batch_size=(3,))
    data = env.rollout(4)
    copied = data.clone()
    data["th"].zero_()
    data["done"].fill_(True)
    assert torch.equal(data["next", "th"], copied["next", "th"])
    assert torch.equal(data["next", "done"], copied["next", "done"])
    for key in data.keys(True, True):
        assert data[key].is_contiguous(), key


def test_seeds() -> None:
    env, twin = Pendulum(batch_size=(3,)), Pendulum(batch_size=(3,))
    assert env.set_seed(3) == 3
    twin.set_seed(3)
    same(env.reset(), twin.reset())
    same(env.reset(), twin.reset())
    assert not torch.equal(env.reset()["th"], Pendulum(batch_size=(3,)).reset()["th"])
    torch.manual_seed(0)
    first = Pendulum().reset()
    torch.manual_seed(0)
    same(first, Pendulum().reset())


def test_set_truncated() -> None:
    data = Pendulum(batch_size=(2,)).rollout(3, set_truncated=True)
    assert data["next", "truncated"][..., 0].tolist() == [[False, False, True]] * 2


def test_copies_and_pickles() -> None:
    env = Pendulum(batch_size=(2,))
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        torch.manual_seed(0)
        a = twin.rollout(3)
        torch.manual_seed(0)
        if twin is not env:
            same(a, copy.deepcopy(env).rollout(3))


def test_to_rebuilds_the_specs() -> None:
    env = Pendulum(batch_size=(2,))
    assert env.to("cpu") is env
    assert env.device == torch.device("cpu")
    assert env.reset().device == torch.device("cpu")
    assert env.full_action_spec.device == torch.device("cpu")


def test_declarations_that_cannot_work_are_refused() -> None:
    class Broken(Pendulum):
        def _specs(self) -> EnvSpecs:
            good = super()._specs()
            return EnvSpecs(good.action, good.observation, good.reward, self.done, self.extra)

    Broken.done, Broken.extra = Composite(agents=Composite(done=Categorical(2, (1,), dtype=torch.bool))), None
    with pytest.raises(ValueError, match="'done' at the root"):
        Broken()
    Broken.done = Composite(done=Categorical(2, (1,), dtype=torch.bool))
    Broken.extra = Composite(hidden=Unbounded((1,)))
    with pytest.raises(ValueError, match=r"\['hidden'\] are not in the observation spec"):
        Broken()


class Team(GeneratedEnv):
    """Two agents; nested keys, an int state, and draws inside the dynamics."""

    def __init__(self, *, batch_size: tuple[int, ...] = (), limit: int = 3) -> None:
        super().__init__(batch_size=batch_size)
        self.limit = limit
        self._build()

    def _specs(self) -> EnvSpecs:
        flag = Categorical(2, (1,), dtype=torch.bool)
        agents = Categorical(2, (2, 1), dtype=torch.bool)
        return EnvSpecs(
            action=Composite({("agents", "action"): Categorical(5, (2,))}),
            observation=Composite(
                {("agents", "position"): Bounded(0.0, 1e6, (2, 3)), "time": Unbounded((), dtype=torch.int64)}
            ),
            reward=Composite({("agents", "reward"): Unbounded((2, 1))}),
            done=Composite(
                {"done": flag, "terminated": flag.clone(), ("agents", "done"): agents}
                | {("agents", "terminated"): agents.clone()}
            ),
            state=Composite(
                {("agents", "position"): Bounded(0.0, 1e6, (2, 3)), "time": Unbounded((), dtype=torch.int64)}
            ),
        )

    def _read(self, tensordict: Any) -> Any:
        return self.Root(
            tensordict.get("time"), tensordict.get(("agents", "position")), tensordict.get("done")
        )

    from typing import NamedTuple as _Record

    class Root(_Record):
        time: torch.Tensor
        position: torch.Tensor
        done: torch.Tensor

    def _fresh(self) -> Any:
        time = self._randint(0, 2)
        done = torch.zeros((*self._batch_size, 1), dtype=torch.bool)
        return self.Root(time, self._uniform((2, 3)), done)

    def _advance(self, root: Any, actions: tuple[torch.Tensor, ...]) -> Any:
        time = root.time + 1
        position = root.position + actions[0][..., None] + self._uniform((2, 3))
        return self.Root(time, position, (time >= self.limit).unsqueeze(-1))

    def _flags(self, record: Any) -> dict[str, Any]:
        agents = record.done.unsqueeze(-2).expand(*record.done.shape[:-1], 2, 1).clone()
        return {
            "done": record.done,
            "terminated": record.done.clone(),
            "agents": {"done": agents, "terminated": agents.clone()},
        }

    def _root_entries(self, root: Any) -> dict[str, Any]:
        entries = {"time": root.time, **self._flags(root)}
        entries["agents"]["position"] = root.position
        return entries

    def _next_entries(self, root: Any, actions: tuple[torch.Tensor, ...], next_: Any) -> dict[str, Any]:
        entries = self._root_entries(next_)
        entries["agents"]["reward"] = (next_.position - root.position).sum(-1, keepdim=True)
        return entries


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("batch_size", [(), (1,), (2,), (3,), (4, 3)])
def test_nested_keys(batch_size: tuple[int, ...], stop: bool) -> None:
    check_env_specs(Team(batch_size=batch_size), seed=0)

    def make() -> Team:
        return Team(batch_size=batch_size)

    def policy(td: TensorDict) -> TensorDict:
        td["agents", "action"] = torch.ones(*td.batch_size, 2, dtype=torch.int64)
        td["agents", "value"] = td["agents", "position"].sum(-1)
        return td

    for act in (None, policy):
        twice(
            make,
            lambda env, act=act: env.rollout(8, act, break_when_any_done=stop),
            lambda env, act=act: by_hand(env, 8, act, stop=stop),
        )
        twice(
            make,
            lambda env, act=act: env.rollout(8, act, break_when_any_done=stop),
            lambda env, act=act: EnvBase.rollout(env, 8, act, break_when_any_done=stop),
        )


class TwoActions(Pendulum):
    """A second action, that does nothing."""

    def _specs(self) -> EnvSpecs:
        specs = super()._specs()
        action = Composite(action=Bounded(-2.0, 2.0, (1,)), extra=Categorical(3))
        return EnvSpecs(action, specs.observation, specs.reward, specs.done, specs.state)


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("batch_size", [(), (3,), (4, 3)])
def test_several_actions(batch_size: tuple[int, ...], stop: bool) -> None:
    check_env_specs(TwoActions(batch_size=batch_size), seed=0)
    twice(
        lambda: TwoActions(batch_size=batch_size, max_steps=4),
        lambda env: env.rollout(9, break_when_any_done=stop),
        lambda env: by_hand(env, 9, stop=stop),
    )


def test_next_and_root_do_not_share_containers() -> None:
    env = Team(batch_size=(2,))
    record, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
    before = record.clone()
    root["agents", "position"] = torch.zeros(2, 2, 3)
    env.rand_action(root)
    same(record, before)
    assert ("agents", "reward") not in root.keys(True)


def test_records_carry_by_name() -> None:
    from typing import NamedTuple

    from specgen_runtime.envs.generated.records import carried

    class Root(NamedTuple):
        a: int
        b: int

    class Next(NamedTuple):
        b: int
        reward: int
        a: int

    assert carried(Root(0, 0), Next(b=1, reward=2, a=3)) == Root(a=3, b=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_sums_are_those_of_stepping(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    terms = (torch.randn(500, 3) * 100).to(dtype)
    firsts = (torch.randn(3, 3) * 100).to(dtype)
    lengths = [200, 1, 299]
    expected, at = [], 0
    for total, length in zip(firsts, lengths, strict=True):
        for term in terms[at : at + length]:
            expected.append(total)
            total = total + term
        at += length
    kept = terms.clone()
    assert torch.equal(sums_before(firsts, terms, lengths), torch.stack(expected))
    assert torch.equal(terms, kept)


def test_counts_are_those_of_stepping() -> None:
    assert counts_before(torch.tensor([[5], [0]]), [3, 2]).tolist() == [[5], [6], [7], [0], [1]]
    assert counts_before(torch.tensor([[[5], [1]]]), [2], by=2).tolist() == [[[5], [1]], [[7], [3]]]


def test_root_record_reads_all_state() -> None:
    env = Pendulum(batch_size=(3,))
    td = env.reset()
    assert all(
        torch.equal(td[name], value) for name, value in zip(PendulumRoot._fields, env._read(td), strict=True)
    )
