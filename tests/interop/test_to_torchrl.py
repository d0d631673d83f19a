"""Our environments behind TorchRL's interface."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv
from specgen_runtime.envs.batched import SerialEnv
from specgen_runtime.interop import from_torchrl, to_torchrl
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.envs.cartpole import CartPole
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms import RewardSum, StepCounter
from tensordict import TensorDict

from tests.envs.counting import Counting, Grid, Scripted, Stateful
from tests.interop.envs import Growing, Restarting, Telling, Walk, assert_same, generated

pytestmark = pytest.mark.peers

theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
collectors = pytest.importorskip("torchrl.collectors", reason="the extra `peers`")
check_env_specs = pytest.importorskip("torchrl.envs.utils").check_env_specs

Make = Callable[[], EnvBase[Any]]


def chain(*batch: int) -> EnvBase[Any]:
    """A dynamic chain whose second sum overwrites the first one's reward: it has private carries."""
    return TransformedEnv(CartPole(batch_size=batch), Compose(StepCounter(max_steps=7), RewardSum()))


GENERATED: dict[str, Make] = {env.__name__: env for env in generated()}
BATCHED: dict[str, Make] = {
    f"{env.__name__} {list(batch)}": partial(env, batch_size=batch)
    for env in (CartPole, Pendulum, CartPoleTrain)
    for batch in ((1,), (4,), (2, 3))
}
BY_HAND: dict[str, Make] = {
    "counting": Counting,
    "counting batch": partial(Counting, batch_size=(4,)),
    "counting on a device": partial(Counting, batch_size=(4,), device="cpu"),
    "its own state": partial(Stateful, batch_size=(3,)),
    "agents": Grid,
    "agents batch": partial(Grid, batch_size=(2,)),
    "one-hot": Walk,
    "chain": chain,
    "chain batch": partial(chain, 3),
    "gym": partial(GymEnv, "Pendulum-v1"),
    "serial": lambda: SerialEnv(3, CartPole),
    "serial gym": lambda: SerialEnv(3, partial(GymEnv, "CartPole-v1")),
    "resets itself": lambda: Restarting(auto_reset=True, auto_reset_replace=False),
    "gym on a device": partial(GymEnv, "CartPole-v1", device="cpu"),
}
ENVS = GENERATED | BATCHED | BY_HAND


@pytest.fixture(autouse=True)
def _gym() -> None:
    pytest.importorskip("gymnasium")


each_env = pytest.mark.parametrize("name", ENVS)


@each_env
def test_check_env_specs(name: str) -> None:
    env = to_torchrl(ENVS[name]())
    assert isinstance(env, theirs.EnvBase)
    check_env_specs(env, seed=0)
    check_env_specs(env, break_when_any_done="both")


@each_env
def test_the_same_rollouts(name: str) -> None:
    mine, env = ENVS[name](), to_torchrl(ENVS[name]())
    for stops in (True, False):
        mine.set_seed(3)
        torch.manual_seed(1)
        expected = mine.rollout(25, break_when_any_done=stops)
        env.set_seed(3)
        torch.manual_seed(1)
        found = env.rollout(25, break_when_any_done=stops)
        assert found.names[-1] == "time"
        assert_same(found, expected)


@each_env
def test_specs_and_keys(name: str) -> None:
    mine = ENVS[name]()
    env = to_torchrl(mine)
    assert env.wrapped is mine
    assert env.batch_size == mine.batch_size
    assert env.device == mine.device
    assert env.batch_locked == mine.batch_locked
    for group in ("action", "observation", "reward", "done", "state"):
        full = getattr(env, f"full_{group}_spec")
        assert full.shape == mine.batch_size
        assert set(full.keys(True, True)) == set(getattr(mine, f"full_{group}_spec").keys(True, True))
        assert set(getattr(env, f"{group}_keys")) == set(getattr(mine, f"{group}_keys"))
    assert set(env.fake_tensordict().keys(True, True)) == set(mine.fake_tensordict().keys(True, True))


def test_done_flags_that_follow_are_in_the_spec() -> None:
    env = to_torchrl(Scripted(flags=("terminated",)))
    assert set(env.full_done_spec.keys()) == {"done", "terminated"}


@pytest.mark.parametrize("name", ["CartPole [4]", "its own state", "agents batch", "chain batch"])
def test_partial_resets_keep_the_other_rows(name: str) -> None:
    env = to_torchrl(ENVS[name]())
    env.set_seed(0)
    data = env.rollout(3)[..., -1]["next"].exclude("reward", ("agents", "reward"))
    for key in env.done_keys:
        data.set(key, torch.zeros_like(data.get(key)))
    before = data.clone()
    mask = torch.zeros(*env.batch_size, 1, dtype=torch.bool)
    mask[1] = True
    after = env.reset(data.set("_reset", mask.clone()))
    kept = ~mask.squeeze(-1)
    changed = False
    for key in after.keys(True, True):
        assert torch.equal(after.get(key)[kept], before.get(key)[kept]), key
        changed |= not torch.equal(after.get(key)[~kept], before.get(key)[~kept])
    assert changed
    assert "_reset" not in after.keys()  # noqa: SIM118


def test_a_mask_alone_is_enough() -> None:
    """As TorchRL's collectors do it: they pass no other entries."""
    env = to_torchrl(CartPole(batch_size=(2,)))
    mask = torch.tensor([[True], [False]])
    fresh = env.reset(TensorDict({"_reset": mask}, batch_size=(2,)))
    assert fresh["observation"].shape == (2, 4)
    assert fresh["observation"][0].any()


def test_rollouts_until_all_are_done() -> None:
    env = to_torchrl(CartPole(batch_size=(4,)))
    env.set_seed(0)
    torch.manual_seed(0)
    data = env.rollout(500, break_when_any_done=False, break_when_all_done=True)
    done = data["next", "done"].squeeze(-1)
    assert done[:, -1].all()
    ends = done.int().argmax(1)
    assert len(set(ends.tolist())) > 1
    for row, end in enumerate(ends.tolist()):
        last = data["next", "observation"][row, end]
        assert (data["next", "observation"][row, end:] == last).all()


def test_only_some_rows_step() -> None:
    env = to_torchrl(Counting(batch_size=(3,)))
    root = env.rand_action(env.reset())
    stepping = torch.tensor([True, False, True])
    found = env.step(root.set("_step", stepping))["next"]
    assert found["count"].flatten().tolist() == [1, 0, 1]
    assert (found["reward"][1] == 0).all()


def test_values_in_next_prevail() -> None:
    env = to_torchrl(Counting())
    root = env.rand_action(env.reset())
    root["next"] = TensorDict({"reward": torch.tensor([7.0])})
    assert env.step(root)["next", "reward"].item() == 7.0


def test_transforms_of_torchrl() -> None:
    env = theirs.TransformedEnv(
        to_torchrl(CartPole(batch_size=(3,))),
        theirs.Compose(theirs.StepCounter(max_steps=5), theirs.RewardSum(), theirs.InitTracker()),
    )
    check_env_specs(env, seed=0)
    data = env.rollout(12, break_when_any_done=False)
    assert data["next", "step_count"].max() == 5
    assert torch.equal(data["next", "truncated"], data["next", "step_count"] == 5)


def test_transforms_of_torchrl_are_ours() -> None:
    """The same chain before and after conversion."""
    ours = TransformedEnv(Pendulum(batch_size=(3,)), Compose(StepCounter(max_steps=5), RewardSum()))
    theirs_ = theirs.TransformedEnv(
        to_torchrl(Pendulum(batch_size=(3,))),
        theirs.Compose(theirs.StepCounter(max_steps=5), theirs.RewardSum()),
    )
    found = []
    for env in (ours, theirs_):
        env.set_seed(0)
        torch.manual_seed(0)
        found.append(env.rollout(12, break_when_any_done=False))
    assert_same(*found)


def test_random_actions_keep_to_masks() -> None:
    env = to_torchrl(Walk(4, masked=True))
    assert env.rand_action()["action"].shape == (4, 3)
    check_env_specs(env)


@pytest.mark.parametrize("make", [Pendulum, lambda: TransformedEnv(Pendulum(), StepCounter(max_steps=9))])
def test_transforms_that_change_actions(make: Any) -> None:
    env = theirs.TransformedEnv(to_torchrl(make()), theirs.ActionDiscretizer(num_intervals=5))
    check_env_specs(env)
    drawn = torch.stack([env.rand_action()["action"] for _ in range(40)])
    assert drawn.dtype is torch.int64
    assert set(drawn.flatten().tolist()) == set(range(5))


def test_actions_drawn_by_hand() -> None:
    class Careful(Pendulum):
        def rand_action(self, tensordict: Any = None) -> Any:
            result = super().rand_action(tensordict)
            return result.set("action", result["action"].clamp(-0.1, 0.1))

    env = theirs.TransformedEnv(to_torchrl(Careful(batch_size=(50,))), theirs.StepCounter())
    assert env.rollout(3)["action"].abs().max() <= 0.1


def test_rendering_for_recorders() -> None:
    record = pytest.importorskip("torchrl.record")
    inside = GymEnv("CartPole-v1", render_mode="rgb_array")
    env = theirs.TransformedEnv(to_torchrl(inside), record.PixelRenderTransform())
    assert env.rollout(2)["pixels"].shape == (2, 400, 600, 3)
    assert not hasattr(to_torchrl(Counting()), "render")
    drawn = to_torchrl(CartPole())
    drawn.reset()
    assert drawn.render().shape[-1] == 3


@pytest.mark.parametrize(
    "again", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy], ids=["pickle", "copy"]
)
@pytest.mark.parametrize("name", ["CartPole [4]", "chain", "gym", "agents"])
def test_copies(name: str, again: Callable[[Any], Any]) -> None:
    env = to_torchrl(ENVS[name]())
    twin = again(env)
    check_env_specs(twin)
    found = []
    for each in (env, twin):
        each.set_seed(0)
        torch.manual_seed(0)
        found.append(each.rollout(5))
    assert_same(*found)


def test_devices() -> None:
    env = to_torchrl(CartPole(batch_size=(2,)))
    assert env.device is None
    assert env.to("cpu") is env
    assert env.device == env.wrapped.device == torch.device("cpu")
    assert env.full_action_spec.device == torch.device("cpu")
    assert env.rollout(3).device == torch.device("cpu")
    check_env_specs(env)


@pytest.mark.gpu
def test_cuda() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    env = to_torchrl(CartPole(batch_size=(4,), device="cuda"))
    check_env_specs(env)
    assert env.rollout(5)["next", "observation"].is_cuda
    moved = to_torchrl(Pendulum(batch_size=(4,))).to("cuda")
    check_env_specs(moved)


def test_closing() -> None:
    env = to_torchrl(Counting())
    assert not env.is_closed
    env.close()
    assert env.is_closed
    assert env.wrapped.is_closed
    with pytest.raises(RuntimeError, match="closed"):
        env.reset()
    env.close()
    env.close(raise_if_closed=False)


def test_what_is_collected_is_not_closed() -> None:
    mine = Counting()
    env = to_torchrl(mine)
    env.reset()
    del env
    gc.collect()
    assert not mine.is_closed


def test_state_dicts() -> None:
    mine = chain()
    env = to_torchrl(mine)
    assert env.state_dict().keys() == mine.state_dict().keys()
    env.load_state_dict(mine.state_dict())


def test_batch_locked_belongs_to_the_instance() -> None:
    class Free(Counting):
        def __init__(self) -> None:
            super().__init__()
            self._batch_locked = False

    free, locked = to_torchrl(Free()), to_torchrl(Counting())
    assert not free.batch_locked
    assert locked.batch_locked


def test_there_and_back_is_the_same_object() -> None:
    mine = Counting()
    assert from_torchrl(to_torchrl(mine)) is mine


def test_wrong_data_are_refused_at_the_boundary() -> None:
    env = to_torchrl(Scripted(next={"observation": torch.zeros(3)}))
    with pytest.raises(RuntimeError, match=r"'observation' must be torch.float32 \[2\]"):
        env.rollout(2)
    env = to_torchrl(CartPole())
    with pytest.raises(RuntimeError, match="'action' must be"):
        env.step(env.reset().set("action", torch.full((), 0.5)))


def test_what_torchrl_never_resets_is_told() -> None:
    with pytest.warns(UserWarning, match="TorchRL does not reset 'time'"):
        to_torchrl(Grid(root_done=False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_torchrl(Grid())


@pytest.mark.parametrize("given", [3, None, CartPole], ids=str)
def test_what_is_no_environment_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="to_torchrl needs an EnvBase"):
        to_torchrl(given)


def test_data_that_are_not_tensors() -> None:
    env = to_torchrl(Telling())
    data = env.rollout(3)
    assert [step["next", "text"] for step in data.unbind(0)] == ["step 0", "step 1", "step 2"]


def test_sizes_that_vary() -> None:
    env = to_torchrl(Growing())
    check_env_specs(env)
    data = env.rollout(3, return_contiguous=False)
    assert [step["next", "observation"].shape[0] for step in data.unbind(0)] == [2, 3, 4]
