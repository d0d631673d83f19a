"""When `encode` and `to_numpy` check the domain: on request, and everywhere with an environment variable."""

from __future__ import annotations

import os

import pytest
import torch
from specgen_runtime.specs import Bounded

from tests.python_processes import run_python


def test_encode_checks_domains_on_request() -> None:
    spec = Bounded(0, 1, (1,))
    assert spec.encode(5).tolist() == [5]
    assert spec.to_numpy(torch.tensor([5.0])).tolist() == [5]
    with pytest.raises(AssertionError):
        spec.to_numpy(torch.tensor([5.0]), safe=True)


def test_an_environment_variable_makes_encode_check_all_domains() -> None:
    program = """
import pytest, torch
from specgen_runtime.specs import Bounded
spec = Bounded(0, 1, (1,))
with pytest.raises(AssertionError, match="expected values in"):
    spec.encode(5)
with pytest.raises(AssertionError):
    spec.to_numpy(torch.tensor([5.0]))
assert spec.to_numpy(torch.tensor([5.0]), safe=False).tolist() == [5]
"""
    done = run_python("-c", program, env={**os.environ, "CHECK_SPEC_ENCODE": "1"})
    assert done.returncode == 0, done.stderr
