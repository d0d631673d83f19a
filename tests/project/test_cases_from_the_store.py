"""Each case comes out of the store, on disk, as it comes out of a compilation."""

from __future__ import annotations

from pathlib import Path

import pytest

from specgen.project.library import PACKAGE
from specgen.project.store import Store
from tests.compiled_cases import FOLDERS, case_memo, compile_case, compiled_case
from tests.project.test_incremental import assert_same
from tests.sizes import THOROUGH

FROM_NOTHING = FOLDERS if THOROUGH else FOLDERS[::8]
"""Cases that begin with nothing known, so that all files of the library go through the store, too. For the others
these come from memory, where they are the same for every case."""


def name_of(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_each_case_is_the_same_from_the_store(folder: Path, checked: list[str]) -> None:
    """The store is that of the compilation itself, in this process or in another."""
    case = compiled_case(folder)
    checked.clear()
    assert_same(compile_case(case, case_memo(folder)), case.compiled)
    assert [path for path in checked if not path.startswith(f"{PACKAGE}/")] == []


@pytest.mark.parametrize("folder", FROM_NOTHING, ids=name_of)
def test_cases_with_all_of_the_library_in_the_store(folder: Path, cache: Path, checked: list[str]) -> None:
    case = compiled_case(folder)
    for run in range(2):
        store = Store(folder)
        checked.clear()
        assert_same(compile_case(case, store), case.compiled)
        store.save()
        assert not run or not checked
