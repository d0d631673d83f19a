"""Steps of NumPy's over images give what the general way gives, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from specgen_runtime.envs.gym.row_values import row_resized
from specgen_runtime.functional import resize_image
from specgen_runtime.modules import QValueActor
from specgen_runtime.testing import assert_identical
from tensordict.nn import TensorDictModule
from torch import nn

from specgen.project.gymnasium_lock import record
from tests.envs.test_gym_rows import generally, transitions
from tests.support import generate, imported

ID = "SpecgenLargeNoise-v0"
HEAD = f"""
specgen: 1
import:
  - specgen_std/transforms/images
  - specgen_std/transforms/frames
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter
envs:
  Screen:
    gymnasium: {{id: {ID}, categorical_action_encoding: true}}
transforms:
  Differences:
    doc: What is computed of parts that are all of an image, or less, or more.
    in:
      image: {{each: [observation], type: "float32[3, 100, 110]"}}
    out:
      half: {{each: image, name: half, type: "like(image)", doc: one channel less}}
      both: {{each: image, name: both, type: "float32[2, 100, 110]", doc: overlapping parts}}
    map:
      scaled: (image - 0.5) * 3
      half: concat(narrow(scaled, 1, 2, axis=0)[:1] - 2 * narrow(image, 2, 1, axis=0), narrow(image, 0, 2, axis=0), axis=0)
      twice: -(image / 7)
      both: concat(narrow(twice, 0, 2, axis=0), narrow(twice, 1, 2, axis=0), axis=0)[1:3]
chains:
"""
SEEN = "in_keys: [observation]"
TENSOR = f"ToTensorImage: {{{SEEN}}}"
CHAINS = {
    "Atari": f"[{{{TENSOR}}}, {{GrayScale: {{{SEEN}}}}}, {{Resize: {{w: 20, h: 17, {SEEN}}}}},"
    f" {{CatFrames: {{N: 4, dim: -3, {SEEN}}}}}, RewardSum, StepCounter]",
    "Moved": f"[{{{TENSOR}}}]",
    "OfWholeNumbers": f"[{{ToTensorImage: {{from_int: false, dtype: float64, {SEEN}}}}}, {{CenterCrop: {{w: 90, {SEEN}}}}}]",
    "InFront": f"[{{ToTensorImage: {{unsqueeze: true, {SEEN}}}}}, {{Crop: {{w: 60, h: 50, top: 3, left: 2, {SEEN}}}}},"
    f" {{CatFrames: {{N: 2, dim: -4, {SEEN}}}}}]",
    "Sharp": f"[{{{TENSOR}}}, {{Resize: {{w: 120, interpolation: bicubic, {SEEN}}}}}]",
    "Near": f"[{{{TENSOR}}}, {{Resize: {{w: 12, h: 80, interpolation: nearest, {SEEN}}}}}, StepCounter]",
    "Different": f"[{{{TENSOR}}}, Differences]",
}


class Dark(nn.Module):
    """An action that the sum of an image decides."""

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return observation.double().sum().long() % 3


class Screen(gymnasium.Env[Any, Any]):
    """Noise of 100 x 110 pixels, drawn into one array; an episode has nine steps."""

    observation_space = gymnasium.spaces.Box(0, 255, (100, 110, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self) -> None:
        self._screen = np.zeros((100, 110, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = 9
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        return self._seen(), 0.1 * float(action), self._left == 0, False, {}

    def _seen(self) -> Any:
        self._screen[:] = self.np_random.integers(0, 256, self._screen.shape)
        return self._screen


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    gymnasium.register(ID, entry_point=f"{__name__}:Screen", disable_env_checker=True)
    try:
        listed = (f"  {name}: {{env: Screen, transforms: {chain}}}\n" for name, chain in CHAINS.items())
        schema = HEAD + "".join(listed)
        files = generate({"seen.yaml": schema}, "seen_package", {ID: record(ID, {})})
        with imported(files, "seen_package", tmp_path_factory.mktemp("seen")):
            from seen_package import seen  # type: ignore[import-not-found]

            yield seen
    finally:
        del gymnasium.registry[ID]


def made(chains: Any, name: str) -> Any:
    torch.manual_seed(1)
    env = getattr(chains, name)()
    env.set_seed(3)
    return env


@pytest.mark.parametrize("name", CHAINS)
class TestEachChain:
    def test_steps_and_resets(self, chains: Any, name: str) -> None:
        env = made(chains, name)
        assert env._row_steps() is not None
        found = transitions(env, 25)
        assert found["next", "done"].any()
        assert_identical(found, transitions(generally(made(chains, name)), 25))

    @pytest.mark.parametrize("stops", [True, False])
    def test_rollouts(self, chains: Any, name: str, stops: bool) -> None:
        found = made(chains, name).rollout(20, break_when_any_done=stops)
        assert len(found) == (9 if stops else 20)
        assert_identical(found, generally(made(chains, name)).rollout(20, break_when_any_done=stops))

    @pytest.mark.parametrize("kind", ["module", "layers", "random"])
    def test_rollouts_from_a_root(self, chains: Any, name: str, kind: str) -> None:
        """What was given is the chain's image, and what the environment has is its own, of another shape perhaps."""
        policy = {"module": TensorDictModule(Dark(), ["observation"], ["action"]), "random": None}.get(kind)
        if kind == "layers":
            size = made(chains, name).observation_spec["observation"].shape.numel()
            net = nn.Sequential(nn.Flatten(0), nn.Linear(size, 3))
            policy = QValueActor(net, in_keys=["observation"], action_space="categorical")
            if made(chains, name).observation_spec["observation"].dtype != torch.float32:
                policy = policy.double()

        def rolled(env: Any) -> Any:
            parts, root = [], env.reset()
            for _ in range(2):
                options: Any = {"auto_reset": False, "tensordict": root, "break_when_any_done": False}
                parts.append(env.rollout(7, policy, **options))
                root = env.step_mdp(parts[-1][-1])
            return torch.cat(parts)

        assert_identical(rolled(made(chains, name)), rolled(generally(made(chains, name))))

    def test_no_step_changes_another(self, chains: Any, name: str) -> None:
        env, kept = made(chains, name), []
        root = env.reset()
        for _ in range(12):
            following, root = env.step_and_maybe_reset(env.rand_action(root))
            kept.append(following)
        copies = [one.clone() for one in kept]
        for one in kept[::2]:
            for value in one["next"].values():
                value.fill_(1)
        for one, copy in list(zip(kept, copies, strict=True))[1::2]:
            assert_identical(one["next"], copy["next"])


def test_a_flipped_image_is_resized() -> None:
    image = np.random.default_rng(0).random((3, 20, 30), np.float32)
    for flipped in (image[:, ::-1], image[::-1, :, ::-1]):
        whole = resize_image(torch.from_numpy(flipped.copy()), 7, 8, "bilinear")
        assert torch.equal(torch.from_numpy(row_resized(flipped, 7, 8, "bilinear")), whole)
