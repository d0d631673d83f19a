"""Docstrings of generated code begin with the first sentence of what a declaration says."""

from __future__ import annotations

import pytest

from specgen.plan.docs import summary


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One. Two.", "One."),
        ("Alone", "Alone"),
        ("By many (Lillicrap et al. 2015). Two.", "By many (Lillicrap et al. 2015)."),
        ("A smile :) ends one. Two.", "A smile :) ends one."),
        ("Open (for. ever.", "Open (for. ever."),
    ],
)
def test_a_summary_is_a_whole_sentence(text: str, first: str) -> None:
    assert " ".join(summary(text)) == first
