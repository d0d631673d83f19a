"""ObservationNorm: numbers that are given, and numbers that are learned once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded, Unbounded
from specgen_runtime.transforms import TransformedEnv
from specgen_std.transforms import ObservationNorm, ToTensorImage
from tensordict import TensorDict

from tests.transforms.envs import Walk
from tests.transforms.test_actions import Echo, acted


@pytest.mark.parametrize("standard_normal", [False, True])
def test_observation_norm_learns_once(standard_normal: bool) -> None:
    env = TransformedEnv(
        Walk(3), norm := ObservationNorm(in_keys=["position"], standard_normal=standard_normal)
    )
    assert isinstance(env.observation_spec["position"], Unbounded)  # specs do not need what is not known yet
    with pytest.raises(RuntimeError, match=r"no 'shift' of 'position' yet: .* `init_stats"):
        env.reset()
    with pytest.raises(RuntimeError, match="no 'shift' of 'position' yet"):
        ObservationNorm(in_keys=["position"])(Walk(3).rollout(2))
    torch.manual_seed(0)
    assert not norm.initialized
    norm.init_stats(40)
    assert norm.initialized
    torch.manual_seed(0)
    seen = Walk(3).rollout(40, break_when_any_done=False)["next", "position"]
    shown = norm(TensorDict({"position": seen}, [3, 40]))["position"].double().reshape(-1, 3)
    torch.testing.assert_close(shown.mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        shown.std(0, correction=0), torch.ones(3, dtype=torch.float64), atol=1e-5, rtol=0
    )
    assert norm.state_dict()["factor|position"].shape == (
        3,
    )  # rows and times count alike; the peer had a table over time
    saved = env.state_dict()
    with pytest.raises(RuntimeError, match="already; they are learned once"):
        norm.init_stats(3)
    other = TransformedEnv(Walk(3), ObservationNorm(in_keys=["position"], standard_normal=standard_normal))
    other.load_state_dict(saved)
    assert other.transform.initialized
    torch.manual_seed(1)
    expected = env.rollout(5)
    torch.manual_seed(1)
    assert torch.equal(other.rollout(5)["next", "position"], expected["next", "position"])


@pytest.mark.parametrize("standard_normal", [False, True])
def test_parameters_are_what_was_learned(standard_normal: bool) -> None:
    env = TransformedEnv(
        Walk(3), norm := ObservationNorm(in_keys=["position"], standard_normal=standard_normal)
    )
    assert norm.loc is None
    assert norm.scale is None
    specs = env.observation_spec.clone()
    norm.init_stats(10)
    learned = norm.state_dict()
    assert {*learned} == {"shift|position", "factor|position"}
    loaded = ObservationNorm(in_keys=["position"], standard_normal=standard_normal)
    loaded.load_state_dict(learned)
    for one in (norm, norm.clone(), copy.deepcopy(norm), loaded):
        assert torch.equal(one.loc, learned["shift|position"])
        assert torch.equal(one.scale, learned["factor|position"])
    data = Walk(3).rollout(5)
    given = ObservationNorm(norm.loc, norm.scale, ["position"], standard_normal=standard_normal)
    assert torch.equal(given(data.copy())["position"], norm(data.copy())["position"])
    env.empty_cache()
    assert env.observation_spec == specs  # what is learned later changes no spec
    several = ObservationNorm(in_keys=["position", "twice"], standard_normal=standard_normal)
    several.learn(TensorDict({"position": torch.rand(9), "twice": torch.rand(9)}, [9]))
    assert several.loc is None  # there are two


def test_given_numbers_stay() -> None:
    env = TransformedEnv(Walk(3, bounded=True), norm := ObservationNorm(loc=1.0, in_keys=["position"]))
    assert not norm.initialized
    norm.init_stats(20)
    assert torch.equal(norm.state_dict()["shift|position"], torch.ones(3))
    assert not torch.equal(norm.state_dict()["factor|position"], torch.ones(3))
    env.rollout(3)
    env = TransformedEnv(Walk(3, bounded=True), norm := ObservationNorm(1.0, [1.0, -2.0, 0.0], ["position"]))
    with pytest.raises(RuntimeError, match="already"):
        norm.init_stats(3)
    low, high = env.observation_spec["position"].low, env.observation_spec["position"].high
    assert (low <= high).all()  # a negative scale turns bounds round


@pytest.mark.peers
def test_observation_norm_agrees_with_torchrl() -> None:
    theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
    data = Walk(3).rollout(30, break_when_any_done=False)["next"]
    for standard_normal in (False, True):
        norm = ObservationNorm(in_keys=["position"], standard_normal=standard_normal)
        norm.learn(data)
        learned = norm.state_dict()
        peer = theirs.ObservationNorm(
            loc=norm.loc,
            scale=norm.scale,
            in_keys=["position"],
            standard_normal=standard_normal,
        )
        torch.testing.assert_close(norm(data.clone())["position"], peer(data.clone())["position"])
        flat = data["position"].reshape(-1, 3)
        mean, deviation = flat.mean(0), flat.std(0, correction=0)
        expected = (mean, deviation) if standard_normal else (-mean / deviation, 1 / deviation)
        torch.testing.assert_close(learned["shift|position"], expected[0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(learned["factor|position"], expected[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("standard_normal", [False, True])
@pytest.mark.parametrize("over", [[-1], [-1, -3], []])
def test_axes_that_share_what_is_learned(over: list[int], standard_normal: bool) -> None:
    """One number for each channel of an image, say; TorchRL's `reduce_dim` and `keep_dims`."""
    images = torch.rand(50, 4, 3, 5, 6, dtype=torch.float64) * torch.arange(1.0, 4)[:, None, None] + 2
    norm = ObservationNorm(in_keys=["pixels"], standard_normal=standard_normal, over=over)
    norm.learn(TensorDict(pixels=images, batch_size=[50, 4]))
    axes = [0, 1, *(axis % 5 for axis in over)]
    expected = (images - images.mean(axes, keepdim=True)) / images.std(axes, keepdim=True, correction=0)
    shown = norm(TensorDict(pixels=images.clone(), batch_size=[50, 4]))["pixels"]
    torch.testing.assert_close(shown, expected)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("standard_normal", [False, True])
def test_actions_as_observations_are_shown(standard_normal: bool, batch: tuple[int, ...]) -> None:
    theirs = pytest.importorskip("torchrl.envs.transforms")
    numbers: Any = {"loc": 0.5, "scale": 2.0, "standard_normal": standard_normal}
    norm = ObservationNorm(in_keys=[], in_keys_inv=["action"], **numbers)
    env = TransformedEnv(Echo(*batch, action=Bounded(-1.0, 3.0, (2,))), norm)
    check_env_specs(env)
    peer = theirs.ObservationNorm(in_keys=[], in_keys_inv=["action"], **numbers)
    ends = torch.tensor([-1.0, 3.0])
    low, high = peer._apply_transform(ends)
    assert env.action_spec == Bounded(low.item(), high.item(), (*batch, 2))
    written = env.action_spec.rand()
    assert torch.equal(acted(env, action=written)["seen_action"], peer._inv_apply_transform(written))


def test_what_is_learned_has_no_way_back() -> None:
    """TorchRL learns from the first of `in_keys`, and gives the environment numbers by that."""
    with pytest.raises(ValueError, match="with these parameters nothing takes the place of 'action'"):
        TransformedEnv(Walk(), ObservationNorm(in_keys=["position"], in_keys_inv=["action"])).rand_action()


@pytest.mark.peers
@pytest.mark.parametrize("keep_dims", [None, (-1, -2)])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_dimensions_that_share_what_is_learned_in_an_environment(
    batch: tuple[int, ...], keep_dims: tuple[int, ...] | None
) -> None:
    """TorchRL's `init_stats` with the dimensions of images that its own tests take; it divides by one row less."""
    theirs = pytest.importorskip("torchrl.envs.transforms")
    from tests.transforms.screens import Screen

    base = TransformedEnv(Screen(*batch), ToTensorImage())
    norm = ObservationNorm(in_keys=["pixels"], standard_normal=True)
    _ = TransformedEnv(base, norm)
    moment = len(batch) + 1
    reduce_dim = (*range(moment), moment + 1, moment + 2)
    torch.manual_seed(0)
    norm.init_stats(30, reduce_dim, moment - 1, "pixels", keep_dims)
    torch.manual_seed(0)
    seen = base.rollout(30, break_when_any_done=False)["next", "pixels"]
    assert seen.shape == (*batch, 30, 3, 5, 7)
    peer = theirs.ObservationNorm(
        loc=seen.mean(reduce_dim, keepdim=True).reshape(3, 1, 1),
        scale=seen.std(reduce_dim, keepdim=True, correction=0).reshape(3, 1, 1),
        in_keys=["pixels"],
        standard_normal=True,
    )
    data = TensorDict(pixels=seen, batch_size=seen.shape[:moment])
    torch.testing.assert_close(norm(data.clone())["pixels"], peer(data.clone())["pixels"])
    assert norm.state_dict()["shift|pixels"].shape == (3, 5, 7)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"reduce_dim": 1}, r"rows and times, which all count alike, got \[1\]: \[0\] missing"),
        ({"reduce_dim": (0, 3)}, r"reduce_dim must be dimensions of a value that has 3, got 3"),
        ({"reduce_dim": (0, 1), "cat_dim": 2}, r"cat_dim must be one of reduce_dim, \[0, 1\], got 2"),
        ({"cat_dim": 2}, r"cat_dim must be of reduce_dim, \[0, 1\], got \[2\]"),
        ({"reduce_dim": (0, 1), "keep_dims": (-1,)}, r"keep_dims must be of reduce_dim, \[0, 1\], got \[2\]"),
    ],
)
def test_dimensions_that_do_not_fit(said: dict[str, Any], problem: str) -> None:
    _ = TransformedEnv(Walk(2), norm := ObservationNorm(in_keys=["position"]))
    with pytest.raises(ValueError, match=problem):
        norm.init_stats(3, **said)
    norm.init_stats(3, (0, -2), -2)


def test_rewards_are_read_without_their_last_dimension() -> None:
    """All of ``[batch, time, 1]``, or all but that one: it is no axis of a row here."""
    learned = []
    for reduce_dim in (None, (0, 1), (0, 1, 2), (0, 1, -1)):
        _ = TransformedEnv(Walk(2), norm := ObservationNorm(in_keys=["reward"]))
        torch.manual_seed(0)
        norm.init_stats(9, reduce_dim)
        learned.append(norm.state_dict()["shift|reward"])
        assert learned[-1].shape == ()
    assert all(torch.equal(one, learned[0]) for one in learned)
