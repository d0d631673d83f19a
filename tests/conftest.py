"""Shared test setup: one torch thread (workers share the cores), a compiler cache of the tests' own, and
property tests that try the same examples each time (`--hypothesis-profile=explore` looks for others).
"""

import os
import shutil
import tempfile

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite what the cases under tests/cases expect")


def pytest_configure(config: pytest.Config) -> None:
    os.environ["SPECGEN_TRACEBACK"] = "1"  # a fault of the compiler fails the test that brings it out
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ["SPECGEN_CACHE_DIR"] = tempfile.mkdtemp(prefix="specgen-test-cache-")
        os.environ["XDG_STATE_HOME"] = os.environ["SPECGEN_CACHE_DIR"]  # where the key of the cache is
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


def pytest_unconfigure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["SPECGEN_CACHE_DIR"], ignore_errors=True)
