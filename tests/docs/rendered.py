"""The sheet of pictures in the manual: our environments beside Gymnasium's, in the same states."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
import torch
from PIL import Image
from specgen_std.envs import Acrobot, CartPole, CliffWalking, FrozenLake, MountainCar, Pendulum, Taxi

WIDTH, GAP = 240, 6


def ours(made: Any, **state: float) -> Image.Image:
    """Our picture of a state."""
    env = made()
    env.set_seed(0)
    td = env.reset()
    for key, value in state.items():
        td[key] = torch.as_tensor(value, dtype=td[key].dtype)
    return Image.fromarray(env.render(td))


def theirs(id: str, **attributes: Any) -> Image.Image:
    """Gymnasium's picture, with attributes of the environment set as they are given."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    env = gymnasium.make(id, render_mode="rgb_array")
    env.reset(seed=0)
    for name, value in attributes.items():
        setattr(env.unwrapped, name, value)
    return Image.fromarray(np.asarray(env.render()))


def pairs() -> list[tuple[Image.Image, Image.Image]]:
    """Each environment, ours and Gymnasium's."""
    cart = ours(CartPole, x=0.6, x_dot=0, theta=0.3)
    car = ours(MountainCar, position=0.1)
    arms = ours(Acrobot, theta1=0.7, theta2=0.9)
    taxi = ours(Taxi, row=2, column=1, passenger=3, destination=0)
    in_taxi = ((2 * 5 + 1) * 5 + 3) * 4 + 0
    return [
        (cart, theirs("CartPole-v1", state=np.array([0.6, 0, 0.3, 0]))),
        (car, theirs("MountainCar-v0", state=np.array([0.1, 0]))),
        (ours(Pendulum, th=0.8), theirs("Pendulum-v1", state=np.array([0.8, 0]), last_u=None)),
        (arms, theirs("Acrobot-v1", state=np.array([0.7, 0.9, 0, 0]))),
        (ours(FrozenLake, cell=6), theirs("FrozenLake-v1", s=6)),
        (taxi, theirs("Taxi-v4", s=in_taxi, lastaction=None)),
        (ours(CliffWalking, cell=14), theirs("CliffWalking-v1", s=14)),
    ]


def sheet() -> Image.Image:
    """All pairs in two columns."""
    rows = [_side_by_side(*pair) for pair in pairs()]
    columns = [rows[0::2], rows[1::2]]
    high = max(sum(row.height + GAP for row in column) for column in columns)
    found = Image.new("RGB", (2 * rows[0].width + 3 * GAP, high), "#cccccc")
    for place, column in enumerate(columns):
        top = GAP // 2
        for row in column:
            found.paste(row, (place * (row.width + 2 * GAP), top))
            top += row.height + GAP
    return found.quantize(128)


def _side_by_side(left: Image.Image, right: Image.Image) -> Image.Image:
    scaled = [
        one.resize((WIDTH, round(one.height * WIDTH / one.width)), Image.Resampling.BOX)
        for one in (left, right)
    ]
    found = Image.new("RGB", (2 * WIDTH + GAP, max(one.height for one in scaled)), "#cccccc")
    found.paste(scaled[0], (0, 0))
    found.paste(scaled[1], (WIDTH + GAP, 0))
    return found
