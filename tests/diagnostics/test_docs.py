"""The page of diagnostics is made from the rules, and each rule is met by a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specgen.diagnostics.docs import diagnostics_markdown
from specgen.diagnostics.rules import ALL_RULES

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "diagnostics.md"
FOUND = re.compile(r"^(?:error|warning)\[(SG\d{3})\]", re.MULTILINE)
EXPECTED = re.compile(r"\b(SG\d{3})\b")


def test_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    text = diagnostics_markdown()
    if request.config.getoption("--update", default=False):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "run: pytest tests/diagnostics/test_docs.py --update"


def test_every_rule_stands_on_the_page_and_says_what_happens_without_it() -> None:
    text = diagnostics_markdown()
    for code, rule in ALL_RULES.items():
        assert f"| {code} | " in text
        assert rule.without.strip() == rule.without, code
        assert len(rule.without) > 20, code
        assert rule.without.endswith("."), code


def test_every_rule_has_a_case_or_a_test_that_expects_it() -> None:
    cases = (path.read_text(encoding="utf-8") for path in (TESTS / "cases").rglob("diagnostics.txt"))
    met = {code for text in cases for code in FOUND.findall(text)}
    # Files, folders, configuration and Gymnasium's answers are no case's to show: tests expect their codes by name.
    for path in TESTS.rglob("test_*.py"):
        if path != Path(__file__):
            met |= set(EXPECTED.findall(path.read_text(encoding="utf-8")))
    assert sorted(ALL_RULES.keys() - met) == []
