"""Resize against TorchRL's, which calls torchvision: its formula for tensors stands in where that is not installed."""

from __future__ import annotations

import sys
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
import specgen_std.transforms as ours
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.functional import resize_image
from specgen_runtime.specs import Bounded
from specgen_runtime.transforms import Compose, TransformedEnv
from tensordict import TensorDict
from torch import Tensor
from torch.nn.functional import interpolate

from tests.transforms.screens import Screen, TheirScreen
from tests.transforms.test_against_torchrl import run, theirs

pytestmark = pytest.mark.peers

HOW = ["nearest", "bilinear", "bicubic"]


class InterpolationMode(Enum):
    """The words that torchvision takes."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


def torchvision_resize(
    image: Tensor, size: list[int], interpolation: InterpolationMode, antialias: bool
) -> Tensor:
    """What torchvision 0.28 does with tensors [N, C, H, W] or [C, H, W]: bytes by way of float32, cut off and rounded."""
    mode, dtype = interpolation.value, image.dtype
    batch = image[None] if image.ndim == 3 else image
    made = interpolate(
        batch if dtype.is_floating_point else batch.float(),
        size=size,
        mode=mode,
        align_corners=None if mode == "nearest" else False,
        antialias=antialias and mode != "nearest",
    )
    if mode == "bicubic" and dtype == torch.uint8:
        made = made.clamp(0, 255)
    made = made if dtype.is_floating_point else made.round().to(dtype)
    return made[0] if image.ndim == 3 else made


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torchvision of no more than `resize`, for TorchRL to import."""
    functional = ModuleType("torchvision.transforms.functional")
    functional.__dict__.update(resize=torchvision_resize, InterpolationMode=InterpolationMode)
    for name in ("torchvision", "torchvision.transforms"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, functional.__name__, functional)
    monkeypatch.setattr(sys.modules[theirs.Resize.__module__], "_has_tv", True)


def our_chain(how: str) -> list[Any]:
    small = ours.Resize(4, 3, how, in_keys=["pixels"], out_keys=["small"])  # type: ignore[arg-type]
    return [ours.ToTensorImage(), small, ours.Resize(9, 8, how)]  # type: ignore[arg-type]


def their_chain(how: str) -> list[Any]:
    """The same; `w` is the height of theirs."""
    small = theirs.Resize(3, 4, how, in_keys=["pixels"], out_keys=["small"])
    return [theirs.ToTensorImage(), small, theirs.Resize(8, 9, how, in_keys=["pixels"])]


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
@pytest.mark.parametrize("how", HOW)
def test_agrees(how: str, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Screen(*batch), Compose(*our_chain(how), ours.ExcludeTransform("lives")))
    peer = theirs.TransformedEnv(TheirScreen(*batch), theirs.Compose(*their_chain(how)))
    check_env_specs(env)
    run(env, peer, partial=bool(batch))
    for key, shape in (("small", (3, 3, 4)), ("pixels", (3, 8, 9))):
        assert env.observation_spec[key].shape == peer.observation_spec[key].shape == (*batch, *shape)
    plain = Screen(*batch).rollout(12, break_when_any_done=False)
    data, there = Compose(*our_chain(how))(plain.clone()), theirs.Compose(*their_chain(how))(plain.clone())
    assert torch.equal(data["small"], there["small"])
    assert torch.equal(data["pixels"], there["pixels"])


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.float64])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("size", [(84, 84), (5, 7), (7, 5), (1, 1), (60, 33)])
def test_agrees_bit_by_bit(size: tuple[int, int], how: str, dtype: torch.dtype) -> None:
    image = (torch.rand(2, 3, 21, 16) * 255).to(dtype)
    made = ours.Resize(size[1], size[0], how)(TensorDict(pixels=image, batch_size=[2]))["pixels"]
    peer = theirs.Resize(*size, how, in_keys=["pixels"])(TensorDict(pixels=image, batch_size=[2]))["pixels"]
    assert made.dtype == dtype
    assert torch.equal(made, peer)


@pytest.mark.parametrize("how", HOW)
def test_a_size_that_is_there_already_changes_nothing(how: str) -> None:
    for dtype in (torch.uint8, torch.float32, torch.float64):
        image = (torch.rand(3, 21, 16) * 255).to(dtype)
        assert torch.equal(resize_image(image, 21, 16, how), image)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("how", ["nearest", "bilinear", "bicubic"])
def test_ends_of_whole_numbers_stay(dtype: torch.dtype, how: str) -> None:
    """Also 2**63 - 1, which no float64 is."""
    limits = torch.iinfo(dtype)
    for end in (limits.min, limits.max):
        made = resize_image(torch.full((1, 4, 6), end, dtype=dtype), 3, 5, how)
        torch.testing.assert_close(made.double(), torch.full((1, 3, 5), end).double(), rtol=1e-9, atol=0)


def test_bounds() -> None:
    """Means lie between the values; a cubic does not, and bytes stay bytes."""
    env = TransformedEnv(
        Screen(),
        Compose(
            ours.ToTensorImage(out_keys=["image"]),
            ours.Resize(3, out_keys=["between"], in_keys=["image"]),
            ours.Resize(3, interpolation="bicubic", in_keys=["image"], out_keys=["beyond"]),
        ),
    )
    between, beyond = env.observation_spec["between"], env.observation_spec["beyond"]
    assert isinstance(between, Bounded)
    assert between.space.low.min() == 0
    assert 0.999 < between.space.high.max() < 1.000001  # as sums of rounded weights are
    assert not isinstance(beyond, Bounded)
    edge = torch.zeros(1, 8, 8)
    edge[..., 4:] = 1
    assert resize_image(edge, 16, 16, "bicubic").max() > 1
    assert resize_image((edge * 255).to(torch.uint8), 16, 16, "bicubic").max() == 255


def test_no_images_are_resized_too() -> None:
    assert resize_image(torch.zeros(0, 3, 4, 6), 2, 5).shape == (0, 3, 2, 5)


def test_mapped_over() -> None:
    images = torch.rand(5, 3, 9, 8)
    mapped = torch.vmap(lambda image: resize_image(image, 4, 6))(images)
    assert torch.equal(mapped, resize_image(images, 4, 6))


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match="interpolation must be one of 'nearest', 'bilinear', 'bicubic'"):
        ours.Resize(3, interpolation="lanczos")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="interpolation must be 'nearest', 'bilinear' or 'bicubic'"):
        resize_image(torch.zeros(4, 4), 2, 2, "lanczos")
