"""Diagnostics: how they are collected, shown and explained."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specgen.diagnostics import (
    Diagnostic,
    Note,
    Rule,
    Sink,
    Span,
    did_you_mean,
    render_human,
    suggestion,
    summary,
)
from specgen.diagnostics.rules import ALL_RULES, MODULES
from specgen.diagnostics.similar import edit_distance

RULE = Rule("SG321", "key without producer", "doc")
LINT = Rule("SG311", "order", "doc", severity="warning")


def at(line: int, column: int, rule: Rule = RULE, message: str = "m", file: str = "a.yaml") -> Diagnostic:
    return rule.at(Span(file, line, column, line, column + 3), message)


def test_a_diagnostic_looks_as_the_style_guide_says() -> None:
    source = "\n" * 32 + "  actor:\n" + "\n" * 7 + "    loss: ClipPPOLoss\n"
    item = RULE.at(
        Span("schemas/cheetah.yaml", 41, 11, 41, 22),
        "loss `PPO` reads `action_log_prob`, which nothing writes",
        notes=[
            Note(
                "policy `actor` is declared with `return_log_prob: false`",
                Span("schemas/cheetah.yaml", 33, 3, 33, 8),
            )
        ],
        help="set `return_log_prob: true`",
    )
    assert render_human([item], {"schemas/cheetah.yaml": source}) == (
        "error[SG321]: loss `PPO` reads `action_log_prob`, which nothing writes\n"
        "  --> schemas/cheetah.yaml:41:11\n"
        "   |\n"
        "41 |     loss: ClipPPOLoss\n"
        "   |           ^^^^^^^^^^^\n"
        "   = note: policy `actor` is declared with `return_log_prob: false` (line 33)\n"
        "   = help: set `return_log_prob: true`\n"
    )


def test_rendering_without_the_file_and_with_other_files() -> None:
    item = LINT.at(
        Span("a.yaml", 3, 1, 3, 2),
        "late",
        label="here",
        notes=["plain", Note("other", Span("b.yaml", 2, 5, 2, 6))],
    )
    assert render_human([item], {}) == (
        "warning[SG311]: late\n --> a.yaml:3:1\n  = note: plain\n  = note: other (b.yaml:2:5)\n"
    )
    shown = render_human([item], {"a.yaml": "x\r\ny\r\nz"})
    assert "3 | z\n  | ^ here\n" in shown


def test_output_is_bounded() -> None:
    many = [RULE.at(Span("a.yaml", line, 1, line, 2), f"mistake {line}") for line in range(1, 1001)]
    said = render_human(many, {})
    assert said.count("error[SG321]") == 100
    assert "mistake 100\n" in said
    assert said.endswith("\n… and 900 more; mend these first\n")
    assert "more" not in render_human(many[:100], {})
    long = "k" * 5_000_000
    said = render_human([RULE.at(Span("a", 1, 1, 1, 2), f"no `{long}` here", notes=[long], help=long)], {})
    assert f"no `{'k' * 50}…{'k' * 30}` here" in said
    assert len(said) < 4000
    assert summary(many) == "1000 errors"


def test_spans_over_lines_at_the_end_and_of_wide_characters() -> None:
    text = "k: 'a\n  b'\n\tx: 漢字y\n"
    over = RULE.at(Span("a", 1, 4, 2, 5), "m")
    assert "1 | k: 'a\n  |    ^^\n" in render_human([over], {"a": text})
    wide = RULE.at(Span("a", 3, 7, 3, 8), "m")
    assert "3 |     x: 漢字y\n  |" + " " * 12 + "^\n" in render_human([wide], {"a": text})
    end = RULE.at(Span("a", 4, 1, 4, 1), "m")
    assert "4 |\n  | ^\n" in render_human([end], {"a": text})


def columns(text: str) -> list[str]:
    """What stands in each column of a terminal; a wide character stands in two."""
    found: list[str] = []
    for char in text:
        if unicodedata.combining(char):
            continue
        found += [char] * (2 if unicodedata.east_asian_width(char) in "WF" else 1)
    return found


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    before=st.text("ab \t漢", max_size=400),
    mistake=st.text("XY\t字", min_size=1, max_size=300),
    behind=st.text("cd \t漢", max_size=400),
)
def test_of_long_lines_the_mistake_and_what_is_around_it_is_shown(
    before: str, mistake: str, behind: str
) -> None:
    line = f"{before}{mistake}{behind}"
    span = Span("a", 1, len(before) + 1, 1, len(before) + len(mistake) + 1)
    _, _, _, text, carets, *_ = render_human([RULE.at(span, "m")], {"a": line}).split("\n")
    shown, under = columns(text.removeprefix("1 |")), columns(carets.removeprefix("  |"))
    assert len(shown) <= 161
    marked = "".join(char for char, mark in zip(shown, under, strict=False) if mark == "^")
    expected = "".join(columns(mistake.replace("\t", "    ")))
    # the end of a line shows no spaces
    assert expected.startswith(marked)
    assert marked.rstrip() == expected.rstrip() or (len(marked) >= 150 and "…" in shown[-1])
    if len(expected) < 100 and len(columns(line.replace("\t", "    "))) > 170:
        assert len(shown) > 120 or shown[-1] != "…"
    if "…" not in shown:
        assert "".join(shown).rstrip() == f" {''.join(columns(line.replace(chr(9), '    ')))}".rstrip()


def test_colour_changes_no_text() -> None:
    items = [at(1, 1), at(1, 2, LINT)]
    plain = render_human(items, {"a.yaml": "abcdef"})
    colour = render_human(items, {"a.yaml": "abcdef"}, color=True)
    assert "\x1b[1;31merror[SG321]\x1b[0m" in colour
    assert re.sub(r"\x1b\[[0-9;]*m", "", colour) == plain


def test_nothing_from_a_file_reaches_the_terminal_as_control() -> None:
    item = RULE.at(Span("a\x1b[2J.yaml", 1, 1, 1, 2), "name `\x1b[31m\u202e`\nand more", help="\x07")
    shown = render_human([item], {"a\x1b[2J.yaml": "\x1b]0;title\x07"})
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "and more" in shown.splitlines()[0]


def test_summary() -> None:
    assert summary([]) == ""
    assert summary([at(1, 1)]) == "1 error"
    assert summary([at(1, 1), at(2, 1), at(1, 1, LINT)]) == "2 errors, 1 warning"
    assert summary([at(1, 1, LINT), at(2, 1, LINT)]) == "2 warnings"


def test_a_sink_sorts_and_drops_repetitions() -> None:
    sink = Sink([at(9, 1)])
    sink.add(at(2, 7))
    sink.extend([at(2, 1), at(2, 7), at(1, 1, file="b.yaml"), at(2, 1, LINT)])
    assert [(item.span.file, item.span.line, item.span.column, item.code) for item in sink.items] == [
        ("a.yaml", 2, 1, "SG311"),
        ("a.yaml", 2, 1, "SG321"),
        ("a.yaml", 2, 7, "SG321"),
        ("a.yaml", 9, 1, "SG321"),
        ("b.yaml", 1, 1, "SG321"),
    ]
    assert len(sink.items) == 5
    assert sink.has_errors
    assert not Sink([at(1, 1, LINT)]).has_errors
    assert str(sink.items[0]) == "a.yaml:2:1: warning[SG311]: m"


def test_spans_join() -> None:
    assert Span("a", 1, 2, 1, 4).to(Span("a", 2, 1, 2, 9)) == Span("a", 1, 2, 2, 9)


@pytest.mark.parametrize(
    ("name", "candidates", "best"),
    [
        ("dtpye", ["dtype", "type", "shape"], "dtype"),
        ("thetadot", ["theta", "theta_dot"], "theta_dot"),
        ("RewardScalling", ["RewardSum", "RewardScaling"], "RewardScaling"),
        ("rewardsum", ["RewardSum", "RewardScaling"], "RewardSum"),
        ("Pendulm-v1", ["Pendulum-v1", "CartPole-v1"], "Pendulum-v1"),
        ("shap", ["shape"], "shape"),
        ("a", ["b"], None),
        ("x", ["observation"], None),
        ("same", ["same"], None),
        ("colour", ["color", "colours"], "color"),
        ("", ["a"], None),
        ("ab", [], None),
        ("bat", ["cat", "bar"], "bar"),
        ("x" * 100_000, ["y" * 100_000, "z"], None),
    ],
)
def test_did_you_mean(name: str, candidates: list[str], best: str | None) -> None:
    assert did_you_mean(name, candidates) == best
    assert did_you_mean(name, reversed(candidates)) == best
    assert suggestion(name, candidates) == (None if best is None else f"did you mean '{best}'?")


def test_edit_distance() -> None:
    assert edit_distance("abc", "abc", 3) == 0
    assert edit_distance("abc", "acb", 3) == 1
    assert edit_distance("kitten", "sitting", 9) == 3
    assert edit_distance("kitten", "sitting", 2) == 3
    assert edit_distance("", "abc", 5) == 3


def test_rules_are_documented_and_in_their_hundred() -> None:
    for code, rule in ALL_RULES.items():
        assert re.fullmatch(r"SG\d{3}", code)
        assert code == rule.code
        assert rule.title
        assert not rule.title.endswith(".")
        assert len(rule.doc.strip()) > 80, code
    assert list(ALL_RULES) == sorted(ALL_RULES)
    hundreds = [
        {rule.code[2] for rule in vars(module).values() if isinstance(rule, Rule)} for module in MODULES
    ]
    assert all(len(found) <= 1 for found in hundreds[:-1])
    assert hundreds[-1] <= {"8", "9"}
