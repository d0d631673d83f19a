"""The demo's own pieces, and a training run too short to solve anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tensordict import TensorDict

from examples import demo_cartpole as demo


def steps(values: list[float]) -> TensorDict:
    rows = torch.tensor(values).unsqueeze(-1)
    return TensorDict(
        {
            "observation": rows.expand(-1, 4),
            "action": torch.zeros(len(values), dtype=torch.int64),
            "done": torch.zeros(len(values), 1, dtype=torch.bool),
            "next": {
                "observation": rows.expand(-1, 4),
                "reward": rows,
                "terminated": torch.zeros(len(values), 1, dtype=torch.bool),
            },
        },
        batch_size=[len(values)],
    )


def test_replay_keeps_the_last_steps() -> None:
    replay = demo.Replay(capacity=5)
    replay.extend(steps([0.0, 1.0, 2.0]))
    assert len(replay) == 3
    assert replay.steps is not None
    replay.extend(steps([3.0, 4.0, 5.0]))
    assert len(replay) == 5
    assert sorted(replay.steps["next", "reward"].flatten().tolist()) == [1.0, 2.0, 3.0, 4.0, 5.0]
    sample = replay.sample(64)
    assert sample.batch_size == (64,)
    assert set(sample["next", "reward"].flatten().tolist()) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    assert set(sample.keys()) == {"observation", "action", "next"}


def test_a_short_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "MAX_ITERATIONS", 150)
    monkeypatch.setattr(demo, "EVALUATE_EVERY", 75)
    torch.manual_seed(0)
    network = demo.make_network()
    before = [parameter.clone() for parameter in network.parameters()]
    curve = demo.train(network, seed=0)
    assert [step for step, _ in curve] == [75 * demo.ENVS, 150 * demo.ENVS]
    assert all(8 <= value <= 500 for _, value in curve)
    assert not all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    demo.draw(curve, tmp_path / "runs" / "curve.png")
    assert (tmp_path / "runs" / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_both_environments_are_judged_alike() -> None:
    torch.manual_seed(1)
    network = demo.make_network()
    from specgen_runtime.modules import QValueActor
    from specgen_std.chains.cartpole import CartPoleTrain

    actor = QValueActor(network, in_keys=["observation"], spec=CartPoleTrain().action_spec)
    native, reference = demo.native_return(actor, seed=0), demo.gymnasium_return(network, seed=0)
    assert native == pytest.approx(reference, rel=0.15)
