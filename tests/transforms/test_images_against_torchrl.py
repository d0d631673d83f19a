"""The library's transforms of images, lives and goals against TorchRL's, and what differs from theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import specgen_std.transforms as ours
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.transforms import Compose, TransformedEnv
from tensordict import TensorDict

from tests.transforms.screens import HEIGHT, WIDTH, Screen, TheirScreen, seen
from tests.transforms.test_against_torchrl import run, theirs

pytestmark = pytest.mark.peers

BATCHES = [(), (3,), (4, 3)]


def chains(t: Any) -> dict[str, Callable[[], list[Any]]]:
    """Chains that agree bit by bit; called for both libraries."""
    return {
        "ToTensorImage": lambda: [t.ToTensorImage()],
        "ToTensorImage renamed": lambda: [t.ToTensorImage(in_keys=["pixels"], out_keys=["image"])],
        "SuccessReward": lambda: [t.SuccessReward()],
        "SuccessReward scaled": lambda: [t.SuccessReward(scale=2.5), t.RewardSum()],
        "SignTransform": lambda: [t.SignTransform(in_keys=["reward"])],
        "BinarizeReward": lambda: [t.BinarizeReward()],
        "RewardClipping": lambda: [t.RewardClipping(-0.5, 0.25)],
    }


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", chains(ours))
def test_agrees(name: str, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Screen(*batch), Compose(*chains(ours)[name](), ours.ExcludeTransform("lives")))
    peer = theirs.TransformedEnv(TheirScreen(*batch), theirs.Compose(*chains(theirs)[name]()))
    check_env_specs(env)
    run(env, peer, partial=bool(batch))
    for key, spec in env.observation_spec.items(True, True):
        if "_carry" not in key:
            other = peer.observation_spec[key]
            assert (spec.shape, spec.dtype) == (other.shape, other.dtype), key
    assert env.full_reward_spec["reward"].shape == peer.full_reward_spec["reward"].shape


@pytest.mark.filterwarnings("ignore:The base_env is not a gym env")
@pytest.mark.parametrize("batch", BATCHES)
def test_lives(batch: tuple[int, ...]) -> None:
    """TorchRL reads the lives from an attribute of the environment, ours where they are observed."""
    env = TransformedEnv(Screen(*batch), ours.EndOfLifeTransform(eol_key="eol"))
    peer = theirs.TransformedEnv(
        TheirScreen(*batch), theirs.EndOfLifeTransform(eol_key="eol", eol_attribute="lives")
    )
    run(env, peer, partial=bool(batch))
    check_env_specs(env)
    moment = env.rollout(20, break_when_any_done=False)["next", "moment"]
    assert moment.max() == 11


@pytest.mark.parametrize("batch", BATCHES)
def test_lives_and_another_flag_of_the_end(batch: tuple[int, ...]) -> None:
    given = {"eol_key": "eol", "done_key": "terminated"}
    env = TransformedEnv(Screen(*batch), ours.EndOfLifeTransform(**given))
    peer = theirs.TransformedEnv(
        TheirScreen(*batch), theirs.EndOfLifeTransform(**given, eol_attribute="lives")
    )
    run(env, peer, partial=bool(batch))
    check_env_specs(env)
    data = env.rollout(20, break_when_any_done=False)
    data["next", "over"] = torch.zeros_like(data["next", "terminated"])
    recorded = ours.EndOfLifeTransform(eol_key="eol", done_key="over")(data.clone())
    lost = (data["next", "lives"] < data["lives"]).unsqueeze(-1)
    assert torch.equal(recorded["next", "eol"], lost)
    assert not torch.equal(recorded["next", "eol"], data["next", "eol"])


def to_gray(image: torch.Tensor) -> torch.Tensor:
    """The weights of torchvision's `rgb_to_grayscale`, which TorchRL's GrayScale calls."""
    red, green, blue = image.unbind(-3)
    return (0.2989 * red + 0.587 * green + 0.114 * blue).to(image.dtype).unsqueeze(-3)


@pytest.mark.parametrize("batch", BATCHES)
def test_images(batch: tuple[int, ...]) -> None:
    """TorchRL's Crop, CenterCrop and GrayScale need torchvision; `w` is the height of its crops."""
    cut = ours.Crop(4, 2, top=1, left=2, in_keys=["pixels"], out_keys=["cut"])
    square = ours.Crop(3, in_keys=["pixels"], out_keys=["square"])
    middle = ours.CenterCrop(4, 2, in_keys=["pixels"], out_keys=["middle"])
    gray = ours.GrayScale(in_keys=["pixels"], out_keys=["gray"])
    env = TransformedEnv(Screen(*batch), Compose(ours.ToTensorImage(), cut, square, middle, gray))
    check_env_specs(env)
    data = env.rollout(15, break_when_any_done=False)
    for moment in (data, data["next"]):
        whole = seen(moment["moment"])["pixels"].movedim(-1, -3).float() / 255
        assert torch.equal(moment["pixels"], whole)
        assert torch.equal(moment["cut"], whole[..., 1:3, 2:6])
        assert torch.equal(moment["square"], whole[..., :3, :3])
        assert torch.equal(moment["middle"], whole[..., 1:3, 1:5])
        assert torch.equal(moment["gray"], to_gray(whole))
    for key, shape in (("cut", (3, 2, 4)), ("square", (3, 3, 3)), ("middle", (3, 2, 4)), ("gray", (1, 5, 7))):
        spec = env.observation_spec[key]
        assert isinstance(spec, Bounded)
        assert spec.shape == (*batch, *shape)
        assert spec.space.low.min() == 0
        assert 0.999 < spec.space.high.max() <= 1


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_gray_keeps_the_dtype(dtype: torch.dtype) -> None:
    image = torch.arange(2 * 3 * 4 * 6).reshape(2, 3, 4, 6).to(dtype)
    gray = ours.GrayScale()(TensorDict({"pixels": image}, [2]))["pixels"]
    assert gray.dtype == dtype
    assert torch.equal(gray, to_gray(image))


def test_an_axis_in_front_of_an_image() -> None:
    """As theirs where there is no batch; in a batch each image gets its own."""
    image = torch.randint(0, 256, (5, 6, 3), dtype=torch.uint8)
    data = TensorDict({"pixels": image})
    made = [t.ToTensorImage(unsqueeze=True, in_keys=["pixels"])(data.clone()) for t in (ours, theirs)]
    assert made[0]["pixels"].shape == (1, 3, 5, 6)
    assert torch.equal(made[0]["pixels"], made[1]["pixels"])
    env = TransformedEnv(Screen(3), ours.ToTensorImage(unsqueeze=True))
    check_env_specs(env)
    assert env.observation_spec["pixels"].shape == (3, 1, 3, HEIGHT, WIDTH)
    assert env.observation_spec["pixels"].space.high.eq(1).all()


@pytest.mark.parametrize("from_int", [None, True, False])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_who_divides_by_255(from_int: bool | None, dtype: torch.dtype) -> None:
    image = torch.randint(0, 256, (5, 6, 3)).to(dtype)
    data = TensorDict({"pixels": image})
    made = [t.ToTensorImage(from_int=from_int, in_keys=["pixels"])(data.clone()) for t in (ours, theirs)]
    assert torch.equal(made[0]["pixels"], made[1]["pixels"])


def test_images_in_the_middle_are_those_of_torchvision() -> None:
    """An odd margin is rounded down."""
    image = torch.rand(3, HEIGHT, WIDTH)
    for rows, columns in ((1, 1), (2, 3), (5, 7), (4, 6)):
        top, left = (HEIGHT - rows) // 2, (WIDTH - columns) // 2
        middle = ours.CenterCrop(columns, rows)(TensorDict({"pixels": image}))["pixels"]
        assert torch.equal(middle, image[:, top : top + rows, left : left + columns])


def test_specs_of_images_say_what_they_are() -> None:
    """TorchRL's spec of floats in [0, 1] stays one of whole numbers."""
    env = TransformedEnv(Screen(3), ours.ToTensorImage())
    peer = theirs.TransformedEnv(TheirScreen(3), theirs.ToTensorImage())
    assert type(env.observation_spec["pixels"]).__name__ == "BoundedContinuous"
    assert type(peer.observation_spec["pixels"]).__name__ == "BoundedDiscrete"
    double = TransformedEnv(Screen(3), ours.ToTensorImage(dtype="float64"))
    check_env_specs(double)
    assert double.reset()["pixels"].dtype == torch.float64


@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_dtypes_of_images(dtype: torch.dtype | None) -> None:
    """Without a dtype TorchRL's images have torch's default one, ours are of float32 whatever that is."""
    env = TransformedEnv(Screen(3), Compose(ours.ToTensorImage(dtype=dtype), ours.ExcludeTransform("lives")))
    check_env_specs(env)
    run(env, theirs.TransformedEnv(TheirScreen(3), theirs.ToTensorImage(dtype=dtype)), partial=True)
    torch.set_default_dtype(torch.float64)
    try:
        made = ours.ToTensorImage(dtype=dtype)(TensorDict({"pixels": torch.ones(2, 2, 3)}, []))["pixels"]
    finally:
        torch.set_default_dtype(torch.float32)
    assert made.dtype == torch.float32


@pytest.mark.parametrize("name", chains(ours))
def test_offline_as_in_an_environment(name: str) -> None:
    plain = Screen(3).rollout(12, break_when_any_done=False)
    env = TransformedEnv(Screen(3), Compose(*chains(ours)[name](), ours.EndOfLifeTransform(eol_key="eol")))
    actions = iter(plain["action"].unbind(-2))
    expected = env.rollout(12, lambda td: td.set("action", next(actions)), break_when_any_done=False)
    data = Compose(*chains(ours)[name](), ours.EndOfLifeTransform(eol_key="eol"))(plain.clone())
    for key in expected.keys(True, True):
        if "_carry" not in key:
            assert torch.equal(data.get(key), expected.get(key)), key


@pytest.mark.parametrize("make", [ours.Crop, ours.CenterCrop])
def test_crops_stay_within_the_image(make: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"can't be applied to 'pixels' of the shape \[3, 16, 16\]"):
        make(w=20)(TensorDict({"pixels": torch.zeros(3, 16, 16)}, []))
