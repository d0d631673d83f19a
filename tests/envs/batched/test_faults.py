"""Processes that fail, die, are interrupted or left alone: a clear error, no hang, and none is left over."""

from __future__ import annotations

import gc
import multiprocessing as mp
import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from specgen_runtime.envs import ParallelEnv
from specgen_runtime.envs.batched.messages import Failure, dumps, loads

from tests.envs.batched.conftest import Make
from tests.envs.batched.faulty import ChattyError, Faulty, StuckError
from tests.python_processes import run_python

ROOT = Path(__file__).resolve().parents[3]


def gone(pids: list[int | None], seconds: float = 10.0) -> bool:
    """Whether no process has one of these ids within some time."""
    deadline = time.monotonic() + seconds
    while any(_alive(pid) for pid in pids if pid is not None):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class TestExceptions:
    def test_in_a_step(self, parallel: Make) -> None:
        env = parallel(2, [Faulty, partial(Faulty, 2)])
        _, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
        with pytest.raises(ZeroDivisionError, match="as told") as caught:
            env.step(env.rand_action(root))
        (note,) = caught.value.__notes__
        assert note.startswith("in environment 1 of 2, process ")
        assert "self._fail(self.count)" in note
        assert not env.is_closed
        data = env.rollout(1)  # the environments go on
        assert data["next", "observation"].tolist() == [[[1]], [[1]]]

    def test_in_a_reset(self, batch: Make) -> None:
        env = batch(2, [Faulty, partial(Faulty, "reset")])
        with pytest.raises(ZeroDivisionError, match="as told") as caught:
            env.reset()
        assert "in environment 1 of 2" in caught.value.__notes__[0]
        assert env.resets == [1, 1]

    def test_in_several(self, parallel: Make) -> None:
        env = parallel(2, partial(Faulty, 1))
        with pytest.raises(ZeroDivisionError) as caught:
            env.rollout(1)
        assert caught.value.__notes__[1] == "environment 1 failed too: ZeroDivisionError: as told"

    def test_in_a_function_here(self, batch: Make) -> None:
        with pytest.raises(ZeroDivisionError):
            batch(2, partial(Faulty, "construct"))

    def test_in_a_function_there(self, parallel: Make) -> None:
        with pytest.raises(ZeroDivisionError) as caught:
            parallel(2, [Faulty, partial(Faulty, "construct")], metadata_from_workers=True)
        assert 'self._fail("construct")' in caught.value.__notes__[0]
        assert not [child for child in mp.active_children() if child.name.startswith("specgen-env")]

    def test_types(self, parallel: Make) -> None:
        env = parallel(2, [Faulty, partial(Faulty, 1, "chatty")])
        with pytest.raises(ChattyError, match="gear broke with code 7") as caught:
            env.rollout(1)
        assert caught.value.code == 7

    def test_what_cant_be_pickled(self) -> None:
        def sent(error: Exception) -> BaseException:
            try:
                raise error
            except Exception as caught:
                return loads(dumps(Failure(caught))).rebuild("there")

        rebuilt = sent(StuckError())
        assert isinstance(rebuilt, StuckError)
        assert not hasattr(rebuilt, "lock")

        class LocalError(Exception):
            pass

        rebuilt = sent(LocalError("nobody knows it"))
        assert type(rebuilt) is RuntimeError
        assert str(rebuilt).endswith("LocalError: nobody knows it")
        assert "raise error" in rebuilt.__notes__[0]

    def test_functions_that_cant_be_sent(self, parallel: Make) -> None:
        import threading

        lock = threading.Lock()
        with pytest.raises(TypeError, match="environment 0 can't be sent to another process") as caught:
            parallel(2, lambda: Faulty(str(lock)))
        assert "create_env_kwargs" in str(caught.value)

    def test_other_specs_there_than_here(self, parallel: Make) -> None:
        with pytest.raises(RuntimeError, match=r"other specs in its process than in this one.*observation"):
            parallel(2, partial(differing, os.getpid())).start()


def differing(home: int) -> Any:
    from specgen_runtime.specs import Unbounded

    env = Faulty()
    if os.getpid() != home:
        env.observation_spec = Unbounded(shape=(2,))
    return env


class TestDeaths:
    @pytest.mark.parametrize("what", ["kill", "exit"])
    def test_in_a_step(self, parallel: Make, what: str) -> None:
        env = parallel(2, [Faulty, partial(Faulty, 2, what)])
        _, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
        pids = env.worker_pids
        text = "killed by SIGKILL" if what == "kill" else "ended with exit code 3"
        start = time.monotonic()
        with pytest.raises(RuntimeError, match=f"environment 1 of 2: its process {pids[1]} .*{text}"):
            env.step(env.rand_action(root))
        assert time.monotonic() - start < 10
        assert env.is_closed
        assert gone(pids)
        assert env.rollout(1).shape == (2, 1)  # opened again

    def test_between_steps(self, parallel: Make) -> None:
        env = parallel(2, Faulty)
        root = env.rand_action(env.reset())
        os.kill(env.worker_pids[0], signal.SIGKILL)
        with pytest.raises(RuntimeError, match=r"environment 0 of 2: .* killed by SIGKILL"):
            env.step(root)
        assert env.is_closed

    def test_before_there_is_an_environment(self, parallel: Make) -> None:
        with pytest.raises(RuntimeError, match="__main__"):
            parallel(1, partial(Faulty, "construct", "exit"), metadata_from_workers=True)

    def test_at_close(self, parallel: Make) -> None:
        env = parallel(2, Faulty)
        env.start()
        pids = env.worker_pids
        os.kill(pids[0], signal.SIGKILL)
        env.close()
        assert gone(pids)

    def test_an_interrupt_closes_all(self, parallel: Make) -> None:
        env = parallel(2, [Faulty, partial(Faulty, 1, "sleep")])
        root = env.rand_action(env.reset())
        pids = env.worker_pids
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                env.step(root)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert env.is_closed
        assert gone(pids)

    def test_environments_that_do_not_close_are_killed(self, parallel: Make) -> None:
        env = parallel(1, Stubborn, shutdown_timeout=0.2)
        env.start()
        pids = env.worker_pids
        env.close()
        assert gone(pids)

    def test_dropped_without_close(self) -> None:
        env = ParallelEnv(2, Faulty)
        env.start()
        pids = env.worker_pids
        del env
        gc.collect()
        assert gone(pids)


class Stubborn(Faulty):
    def close(self, *, raise_if_closed: bool = True) -> None:
        if mp.parent_process() is not None:
            time.sleep(60)
        super().close(raise_if_closed=raise_if_closed)


SCRIPT = """
import os, signal, sys
from specgen_runtime.envs import ParallelEnv
from tests.envs.batched.faulty import Faulty
env = ParallelEnv(2, Faulty, mp_start_method="fork")
env.reset()
print(*env.worker_pids, flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -9),
        pytest.param("os._exit(4)", 4, marks=pytest.mark.slow),
        pytest.param("sys.exit(5)", 5, marks=pytest.mark.slow),
        pytest.param("raise ValueError", 1, marks=pytest.mark.slow),
    ],
)
def test_processes_end_with_their_parent(end: str, code: int) -> None:
    done = run_python("-c", SCRIPT.format(end=end), cwd=ROOT)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    assert done.returncode == code, done.stderr
    assert gone(list(pids))
