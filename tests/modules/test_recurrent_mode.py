"""The mode in which recurrent modules read their data."""

from __future__ import annotations

import threading

import pytest
import torch
from specgen_runtime.modules import recurrent_mode, set_recurrent_mode
from torch import Tensor


def test_blocks_nest_and_restore_what_was() -> None:
    assert recurrent_mode() is None
    outer = set_recurrent_mode(True)
    with outer:
        assert recurrent_mode() is True
        with set_recurrent_mode("sequential"):
            assert recurrent_mode() is False
            with outer:
                assert recurrent_mode() is True
            assert recurrent_mode() is False
        with set_recurrent_mode(None):
            assert recurrent_mode() is None
        assert recurrent_mode() is True
    assert recurrent_mode() is None


def test_an_error_restores_it() -> None:
    with pytest.raises(KeyError), set_recurrent_mode("recurrent"):
        raise KeyError
    assert recurrent_mode() is None


def test_functions() -> None:
    @set_recurrent_mode(True)
    def inside() -> bool | None:
        return recurrent_mode()

    assert inside() is True
    assert inside.__name__ == "inside"
    assert recurrent_mode() is None


def test_each_thread_has_its_own() -> None:
    seen: list[bool | None] = []
    with set_recurrent_mode(True):
        thread = threading.Thread(target=lambda: seen.append(recurrent_mode()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_compiled_functions_see_it() -> None:
    @set_recurrent_mode(True)
    def within(x: Tensor) -> Tensor:
        return x + 1 if recurrent_mode() else x - 1

    def around(x: Tensor) -> tuple[Tensor, bool | None]:
        return within(x), recurrent_mode()

    compiled = torch.compile(around, fullgraph=True, backend="eager")
    for mode in (None, True, False):
        with set_recurrent_mode(mode):
            value, seen = compiled(torch.zeros(1))
            assert (value.item(), seen) == (1.0, mode)


def test_refuses_other_names() -> None:
    with pytest.raises(ValueError, match="'recurrent' or 'sequential', True, False or None, got 'sometimes'"):
        set_recurrent_mode("sometimes")  # type: ignore[arg-type]
