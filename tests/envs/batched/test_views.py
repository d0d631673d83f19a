"""Some environments of a batch, taken by index."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import GymEnv, SerialEnv
from specgen_runtime.testing import check_partial_resets, check_random_actions, check_rollout_is_stepping
from specgen_std.chains.cartpole import CartPoleTrain
from torchrl.envs import SerialEnv as TheirSerialEnv
from torchrl.envs.libs.gym import GymEnv as TheirGymEnv

from tests.envs.batched.faulty import Faulty

MAKERS = {
    "native": CartPoleTrain,
    "batches": partial(CartPoleTrain, batch_size=[2]),
    "gymnasium": partial(GymEnv, "CartPole-v1"),
}


@pytest.fixture(params=list(MAKERS.values()), ids=list(MAKERS))
def of_three(request: pytest.FixtureRequest, batch: Any) -> Any:
    env = batch(3, request.param)
    env.set_seed(0)
    return env


def test_it_is_these_environments(of_three: Any) -> None:
    whole = of_three.reset()
    of_three.set_seed(0)
    view = of_three[[2, 0]]
    assert view.batch_size == (2, *of_three.batch_size[1:])
    root = view.reset()
    assert (root["observation"] == whole["observation"][[2, 0]]).all()
    assert (
        of_three[1].reset()["observation"][0] == whole["observation"][1]
    ).all()  # which nobody reset before

    action = of_three.rand_action(whole)["action"]
    stepped = view.step(root.set("action", action[[2, 0]]))
    of_three.set_seed(0)
    again = of_three.step(of_three.reset().set("action", action))
    assert (stepped["next"] == again["next"][[2, 0]]).all()
    view.close()
    assert of_three.rollout(3).ndim == of_three.ndim + 1


def test_the_others_stay_where_they_are(batch: Any) -> None:
    env = batch(3, partial(GymEnv, "CartPole-v1"))
    root = env.rand_action(env.reset())
    env[:2].rollout(5)
    assert env.unwrapped.state[2] == pytest.approx(root["observation"][2].tolist())


def test_it_keeps_the_contract(batch: Any) -> None:
    def view() -> Any:
        return batch(4, CartPoleTrain)[1:]

    check_rollout_is_stepping(view)
    check_partial_resets(view())
    check_random_actions(view())


def test_it_begins_anew_with_its_batch(of_three: Any) -> None:
    view = of_three[1:][-1]
    assert view.rollout(2).shape[0] == 1
    of_three.close()
    assert view.rollout(2).shape[0] == 1
    assert not of_three.is_closed
    other = copy.deepcopy(view)
    assert other.rollout(2).shape[0] == 1
    other._whole.close()
    with pytest.raises(RuntimeError, match="call its update_kwargs"):
        view.update_kwargs({})


def test_parameters_are_those_of_the_batch() -> None:
    view = SerialEnv(3, CartPoleTrain)[1:][0]
    with pytest.raises(AttributeError, match=r"make them with others, SerialEnv\(..., create_env_kwargs="):
        view.params = view.params[0]


def test_an_error_names_the_environment_of_the_batch(batch: Any) -> None:
    view = batch(3, partial(Faulty, 1))[1:]
    with pytest.raises(ZeroDivisionError) as caught:
        view.step(view.rand_action(view.reset()))
    assert any("environment 1 of 3" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("item", "error"),
    [(5, IndexError), (-4, IndexError), (slice(3, None), IndexError), ([], IndexError)]
    + [(one, TypeError) for one in ("a", 1.5, None, True, [True, False, True], [[0, 1]], (0.0, 1.0))]
    + [([0, -3], ValueError)],
)
def test_what_is_no_index(item: Any, error: type[Exception]) -> None:
    env = SerialEnv(3, CartPoleTrain)
    with pytest.raises(error, match=r"environment|none of 3"):
        env[item]


@pytest.mark.parametrize("item", [1, -1, slice(1, None), slice(None, None, 2), [2, 0], torch.tensor([0, -1])])
def test_torchrl_takes_the_same(item: Any) -> None:
    ours = SerialEnv(3, partial(GymEnv, "CartPole-v1"))[item]
    theirs = TheirSerialEnv(3, partial(TheirGymEnv, "CartPole-v1"))[item]
    assert ours.batch_size == theirs.batch_size
    assert ours.observation_spec["observation"].shape == theirs.observation_spec["observation"].shape
