"""Curves and videos: what is in the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from specgen_runtime.envs import GymEnv, SerialEnv
from specgen_runtime.training import curves, draw_curve, read_curve, record_video
from specgen_runtime.training.run_log import RunLog
from specgen_runtime.transforms import TransformedEnv
from specgen_std.chains.cartpole import CartPoleTrain
from tensordict import TensorDictBase

from tests.envs.counting import Counting
from tests.envs.gym_cartpole_chain import CartPoleChain
from tests.python_processes import run_python


def logged(folder: Path, points: dict[int, float], column: str = "evaluation") -> Path:
    folder.mkdir()
    log = RunLog(folder / "log.csv")
    log.add({"frames": 1, "loss": 3})
    for frames, value in points.items():
        log.add({"frames": frames, column: value})
    return folder


def test_a_single_run(tmp_path: Path) -> None:
    folder = logged(tmp_path / "dqn", {10: 1, 20: 5})
    assert draw_curve(folder) == folder / "curve.png"
    with Image.open(folder / "curve.png") as picture:
        assert picture.size == (1050, 600)
        assert len(picture.convert("RGB").getcolors(10**6)) > 10
    name, x, y = read_curve(folder)
    assert (name, x.tolist(), y.tolist()) == ("evaluation", [10, 20], [1, 5])
    assert read_curve(logged(tmp_path / "other", {10: 1}, "return"))[0] == "return"
    with pytest.raises(ValueError, match=r"has entropy over frames; its columns are frames, .*evaluation"):
        draw_curve(folder, column="entropy")
    with pytest.raises(FileNotFoundError):
        draw_curve(tmp_path / "nowhere")


def test_several_seeds(tmp_path: Path) -> None:
    seeds = [logged(tmp_path / "0", {0: 0, 20: 2, 40: 4}), logged(tmp_path / "1", {10: 11, 30: 13})]
    found = curves._mean_and_band([read_curve(folder)[1:] for folder in seeds])
    counts, mean, low, high = (array.tolist() for array in found)
    assert counts == [10, 20, 30]
    assert (low, high) == ([1, 2, 3], [11, 12, 13])
    assert mean == [6, 7, 8]
    path = tmp_path / "pictures" / "both.svg"
    assert draw_curve({"ours": seeds, "theirs": seeds[:1]}, path, threshold=3, title="Both") == path
    text = path.read_text()
    assert "PolyCollection" in text or "FillBetween" in text  # the band
    with pytest.raises(ValueError, match="several runs have no folder in common"):
        draw_curve(seeds)
    with pytest.raises(ValueError, match="at least one folder"):
        draw_curve([])


def test_a_run_that_ended_early_has_no_line(tmp_path: Path) -> None:
    early = logged(tmp_path / "early", {})
    assert draw_curve(early).is_file()
    whole = logged(tmp_path / "whole", {10: 1, 20: 5})
    draw_curve([early, whole], tmp_path / "both.svg")
    draw_curve(whole, tmp_path / "whole.svg", title=" ")
    lines = [(tmp_path / name).read_text().count('<g id="line2d') for name in ("both.svg", "whole.svg")]
    assert lines[0] == lines[1]
    with pytest.raises(
        ValueError,
        match="no row of the log has evaluation or return over frames; its columns are frames, loss",
    ):
        read_curve(early)


def test_drawing_needs_no_display_and_changes_no_settings(tmp_path: Path) -> None:
    folder = logged(tmp_path / "dqn", {10: 1, 20: 5})
    program = (
        "import sys\nfrom specgen_runtime.training import draw_curve\n"
        f"draw_curve({str(folder)!r})\nprint('matplotlib.pyplot' in sys.modules)"
    )
    found = run_python("-c", program)
    assert found.stdout == "False\n", found.stderr


class Drawn(CartPoleTrain):
    """Shows the position of the cart as a bright column."""

    def render(self, root: TensorDictBase) -> torch.Tensor:
        columns = ((root["x"] + 2.4) / 4.8 * 19).long().clamp(0, 19)
        picture = torch.zeros(*self.batch_size, 8, 20, 3, dtype=torch.uint8)
        hot = torch.nn.functional.one_hot(columns, 20).bool()
        picture[hot[..., None, :].expand(*self.batch_size, 8, 20)] = 255
        return picture


def right(tensordict: TensorDictBase) -> TensorDictBase:
    return tensordict.set("action", torch.ones(tensordict.batch_size, dtype=torch.int64))


def frames_of(path: Path) -> list[Any]:
    with Image.open(path) as video:
        frames = []
        for place in range(getattr(video, "n_frames", 1)):
            video.seek(place)
            frames.append(np.asarray(video.convert("RGB")))
        return frames


def duration(path: Path) -> int:
    """Of all frames together, in milliseconds."""
    with Image.open(path) as video:
        return sum(video.seek(place) or video.info["duration"] for place in range(video.n_frames))


@pytest.mark.parametrize("batch", [[], [3]])
def test_the_video_shows_the_episode(tmp_path: Path, batch: list[int]) -> None:
    env = Drawn(batch_size=batch)
    before = torch.get_rng_state()
    assert record_video(env, right, tmp_path / "sub" / "cart.gif", seed=1) == tmp_path / "sub" / "cart.gif"
    assert torch.equal(torch.get_rng_state(), before)
    env.set_seed(1)
    data = env.rollout(500, right, break_when_any_done=False)
    rows = data if not batch else data[0]
    length = int(rows["next", "done"].flatten().int().argmax()) + 1
    x = torch.cat([rows["x"][:length], rows["next", "x"][length - 1 : length]])
    columns = ((x + 2.4) / 4.8 * 19).long()
    assert duration(tmp_path / "sub" / "cart.gif") == pytest.approx(
        (length + 1) * 30, rel=0.15
    )  # 33 ms each, in hundredths of a second
    expected = [
        int(column) for place, column in enumerate(columns) if place == 0 or column != columns[place - 1]
    ]
    found = [int(frame[0, :, 0].argmax()) for frame in frames_of(tmp_path / "sub" / "cart.gif")]
    assert found == expected  # frames that are alike are one, shown longer


def test_simulators_are_shown(tmp_path: Path) -> None:
    pytest.importorskip("pygame")
    env = GymEnv("CartPole-v1", render_mode="rgb_array", categorical_action_encoding=True)
    record_video(env, right, tmp_path / "gym.gif", seed=0)
    assert frames_of(tmp_path / "gym.gif")[0].shape == (400, 600, 3)
    pixels = GymEnv("CartPole-v1", from_pixels=True, categorical_action_encoding=True)
    record_video(pixels, right, tmp_path / "pixels.gif", seed=0, max_steps=3)
    assert duration(tmp_path / "pixels.gif") == 4 * 30
    for declared in (CartPoleChain, lambda **kwargs: TransformedEnv(CartPoleChain(**kwargs))):
        record_video(declared(render_mode="rgb_array"), right, tmp_path / "declared.gif", seed=0, max_steps=3)
        assert frames_of(tmp_path / "declared.gif")[0].shape == (400, 600, 3)
    several = SerialEnv(2, CartPoleChain, create_env_kwargs={"render_mode": "rgb_array"})
    record_video(several, right, tmp_path / "several.gif", seed=0, max_steps=3)
    assert frames_of(tmp_path / "several.gif")[0].shape == (400, 600, 3)
    both = SerialEnv(
        2, lambda: GymEnv("CartPole-v1", render_mode="rgb_array", categorical_action_encoding=True)
    )
    record_video(both, right, tmp_path / "both.gif", seed=0, max_steps=3)
    assert frames_of(tmp_path / "both.gif")[0].shape == (400, 600, 3)


def test_what_can_not_be_shown(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is nothing to see of Counting: it has no entry 'pixels'"):
        record_video(Counting(), right, tmp_path / "a.gif", seed=0)
    unseen = r"make one for the video with render_mode='rgb_array'"
    with pytest.warns(UserWarning, match="render"), pytest.raises(ValueError, match=unseen):
        record_video(CartPoleChain(), right, tmp_path / "a.gif", seed=0)
    with pytest.raises(ValueError, match=r"writes .gif or .mp4, found 'a.avi'"):
        record_video(Drawn(), right, tmp_path / "a.avi", seed=0)

    class Wrong(CartPoleTrain):
        def render(self) -> Any:
            return np.zeros((2, 2))

    with pytest.raises(TypeError, match=r"images must be uint8 \[H, W, 3\], found float64 \[2, 2\]"):
        record_video(Wrong(), right, tmp_path / "a.gif", seed=0)
