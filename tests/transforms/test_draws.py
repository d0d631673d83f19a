"""Random draws of transforms: at resets, at steps, for actions, fused and one after another, and of recorded data."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv, SerialEnv
from specgen_runtime.testing import assert_identical, check_env
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.envs import CartPoleGym, Pendulum
from specgen_std.transforms import RandomTruncationTransform, StepCounter
from torch import Tensor

from tests.agreement.test_random_chains import drive, same_specs
from tests.support import generate, imported, library_records

SCHEMA = """\
specgen: 1
import:
  - specgen_std/envs/pendulum
  - specgen_std/envs/cartpole
  - specgen_std/transforms/step_counter
  - specgen_std/transforms/truncation
transforms:
  Walk:
    doc: A walk of its own beside each observation.
    params: {std: {default: 0.5, min: 0}, walks: true, size: {type: int, default: 2, min: 1, static: true}}
    in: {x: {each: [observation], type: "float[...]"}}
    out:
      place: {each: x, name: "{}_walk", type: like(x)}
      seed: {each: x, name: "{}_seed", type: "float32[size]"}
    carry: [place, seed]
    reset:
      place: std * normal(0, 1, like=x)
      seed: uniform(0, 1, shape=(size,))
    step:
      next.place: place + where(walks, std * normal(0, 1, like=next.x), zeros_like(next.x))
      next.seed: seed
  Horizon:
    doc: Episodes of random length.
    params: {most: {type: int, min: 1}}
    in: {done: {each: env.done, type: "bool[...]"}, count: {key: step_count, beside: done, type: "int64[...done]"}}
    out:
      horizon: {each: done, type: "int64[...]", hidden: true}
      truncated: {each: done, name: truncated, type: "bool[...]"}
    carry: [horizon]
    reset: {horizon: "randint(1, most + 1, like=done)"}
    step: {next.horizon: horizon, next.truncated: next.truncated or next.count >= horizon}
  Shake:
    doc: Noise on actions.
    params: {width: 0.25}
    in: {u: {each: env.action, type: "float[...]", inverse: true}}
    out: {v: {each: u, name: same, type: like(u)}}
    inverse: {u: "clip(v + uniform(-width, width, like=v), -2, 2)"}
  Drop:
    doc: Entries that go.
    in: {xs: {all: [], varargs: true}}
    drops: [xs]
chains:
  Fused:
    env: Pendulum
    transforms:
      - StepCounter
      - Walk: {std: 0.25}
      - Walk: {walks: false, size: 3, in_keys: [th]}
      - Drop: {in_keys: [th_walk]}
      - Horizon: {most: 9}
      - Shake: {width: 0.5}
      - Shake
  OverGymnasium:
    env: CartPoleGym
    transforms:
      - StepCounter
      - Horizon: {most: 9}
      - Walk
  Truncated:
    env: Pendulum
    transforms:
      - StepCounter
      - RandomTruncationTransform: {min_horizon: 3, max_horizon: 8, prob: 0.5}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"schema.yaml": SCHEMA}, "draws_package", library_records())
    with imported(files, "draws_package", tmp_path_factory.mktemp("generated")) as module:
        yield module


def native(package: Any, batch: tuple[int, ...]) -> TransformedEnv:
    chain = Compose(
        StepCounter(),
        package.Walk(std=0.25),
        package.Walk(walks=False, size=3, in_keys=["th"]),
        package.Drop("th_walk"),
        package.Horizon(9),
        package.Shake(width=0.5),
        package.Shake(),
    )
    return TransformedEnv(Pendulum(batch_size=batch), chain)


def simulated(package: Any) -> TransformedEnv:
    return TransformedEnv(CartPoleGym(), Compose(StepCounter(), package.Horizon(9), package.Walk()))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_fused_as_one_after_another(package: Any, batch: tuple[int, ...]) -> None:
    """Also where a drawn value is dropped, and nothing reads it."""
    check_env(lambda: package.Fused(batch_size=batch), steps=15)
    check_env(lambda: native(package, batch), steps=15)
    fused, dynamic = package.Fused(batch_size=batch), native(package, batch)
    same_specs(fused, dynamic)
    drive(fused, dynamic)


def test_fused_over_gymnasium(package: Any) -> None:
    fused, dynamic = package.OverGymnasium(), simulated(package)
    same_specs(fused, dynamic)
    drive(fused, dynamic)
    for stop in (True, False):
        rollouts = []
        for env in (fused, dynamic):
            env.set_seed(3)
            torch.manual_seed(3)
            rollouts.append(env.rollout(30, break_when_any_done=stop))
        keys = [key for key in rollouts[0].keys(True, True) if "_carry" not in key]
        assert_identical(rollouts[0].select(*keys), rollouts[1].select(*keys))


def test_the_seed_of_the_environment_decides(package: Any) -> None:
    env = native(package, (4,))

    def rollout(seed: int, actions: int) -> Any:
        env.set_seed(seed)
        torch.manual_seed(actions)
        return env.rollout(20, break_when_any_done=False)

    assert_identical(rollout(1, 2), rollout(1, 2))
    assert not torch.equal(rollout(1, 2)["observation_walk"], rollout(3, 2)["observation_walk"])


def test_what_is_not_read_is_not_drawn(package: Any) -> None:
    """A choice of Python that falls on another branch; and specs, which are found by running the transform."""
    base = Pendulum(batch_size=[2])
    env = TransformedEnv(base, package.Walk(walks=False))
    before = base._generator.get_state()
    assert env.full_observation_spec["observation_walk"].shape == (2, 3)
    root = env.rand_action(TransformedEnv(base, package.Walk(walks=True)).full_observation_spec.zero())
    root.update(env.full_done_spec.zero())
    assert torch.equal(base._generator.get_state(), before)
    env.step(root)
    assert torch.equal(base._generator.get_state(), before)
    TransformedEnv(base, package.Walk()).step(root)
    assert not torch.equal(base._generator.get_state(), before)


def test_environments_without_a_generator_draw_from_the_global_one(package: Any) -> None:
    for env in (
        TransformedEnv(GymEnv("Pendulum-v1"), package.Walk()),
        TransformedEnv(SerialEnv(2, Pendulum), package.Walk()),
    ):
        env.reset()  # environments draw the seed of their generator when they are made
        torch.manual_seed(0)
        first = env.reset()["observation_walk"]
        assert not torch.equal(env.reset()["observation_walk"], first)
        torch.manual_seed(0)
        assert torch.equal(env.reset()["observation_walk"], first)


def test_recorded_data(package: Any) -> None:
    """A replay draws from the generator that it is given, at each reset and step anew."""
    data = TransformedEnv(Pendulum(batch_size=[64]), StepCounter(max_steps=10)).rollout(
        40, break_when_any_done=False
    )

    def replayed(seed: int, transform: Transform) -> Any:
        return transform(data.clone(), generator=torch.Generator().manual_seed(seed))

    before = torch.get_rng_state()
    walk = package.Walk(std=0.5)
    one, same, other = replayed(0, walk), replayed(0, walk), replayed(1, Compose(walk))
    assert_identical(one, same)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(one["observation_walk"], other["observation_walk"])
    assert not torch.equal(walk(data.clone())["observation_walk"], walk(data.clone())["observation_walk"])
    place, after = one["observation_walk"], one["next", "observation_walk"]
    assert torch.isclose(place[:, ::10].std(), torch.tensor(0.5), atol=0.05)
    assert torch.isclose((after - place).std(), torch.tensor(0.5), atol=0.05)
    begins = torch.zeros(64, 40, 1, dtype=torch.bool)
    begins[:, ::10] = True
    going_on = ~begins[:, 1:, 0]
    assert torch.equal(place[:, 1:][going_on], after[:, :-1][going_on])
    assert one["observation_seed"].shape == (64, 40, 2)


def test_actions_that_were_recorded(package: Any) -> None:
    """What the policy wrote, on its way into an environment, outside of any."""
    torch.manual_seed(0)
    shaken = package.Shake(in_keys_inv=["action"]).inv(action=torch.zeros(300, 1))
    assert shaken.abs().max() <= 0.25
    assert shaken.std() > 0.1


class TestRandomTruncation:
    @pytest.mark.parametrize("batch", [(), (2, 3)])
    def test_fused(self, package: Any, batch: tuple[int, ...]) -> None:
        chain = Compose(StepCounter(), RandomTruncationTransform(3, 8, 0.5))
        fused, dynamic = (
            package.Truncated(batch_size=batch),
            TransformedEnv(Pendulum(batch_size=batch), chain),
        )
        same_specs(fused, dynamic)
        drive(fused, dynamic)

    @staticmethod
    def lengths(prob: float) -> tuple[Tensor, Tensor]:
        """The lengths of the first episodes, and of the others."""
        env = TransformedEnv(
            Pendulum(batch_size=[600]), Compose(StepCounter(), RandomTruncationTransform(3, 8, prob))
        )
        env.set_seed(0)
        data = env.rollout(60, break_when_any_done=False)
        assert torch.equal(data["next", "done"], data["next", "truncated"])
        count, over = data["next", "step_count"][..., 0], data["next", "truncated"][..., 0]
        first = [row[ends][0] for row, ends in zip(count, over, strict=True)]
        later = [row[ends][1:] for row, ends in zip(count, over, strict=True)]
        return torch.stack(first), torch.cat(later)

    def test_first_episodes_are_spread(self) -> None:
        first, later = self.lengths(0.0)
        found = torch.bincount(first, minlength=9)
        assert found[0] == 0
        assert ((found[1:] - 75).abs() < 40).all()
        assert later.eq(8).all()

    def test_later_episodes(self) -> None:
        _, later = self.lengths(0.5)
        found = torch.bincount(later, minlength=9) / len(later)
        assert found[:3].eq(0).all()
        assert torch.allclose(found[3:8], torch.full((5,), 1 / 12), atol=0.03)
        assert torch.isclose(found[8], torch.tensor(7 / 12), atol=0.06)

    def test_each_reset_draws(self) -> None:
        env = TransformedEnv(
            Pendulum(batch_size=[200]), Compose(StepCounter(), RandomTruncationTransform(2, 5, 1.0))
        )
        env.reset()
        for _ in range(2):
            root = env.reset()
            lengths = [
                env.rollout(5, break_when_any_done=False, auto_reset=False, tensordict=root.clone())[
                    "next", "done"
                ]
                for _ in range(2)
            ]
            assert torch.equal(lengths[0][:, 0], lengths[1][:, 0])
            first = lengths[0][..., 0].int().argmax(-1)
            assert torch.equal(first, lengths[1][..., 0].int().argmax(-1))
            assert set(first.tolist()) == {1, 2, 3, 4}

    def test_that_there_were_episodes_is_saved(self) -> None:
        def make() -> EnvBase[Any]:
            chain = Compose(StepCounter(), RandomTruncationTransform(8, 8))
            return TransformedEnv(Pendulum(batch_size=[50]), chain)

        begun, loaded = make(), make()
        begun.reset()
        loaded.load_state_dict(begun.state_dict())
        assert loaded.rollout(20)["next", "step_count"].amax() == 8
        assert make().rollout(20).shape[1] < 8

    def test_contract(self) -> None:
        check_env(
            lambda: TransformedEnv(
                Pendulum(batch_size=[3]), Compose(StepCounter(), RandomTruncationTransform(2, 6, 0.5))
            ),
            steps=15,
        )


def test_the_largest_length_is_not_below_the_least() -> None:
    """TorchRL fails when it draws, at the second reset."""
    with pytest.raises(ValueError, match="max_horizon must be >= min_horizon, got 3 and 4"):
        RandomTruncationTransform(4, 3)
    assert RandomTruncationTransform(3, 3).max_horizon == 3
