"""Shared test setup: one torch thread (workers share the cores), and a compiler cache of the tests' own."""

import os
import shutil
import tempfile

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite what the cases under tests/cases expect")


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ["SPECGEN_CACHE_DIR"] = tempfile.mkdtemp(prefix="specgen-test-cache-")
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


def pytest_unconfigure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["SPECGEN_CACHE_DIR"], ignore_errors=True)
