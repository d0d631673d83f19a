"""`record_video`: an episode of a policy as a moving picture."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs import EnvBase, ExplorationType, set_exploration_type
from specgen_runtime.envs.policy import as_policy
from specgen_runtime.extras import import_extra
from specgen_runtime.training.episode_returns import row_values
from specgen_runtime.training.evaluation import evaluation_mode
from specgen_runtime.typing import Array, NestedKey

__all__ = ["record_video"]


@torch.no_grad()
def record_video(
    env: EnvBase[Any, Any],
    policy: Callable[..., Any],
    path: str | Path,
    *,
    seed: int,
    max_steps: int = 1000,
    fps: float = 30,
    pixels: NestedKey = "pixels",
    exploration: ExplorationType = ExplorationType.DETERMINISTIC,
) -> Path:
    """Record one episode, of the first environment of a batch.

    Args:
        env: an environment that observes images under `pixels`, or has a method `render()` or `render(root)` that gives
            them: uint8 `[H, W, 3]`, with batch dimensions in front where there are several environments. It is one of its
            own, as for `evaluate`.
        policy: what `EnvBase.rollout` takes.
        path: of the video: `.gif` (needs pillow, which comes with matplotlib), or `.mp4` (needs imageio and imageio-ffmpeg).
        seed: of the environment, and of torch's global generators meanwhile.
        max_steps: the most steps that are shown.
        fps: images in a second.
        pixels: the key of the images.
        exploration: how stochastic policies choose; by default their deterministic action.

    Returns:
        The path.

    Raises:
        ValueError: the ending of `path` is another, or there is nothing to see.
        TypeError: the images are no uint8 `[H, W, 3]`.
        ImportError: what writes the video is not installed.
    """
    target = Path(path)
    if target.suffix not in (".gif", ".mp4"):
        raise ValueError(f"record_video writes .gif or .mp4, found {target.name!r}")
    with evaluation_mode(policy, seed), set_exploration_type(exploration):
        env.set_seed(seed)
        act = as_policy(env._env_layout, policy)
        root = env.reset()
        images = [_image(env, root, pixels)]
        over = False
        while not over and len(images) <= max_steps:
            step, root = env.step_and_maybe_reset(act(root))
            over = bool(row_values(step["next", "done"], env.batch_dims).reshape(-1)[0])
            if not over:
                images.append(_image(env, root, pixels))
            elif pixels in step["next"].keys(True) or _renders_roots(env):
                images.append(_image(env, step["next"], pixels))
            # otherwise what could be seen of the end is gone: the next episode has begun
    target.parent.mkdir(parents=True, exist_ok=True)
    (_write_gif if target.suffix == ".gif" else _write_mp4)(target, images, fps)
    return target


def _image(env: EnvBase[Any, Any], root: TensorDictBase, pixels: NestedKey) -> Array:
    """What is to be seen of the first environment: uint8 `[H, W, 3]`."""
    found = root.get(pixels, None)
    if found is None:
        render = getattr(env, "render", None)
        found = None if not callable(render) else render(root) if _renders_roots(env) else render()
    if found is None:
        raise ValueError(
            f"there is nothing to see of {type(env).__name__}: it has no entry {pixels!r}, and no render() that gives an"
            " image. A declared environment is drawn by the section `render` of its schema; of Gymnasium's, make one for"
            " the video with render_mode='rgb_array'"
        )
    return _checked(found, env.batch_dims)


def _renders_roots(env: EnvBase[Any, Any]) -> bool:
    """Whether `render` draws what a tensordict says; others draw the present of a simulator."""
    render = getattr(env, "render", None)
    if not (inspect.ismethod(render) or inspect.isfunction(render)):
        return False
    try:
        inspect.signature(render).bind(None)
    except TypeError:
        return False
    return True


def _checked(found: Any, batch_dims: int) -> Array:
    while isinstance(found, list | tuple):  # of the environments of a batch
        found = found[0]
    image: Array = found.detach().cpu().numpy() if isinstance(found, Tensor) else np.asarray(found)
    if image.ndim == batch_dims + 3:
        image = image.reshape(-1, *image.shape[batch_dims:])[0]
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] != 3:
        raise TypeError(f"images must be uint8 [H, W, 3], found {image.dtype} {list(image.shape)}")
    return image


def _write_gif(path: Path, images: list[Array], fps: float) -> None:
    pillow: Any = import_extra("PIL.Image", "a GIF needs pillow", "train")
    first, *others = [pillow.fromarray(image) for image in images]
    first.save(path, save_all=True, append_images=others, duration=round(1000 / fps), loop=0)


def _write_mp4(path: Path, images: list[Array], fps: float) -> None:
    imageio: Any = import_extra("imageio.v3", "an MP4 needs imageio and imageio-ffmpeg", "video")
    import_extra("imageio_ffmpeg", "an MP4 needs imageio and imageio-ffmpeg", "video")
    imageio.imwrite(path, np.stack(images), fps=fps, plugin="FFMPEG")
