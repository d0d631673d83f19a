"""The value estimators, option by option, give TorchRL's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import value as ours
from tensordict import TensorDict

from tests.objectives.nets import critic, policy, steps

peer = pytest.importorskip("torchrl.objectives.value")
pytestmark = pytest.mark.peers

NAMES = ["TD0Estimator", "TD1Estimator", "TDLambdaEstimator", "GAE", "VTrace"]
WITH_TIME = NAMES[1:]
DTYPES = {torch.float32: 2e-5, torch.float64: 1e-10}
Estimator = Callable[..., TensorDict]


def pair(name: str, dtype: torch.dtype = torch.float32, **options: Any) -> tuple[Estimator, Estimator]:
    """Our estimator and TorchRL's, with the same networks."""
    network = critic().to(dtype)
    made = []
    for library in (ours, peer):
        hyperparams: dict[str, Any] = {"gamma": torch.tensor(0.97, dtype=dtype), "value_network": network}
        if name in ("TDLambdaEstimator", "GAE", "MultiAgentGAE"):
            hyperparams["lmbda"] = torch.tensor(0.9, dtype=dtype)
        if name == "VTrace":
            hyperparams["actor_network"] = policy(dtype)
        made.append(getattr(library, name)(**{**hyperparams, **options}))
    return made[0], made[1]


def agree(mine: Estimator, theirs: Estimator, data: TensorDict, atol: float = 2e-5, **call: Any) -> None:
    """Both write the same."""
    one, other = mine(data.clone(), **call), theirs(data.clone(), **call)
    assert set(one.keys(True, True)) == set(other.keys(True, True))
    for key in ("advantage", "value_target", "state_value", ("next", "state_value")):
        torch.testing.assert_close(one[key], other[key], rtol=0, atol=atol)


@pytest.mark.parametrize("batch", [(12,), (3, 12), (2, 3, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_equals_torchrl(name: str, dtype: torch.dtype, batch: tuple[int, ...]) -> None:
    agree(*pair(name, dtype), steps(*batch, dtype=dtype), DTYPES[dtype])


@pytest.mark.parametrize("name", WITH_TIME)
def test_time_by_name_by_option_and_by_call(name: str) -> None:
    agree(*pair(name), steps(12, 3, time=0))
    agree(*pair(name, time_dim=0), steps(12, 3, time=None))
    agree(*pair(name, time_dim=-2), steps(2, 12, 3, time=None))
    if name in ("GAE", "VTrace"):
        agree(*pair(name), steps(12, 3, time=None), time_dim=0)


@pytest.mark.parametrize(
    "options",
    [
        {"deactivate_vmap": True},
        {"value_chunk_size": 2},
        {"value_chunk_size": 5, "value_chunk_dim": 1},
        {"num_chunks": 3},
        {"num_chunk": 2, "value_chunk_dim": -1},
        {"differentiable": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", NAMES)
def test_ways_to_call_the_network(name: str, options: dict[str, Any]) -> None:
    if name == "VTrace" and "deactivate_vmap" in options:
        options = {"differentiable": True}  # TorchRL's has no such option
    agree(*pair(name, **options), steps(4, 12))


@pytest.mark.parametrize("skip", [True, False, None])
@pytest.mark.parametrize("name", NAMES)
def test_values_that_the_data_hold(name: str, skip: bool | None) -> None:
    data = steps(4, 12)
    data["state_value"] = torch.ones(4, 12, 1)
    data["next", "state_value"] = 2 * torch.ones(4, 12, 1)
    agree(*pair(name, skip_existing=skip), data)
    agree(*pair(name, value_network=None), data)


@pytest.mark.parametrize("budget", [1, 2, 3])
@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_shifted(name: str, contiguous: bool, budget: int) -> None:
    mine, theirs = pair(name, shifted=True, shifted_budget=budget)
    data = steps(5, 12, contiguous=contiguous)
    one, other = mine(data.clone()), theirs(data.clone())
    valid = one["shifted_valid"]
    assert valid.all() == (budget == 3)
    torch.testing.assert_close(valid, other["shifted_valid"])
    # TorchRL bootstraps behind a terminal state if it is the last one that has a place.
    last = valid & ~torch.cat([valid[:, 1:], torch.ones(5, 1, dtype=torch.bool)], 1)
    rows = ~(last & data["next", "terminated"].squeeze(-1)).any(-1)
    assert rows.sum() > 2
    for key in ("advantage", "value_target"):
        torch.testing.assert_close(one[key][rows], other[key][rows], rtol=0, atol=2e-5)
        assert (one[key][~valid] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_several_steps_to_the_next_observation(name: str) -> None:
    data = steps(4, 12)
    data["steps_to_next_obs"] = torch.arange(48).view(4, 12, 1) % 3 + 1
    agree(*pair(name), data)


@pytest.mark.parametrize("group_key", [None, "task"])
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("TD0Estimator", "average_rewards"),
        ("TD1Estimator", "average_rewards"),
        ("TDLambdaEstimator", "average_rewards"),
        ("GAE", "average_gae"),
        ("VTrace", "average_adv"),
    ],
)
def test_standardised(name: str, option: str, group_key: str | None) -> None:
    agree(*pair(name, group_key=group_key, **{option: True}), steps(4, 12))


@pytest.mark.parametrize("group_key", [None, "task"])
def test_standardised_where_valid(group_key: str | None) -> None:
    mine, theirs = pair("GAE", shifted=True, average_gae=True, group_key=group_key)
    data = steps(5, 12, contiguous=True)
    data["next", "terminated"][:] = False
    torch.testing.assert_close(
        mine(data.clone())["advantage"], theirs(data.clone())["advantage"], rtol=0, atol=2e-5
    )


@pytest.mark.parametrize("vectorized", [True, False, None])
def test_vectorized(vectorized: bool | None) -> None:
    agree(*pair("GAE", vectorized=vectorized), steps(4, 40))
    agree(*pair("TDLambdaEstimator", vectorized=bool(vectorized)), steps(4, 40))


def test_auto_reset_env() -> None:
    agree(*pair("GAE", auto_reset_env=True), steps(4, 12))


def test_thresholds() -> None:
    agree(*pair("VTrace", rho_thresh=1.5, c_thresh=0.7), steps(4, 12))
    agree(*pair("VTrace", rho_thresh=torch.tensor(0.5)), steps(4, 12))


@pytest.mark.parametrize("name", ["TD1Estimator", "TDLambdaEstimator", "GAE"])
def test_a_discount_for_each_step(name: str) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"gamma": torch.rand(4, 12, 1)}
    if name != "TD1Estimator":
        options |= {"lmbda": torch.rand(4, 12, 1), "vectorized": False}
    if name == "TD1Estimator":
        # TorchRL's TD(1) module has only the vectorised function, which cuts trajectories where they are done
        options["value_network"] = critic()
        mine = ours.TD1Estimator(**options)(steps(4, 12))
        after = mine["next", "state_value"]
        expected = peer.functional.td1_return_estimate(
            options["gamma"], after, *(mine["next", key] for key in ("reward", "done", "terminated"))
        )
        torch.testing.assert_close(mine["value_target"], expected)
    else:
        agree(*pair(name, **options), steps(4, 12))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_for_the_call(name: str) -> None:
    mine, theirs = pair(name)
    params, target = (TensorDict.from_module(critic(seed=seed)) for seed in (5, 6))
    agree(mine, theirs, steps(4, 12), params=params)
    agree(mine, theirs, steps(4, 12), params=params, target_params=target)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_rewards_and_observations_only(name: str) -> None:
    gradients = []
    for estimator in pair(name, differentiable=True):
        data = steps(4, 12)
        leaves = [data["observation"], data["next", "reward"], data["next", "observation"]]
        for leaf in leaves:
            leaf.requires_grad_()
        out = estimator(data)
        (out["advantage"].square() + out["value_target"]).sum().backward()
        assert all(parameter.grad is None for parameter in critic().parameters())
        gradients.append([leaf.grad for leaf in leaves])
    for one, other in zip(*gradients, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_nested_keys(name: str) -> None:
    mine, theirs = pair(name, value_network=None)
    keys = {
        "advantage": ("made", "advantage"),
        "value_target": ("made", "target"),
        "value": ("agents", "value"),
        "reward": ("agents", "reward"),
        "done": ("flags", "done"),
        "terminated": ("flags", "terminated"),
        "sample_log_prob": ("policy", "log_prob"),
    }
    data = steps(4, 12)
    after = data["next"]
    for name_of, key in (
        ("reward", keys["reward"]),
        ("done", keys["done"]),
        ("terminated", keys["terminated"]),
    ):
        after.rename_key_(name_of, key)
    data.rename_key_("action_log_prob", keys["sample_log_prob"])
    data[keys["value"]] = torch.ones(4, 12, 1)
    after[keys["value"]] = 2 * torch.ones(4, 12, 1)
    for estimator in (mine, theirs):
        estimator.set_keys(**keys)  # type: ignore[attr-defined]
    one, other = mine(data.clone()), theirs(data.clone())
    for key in (keys["advantage"], keys["value_target"]):
        torch.testing.assert_close(one[key], other[key], rtol=0, atol=2e-5)


def agents(*, team: bool) -> TensorDict:
    data = steps(4, 12)
    torch.manual_seed(0)
    data["agents", "state_value"] = torch.randn(4, 12, 3, 1)
    data["next", "agents", "state_value"] = torch.randn(4, 12, 3, 1)
    if not team:
        after = data["next"]
        after["reward"] = torch.randn(4, 12, 3, 1)
        for key in ("done", "terminated", "truncated"):
            after[key] = after[key].unsqueeze(-2).expand(4, 12, 3, 1).clone()
    return data


@pytest.mark.parametrize("team", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"average_gae": True},
        {"average_gae": True, "group_key": "task"},
        {"auto_reset_env": True},
        {"agent_dim": 2},
    ],
    ids=str,
)
def test_multi_agent(options: dict[str, Any], team: bool) -> None:
    mine, theirs = pair("MultiAgentGAE", value_network=None, **options)
    data = agents(team=team)
    for estimator in (mine, theirs):
        estimator.set_keys(value=("agents", "state_value"), advantage=("agents", "advantage"))  # type: ignore[attr-defined]
    one, other = mine(data.clone()), theirs(data.clone())
    assert one["agents", "advantage"].shape == (4, 12, 3, 1)
    for key in (("agents", "advantage"), "value_target"):
        torch.testing.assert_close(one[key], other[key], rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", ["TD0Estimator", "TD1Estimator", "TDLambdaEstimator", "GAE"])
def test_value_estimate_alone(name: str) -> None:
    mine, theirs = pair(name)
    data = steps(4, 12)
    for options in ({}, {"target_params": TensorDict.from_module(critic(seed=5))}):
        if name == "GAE" and options:
            options["params"] = TensorDict.from_module(critic(seed=6))
        one, other = mine.value_estimate(data, **options), theirs.value_estimate(data.clone(), **options)  # type: ignore[attr-defined]
        torch.testing.assert_close(one, other, rtol=0, atol=2e-5)
    if name != "GAE":
        after = torch.randn(4, 12, 1)
        torch.testing.assert_close(
            mine.value_estimate(data, next_value=after),  # type: ignore[attr-defined]
            theirs.value_estimate(data.clone(), next_value=after),  # type: ignore[attr-defined]
            rtol=0,
            atol=2e-5,
        )


@pytest.mark.parametrize("name", NAMES)
def test_states_load(name: str) -> None:
    mine, theirs = pair(name)
    _, other = pair(name, gamma=0.5)
    if name == "VTrace":
        state = {key: value for key, value in other.state_dict().items() if "actor" not in key}  # type: ignore[attr-defined]
    else:
        state = other.state_dict()  # type: ignore[attr-defined]
    mine.load_state_dict(state, strict=True)  # type: ignore[attr-defined]
    theirs.load_state_dict(other.state_dict())  # type: ignore[attr-defined]
    agree(mine, theirs, steps(4, 12))
