"""The value estimators as modules: what they read, write and refuse."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import (
    GAE,
    MultiAgentGAE,
    TD0Estimator,
    TD1Estimator,
    TDLambdaEstimator,
    ValueEstimatorBase,
    VTrace,
)
from tensordict import TensorDict

from tests.objectives.nets import N_OBS, batch, critic, policy, steps


def test_truncation_bootstraps_and_done_is_not_read() -> None:
    data = TensorDict(
        {
            "state_value": torch.tensor([[0.0], [1.0], [2.0]]),
            "next": {
                "state_value": torch.tensor([[1.0], [2.0], [3.0]]),
                "reward": torch.ones(3, 1),
                "done": torch.tensor([[False], [True], [True]]),
                "terminated": torch.tensor([[False], [False], [True]]),
            },
        },
        [3],
    )
    out = TD0Estimator(gamma=0.5)(data)
    torch.testing.assert_close(out["value_target"], torch.tensor([[1.5], [2.0], [1.0]]))
    torch.testing.assert_close(out["advantage"], torch.tensor([[1.5], [1.0], [-1.0]]))
    del data["next", "terminated"]
    with pytest.raises(KeyError, match="`done` cannot replace it"):
        TD0Estimator(gamma=0.5)(data)


def test_with_a_network() -> None:
    network, data = critic(), batch(4)
    out = TD0Estimator(gamma=0.9, value_network=network)(data.clone())
    value, after = network(data.clone())["state_value"], network(data["next"].clone())["state_value"]
    expected = data["next", "reward"] + 0.9 * ~data["next", "terminated"] * after
    torch.testing.assert_close(out["value_target"], expected.detach())
    torch.testing.assert_close(out["advantage"], (expected - value).detach())
    assert not out["value_target"].requires_grad


def test_multi_step_returns_raise_the_discount() -> None:
    data = batch(3)
    data["steps_to_next_obs"] = torch.tensor([[1], [2], [3]])
    target = TD0Estimator(gamma=0.5).value_estimate(data, next_value=torch.ones(3, 1))
    alive = ~data["next", "terminated"]
    torch.testing.assert_close(
        target, data["next", "reward"] + alive * torch.tensor([[0.5], [0.25], [0.125]])
    )


@pytest.mark.parametrize("gamma", [-0.1, 1.5, float("nan"), torch.tensor([0.5, 1.1])])
def test_gamma_is_a_discount(gamma: float) -> None:
    with pytest.raises(ValueError, match="gamma must be"):
        TD0Estimator(gamma=gamma)


def test_keys() -> None:
    estimator = TD0Estimator(gamma=0.9, value_network=critic())
    estimator.set_keys(reward="r2")
    assert ("next", "r2") in estimator.in_keys
    assert estimator.out_keys == ["advantage", "value_target"]
    with pytest.raises(KeyError, match="does not accept 'rewards'"):
        estimator.set_keys(rewards="r")


def estimators(**options: Any) -> list[ValueEstimatorBase]:
    """One of each, with a network."""
    options = {"gamma": 0.9, "value_network": critic(), **options}
    return [
        TD0Estimator(**options),
        TD1Estimator(**options),
        TDLambdaEstimator(lmbda=0.8, **options),
        GAE(lmbda=0.8, **options),
        VTrace(actor_network=policy(), **options),
    ]


def every(test: Any) -> Any:
    return pytest.mark.parametrize("which", range(5), ids=["td0", "td1", "tdlambda", "gae", "vtrace"])(test)


def line(done: list[bool], terminated: list[bool]) -> TensorDict:
    """Three steps with values 0, 1, 2 and 3, and rewards of 1."""
    values = torch.arange(4.0).unsqueeze(-1)
    return TensorDict(
        {
            "state_value": values[:-1],
            "next": {
                "state_value": values[1:],
                "reward": torch.ones(3, 1),
                "done": torch.tensor(done).unsqueeze(-1),
                "terminated": torch.tensor(terminated).unsqueeze(-1),
            },
        },
        [3],
    )


@pytest.mark.parametrize(
    ("done", "terminated", "expected"),
    [
        ([False] * 3, [False] * 3, [1.78125, 1.125, 0.5]),
        ([False, True, False], [False] * 3, [1.75, 1.0, 0.5]),
        ([False, True, False], [False, True, False], [1.5, 0.0, 0.5]),
        ([False] * 3, [False, True, False], [1.5, 0.0, 0.5]),
    ],
)
def test_by_hand(done: list[bool], terminated: list[bool], expected: list[float]) -> None:
    data = line(done, terminated)
    for estimator in (GAE(gamma=0.5, lmbda=0.5), TDLambdaEstimator(gamma=0.5, lmbda=0.5)):
        out = estimator(data.clone())
        torch.testing.assert_close(out["advantage"].squeeze(-1), torch.tensor(expected))
        torch.testing.assert_close(out["value_target"], out["advantage"] + out["state_value"])


def test_time_first_data_must_say_so() -> None:
    """Nothing in ``[time, envs]`` without names tells it from ``[envs, time]``: environments are read as steps."""
    first = line([False] * 3, [False] * 3).unsqueeze(1)
    expected, of_one_step = torch.tensor([1.78125, 1.125, 0.5]), torch.tensor([1.5, 1.0, 0.5])

    def advantages(estimator: ValueEstimatorBase, data: TensorDict, **call: int) -> torch.Tensor:
        advantage: torch.Tensor = estimator(data.clone(), **call)["advantage"]
        return advantage.flatten()

    named = TensorDict(first.to_dict(), first.batch_size, names=["time", None])
    for cls in (GAE, TDLambdaEstimator):
        torch.testing.assert_close(advantages(cls(gamma=0.5, lmbda=0.5), named), expected)
        torch.testing.assert_close(advantages(cls(gamma=0.5, lmbda=0.5, time_dim=0), first), expected)
        torch.testing.assert_close(advantages(cls(gamma=0.5, lmbda=0.5), first), of_one_step)
    torch.testing.assert_close(advantages(GAE(gamma=0.5, lmbda=0.5), first, time_dim=0), expected)


@every
def test_tensors_by_keyword(which: int) -> None:
    """The trailing 1 of rewards tells the batch, though the observations share a dimension more."""
    estimator = estimators()[which]
    data = steps(N_OBS, N_OBS)
    inputs = {
        key if isinstance(key, str) else "_".join(key): data[key]
        for key in estimator.in_keys
        if data.get(key) is not None
    }
    advantage, target = estimator(**inputs)
    expected = estimator(data.clone())
    torch.testing.assert_close(advantage, expected["advantage"])
    torch.testing.assert_close(target, expected["value_target"])
    with pytest.raises(TypeError, match="unexpected inputs 'next_rewards'"):
        estimator(next_rewards=inputs["next_reward"])


@every
def test_keys_that_are_read_and_written(which: int) -> None:
    estimator = estimators()[which]
    data = steps(3, 8)
    only = data.select(*estimator.in_keys)
    out = estimator(only.clone())
    torch.testing.assert_close(out["advantage"], estimator(data.clone())["advantage"])
    written = set(out.keys(True, True)) - set(only.keys(True, True))
    assert written == {"advantage", "value_target", "state_value", ("next", "state_value")}
    assert estimator.out_keys == ["advantage", "value_target"]


@every
@pytest.mark.parametrize("role", ["reward", "done", "terminated"])
def test_missing_signals_are_named(which: int, role: str) -> None:
    estimator = estimators()[which]
    data = steps(3, 8)
    del data["next", role]
    if which == 0 and role == "done":
        estimator(data)  # the one-step return reads no done
        return
    with pytest.raises(
        KeyError, match=f"{type(estimator).__name__}: {role}.* is not in the tensordict; it holds"
    ):
        estimator(data)


@pytest.mark.parametrize(
    "options", [{}, {"deactivate_vmap": True}, {"value_chunk_size": 2}, {"shifted": True}], ids=str
)
def test_an_observation_of_one_moment_alone_is_named(options: dict[str, Any]) -> None:
    made = GAE(gamma=0.9, lmbda=0.9, value_network=critic(), **options)
    held = "which the network reads, is not in the tensordict; it holds.*keep it where the data are stored"
    if (
        "shifted" not in options
    ):  # which takes the state's own for the next one that is missing, as TorchRL does
        with pytest.raises(KeyError, match=rf"next state: \('next', 'observation'\), {held}"):
            made(steps(3, 8).exclude(("next", "observation")))
    with pytest.raises(KeyError, match=f"'observation'.*{held}"):
        made(steps(3, 8).exclude("observation"))


@every
def test_missing_values_and_inputs_are_named(which: int) -> None:
    with pytest.raises(KeyError, match="the value 'state_value' is not in the tensordict"):
        estimators(value_network=None)[which](steps(3, 8))
    with pytest.raises(KeyError, match="observation"):
        estimators()[which](steps(3, 8).exclude("observation"))


@every
def test_locked_data_and_data_without_batch_are_refused(which: int) -> None:
    with pytest.raises(RuntimeError, match="writes into the tensordict, which is locked"):
        estimators()[which](steps(3, 8).lock_())
    with pytest.raises(RuntimeError, match="at least one batch dimension"):
        estimators()[which](steps(time=None))
    with pytest.raises(
        RuntimeError, match=r"time_dim=2 is no batch dimension of data of batch size \(3, 8\)"
    ):
        estimators()[which](steps(3, 8), time_dim=2)


def test_options_are_checked() -> None:
    for options, error, message in (
        ({"lmbda": 1.5}, ValueError, r"lmbda must be in \[0, 1\], got 1.5"),
        ({"gamma": "x"}, TypeError, "gamma must be a number or a tensor, got 'x'"),
        ({"shifted_budget": 0}, ValueError, "shifted_budget must be at least 1, got 0"),
        ({"shifted": "yes"}, TypeError, "shifted must be True or False, got 'yes'"),
        ({"value_chunk_size": 0}, ValueError, "value_chunk_size must be at least 1"),
        ({"num_chunks": 1.5}, TypeError, "num_chunks must be an integer, got 1.5"),
        ({"num_chunks": 2, "num_chunk": 3}, ValueError, "two names of one number"),
        ({"num_chunks": 2, "value_chunk_size": 3}, ValueError, "exclude each other"),
        ({"value_chunk_dim": "x"}, TypeError, "value_chunk_dim must be an integer"),
        ({"value_key": "x"}, TypeError, "GAE got unexpected keywords value_key"),
    ):
        with pytest.raises(error, match=message):
            GAE(**{"gamma": 0.9, "lmbda": 0.9, **options})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"value_chunk_dim=2 is no dimension of data of batch size \(3, 8\)"):
        TD0Estimator(gamma=0.9, value_network=critic(), num_chunks=2, value_chunk_dim=2)(steps(3, 8))
    with pytest.raises(TypeError, match="actor_network must be a policy with a distribution"):
        VTrace(gamma=0.9, actor_network=critic())
    with pytest.raises(ValueError, match="gamma must be one number"):
        VTrace(gamma=torch.rand(2), actor_network=policy())
    with pytest.raises(ValueError, match="rho_thresh must be at least 0, got -1"):
        VTrace(gamma=0.9, actor_network=policy(), rho_thresh=-1)


def test_log_probabilities_of_another_shape_are_refused() -> None:
    data = steps(3, 8)
    data["action_log_prob"] = torch.zeros(3, 8, 2)
    with pytest.raises(
        RuntimeError, match=r"sample_log_prob has shape \(3, 8, 2\) and the value \(3, 8, 1\)"
    ):
        VTrace(gamma=0.9, actor_network=policy(), value_network=critic())(data)
    with pytest.raises(KeyError, match="the log-probability of the action 'action_log_prob' is not in"):
        VTrace(gamma=0.9, actor_network=policy(), value_network=critic())(data.exclude("action_log_prob"))


@every
def test_networks_are_not_in_the_state(which: int) -> None:
    estimator = estimators()[which]
    assert list(estimator.parameters()) == []
    assert set(estimator.state_dict()) <= {"gamma", "lmbda", "rho_thresh", "c_thresh"}
    for copied in (copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))):
        torch.testing.assert_close(copied(steps(3, 8))["advantage"], estimator(steps(3, 8))["advantage"])


def test_agents_with_steps_to_the_next_observation() -> None:
    data = TensorDict(
        {
            "state_value": torch.randn(4, 6, 3, 1),
            "steps_to_next_obs": torch.randint(1, 4, (4, 6, 1)),
            "next": {"state_value": torch.randn(4, 6, 3, 1), **steps(4, 6)["next"].exclude("observation")},
        },
        [4, 6],
    )
    out = MultiAgentGAE(gamma=0.9, lmbda=0.8)(data.clone())
    for agent in range(3):
        alone = data.clone()
        for key in ("state_value", ("next", "state_value")):
            alone[key] = data[key][:, :, agent]
        expected = GAE(gamma=0.9, lmbda=0.8)(alone)["advantage"]
        torch.testing.assert_close(out["advantage"][:, :, agent], expected)
    data["steps_to_next_obs"] = torch.ones(4, 6, 2)
    with pytest.raises(RuntimeError, match=r"'steps_to_next_obs' has shape \(4, 6, 2\)"):
        MultiAgentGAE(gamma=0.9, lmbda=0.8)(data)


def test_compiled() -> None:
    data = steps(3, 8, time=None)
    estimator = GAE(gamma=0.9, lmbda=0.8, value_network=critic(), time_dim=1)
    compiled = torch.compile(estimator, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(data.clone())["advantage"], estimator(data.clone())["advantage"])
