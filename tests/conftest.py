"""Shared test setup: one torch thread (workers share the cores), a compiler cache of the tests' own, few collections
of garbage, no seeds for devices that are not there, the same random numbers for a test each time, and property tests
that try the same examples each time
(`--hypothesis-profile=explore` looks for others).
"""

import atexit
import gc
import multiprocessing
import os
import random
import secrets
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from operator import attrgetter
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import settings

from tests.pairwise import thinned
from tests.python_processes import STARTUP
from tests.sizes import THOROUGH

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeatable")


@pytest.fixture
def forked_processes() -> Iterator[None]:
    """Processes are copies of this one by default. TorchRL, once imported, has them spawned: seconds for each."""
    yield from _start_method("fork")


@pytest.fixture
def spawned_processes() -> Iterator[None]:
    """Processes are new interpreters by default: what they are given has to be pickled."""
    yield from _start_method("spawn")


def _start_method(method: Literal["fork", "spawn"]) -> Iterator[None]:
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method(method, force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Tests that `make quick` has no time for are left out."""
    return True if time.time() > float(os.environ.get("QUICK_UNTIL", "inf")) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test draws does not depend on the tests before it: alone, in any order and in any worker it is the same."""
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    for module, manual_seed in (("torch", "manual_seed"), ("numpy", "random.seed")):
        if module in sys.modules:
            attrgetter(manual_seed)(sys.modules[module])(seed)


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """What is left of tests: options of tensordict, and generated modules that nobody has looked at.

    Processes that tests start inherit no options that other tests, or TorchRL, have set.
    """
    if "specgen_runtime.envs.batched.pool" in sys.modules:
        sys.modules["specgen_runtime.envs.batched.pool"].clear_unset_options()
    if "tests.support" in sys.modules:
        sys.modules["tests.support"].assert_pending_names_resolve(more_than=0 if nextitem is None else 100)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Tests and the modules that they import stay: garbage is not looked for among them, then or later.

    They are a million objects, which take a second to go through, also in each process that is forked from here.
    """
    gc.disable()
    with _first_to_compile():
        yield
    gc.freeze()
    gc.set_threshold(50_000, 10, 20)
    gc.enable()


@contextmanager
def _first_to_compile() -> Iterator[None]:
    """In a fresh clone the first worker looks for tests alone: the others find all modules compiled, asserts included."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    last = Path(cache_from_source(Path(__file__).parent / "typing/checkers.py"))
    if worker is None or "QUICK_UNTIL" in os.environ or sys.dont_write_bytecode or last.exists():
        yield
        return
    done = Path(os.environ["SPECGEN_CACHE_DIR"] + ".compiled")
    if worker != "gw0":
        until = time.time() + 120
        while not done.exists() and time.time() < until:
            time.sleep(0.1)
    try:
        yield
    finally:
        if worker == "gw0":
            done.touch()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Combinations of parameters are left out that other tests hold pair by pair, unless tests are named.

    Slow tests are the first, so that no worker waits for them at the end; `make quick` runs what is near first. Those
    of mypy are the last: by then `make typecheck`, beside them, has found out what mypy has to know of torch.
    """
    if not THOROUGH and not any("::" in argument for argument in config.args):
        kept = thinned(items)
        config.hook.pytest_deselected(items=[*{*items} - {*kept}])
        items[:] = kept
    if "QUICK_UNTIL" not in os.environ:
        items[:] = _with_cases_together(items)
        items.sort(key=lambda item: 2 if "[mypy" in item.name else item.get_closest_marker("slow") is None)


def _with_cases_together(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests, those of one case (`tests/compiled_cases.py`) beside each other: one worker compiles it once for all."""
    of_cases: dict[Path, list[pytest.Item]] = {}
    for item in items:
        folder = item.callspec.params.get("folder") if hasattr(item, "callspec") else None
        if isinstance(folder, Path):
            of_cases.setdefault(folder, []).append(item)
    together = [item for folder in of_cases for item in of_cases[folder]]
    moved = {*map(id, together)}
    place = next((number for number, item in enumerate(items) if id(item) in moved), 0)
    others = [item for item in items if id(item) not in moved]
    return [*others[:place], *together, *others[place:]]


def pytest_collection_finish() -> None:
    """Let `make quick` try some tests, however long it took to find them."""
    if "QUICK_UNTIL" in os.environ:
        os.environ["QUICK_UNTIL"] = str(max(float(os.environ["QUICK_UNTIL"]), time.time() + 20))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite what the cases under tests/cases expect")


def pytest_configure(config: pytest.Config) -> None:
    os.environ["SPECGEN_TRACEBACK"] = "1"  # a fault of the compiler fails the test that brings it out
    os.environ["SPECGEN_VERIFY"] = "1"  # every pass verifies the programs that it takes and gives
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ["SPECGEN_CACHE_DIR"] = tempfile.mkdtemp(prefix="specgen-test-cache-")
        os.environ["XDG_STATE_HOME"] = os.environ["SPECGEN_CACHE_DIR"]  # where the key of the cache is
        # Of the Ray cluster of this run: its processes and no others may use it.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(STARTUP), os.environ.get("PYTHONPATH"))))
        atexit.register(gc.freeze)
        if config.getoption("numprocesses", None):
            return  # it runs no test itself, and torch takes seconds to import
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)
    for devices in (torch.cuda, torch.xpu, torch.mtia):
        if not devices.is_available():
            devices.manual_seed_all = _seed_nothing


def _seed_nothing(seed: int) -> None:
    """For `manual_seed_all` of devices that are not there: torch would keep the seed, and the stack of each call as
    text, for the moment when they are first used. That takes as long as a step of an environment.
    """


def pytest_unconfigure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["SPECGEN_CACHE_DIR"], ignore_errors=True)
        Path(os.environ["SPECGEN_CACHE_DIR"] + ".compiled").unlink(missing_ok=True)
