"""Environments that go wrong, for tests of processes: they have to be importable there."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.specs import Bounded, Unbounded
from tensordict import TensorDict


class ChattyError(ValueError):
    """Takes other arguments than its `args`, so that pickle can't rebuild it by itself."""

    def __init__(self, place: str, *, code: int) -> None:
        super().__init__(f"{place} broke with code {code}")
        self.code = code


class StuckError(Exception):
    """Holds what can't be pickled."""

    def __init__(self) -> None:
        super().__init__("stuck")
        self.lock = threading.Lock()


def raised(what: str) -> Exception:
    if what == "chatty":
        return ChattyError("gear", code=7)
    if what == "stuck":
        return StuckError()
    if what == "local":

        class LocalError(Exception):
            pass

        return LocalError("nobody knows this class")
    return ZeroDivisionError("as told")


class Faulty(EnvBase):
    """Counts its steps, and goes wrong where it is told to.

    Args:
        when: `"construct"`, `"reset"` or the number of a step.
        what: `"raise"`, `"chatty"`, `"stuck"`, `"local"`, `"kill"` (itself), `"exit"` or `"sleep"`.
    """

    def __init__(self, when: str | int | None = None, what: str = "raise") -> None:
        super().__init__()
        self.when, self.what = when, what
        self.count = 0
        self.resets = 0
        self.action_spec = Bounded(-1.0, 1.0, shape=(1,))
        self.observation_spec = Unbounded(shape=(1,))
        self._fail("construct")

    def _fail(self, moment: str | int) -> None:
        if moment != self.when:
            return
        if self.what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.what == "exit":
            os._exit(3)
        if self.what == "sleep":
            time.sleep(60)
        raise raised(self.what)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        self.resets += 1
        self._fail("reset")
        self.count = kwargs.get("count", 0)
        return TensorDict({"observation": torch.tensor([float(self.count)])})

    def _step(self, tensordict: Any) -> TensorDict:
        self.count += 1
        self._fail(self.count)
        return TensorDict(
            {
                "observation": torch.tensor([float(self.count)]),
                "reward": tensordict["action"].clone(),
                "terminated": torch.tensor([self.count >= 100]),
            }
        )

    def _set_seed(self, seed: int | None) -> None:
        self.seeded = seed

    def pid(self) -> int:
        return os.getpid()

    def plus(self, number: int, *, times: int = 1) -> int:
        return self.count + number * times

    @property
    def broken(self) -> int:
        raise ZeroDivisionError("a property")
