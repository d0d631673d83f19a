"""`ParallelEnv`: how its processes start and what their data go through."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.envs.batched.memory import SharedMemory, mapped
from specgen_runtime.envs.batched.messages import dumps, loads
from specgen_runtime.envs.batched.pool import clear_unset_options
from tensordict import TensorDict, set_lazy_legacy

from tests.envs.batched.conftest import Make
from tests.envs.batched.faulty import Faulty
from tests.envs.batched.test_results import same
from tests.envs.counting import Counting, Grid
from tests.envs.spec_kinds import made

CHANNELS: dict[str, dict[str, Any]] = {
    "shared memory": {},
    "a file": {"shared_memory": False, "memmap": True},
    "pipes": {"use_buffers": False},
    "pipes, too": {"shared_memory": False},
}


@pytest.mark.parametrize("kwargs", CHANNELS.values(), ids=CHANNELS)
@pytest.mark.parametrize("make_env", [Counting, Grid, partial(made, "text")], ids=["flat", "nested", "texts"])
def test_channels(parallel: Make, serial: Make, kwargs: dict[str, Any], make_env: Any) -> None:
    rollouts = []
    for env in (parallel(2, make_env, **kwargs), serial(2, make_env)):
        env.reset()
        torch.manual_seed(2)
        rollouts.append(env.rollout(6, break_when_any_done=False))
    left, right = rollouts
    if make_env in (Counting, Grid):
        same(left, right)
    else:
        assert left["next", "text"] == right["next", "text"]
        assert torch.equal(left["next", "count"], right["next", "count"])


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_start_methods(parallel: Make, method: str) -> None:
    env = parallel(2, lambda: Faulty(), mp_start_method=method, daemon=True)
    assert env.rollout(2).shape == (2, 2)
    assert len({*env.pid(), os.getpid()}) == 3


def test_specs_from_the_processes(parallel: Make) -> None:
    home = os.getpid()
    env = parallel(2, partial(only_elsewhere, home), metadata_from_workers=True)
    assert not env.is_closed
    assert env.rollout(2).shape == (2, 2)


def only_elsewhere(home: int) -> Faulty:
    assert os.getpid() != home
    return Faulty()


def test_threads(parallel: Make) -> None:
    before = torch.get_num_threads()
    env = parallel(1, Faulty, num_threads=before + 1, num_sub_threads=1)
    assert torch.get_num_threads() == before
    env.start()
    assert torch.get_num_threads() == before + 1
    env.close()
    assert torch.get_num_threads() == before


def test_configuration(parallel: Make) -> None:
    env = parallel(1, Faulty)
    assert env.configure_parallel(use_buffers=False, mp_start_method="fork", daemon=True) is env
    assert env.rollout(2).shape == (1, 2)
    with pytest.raises(RuntimeError, match="close"):
        env.configure_parallel(use_buffers=True)


class TestSharedMemory:
    def test_is_shared_and_leaves_no_name(self) -> None:
        memory = SharedMemory(256)
        other = mapped(memory.path, 256)
        memory.unlink()
        assert not Path(memory.path).exists()
        memory.block[3] = 7
        assert other[3] == 7

    @pytest.mark.parametrize("on_disk", [False, True])
    def test_no_room(self, on_disk: bool, made_files: list[Path]) -> None:
        with pytest.raises(
            OSError, match=r"take 1,125,899,906,842,624 bytes, and /\S+ has [0-9,]+ bytes free"
        ) as caught:
            SharedMemory(2**50, on_disk=on_disk)
        assert "use_buffers=False" in str(caught.value)
        assert ("memmap=True" in str(caught.value)) is not on_disk
        assert [path.exists() for path in made_files] == [False]

    def test_environments_leave_no_files(self, parallel: Make, made_files: list[Path]) -> None:
        parallel(2, Counting).reset()
        assert made_files
        assert not any(path.exists() for path in made_files)


@pytest.fixture
def made_files(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are made in this test; other processes make some at the same time."""
    made: list[Path] = []

    def kept(**words: Any) -> tuple[int, str]:
        handle, path = mkstemp(**words)
        made.append(Path(path))
        return handle, path

    mkstemp = tempfile.mkstemp
    monkeypatch.setattr(tempfile, "mkstemp", kept)
    return made


def test_one_thread_at_a_time(parallel: Make) -> None:
    env = parallel(1, Slow)
    root = env.rand_action(env.reset())
    errors: list[Exception] = []

    def look() -> None:
        for call in (lambda: env.step(root.clone()), lambda: env.limit, lambda: env.set_seed(0)):
            try:
                call()
            except RuntimeError as error:
                errors.append(error)

    timer = threading.Timer(0.2, look)
    timer.start()
    env.step(root)
    timer.join()
    assert len(errors) == 3
    assert all("one thread at a time" in str(error) for error in errors)
    assert env.step(env.rand_action(env.reset()))["next", "count"].item() == 1


class Slow(Counting):
    def _step(self, tensordict: Any) -> Any:
        time.sleep(0.6)
        return super()._step(tensordict)


def test_no_memory_is_lost(parallel: Make) -> None:
    env = parallel(1, Counting)
    root = env.reset()
    for _ in range(100):
        _, root = env.step_and_maybe_reset(env.rand_action(root))
    before = _memory(env.worker_pids[0]), _memory(os.getpid())
    for _ in range(600):
        _, root = env.step_and_maybe_reset(env.rand_action(root))
    after = _memory(env.worker_pids[0]), _memory(os.getpid())
    assert all(late - early < 4_000 for late, early in zip(after, before, strict=True))  # KiB


def _memory(pid: int | None) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.complex64],
)
def test_tensors_as_messages(dtype: torch.dtype) -> None:
    tensor = torch.arange(6).to(dtype).reshape(2, 3).t()
    arrived = loads(dumps(TensorDict({"x": tensor, "nested": {"y": tensor[:0]}}, batch_size=[])))
    assert arrived["x"].dtype is dtype
    assert torch.equal(arrived["x"], tensor)
    assert arrived["nested", "y"].shape == (0, 2)
    arrived["x"].zero_()
    assert torch.equal(tensor, torch.arange(6).to(dtype).reshape(2, 3).t())


def test_conjugate_tensors_as_messages() -> None:
    tensor = torch.tensor([1 + 2j]).conj()
    assert torch.equal(loads(dumps(tensor)), tensor)


def test_unset_options_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """tensordict leaves "None" in these variables, which it cannot read in a new process."""
    monkeypatch.setenv("LAZY_LEGACY_OP", "1")
    with set_lazy_legacy(True):
        pass
    monkeypatch.setenv("LIST_TO_STACK", "None")
    monkeypatch.setenv("CAPTURE_NONTENSOR_STACK", "0")
    clear_unset_options()
    assert os.environ.get("LIST_TO_STACK") is None
    assert os.environ.get("LAZY_LEGACY_OP") != "None"
    assert os.environ["CAPTURE_NONTENSOR_STACK"] == "0"


def run_program(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `program.py` of a folder, whose modules it can import."""
    search = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_fork_server_that_is_interrupted_says_nothing(tmp_path: Path) -> None:
    """It forgets Ctrl-C while it imports; its copies and this process hear it as ever."""
    (tmp_path / "interrupted.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    (tmp_path / "program.py").write_text(
        "import multiprocessing, os, signal, time\n"
        "from specgen_runtime.envs import ParallelEnv\n"
        "from specgen_runtime.envs.batched import processes\n"
        "from specgen_std.envs import CartPole\n"
        "def heard():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        for _ in range(1000):  # another thread may be the one that is told, and wakes nobody\n"
        "            time.sleep(0.01)\n"
        "    except KeyboardInterrupt:\n"
        "        print('heard', flush=True)\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background ignores\n"
        "    processes._PRELOADED = ('interrupted', *processes._PRELOADED)\n"
        "    env = ParallelEnv(2, CartPole, mp_start_method='forkserver')\n"
        "    print(list(env.rollout(3).batch_size), flush=True)\n"
        "    env.close()\n"
        "    other = multiprocessing.get_context('forkserver').Process(target=heard)\n"
        "    other.start()\n"
        "    other.join()\n"
        "    heard()\n"
    )
    done = run_program(tmp_path)
    assert done.stdout == "[2, 3]\nheard\nheard\n", done.stderr
    assert "Traceback" not in done.stderr


def test_a_fork_server_that_is_interrupted_while_it_comes_up(tmp_path: Path) -> None:
    """Ctrl-C is for all processes of a terminal; this one goes on, a training to its next checkpoint."""
    (tmp_path / "interrupted_once.py").write_text(
        "import os, signal, time\n"
        "from pathlib import Path\n"
        "if not Path('interrupted').exists():\n"
        "    Path('interrupted').touch()\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(5)\n"
    )
    (tmp_path / "program.py").write_text(
        "import multiprocessing\n"
        "from specgen_runtime.envs import ParallelEnv\n"
        "from specgen_std.envs import CartPole\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_forkserver_preload(['interrupted_once'])\n"
        "    env = ParallelEnv(2, CartPole, mp_start_method='forkserver')\n"
        "    print(list(env.rollout(3).batch_size))\n"
        "    env.close()\n"
    )
    done = run_program(tmp_path)
    assert (tmp_path / "interrupted").exists()
    assert done.stdout == "[2, 3]\n", done.stderr
