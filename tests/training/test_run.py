"""`Run` counts, logs, says what is due, and tells one run from another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from specgen_runtime.reported import ReportedError
from specgen_runtime.training import ConfigChangedError, Run, read_log
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.envs.cartpole import CartPole
from specgen_std.envs.pendulum import Pendulum
from tensordict import TensorDict
from torch import Tensor, nn

from tests.training.small_run import Config, run_in


class Metrics(NamedTuple):
    loss: Tensor
    entropy: Tensor


def moments(rewards: list[list[float]], done: list[list[bool]], **entries: list[list[float]]) -> TensorDict:
    """Transitions `[B, T]` of `[B]` lists."""
    values = {"reward": rewards, **entries}
    next_ = {name: torch.tensor(value).unsqueeze(-1) for name, value in values.items()}
    shape = [len(rewards), len(rewards[0])]
    return TensorDict(
        {"next": TensorDict({**next_, "done": torch.tensor(done).unsqueeze(-1)}, shape)},
        shape,
        names=[None, "time"],
    )


def test_frames_and_returns_of_a_chain(tmp_path: Path) -> None:
    env = CartPoleTrain(batch_size=[4])
    env.set_seed(0)
    rollout = env.rollout(100, break_when_any_done=False)
    ends = rollout["next", "done"].squeeze(-1)
    expected = rollout["next", "episode_reward"].squeeze(-1)[ends].mean().item()
    with run_in(tmp_path / "whole") as run:
        run.count(rollout)
        row = run.log()
    assert (run.frames, row["frames"], row["episodes"]) == (400, 400, ends.sum().item())
    assert row["return"] == pytest.approx(expected)
    with run_in(tmp_path / "steps") as steps:
        for step in rollout.unbind(1):
            steps.count(step)
        assert steps.log()["return"] == pytest.approx(expected)
    assert steps.frames == 400


def test_returns_are_summed_where_the_data_have_none(tmp_path: Path) -> None:
    """Across batches, for each environment, as `RewardSum` would."""
    env = CartPoleTrain(batch_size=[3])
    env.set_seed(1)
    data = env.rollout(90, break_when_any_done=False)
    bare = data.exclude(("next", "episode_reward"))
    with run_in(tmp_path / "a") as expected, run_in(tmp_path / "b") as found, run_in(tmp_path / "c") as steps:
        expected.count(data)
        for part in bare.split(30, 1):
            found.count(part)
        for step in bare.unbind(1):
            steps.count(step)
        rows = [run.log() for run in (expected, found, steps)]
    assert rows[0]["episodes"] > 3
    assert [row["return"] for row in rows] == [pytest.approx(rows[0]["return"])] * 3


def test_returns_of_the_episodes_since_the_last_row(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.count(moments([[1, 2, 3.0], [4, 5, 6.0]], [[False, True, False], [False, False, False]]))
        assert run.log()["return"] == 3
        nothing = run.log()
        assert "return" not in nothing
        assert "episodes" not in nothing
        run.count(moments([[10.0], [20.0]], [[True], [True]]))
        row = run.log()
        assert (row["episodes"], row["return"]) == (2, (3 + 10 + 15 + 20) / 2)


def test_returns_of_groups_of_agents(tmp_path: Path) -> None:
    data = TensorDict(
        {
            "next": {
                "done": torch.tensor([[True], [False]]),
                "hunters": {"episode_reward": torch.tensor([[[1.0], [3.0]], [[7.0], [9.0]]])},
                "prey": {"reward": torch.tensor([[[5.0]], [[6.0]]])},
            }
        },
        [2],
    )
    keys = {"hunters": ("hunters", "episode_reward"), "prey": ("prey", "episode_reward")}
    with run_in(tmp_path, returns=keys) as run:
        run.count(data)
        row = run.log()
    assert (row["hunters"], row["prey"], row["episodes"]) == (2, 5, 1)


def test_what_can_not_be_counted(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        with pytest.raises(KeyError, match=r"run.count reads \('next', 'done'\)"):
            run.count(TensorDict({"next": {"reward": torch.zeros(2, 1)}}, [2]))
        with pytest.raises(KeyError, match=r"or sums \('next', 'reward'\)"):
            run.count(TensorDict({"next": {"done": torch.zeros(2, 1, dtype=torch.bool)}}, [2]))
        run.count(Pendulum(batch_size=[2]).rollout(3))
        with pytest.raises(ValueError, match=r"environments of batch size \[2\], found one of \[5\]"):
            run.count(Pendulum(batch_size=[5]).rollout(3))


def test_a_batch_that_is_written_over(tmp_path: Path) -> None:
    data = moments([[1.0], [2.0]], [[True], [True]])[:, 0]
    with run_in(tmp_path) as run:
        for _ in range(100):
            run.count(data)
            data["next", "reward"].add_(1)
        row = run.log()
    assert (row["episodes"], row["return"]) == (200, 1.5 + 99 / 2)


def test_a_checkpoint_between_two_rows_changes_nothing(tmp_path: Path) -> None:
    """The returns so far and the metrics are in it, and those of episodes that go on."""
    env = CartPoleTrain(batch_size=[3])
    env.set_seed(1)
    steps = env.rollout(150, break_when_any_done=False).exclude(("next", "episode_reward")).unbind(1)

    def half(run: Run, part: Any) -> None:
        for number, step in enumerate(part):
            run.count(step)
            run.add({"loss": 0.1 * number})

    with run_in(tmp_path / "whole") as whole:
        half(whole, steps[:70])
        half(whole, steps[70:])
        expected = whole.log()
    with run_in(tmp_path / "cut") as cut:
        half(cut, steps[:70])
        cut.save()
        half(cut, steps[70:100])
    with run_in(tmp_path / "cut", resume=True) as again:
        half(again, steps[70:])
        found = again.log()
    timed = ("seconds", "frames_per_second")
    assert {name: found[name] for name in expected if name not in timed} == {
        name: value for name, value in expected.items() if name not in timed
    }
    assert found["episodes"] > 5


def test_metrics_are_means_over_all_updates(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        for number in range(4):
            run.add(Metrics(torch.tensor(float(number), requires_grad=True), torch.tensor([1.0, 3.0])))
        run.add({"loss": 10, "actor": torch.tensor(5)})  # a delayed actor: its metrics are there now and then
        run.add(TensorDict({"critic": {"q": torch.tensor(2.0)}}))
        row = run.log(epsilon=torch.tensor(0.25), evaluation=7)
        assert (row["loss"], row["entropy"], row["actor"], row["critic/q"]) == (16 / 5, 2, 5, 2)
        assert (row["updates"], row["epsilon"], row["evaluation"]) == (6, 0.25, 7)
        assert "loss" not in run.log()
        with pytest.raises(TypeError, match="a NamedTuple, a mapping or a tensordict, found Tensor"):
            run.add(torch.zeros(()))
        with pytest.raises(TypeError, match="evaluation is a str"):
            run.log(evaluation="good")


def test_numbers_of_batches_are_means_and_no_updates(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.note("kl_penalty", torch.tensor(1.0))
        run.note("kl_penalty", 2.0)
        row = run.log()
        assert (row["updates"], row["kl_penalty"]) == (0, 1.5)
        assert "kl_penalty" not in run.log()


def test_the_log_is_read_from_the_device_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    tolist = Tensor.tolist

    def counted(tensor: Tensor) -> Any:
        nonlocal reads
        reads += 1
        return tolist(tensor)

    def refused(*_: Any) -> Any:
        raise AssertionError("read from the device")

    with run_in(tmp_path) as run, monkeypatch.context() as patch:
        patch.setattr(Tensor, "tolist", counted)
        for name in ("item", "__float__", "__bool__", "__int__"):
            patch.setattr(Tensor, name, refused)
        for _ in range(3):
            run.count(moments([[1.0, 1.0]], [[False, True]]))
            run.add({"loss": torch.ones(()), "q": torch.ones(3)})
        assert reads == 0
        run.log(evaluation=torch.ones(()), best=1)
        assert reads == 1


def test_everything_is_due_at_the_end(tmp_path: Path) -> None:
    """A training whose frames are no multiple of the interval ends with a row of its log all the same."""
    with run_in(tmp_path, total_frames=70) as run:
        found = []
        for run.frames in range(10, 80, 10):
            if run.due("evaluate", 40):
                found.append(run.frames)
            assert not run.due("target", 75, count=run.frames)
        assert found == [40, 70]
        assert not run.due("evaluate", 40)


def test_due(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        found = []
        for run.frames in range(0, 100, 8):
            if run.due("evaluate", 20):
                found.append(run.frames)
        assert found == [24, 40, 64, 80]
        assert run.due("other", 96)
        assert not run.due("other", 96)
        assert run.due("updates", 3, count=3)
        with pytest.raises(ValueError, match=r"due\('x'\): every must be at least 1, found 0"):
            run.due("x", 0)


def test_columns_come_at_any_time(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.log(a=1)
        run.log(b=float("nan"), a=0.1 + 0.2)
        run.log(c=float("inf"))
    first, second, third = read_log(str(tmp_path / "log.csv"))
    assert (first["a"], second["a"], third["c"]) == (1, 0.1 + 0.2, float("inf"))
    assert "b" not in first
    assert second["b"] != second["b"]


def test_updates_are_counted_off_line(tmp_path: Path) -> None:
    with run_in(tmp_path, total_frames=None, total_updates=10) as run:
        for _ in range(5):
            run.add({"loss": 1.0})
            if run.due("checkpoint", 2):
                run.save()
        assert run.fraction == 0.5
        assert "updates_per_second" in run.log()
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-4"]
    with pytest.raises(ValueError, match="needs total_frames or total_updates"):
        run_in(tmp_path / "x", total_frames=None)


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.log(a=1)
    with (
        pytest.raises(FileExistsError, match=r"holds a run already: resume it .* or choose another folder"),
        run_in(tmp_path),
    ):
        pass
    assert [row["a"] for row in read_log(tmp_path / "log.csv")] == [1]
    with run_in(tmp_path, resume=True) as again:  # there was no checkpoint: it begins anew
        assert again.frames == 0
    assert read_log(tmp_path / "log.csv") == []
    with run_in(tmp_path / "new", resume=True) as new:
        assert new.frames == 0


@pytest.mark.parametrize("below", ["", "seed_1"])
def test_a_file_is_no_folder_of_a_run(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(FileExistsError, match="is no folder, or lies below a file") as raised,
        run_in(tmp_path / "file" / below),
    ):
        pass
    assert isinstance(raised.value, ReportedError)  # a command line says it in a line


def test_a_folder_that_can_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(OSError, match=r"run can't be made: Permission denied\. Choose another one") as raised:
        run_in(tmp_path / "run").__enter__()
    assert isinstance(raised.value, ReportedError)


def test_rows_behind_the_checkpoint_are_cut(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.count(CartPole(batch_size=[5]).rollout(2))
        run.best = 3.5
        run.log(a=1)
        torch.manual_seed(5)
        run.save()
        run.log(a=2, late=1)
    expected = torch.rand(3)
    with run_in(tmp_path, resume=True) as again:
        assert torch.equal(torch.rand(3), expected)
        assert (again.frames, again.updates, again.best) == (10, 0, 3.5)
        assert again.seconds >= read_log(tmp_path / "log.csv")[0]["seconds"]
        again.log(a=3)
    rows = read_log(tmp_path / "log.csv")
    assert [row["a"] for row in rows] == [1, 3]
    assert "late" not in (tmp_path / "log.csv").read_text()


def test_the_configuration_of_another_training(tmp_path: Path) -> None:
    """Its fields are named, but for those behind the fourth; and a file that was damaged is."""
    with run_in(tmp_path, {"lr": 0.1, "eps": 0.5}) as run:
        run.save()
    other = {"lr": 0.2, **dict.fromkeys("abcdef", 1)}
    with pytest.raises(ConfigChangedError) as raised:
        run_in(tmp_path, other, resume=True).__enter__()
    assert str(raised.value) == (
        f"{tmp_path} holds a run with another configuration: lr was 0.1, is 0.2; it has eps, which this training does not "
        "know; it lacks a, b, c, d and 2 more. It is one of another pipeline, or of another version of this one: start a "
        "new run in another folder"
    )
    assert raised.value.fields == ["lr", "eps", *"abcdef"]
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(
        ReportedError, match=r"config\.json can't be read, which says what the run was begun with"
    ):
        run_in(tmp_path, other, resume=True).__enter__()


def test_another_configuration(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.frames = 20
        run.save()
    with run_in(tmp_path, Config(sizes=[64, 64]), resume=True):  # type: ignore[arg-type]
        pass
    with pytest.raises(
        ConfigChangedError, match=r"lr was 0.1, is 0.2; sizes was \[64, 64\], is \[32\]"
    ) as raised:
        run_in(tmp_path, {"sizes": (32,), "lr": 0.2}, resume=True).__enter__()
    assert raised.value.fields == ["lr", "sizes"]
    with pytest.raises(ConfigChangedError, match="sizes was"):
        run_in(tmp_path, Config(0.2, (32,)), resume=True, may_change=["lr"]).__enter__()
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored == {"config": {"lr": 0.1, "sizes": [64, 64]}, "changes": []}
    with run_in(tmp_path, Config(0.2), resume=True, may_change=["lr"]):
        pass
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["config"]["lr"] == 0.2
    assert stored["changes"] == [{"frames": 20, "updates": 0, "fields": {"lr": [0.1, 0.2]}}]
    with pytest.raises(TypeError, match="config: network is a Linear, which can't be stored"):
        run_in(tmp_path, {"network": nn.Linear(1, 1)})
