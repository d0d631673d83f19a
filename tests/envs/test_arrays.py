"""Arrays and draws in generated environments: right for any batch, also where it looks like a feature dimension."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.testing import assert_identical, check_env

from tests.envs.natives import started
from tests.support import generate, imported

SCHEMA = Path(__file__).parent / "schemas" / "arrays.yaml"
BATCHES: list[tuple[int, ...]] = [(), (3,), (4, 3)]
"""3 and 4 are feature sizes there: wrong broadcasting would go unnoticed at (3,) alone."""
ROWS = 24_000


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    files = generate({"arrays.yaml": SCHEMA.read_text(encoding="utf-8")}, "arrays_package")
    with imported(files, "arrays_package", tmp_path_factory.mktemp("arrays")):
        yield __import__("arrays_package.arrays", fromlist=["Orchard"])


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("name", ["Orchard", "OrchardTrain", "Market", "MarketTrain"])
def test_the_contract_holds(arrays: Any, name: str, batch: tuple[int, ...]) -> None:
    check_env(partial(getattr(arrays, name), batch_size=batch), steps=25)


TABLE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def observed(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What `Orchard` observes of one environment, as one writes it in NumPy."""
    y, tree, order = state["yields"], state["tree"], state["order"]
    row, column = int(state["row"]), int(state["column"])
    powers = np.exp(y)
    return {
        "picked": y[:, column],
        "row_of": y[row],
        "corner": np.stack((y, 2 * y), axis=1)[:, row % 2, column],
        "looked_up": TABLE[:, row, column],
        "looked_up_order": TABLE[:, :, order].transpose(0, 2, 1),
        "shuffled": y[:, order],
        "sums": np.cumsum(tree),
        "products": np.cumprod(y, axis=1),
        "ranks": np.argsort(y, axis=-1),
        "sorted": np.sort(y, axis=0),
        "chances": powers / powers.sum(axis=0),
        "spread": np.std(y, axis=1),
        "sample_spread": np.var(y, axis=0, ddof=1),
        "whole_spread": np.std(y),
        "soft_largest": np.log(powers.sum(axis=-1)),
        "line": y.reshape(-1),
        "turned": y.T,
        "backwards": y[::-1, ::-1],
        "moved": np.roll(y, -1, axis=1),
        "pairs": np.outer(y[0], y[:, 1]),
        "open": 1 / (1 + np.exp(-y[row, 0])),
    }


def stepped(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The state of `Orchard` after a step, the reward and the end."""
    y, tree, order = state["yields"], state["tree"], state["order"]
    row, column, action = int(state["row"]), int(state["column"]), int(state["action"])
    after = np.clip(np.roll(y, 1, axis=0) + np.float32(0.1) * y[:, action][:, None], -4, 4)
    return {
        "yields": after,
        "tree": (np.cumsum(tree) + action) % 10,
        "row": np.argmax(y[:, column]),
        "column": np.asarray((column + action) % 4),
        "order": order[np.argsort(tree, kind="stable")],
        "reward": y[row, column][None],
        "terminated": np.asarray([np.log(np.exp(after).sum()) > 5.5]),
    }


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_each_environment_computes_what_numpy_does(arrays: Any, batch: tuple[int, ...]) -> None:
    env = arrays.Orchard(batch_size=batch)
    root = started(env)
    for _ in range(4):
        following = env.step(root.clone())["next"]
        for index in product(*map(range, batch)):
            before = {key: root[index][key].numpy() for key in root.keys(leaves_only=True)}
            after = following[index]
            expected = stepped(before)
            for key, value in {**expected, **observed({**before, **expected})}.items():
                got = after[key].numpy()
                assert got.shape == np.shape(value), key
                np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-5, err_msg=f"{key} of {index}")
        root = env.rand_action(env.step_mdp(env.step(root)))


def of_many(arrays: Any, seed: int = 0, **params: Any) -> Any:
    """The first step of many environments."""
    env = arrays.Market(batch_size=(ROWS,), **params)
    root = started(env, seed)
    return root, env.step(root.clone())["next"]


def assert_frequencies(drawn: torch.Tensor, chances: torch.Tensor) -> None:
    """Each class is drawn as often as its chances in the rows say, within 5 standard deviations."""
    for number in range(chances.shape[-1]):
        p = chances[..., number].double()
        deviation = (p * (1 - p)).sum().sqrt()
        found = (drawn == number).sum()
        assert abs(found - p.sum()) <= 5 * deviation + 1e-9, (number, found, p.sum())


def assert_mean(drawn: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> None:
    """The sum of rows with means and variances of their own lies within 5 standard deviations."""
    off = (drawn.double() - mean.double()).sum()
    assert abs(off) <= 5 * variance.double().sum().sqrt(), (off, variance.double().sum().sqrt())


def test_classes_are_drawn_by_their_weights(arrays: Any) -> None:
    root, following = of_many(arrays)
    assert_frequencies(root["bought"], root["tastes"])
    assert_frequencies(following["bought"], root["tastes"])
    assert_frequencies(root["favourite"], root["tastes"][..., 0, :])
    assert_frequencies(root["kind"], torch.tensor([0.2, 0.0, 0.8]).expand(ROWS, 3))
    # One draw does not tell the next: of two slots both fall as often as the product says.
    both = root["tastes"][..., 0, 1] * root["tastes"][..., 1, 2]
    happened = (root["bought"][..., 0] == 1) & (root["bought"][..., 1] == 2)
    assert_frequencies(happened.long(), torch.stack((1 - both, both), dim=-1))


def test_counts_are_those_of_poisson(arrays: Any) -> None:
    root, following = of_many(arrays)
    rate = root["rate"] * (1 + root["action"])
    assert_mean(root["customers"], root["rate"], root["rate"])
    assert_mean(following["customers"], rate, rate)
    squares = (following["customers"] - rate).square()
    assert_mean(squares, rate, rate + 2 * rate.square())
    assert (following["visitors"][..., 0] == 0).all()
    assert_mean(following["visitors"][..., 1], torch.ones(ROWS), torch.ones(ROWS))
    visitors = root["visitors"]
    chances = torch.distributions.Poisson(2.5).log_prob(torch.arange(12.0)).exp()
    assert_frequencies(visitors, chances.expand(ROWS, 3, 12))


@pytest.mark.parametrize("patience", [2.0, torch.linspace(0.5, 8.0, ROWS)], ids=["number", "tensor"])
def test_waiting_times_are_exponential(arrays: Any, patience: Any) -> None:
    root, _ = of_many(arrays, patience=patience)
    scale = torch.as_tensor(patience).expand(ROWS)
    for drawn, mean in ((root["waited"], scale), (root["rate"], torch.full((ROWS,), 3.0))):
        assert drawn.min() >= 0
        assert_mean(drawn, mean, mean.square())
        longer = (drawn > 2 * mean).long()
        chance = torch.full((ROWS,), float(np.exp(-2)))
        assert_frequencies(longer, torch.stack((1 - chance, chance), dim=-1))


def test_every_order_is_as_likely(arrays: Any) -> None:
    root, following = of_many(arrays)
    for drawn, n in ((root["shelf"], 4), (root["order"].flatten(0, 1), 3), (following["order"][:, 1], 3)):
        assert drawn.dtype == torch.int64
        orders = {order: number for number, order in enumerate(permutations(range(n)))}
        found = torch.tensor([orders[tuple(row)] for row in drawn.tolist()])
        assert_frequencies(found, torch.full((len(found), len(orders)), 1 / len(orders)))


def test_a_seed_gives_the_same_draws_and_leaves_those_of_torch_alone(arrays: Any) -> None:
    first = of_many(arrays, seed=5)
    env = arrays.Market(batch_size=(ROWS,))
    env.set_seed(5)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    again = env.reset()
    assert torch.equal(torch.get_rng_state(), before)
    assert_identical(again, first[0].exclude("action"), "the same seed")
    assert not torch.equal(env.reset()["shelf"], again["shelf"])


def test_given_values_take_the_place_of_draws(arrays: Any) -> None:
    shelf = torch.tensor([3, 2, 1, 0])
    env = arrays.Market(batch_size=(4, 3), shelf=shelf, rate=2.0)
    root = env.reset()
    assert torch.equal(root["shelf"], shelf.expand(4, 3, 4))
    assert (root["rate"] == 2).all()


@pytest.mark.parametrize("name", ["Orchard", "Market", "MarketTrain"])
def test_compiled_steps(arrays: Any, name: str) -> None:
    env = getattr(arrays, name)(batch_size=(3,))
    root = started(env)
    step = torch.compile(env.step, fullgraph=True, backend="aot_eager")
    torch.manual_seed(3)
    compiled = step(root.clone())
    if name == "Orchard":
        assert_identical(compiled, env.step(root.clone()), "compiled")
    else:  # compiled code draws from torch's own generator
        following = compiled["next"]
        assert env.observation_spec.is_in(following.select(*env.observation_keys))
        assert following["waited"].gt(root["waited"]).all()
        assert torch.equal(following["order"].sort(dim=-1).values, torch.arange(3).expand(3, 2, 3))
    torch.compiler.reset()
