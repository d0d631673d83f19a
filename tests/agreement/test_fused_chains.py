"""A fused chain gives what `TransformedEnv` gives with the dynamic classes: key by key, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.testing import assert_identical, check_env
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std import chains, envs
from specgen_std.transforms import (
    DoubleToFloat,
    FrameSkipTransform,
    InitTracker,
    ObservationNorm,
    RandomTruncationTransform,
    RewardScaling,
    RewardSum,
    StepCounter,
    UnsqueezeTransform,
    VecNorm,
)
from tensordict import TensorDictBase

from tests.sizes import each_time_or_thorough
from tests.support import generate, imported

SCHEMAS = Path(__file__).parent / "schemas"
STEPS = each_time_or_thorough(44, 500)
"""Four partial resets are among the first 44 steps, and one of everything before the last of them."""

Batch = tuple[int, ...]
Dynamic = Callable[[ModuleType, Batch], EnvBase[Any]]


def usual(max_steps: int) -> list[Any]:
    return [InitTracker(), StepCounter(max_steps=max_steps), RewardSum()]


# The dynamic counterparts of the library's chains and of schemas/chains.yaml, by name.
LIBRARY: dict[str, Dynamic] = {
    "CartPoleTrain": lambda _, b: over(envs.CartPole(batch_size=b), *usual(500)),
    "PendulumTrain": lambda _, b: over(envs.Pendulum(batch_size=b), *usual(200)),
    "MountainCarTrain": lambda _, b: over(envs.MountainCar(batch_size=b), *usual(200)),
    "MountainCarContinuousTrain": lambda _, b: over(envs.MountainCarContinuous(batch_size=b), *usual(999)),
    "AcrobotTrain": lambda _, b: over(envs.Acrobot(batch_size=b), *usual(500)),
}
OWN: dict[str, Dynamic] = {
    "Sums": lambda _, b: over(
        envs.MountainCarContinuous(batch_size=b),
        RewardSum(in_keys=["reward"], out_keys=["raw_return"]),
        RewardScaling(loc=0.25, scale=0.5),
        RewardSum(),
        RewardScaling(loc=0.1, scale=3.0, standard_normal=True),
        RewardSum(in_keys=["reward"], out_keys=["last_return"]),
        StepCounter(max_steps=15, step_count_key="age"),
    ),
    "Rewritten": lambda _, b: over(
        envs.Pendulum(batch_size=b),
        RewardSum(),
        StepCounter(max_steps=20),
        RewardScaling(in_keys=["episode_reward"], loc=1.0, scale=0.5),
        InitTracker(init_key="begun"),
    ),
    "StateRewritten": lambda _, b: over(
        envs.Pendulum(batch_size=b),
        ObservationNorm(in_keys=["thdot", "observation"], loc=0.5, scale=0.125),
        StepCounter(max_steps=12),
    ),
    "Normed": lambda _, b: over(
        envs.Pendulum(batch_size=b),
        InitTracker(),
        StepCounter(max_steps=25),
        ObservationNorm(
            in_keys=["observation"],
            out_keys=["normed"],
            loc=[0.1, 0.2, 0.3],
            scale=[1.0, 2.0, 8.0],
            standard_normal=True,
        ),
        StepCounter(step_count_key="steps_again"),
        RewardSum(),
    ),
    "Patient": lambda _, b: over(envs.Pendulum(batch_size=b), StepCounter(max_steps=5, update_done=False)),
    "Single": lambda p, b: over(
        p.Exact(batch_size=b),
        DoubleToFloat(in_keys=["observation"], in_keys_inv=["action"]),
        RewardSum(),
        StepCounter(max_steps=18),
    ),
    "Team": lambda p, b: over(
        p.GridWorld(batch_size=b),
        InitTracker(),
        StepCounter(max_steps=10),
        RewardSum(in_keys=[("agents", "reward")]),
        RewardScaling(in_keys=[("agents", "reward")], loc=0.0, scale=2.0),
    ),
    "Renamed": lambda _, b: over(
        envs.Pendulum(batch_size=b),
        RewardScaling(loc=0.5, scale=0.25, out_keys=[("stats", "scaled")]),
        RewardSum(in_keys=["reward", ("stats", "scaled")]),
        StepCounter(max_steps=7, truncated_key="late", step_count_key="age"),
        StepCounter(max_steps=5, truncated_key="late", step_count_key="age_again"),
    ),
    "Flagged": lambda p, b: over(
        p.Squads(batch_size=b),
        p.Cut(in_keys=["reward", ("red", "reward"), ("scout", "reward")], flag_key="cut", enough=2.5),
        p.Cut(in_keys=[("blue", "team_reward"), "reward"], enough=2.0),
        p.Cut(in_keys=[("red", "reward")], flag_key="terminated", enough=0.2),
    ),
    "FinalOf": lambda p, b: over(
        envs.Pendulum(batch_size=b),
        StepCounter(max_steps=7),
        p.Final(["reward", "observation"], ["final_reward", "kind_reward", "seen", "kind"]),
        StepCounter(max_steps=5, step_count_key="age"),
        p.Final(["reward"], ["last", "last_kind"]),
    ),
    "FinalOfTeam": lambda p, b: over(
        p.GridWorld(batch_size=b),
        StepCounter(max_steps=4),
        p.Final([("agents", "reward")], [("agents", "final"), ("agents", "kind")]),
    ),
    "FinalOfSquads": lambda p, b: over(
        p.Squads(batch_size=b),
        p.Cut(in_keys=["reward", ("red", "reward"), ("blue", "team_reward")], enough=0.5),
        p.Final(["reward", ("red", "reward")], ["final", "kind", ("red", "final"), ("red", "kind")]),
    ),
    "SquadsTrain": lambda p, b: over(
        p.Squads(batch_size=b),
        InitTracker(),
        StepCounter(max_steps=9),
        RewardSum(in_keys=[("red", "reward"), ("blue", "team_reward"), "reward"]),
    ),
    "Skipping": lambda _, b: over(
        envs.CartPole(batch_size=b),
        StepCounter(max_steps=30),
        RewardSum(),
        FrameSkipTransform(4),
        InitTracker(),
        RewardSum(out_keys=["outer_return"]),
        StepCounter(step_count_key="outer_count"),
    ),
    "SkippingTwice": lambda _, b: over(
        envs.MountainCarContinuous(batch_size=b),
        FrameSkipTransform(2),
        StepCounter(max_steps=7),
        RewardScaling(loc=0.25, scale=0.5),
        FrameSkipTransform(3),
        RewardSum(),
    ),
    "BestOf": lambda p, b: over(
        envs.Pendulum(batch_size=b),
        ObservationNorm(in_keys=["observation", "thdot"], loc=0.5, scale=0.125),
        p.Best(),
        StepCounter(max_steps=9),
        RewardSum(),
    ),
    "DiscountedOf": lambda p, b: over(
        envs.Pendulum(batch_size=b), RewardSum(), p.Discounted(count=3), StepCounter(max_steps=9)
    ),
    "Standing": lambda p, b: over(
        envs.Pendulum(batch_size=b),
        StepCounter(max_steps=12),
        p.Freeze(["thdot"], far=1.0),
        RewardSum(),
        RewardScaling(loc=1.0, scale=0.5),
        InitTracker(),
    ),
    "StandingInside": lambda p, b: over(
        envs.CartPole(batch_size=b),
        p.Freeze(["x", "theta"], far=0.1),
        StepCounter(max_steps=11),
        ObservationNorm(in_keys=["observation"], loc=0.5, scale=2.0),
        p.Freeze(["observation"], far=2.0),
        FrameSkipTransform(3),
        RewardSum(),
    ),
    "SingleSkipping": lambda p, b: over(
        p.Exact(batch_size=b),
        DoubleToFloat(in_keys=["observation"], in_keys_inv=["action"]),
        FrameSkipTransform(3),
        RewardSum(),
        StepCounter(max_steps=18),
    ),
    "TeamSkipping": lambda p, b: over(
        p.GridWorld(batch_size=b),
        InitTracker(),
        StepCounter(max_steps=10),
        FrameSkipTransform(3),
        RewardSum(in_keys=[("agents", "reward")]),
    ),
    "SquadsSkipping": lambda p, b: over(
        p.Squads(batch_size=b), FrameSkipTransform(2), StepCounter(max_steps=9), RewardSum()
    ),
    "Learned": lambda _, b: over(
        envs.Pendulum(batch_size=b), StepCounter(max_steps=9), VecNorm(decay=0.99), RewardSum()
    ),
    "LearnedTwice": lambda _, b: over(
        envs.Pendulum(batch_size=b),
        VecNorm(["observation", "th"], ["normed", "th"], decay=0.9),
        StepCounter(max_steps=7),
        VecNorm(["normed", "reward"], decay=1.0, eps=0.01),
        UnsqueezeTransform(-1, in_keys=["normed"]),
        ObservationNorm(in_keys=["normed"], loc=1.0, scale=0.5),
    ),
    "LearnedHorizons": lambda _, b: over(
        envs.Pendulum(batch_size=b), StepCounter(), RandomTruncationTransform(3, 8, prob=0.5), VecNorm()
    ),
    "TeamsTrain": lambda p, b: over(
        p.Teams(batch_size=b),
        InitTracker(),
        StepCounter(max_steps=9),
        RewardSum(in_keys=[("red", "reward"), ("blue", "reward"), ("scout", "reward"), "reward"]),
    ),
}


def over(env: EnvBase[Any], *transforms: Any) -> EnvBase[Any]:
    return TransformedEnv(env, Compose(*transforms))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in SCHEMAS.glob("*.yaml")}
    with imported(generate(texts, "chain_package"), "chain_package", tmp_path_factory.mktemp("own")) as made:
        yield made


def with_batches(names: Iterable[str], *batches: Batch) -> list[Any]:
    """Chains by name, each with one of some batch sizes in turn."""
    return [
        pytest.param(name, batch, id=f"{name}-{batch}")
        for name, batch in zip(names, cycle(batches), strict=False)
    ]


@pytest.fixture(params=[*LIBRARY, *OWN])
def pair(request: pytest.FixtureRequest, own: ModuleType) -> Callable[[Batch], tuple[Any, Any]]:
    """Makes a fused chain and its dynamic counterpart."""
    name = request.param
    fused = getattr(chains if name in LIBRARY else own, name)
    dynamic = {**LIBRARY, **OWN}[name]
    return lambda batch: (fused(batch_size=batch), dynamic(own, batch))


def drive(fused: EnvBase[Any], dynamic: EnvBase[Any], steps: int) -> tuple[int, int]:
    """Step both with the same actions, and reset some rows and all rows on the way.

    Returns:
        How many episodes ended by themselves, in some rows and in all of them at once.
    """
    fused.set_seed(11)
    dynamic.set_seed(11)
    torch.manual_seed(11)
    root, other = fused.reset(), dynamic.reset()
    assert_identical(root, other, "the first reset")
    some = everywhere = 0
    for step in range(steps):
        root = fused.rand_action(root)
        for key in fused.action_keys:
            other.set(key, root.get(key).clone())
        before = root.clone()
        transition, following = fused.step_and_maybe_reset(root)
        expected, other = dynamic.step_and_maybe_reset(other)
        assert_identical(transition, expected, f"step {step}")
        assert_identical(transition.exclude("next"), before, f"what was there before step {step}")
        assert_identical(
            without_actions(fused, following), without_actions(fused, other), f"after step {step}"
        )
        done = transition["next", "done"]
        some += bool(done.any()) and not bool(done.all())
        everywhere += bool(done.all())
        root = following
        if step % 12 == 5:
            mask = torch.rand(*fused.batch_size, 1) < 0.4
            root, other = (
                env.reset(td.set("_reset", mask.clone())) for env, td in ((fused, root), (dynamic, other))
            )
            what = f"the partial reset after step {step}"
            assert_identical(without_actions(fused, root), without_actions(fused, other), what)
        if step % 81 == 34:
            root, other = fused.reset(), dynamic.reset()
            assert_identical(root, other, f"the full reset after step {step}")
    return some, everywhere


def without_actions(env: EnvBase[Any], data: TensorDictBase) -> TensorDictBase:
    return data.exclude(*env.action_keys)


@pytest.mark.parametrize(
    ("pair", "batch"),
    [*with_batches([*LIBRARY, *OWN], (4, 3)), *with_batches([*LIBRARY, *OWN], (), (1,))],
    indirect=["pair"],
)
def test_steps_and_resets(
    pair: Callable[[Batch], tuple[Any, Any]], batch: Batch, request: pytest.FixtureRequest
) -> None:
    in_library = request.node.callspec.params["pair"] in LIBRARY
    drive(*pair(batch), steps=STEPS if in_library else min(STEPS, 200))


def test_episodes_end_on_the_way(own: ModuleType) -> None:
    some, _ = drive(chains.CartPoleTrain(batch_size=(7,)), LIBRARY["CartPoleTrain"](own, (7,)), steps=250)
    _, everywhere = drive(own.Normed(batch_size=()), OWN["Normed"](own, ()), steps=250)
    assert some > 20
    assert everywhere


@pytest.mark.parametrize(("pair", "batch"), with_batches([*LIBRARY, *OWN], (), (4, 3)), indirect=["pair"])
def test_rollouts(pair: Callable[[Batch], tuple[Any, Any]], batch: Batch) -> None:
    for stop in (True, False):
        made = []
        for env in pair(batch):
            env.set_seed(3)
            torch.manual_seed(3)
            # an action for each step, whatever was observed: only the fused GridWorld knows of its masks
            made.append(env.rollout(36, policy(env), break_when_any_done=stop))
            made.append(torch.rand(2))
        assert_identical(made[0], made[2], f"rollout, break_when_any_done={stop}")
        assert torch.equal(made[1], made[3])


def test_specs(pair: Callable[[Batch], tuple[Any, Any]]) -> None:
    fused, dynamic = pair((3,))
    for group in ("action", "observation", "reward", "done", "state"):
        found, expected = getattr(fused, f"full_{group}_spec"), getattr(dynamic, f"full_{group}_spec")
        assert set(found.keys(True, True)) == set(expected.keys(True, True)) - shown_only(fused, group), group
        for key, leaf in found.items(True, True):
            other = expected[key]
            assert (leaf.shape, leaf.dtype) == (other.shape, other.dtype), (group, key)


def policy(env: EnvBase[Any]) -> Callable[[TensorDictBase], TensorDictBase]:
    return lambda td: td.update(env.full_action_spec.rand())


def test_actions_keep_their_bounds_behind_a_cast(own: ModuleType) -> None:
    spec = own.Single(batch_size=(3,)).action_spec
    assert spec.dtype is torch.float32
    assert spec == OWN["Single"](own, (3,)).action_spec


def shown_only(env: EnvBase[Any], group: str) -> set[Any]:
    """Carries that the next step reads from their private place: a fused chain does not ask for the shown ones."""
    private = {key[-1] for key in env.state_keys if "_carry" in key} - {"th", "thdot"}
    return private if group == "state" else set()


@pytest.mark.parametrize(
    ("name", "batch"), with_batches([name for name in OWN if name != "Team"], (4, 3), ())
)
def test_contract(own: ModuleType, name: str, batch: Batch) -> None:
    def make() -> Any:
        made = getattr(own, name)(batch_size=batch)
        return made.freeze() if name.startswith("Learned") else made  # what learns gives no answer twice

    steps = {"Rewritten": 22, "Normed": 27, "Single": 20}.get(name, 17)  # more than an episode has
    if name == "Patient":  # it asks for a time limit that does not end the episode
        with pytest.raises(AssertionError, match=r"'done' in the root is not 'terminated' \| 'truncated'"):
            check_env(make, steps=steps)
    else:
        check_env(make, steps=steps)
