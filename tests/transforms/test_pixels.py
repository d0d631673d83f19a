"""Pictures as observations: those that the environment draws of its own state, as TorchRL writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.envs import GymEnv, SerialEnv, check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.transforms import Compose, PixelRenderTransform, TransformedEnv
from specgen_std.chains import CartPoleTrain
from specgen_std.envs import CartPole, Pendulum
from specgen_std.transforms import GrayScale, ObservationNorm, Resize, ToTensorImage

from tests.transforms.envs import Walk


@pytest.mark.parametrize("batch", [(), (2,), (2, 1)])
@pytest.mark.parametrize("make", [CartPole, CartPoleTrain])
def test_what_is_drawn_is_the_state(make: Any, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(make(batch_size=batch), PixelRenderTransform())
    pixels = env.observation_spec["pixels"]
    assert isinstance(pixels, Bounded)
    check_env_specs(env)
    data = env.rollout(3, break_when_any_done=False)
    plain = CartPole(batch_size=batch)
    assert data["pixels"].shape == (*batch, 3, *pixels.shape[-3:])
    assert torch.equal(data["pixels"], torch.from_numpy(plain.render(data)))
    assert torch.equal(data["next", "pixels"], torch.from_numpy(plain.render(data["next"])))


def test_a_transform_before_it_changes_no_picture() -> None:
    scaled = ObservationNorm(loc=3.0, scale=0.5, in_keys=["theta"])
    env = TransformedEnv(CartPole(batch_size=[2]), Compose(scaled, PixelRenderTransform()))
    env.set_seed(0)
    plain = TransformedEnv(CartPole(batch_size=[2]), PixelRenderTransform())
    plain.set_seed(0)
    torch.testing.assert_close(env.reset()["pixels"], plain.reset()["pixels"])


def test_rows_that_are_not_reset_keep_their_picture() -> None:
    env = TransformedEnv(Pendulum(batch_size=[2]), PixelRenderTransform())
    root = env.rollout(4)[:, -1]["next"].exclude("reward")
    fresh = env.reset(root.clone().set("_reset", torch.tensor([[True], [False]])))
    assert torch.equal(fresh["pixels"][1], root["pixels"][1])
    assert not torch.equal(fresh["pixels"][0], root["pixels"][0])
    assert torch.equal(fresh["pixels"], torch.from_numpy(env.base_env.render(fresh)))


def test_specs_draw_nothing_random() -> None:
    env = TransformedEnv(CartPole(), PixelRenderTransform())
    env.set_seed(4)
    assert env.observation_spec["pixels"].shape[-1] == 3
    plain = CartPole()
    plain.set_seed(4)
    assert torch.equal(env.reset()["observation"], plain.reset()["observation"])


def test_images_go_on_to_the_next_transforms() -> None:
    images = Compose(PixelRenderTransform(), ToTensorImage(), GrayScale(), Resize(21, 14))
    env = TransformedEnv(CartPole(batch_size=[2]), images)
    check_env_specs(env)
    assert env.reset()["pixels"].shape == (2, 1, 14, 21)


def test_batches_of_environments() -> None:
    env = TransformedEnv(SerialEnv(2, CartPole), PixelRenderTransform())
    check_env_specs(env)
    root = env.reset()
    assert torch.equal(root["pixels"][1], torch.from_numpy(CartPole().render(root[1])))


@pytest.mark.peers
def test_images_of_gymnasium_are_those_of_torchrl() -> None:
    theirs = pytest.importorskip("torchrl.envs")
    record = pytest.importorskip("torchrl.record")
    options = {"render_mode": "rgb_array"}
    env = TransformedEnv(GymEnv("CartPole-v1", **options), PixelRenderTransform("screen"))
    check_env_specs(env)
    peer = theirs.TransformedEnv(
        theirs.GymEnv("CartPole-v1", **options), record.PixelRenderTransform("screen")
    )
    peer.observation_spec  # noqa: B018 - resets
    root, peer_root = (e.reset(seed=3) for e in (env, peer))
    for _ in range(5):
        assert torch.equal(root["screen"], peer_root["screen"])
        root = env.rand_action(root)
        following = env.step(root)["next"]
        peer_following = peer.step(peer_root.set("action", root["action"].clone()))["next"]
        assert torch.equal(following["screen"], peer_following["screen"])
        root, peer_root = following.exclude("reward"), peer_following.exclude("reward")


def test_what_is_made_of_pictures() -> None:
    def small(picture: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return picture[..., ::-8, ::8, 0] / np.float32(255)

    env = TransformedEnv(CartPole(batch_size=[2]), PixelRenderTransform(preproc=small))
    check_env_specs(env)
    assert env.reset()["pixels"].dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: PixelRenderTransform(["a", "b"]), ValueError, "writes one entry"),
        (
            lambda: TransformedEnv(Walk(2), PixelRenderTransform()).reset(),
            ValueError,
            "needs an environment with a method 'render'",
        ),
        (
            lambda: TransformedEnv(CartPole(), PixelRenderTransform("observation")).reset(),
            ValueError,
            "adds 'observation', which is there already",
        ),
        (
            lambda: TransformedEnv(
                CartPole(batch_size=[2]), PixelRenderTransform(preproc=lambda made: made[0])
            ).reset(),
            ValueError,
            r"needs one picture for each row, \[2\] in front",
        ),
        (
            lambda: TransformedEnv(GymEnv("CartPole-v1"), PixelRenderTransform()).reset(),
            ValueError,
            "rgb_array",
        ),
        (
            lambda: PixelRenderTransform()(CartPole().rollout(2)),
            NotImplementedError,
            r"`env.render\(data\)` draws pictures",
        ),
    ],
)
def test_refusals(make: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make()
