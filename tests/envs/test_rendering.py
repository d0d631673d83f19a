"""Pictures of native environments: against Gymnasium's, of batches and rollouts, around transforms, and what is refused."""

from __future__ import annotations

import copy
import os
import pickle
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from specgen_runtime.envs import SerialEnv
from specgen_runtime.envs.rendering import Picture
from specgen_runtime.transforms import TransformedEnv
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.chains.simple_tag import SimpleTagTrain
from specgen_std.envs import (
    Acrobot,
    CartPole,
    CliffWalking,
    FrozenLake,
    FrozenLake8x8,
    MountainCar,
    MountainCarContinuous,
    Pendulum,
    Reacher,
    SimpleTag,
    Taxi,
)
from specgen_std.transforms.observation_norm import ObservationNorm
from specgen_std.transforms.step_counter import StepCounter

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

RENDERED = [
    Acrobot,
    CartPole,
    CliffWalking,
    FrozenLake,
    FrozenLake8x8,
    MountainCar,
    MountainCarContinuous,
    Pendulum,
    Reacher,
    SimpleTag,
    Taxi,
]


def shown(env: Any, **state: float) -> np.ndarray[Any, Any]:
    """The picture of a state."""
    td = env.reset()
    for key, value in state.items():
        td[key] = torch.as_tensor(value, dtype=td[key].dtype)
    image: np.ndarray[Any, Any] = env.render(td)
    return image


def centre(image: np.ndarray[Any, Any], color: tuple[int, int, int]) -> tuple[float, float]:
    """The mean row and column of the pixels of about a colour."""
    near = np.abs(image.astype(int) - np.array(color)).max(-1) < 30
    assert near.any(), f"nothing is of colour {color}"
    rows, columns = np.nonzero(near)
    return float(rows.mean()), float(columns.mean())


def moved(images: list[np.ndarray[Any, Any]]) -> tuple[float, float, float]:
    """The mean row and column of the pixels that differ between two pictures, and how many they are."""
    changed = np.abs(images[0].astype(int) - images[1]).max(-1) > 100
    rows, columns = np.nonzero(changed)
    return float(rows.mean()), float(columns.mean()), float(changed.sum())


@pytest.mark.parametrize(
    ("made", "id", "states"),
    [
        (CartPole, "CartPole-v1", [{"x": 0.6, "theta": 0.3}, {"x": -1.5, "theta": 0.1}]),
        (Pendulum, "Pendulum-v1", [{"th": 0.8}, {"th": 1.9}]),
        (Acrobot, "Acrobot-v1", [{"theta1": 0.7, "theta2": 0.9}, {"theta1": 1.1, "theta2": 2.4}]),
        (MountainCar, "MountainCar-v0", [{"position": 0.1}, {"position": 0.4}]),
        (MountainCarContinuous, "MountainCarContinuous-v0", [{"position": -0.9}, {"position": -0.5}]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_things_are_where_gymnasium_draws_them(made: Any, id: str, states: list[dict[str, float]]) -> None:
    peer = gymnasium.make(id, render_mode="rgb_array")
    peer.reset(seed=0)
    simulator: Any = peer.unwrapped
    simulator.last_u = None
    theirs = []
    for state in states:
        keys = list(made().full_state_spec.keys())
        simulator.state = np.array([state.get(key, 0.0) for key in keys])
        theirs.append(np.asarray(peer.render()))
    ours = [shown(made(), **state) for state in states]
    assert ours[0].shape == theirs[0].shape
    row, column, count = moved(theirs)
    assert moved(ours)[:2] == pytest.approx((row, column), abs=3)  # pygame draws edges twice
    assert moved(ours)[2] == pytest.approx(count, rel=0.15)


BLACK, BROWN = (0, 0, 0), (202, 152, 101)


@pytest.mark.parametrize(("made", "id"), [(FrozenLake, "FrozenLake-v1"), (FrozenLake8x8, "FrozenLake8x8-v1")])
def test_holes_are_where_gymnasiums_are(made: Any, id: str) -> None:
    simulator: Any = gymnasium.make(id).unwrapped
    tiles = simulator.desc.astype(str)
    image = shown(made(), cell=0)
    side = len(tiles)
    cell = image.shape[0] // side
    for row, column in np.ndindex(side, side):
        pixel = image[row * cell + cell // 8, column * cell + cell // 8]
        assert (tuple(pixel) == (0x2B, 0x4C, 0x6F)) is (tiles[row, column] == "H")


@pytest.mark.parametrize(("made", "columns"), [(FrozenLake, 4), (CliffWalking, 12)])
def test_a_walker_stands_in_its_cell(made: Any, columns: int) -> None:
    for cell in range(3):
        at = cell + columns  # the second row
        before, after = shown(made(), cell=0), shown(made(), cell=at)
        changed = np.abs(before.astype(int) - after).max(-1) > 0
        size = after.shape[1] // columns
        rows, places = np.nonzero(changed[size:])
        assert rows.mean() == pytest.approx(size / 2 - 0.5, abs=1)
        assert places.mean() == pytest.approx((cell + 0.5) * size - 0.5, abs=1)


def test_agents_are_where_they_are() -> None:
    env = SimpleTag(batch_size=[4])
    td = env.reset()
    positions = td["adversary", "position"]
    extent = torch.cat([positions, td["agent", "position"]], 1).abs().amax((1, 2)).add(0.2).clamp(min=1.2)
    images = env.render(td)
    for row in range(4):
        x, y = (positions[row, 0] / extent[row]).tolist()
        pixel = images[row, round(200 - 200 * y), round(200 + 200 * x)]
        assert tuple(pixel) in {(0xD9, 0x40, 0x40), (0x40, 0xA6, 0x40)}  # the agent may be above it


@pytest.mark.parametrize("made", RENDERED, ids=lambda made: made.__name__)
def test_every_row_is_drawn_as_if_it_were_alone(made: Any) -> None:
    env = made(batch_size=[2])
    env.set_seed(0)
    rollout = env.rollout(3, break_when_any_done=False)
    images = env.render(rollout)
    assert images.shape[:2] == (2, 3)
    assert images.dtype == np.uint8
    alone = made()
    for row, time in np.ndindex(2, 3):
        assert (images[row, time] == alone.render(rollout[row, time])).all()
    assert (
        len(np.unique(images @ np.array([1, 256, 65_536]))) > 2
    )  # numbers of colours: rows are sorted for seconds
    assert made.render_mode == "rgb_array"
    assert env.metadata["render_fps"] in (4, 10, 15, 20, 30, 50)


@pytest.mark.parametrize("made", [CartPole, FrozenLake, SimpleTag], ids=lambda made: made.__name__)
def test_rendering_draws_nothing_random_and_changes_nothing(made: Any) -> None:
    env = made(batch_size=[2])
    env.set_seed(3)
    td = env.reset()
    before = td.clone()
    generators = torch.get_rng_state(), env._generator.get_state()
    env.render()
    env.render(td)
    assert (before == td).all()
    assert set(before.keys(True)) == set(td.keys(True))
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert torch.equal(env._generator.get_state(), generators[1])


def test_render_shows_what_was_returned_last() -> None:
    env = CartPole(batch_size=[3])
    td = env.reset()
    assert (env.render() == env.render(td)).all()
    td = env.rand_step(td)
    assert (env.render() == env.render(td["next"])).all()
    td["next", "done"][1] = td["next", "terminated"][1] = True
    root = env.maybe_reset(env.step_mdp(td))
    assert (env.render() == env.render(root)).all()
    _, root = env.step_and_maybe_reset(env.rand_action(root))
    assert (env.render() == env.render(root)).all()


def transformed(batch_size: tuple[int, ...]) -> TransformedEnv:
    return TransformedEnv(CartPole(batch_size=batch_size), StepCounter(max_steps=2))


def test_environments_around_a_rendered_one_render_it() -> None:
    env = transformed((3,))
    td = env.reset()
    assert (env.render() == env.base_env.render(td)).all()
    td = env.rand_step(td)
    assert (env.render() == env.base_env.render(td["next"])).all()
    # a partial reset: the other rows go on
    root = env.step_mdp(td)
    root["_reset"] = torch.tensor([[False], [True], [False]])
    old = root.clone()
    root = env.reset(root)
    assert (env.render() == env.base_env.render(root)).all()
    assert (env.render()[0] == env.base_env.render(old)[0]).all()
    # a partial step
    root = env.rand_action(root)
    root["_step"] = torch.tensor([True, False, True])
    stepped = env.step(root)
    assert (env.render() == env.base_env.render(stepped["next"])).all()


def test_the_state_is_drawn_and_not_what_a_transform_makes_of_it() -> None:
    env = TransformedEnv(
        CartPole(), ObservationNorm(in_keys=["x"], loc=1.0, scale=5.0, standard_normal=False)
    )
    td = env.reset()
    assert float(td["x"]) > 0.5  # what the transform shows
    centre_of_cart = centre(env.render(), BLACK)[1]
    assert centre_of_cart == pytest.approx(300, abs=8)


def test_fused_chains_render_as_their_environments() -> None:
    chain, env = CartPoleTrain(batch_size=[2]), CartPole(batch_size=[2])
    td = chain.reset()
    assert (chain.render() == env.render(td)).all()
    td = chain.rand_step(td)
    assert (chain.render() == env.render(td["next"])).all()
    assert chain.metadata == env.metadata
    hunters = SimpleTagTrain()
    td = hunters.reset()
    assert (hunters.render(td) == SimpleTag().render(td)).all()


def test_batches_of_environments_render_each() -> None:
    env = SerialEnv(2, CartPole)
    td = env.reset()
    images = env.render()
    assert len(images) == 2
    assert (images[1] == CartPole().render(td[1])).all()


def test_parameters_are_drawn_as_they_are() -> None:
    assert (
        centre(shown(CartPole(length=0.25), theta=0.0), BROWN)[0]
        > centre(shown(CartPole(), theta=0.0), BROWN)[0]
    )


def test_copies_and_mapped_steps() -> None:
    env = Pendulum()
    td = env.reset()
    td["action"] = torch.zeros(1, requires_grad=True)
    env.step(td)
    env.render()
    for again in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        with pytest.raises(RuntimeError, match=r"Pendulum.render: nothing was reset yet"):
            again.render()
    rows = Pendulum(batch_size=[3]).reset()
    rows["action"] = torch.zeros(3, 1)
    fresh = Pendulum()
    torch.vmap(fresh.step)(rows)
    with pytest.raises(RuntimeError, match="nothing was reset yet"):
        fresh.render()


def test_what_can_not_be_drawn_is_named() -> None:
    env = CartPole()
    td = env.reset()
    with pytest.raises(KeyError, match=r"CartPole.render needs the state key 'theta'; the tensordict has"):
        env.render(td.exclude("theta"))
    with pytest.raises(RuntimeError, match=r"'theta' should have shape \[\], found \[1\]"):
        env.render(td.clone().set("theta", torch.zeros(1)))
    with pytest.raises(ValueError, match=r"`at` of `cart` is not finite in row 0: nan"):
        env.render(td.clone().set("x", torch.tensor(float("nan"))))


def test_without_pillow_an_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    env = CartPole()
    env.reset()
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"rendering needs Pillow: pip install 'specgen-rl\[render\]'"):
        env.render()


def picture() -> Picture:
    return Picture((40, 20), x=(0.0, 4.0), y=(0.0, 2.0), background="#ffffff")


def test_shapes_are_repeated_left_out_and_colored() -> None:
    found = picture()
    at = (torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]), 1.0)
    when = torch.tensor([[True, True, False], [False, True, True]])
    color = (torch.tensor([[0, 1, 2], [2, 1, 0]]), ["red", "lime", "blue"])
    found.circle("ball", at=at, radius=0.3, color=color, when=when)
    images = found.draw((2,))
    told = [[tuple(images[row, 10, column]) for column in (10, 20, 30)] for row in range(2)]
    white, red, lime = (255, 255, 255), (255, 0, 0), (0, 255, 0)
    assert told == [[red, lime, white], [white, lime, red]]


def test_rectangles_are_turned_counterclockwise() -> None:
    found = picture()
    found.rectangle("stick", at=(2.0, 1.0), size=(2.0, 0.2), angle=torch.tensor(np.pi / 4))
    image = found.draw(())
    dark = image.max(-1) < 128
    assert dark[10 - 5, 20 + 5]  # up is to the right
    assert dark[10 + 5, 20 - 5]
    assert not dark[10 + 5, 20 + 5]


def test_labels_say_one_of_several_texts_with_values() -> None:
    def said(text: Any, *values: Any) -> Any:
        found = picture()
        found.label("note", at=(2.0, 1.0), text=text, values=values, height=10)
        return found.draw(())

    chosen = (torch.tensor(1), ["x", "{} m"])
    assert (said(chosen, torch.tensor(0.5)) == said("0.50 m")).all()
    assert (said("{}", torch.tensor(3.0)) == said("3")).all()
    assert (said("{}", torch.tensor(3.0)) != said("4")).any()
    with pytest.raises(IndexError, match="`text` of `note` is chosen by 2, and there are 2"):
        said((torch.tensor(2), ["x", "y"]))


def test_a_view_without_extent_is_refused() -> None:
    found = Picture((4, 4), x=(torch.tensor([0.0, 1.0]), 1.0), y=(0.0, 1.0))
    with pytest.raises(ValueError, match=r"the view from 1.0 to 1.0 and from 0.0 to 1.0 shows nothing"):
        found.draw((2,))
