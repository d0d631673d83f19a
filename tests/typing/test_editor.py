"""What an editor shows over generated classes, and which keys it offers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.typing.language_server import LanguageServer

IMPORTS = """
from specgen_runtime.specs import Bounded
from specgen_std.chains import CartPoleTrain, SimpleTagTrain
from specgen_std.envs import CartPole, CartPoleGym
from specgen_std.losses import DQNLoss
from specgen_std.transforms import StepCounter
data = CartPoleTrain().rollout(3)
agents = SimpleTagTrain().rollout(3)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    with LanguageServer(tmp_path_factory.mktemp("editor")) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (
            "Cart|Pole(gravity=9.0)",
            [
                "Push a cart left or right so that the pole on it stays up.",
                "masspole: mass of the pole in kg",
            ],
        ),
        ("CartPole|Train()", ["Native CartPole with the time limit", "batch_size: how many instances"]),
        ("CartPole|Gym()", ["Gymnasium's own CartPole-v1", "gym_kwargs: further keywords"]),
        ("DQN|Loss(None)", ["The loss of deep Q-learning", "double_dqn: let the trained network choose"]),
        ("Step|Counter(max_steps=3)", ["Count the steps since the last reset", "max_steps: the length"]),
        ("Bound|ed(0, 1)", ["Tensors between `low` and `high`"]),
        ("cart: Cart|Pole", ["Push a cart left or right", "theta_dot: float32 [*batch]; angular velocity"]),
        ("data = Cart|PoleTrain", ["Transforms, in order: InitTracker"]),
        ("CartPole().action|_spec", ["action_spec: Categorical"]),
        ("da|ta", ["data: CartPoleTrainData"]),
        ('data.ge|t("action")', ["Tensor", "Return an entry"]),
    ],
)
def test_hover_shows_what_the_class_says(server: LanguageServer, call: str, shown: list[str]) -> None:
    found = " ".join(server.hover(IMPORTS + call).split())
    for text in shown:
        assert text in found


ROOT = {
    "observation",
    "x",
    "x_dot",
    "theta",
    "theta_dot",
    "done",
    "terminated",
    "truncated",
    "action",
    "next",
}
NEXT = (ROOT - {"action", "next"}) | {"reward", "episode_reward", "is_init", "step_count"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('data["|"]', ROOT | {"is_init", "step_count", "episode_reward"}),
        ('data["next", "|"]', NEXT),
        ('data["next"]["|"]', NEXT),
        ('data.get("|")', ROOT),
        ('data["next", "|', NEXT),
        ('agents["next", "agent", "|"]', {"observation", "position", "velocity", "reward", "done"}),
        ('agents["|"]', {"adversary", "agent", "obstacle", "next"}),
        ('CartPole().observation_spec["|"]', {"observation", "x", "x_dot", "theta", "theta_dot"}),
        ('SimpleTagTrain().full_reward_spec["|"]', {"adversary", "agent"}),
    ],
)
def test_keys_are_offered(server: LanguageServer, text: str, keys: set[str]) -> None:
    assert keys <= server.offered(IMPORTS + text)


@pytest.mark.slow
def test_only_keys_are_offered(server: LanguageServer) -> None:
    assert server.offered(IMPORTS + 'data["next"]["|"]') == NEXT
    assert server.offered(IMPORTS + 'CartPole().full_action_spec["|"]') == {"action"}
