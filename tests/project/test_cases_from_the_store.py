"""Each case comes out of the store, on disk, as it comes out of a compilation."""

from __future__ import annotations

from pathlib import Path

import pytest

from specgen.project.store import Store
from specgen.settings import Config
from tests.compiled_cases import FOLDERS, compiled_case, folders_of, records_of
from tests.project.test_incremental import assert_same
from tests.sizes import THOROUGH
from tests.support import LIBRARY, WithLibrary, compile_sources

FROM_NOTHING = {*(FOLDERS if THOROUGH else FOLDERS[::8])}
"""Cases that begin with nothing known, so that all files of the library go through the store, too. For the others
these come from memory, where they are the same for every case."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_each_case_is_the_same_from_the_store(folder: Path, cache: Path, checked: list[str]) -> None:
    case = compiled_case(folder)
    texts = {f"schemas/{path}": text for path, text in case.sources.items()}
    library = LIBRARY if any("specgen_std/" in text for text in texts.values()) else None
    for run in range(2):
        store = Store(folder)
        checked.clear()
        records = records_of(folder, library is not None)
        config = Config("schemas", "generated", "generated")
        made = compile_sources(
            texts,
            config,
            gymnasium=records,
            model_folders=folders_of(folder),
            library=library,
            memo=store if folder in FROM_NOTHING else WithLibrary(store),
        )
        assert_same(made, case.compiled)
        store.save()
        assert not run or not checked
