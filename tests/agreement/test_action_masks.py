"""Random actions keep to the masks that a schema declares."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support import generate, imported

SCHEMA = Path(__file__).parent / "schemas" / "grid_world.yaml"


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)], ids=str)
def test_rollouts_take_allowed_actions_only(batch: tuple[int, ...], tmp_path: Path) -> None:
    files = generate({"grid_world.yaml": SCHEMA.read_text(encoding="utf-8")}, "masked_grid")
    with imported(files, "masked_grid", tmp_path) as package:
        env = package.GridWorld(batch_size=batch)
        env.set_seed(0)
        torch.manual_seed(0)
        data = env.rollout(60, break_when_any_done=False)
        chosen = data["agents", "action"].unsqueeze(-1)
        assert data["agents", "action_mask"].gather(-1, chosen).all()
        assert not data["agents", "action_mask"].all(), "a mask that allows everything proves nothing"

        env.set_seed(0)
        torch.manual_seed(0)
        root = env.reset()
        for step in range(60):
            now, root = env.step_and_maybe_reset(env.rand_action(root))
            row = (*(slice(None) for _ in batch), step)
            assert torch.equal(now["agents", "action"], data["agents", "action"][row])
            assert torch.equal(now["next", "pos"], data["next", "pos"][row])
