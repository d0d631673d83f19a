"""Policies that explore by noise which depends on the state, kept for several steps."""

from __future__ import annotations

import copy

import pytest
import torch
from specgen_runtime.envs import ExplorationType, set_exploration_type
from specgen_runtime.modules import (
    GSDEHead,
    GSDEPolicy,
    IndependentNormal,
    ProbabilisticActor,
    SafeModule,
    SafeSequential,
    TanhNormal,
)
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms.init_tracker import InitTracker
from tensordict import TensorDict
from torch import nn

FEATURES = 8


def actor(distribution: type = TanhNormal, *, sigma: float = 1.0, seed: int = 0) -> ProbabilisticActor:
    """A policy on Pendulum."""
    torch.manual_seed(seed)
    module = SafeSequential(
        SafeModule(
            nn.Sequential(nn.Linear(3, FEATURES), nn.Tanh()), in_keys=["observation"], out_keys=["features"]
        ),
        SafeModule(GSDEHead(FEATURES, 1, sigma=sigma), in_keys=["features"], out_keys=["loc", "scale"]),
    )
    bounds = {"low": -2.0, "high": 2.0} if distribution is TanhNormal else {}
    return ProbabilisticActor(
        module,
        in_keys=["loc", "scale"],
        distribution_class=distribution,
        distribution_kwargs=bounds,
        return_log_prob=True,
        log_prob_key="sample_log_prob",
        default_interaction_type=ExplorationType.RANDOM,
    )


def policy(every: int | None = None, seed: int = 0, **words: float) -> GSDEPolicy:
    return GSDEPolicy(actor(**words), every=every, generator=torch.Generator().manual_seed(seed))  # type: ignore[arg-type]


def steps(observations: torch.Tensor, starts: torch.Tensor, acting: GSDEPolicy) -> TensorDict:
    """What a policy does step after step, `[T, n]`; `starts` says where episodes begin."""
    made = []
    data = TensorDict({}, [observations.shape[1]])
    for observation, start in zip(observations, starts, strict=True):
        data = data.clone(recurse=False).update({"observation": observation, "is_init": start.unsqueeze(-1)})
        made.append(acting(data).clone())
    return torch.stack(made)  # type: ignore[return-value]


def latent(action: torch.Tensor) -> torch.Tensor:
    return (action / 2).atanh()


def test_equal_states_give_equal_actions_until_the_episode_ends() -> None:
    observations = torch.randn(1, 4, 3).expand(6, 4, 3)
    starts = torch.zeros(6, 4, dtype=torch.bool)
    starts[0] = True
    starts[3, 1] = True
    actions = steps(observations, starts, policy())["action"]
    assert (actions[:3] == actions[0]).all()
    same = actions[3:] == actions[0]
    assert same[:, [0, 2, 3]].all()
    assert not same[:, 1].any()
    assert (actions[4:, 1] == actions[3, 1]).all()


def test_the_noise_is_drawn_anew_after_so_many_steps() -> None:
    observations = torch.randn(1, 2, 3).expand(9, 2, 3)
    starts = torch.zeros(9, 2, dtype=torch.bool)
    starts[0] = True
    starts[2, 1] = True  # counts from there
    actions = steps(observations, starts, policy(every=4))["action"].squeeze(-1)
    changes = (actions[1:] != actions[:-1]).T
    assert changes.tolist() == [
        [False, False, False, True, False, False, False, True],
        [False, True, False, False, False, True, False, False],
    ]


@pytest.mark.parametrize("distribution", [TanhNormal, IndependentNormal])
def test_actions_and_their_log_probabilities_are_those_of_the_distribution(distribution: type) -> None:
    """Over many matrices, in one state: mean, deviation, and the log-probability at each action."""
    acting = GSDEPolicy(actor(distribution, sigma=0.7), generator=torch.Generator().manual_seed(1))
    observation = torch.randn(1, 3).expand(40_000, 3)
    data = TensorDict(
        {"observation": observation, "is_init": torch.ones(40_000, 1, dtype=torch.bool)}, [40_000]
    )
    with torch.no_grad():
        data = acting(data)
        dist = acting.actor.get_dist(TensorDict({"observation": observation}, [40_000]))
    drawn = latent(data["action"]) if distribution is TanhNormal else data["action"]
    torch.testing.assert_close(drawn.mean(0), dist.loc[0], atol=0.02, rtol=0.0)
    torch.testing.assert_close(drawn.std(0), data["scale"][0], rtol=0.02, atol=0.0)
    torch.testing.assert_close(data["sample_log_prob"], dist.log_prob(data["action"]), rtol=1e-3, atol=1e-3)
    assert data["scale"].shape == (40_000, 1)


def test_without_exploration_it_is_the_policy_that_it_is_given() -> None:
    acting = policy()
    data = TensorDict({"observation": torch.randn(5, 3)}, [5])
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        assert (acting(data.clone())["action"] == acting.actor(data.clone())["action"]).all()
        assert "_gsde_noise" not in acting(data.clone())


def test_gradients_of_the_deviation_leave_features_alone() -> None:
    module = actor()
    dist = module.get_dist(TensorDict({"observation": torch.randn(5, 3)}, [5]))
    dist.scale.sum().backward()
    head = next(one for one in module.modules() if isinstance(one, GSDEHead))
    assert head.exploration.log_sigma.grad.abs().sum() > 0  # type: ignore[union-attr]
    moved = [name for name, one in module.named_parameters() if one.grad is not None and one.grad.any()]
    assert len(moved) == 1


def test_a_generator_makes_it_repeatable_and_copies_go_their_own_way() -> None:
    observations, starts = torch.randn(5, 3, 3), torch.ones(5, 3, dtype=torch.bool)
    one, same, other = (steps(observations, starts, policy(seed=seed))["action"] for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    acting = policy()
    twin = copy.deepcopy(acting)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert any(parameter.any() for parameter in acting.parameters())
    assert torch.equal(steps(observations, starts, twin)["loc"], torch.zeros(5, 3, 1))


def test_it_acts_in_rollouts_whose_episodes_end() -> None:
    env = TransformedEnv(Pendulum(batch_size=[3]), InitTracker())
    env.set_seed(0)
    data = env.rollout(12, policy(every=5), break_when_any_done=False)
    noise = data["_gsde_noise"]
    changed = (noise[:, 1:] != noise[:, :-1]).flatten(2).any(-1)
    assert changed.tolist() == [[False] * 4 + [True] + [False] * 4 + [True, False]] * 3


def test_one_environment_without_a_batch() -> None:
    data = TransformedEnv(Pendulum(), InitTracker()).rollout(5, policy(every=3))
    changed = (data["_gsde_noise"][1:] != data["_gsde_noise"][:-1]).flatten(1).any(-1)
    assert changed.tolist() == [False, False, True, False]


def test_it_is_mapped_and_compiled() -> None:
    acting = GSDEPolicy(actor(), every=3)
    names = ("observation", "is_init", "_gsde_noise", "_gsde_steps")

    def act(*values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = acting(TensorDict(dict(zip(names, values, strict=True)), values[0].shape[:-1]))
        return made["_gsde_noise"], made["_gsde_steps"]

    noise, steps = torch.randn(4, 1, FEATURES), torch.tensor([1, 2, 3, 1])
    given = torch.randn(4, 3), torch.tensor([[False], [False], [False], [True]]), noise, steps
    whole = torch.compile(act, fullgraph=True, backend="aot_eager")
    for made, counted in (act(*given), torch.vmap(act, randomness="different")(*given), whole(*given)):
        assert (made == noise).flatten(1).all(-1).tolist() == [True, True, False, False]
        assert counted.tolist() == [2, 3, 1, 1]


def test_what_says_where_episodes_begin_is_missed() -> None:
    acting = policy()
    with pytest.warns(UserWarning, match="GSDEPolicy finds no 'is_init'"):
        acting(TensorDict({"observation": torch.randn(5, 3)}, [5]))


def test_wrong_arguments_are_refused() -> None:
    for every in (0, True, 2.5):
        with pytest.raises(ValueError, match=f"every must be an integer of at least 1, got {every}"):
            policy(every=every)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"generator must be a torch.Generator or None, got int"):
        policy().generator = 3  # type: ignore[assignment]
    plain = ProbabilisticActor(
        SafeModule(nn.Linear(3, 1), in_keys=["observation"], out_keys=["param"]), ["param"]
    )
    with pytest.raises(ValueError, match="one GSDEHead in a module of its own, and it has 0"):
        GSDEPolicy(plain)
