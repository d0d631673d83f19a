"""What is known from earlier compilations changes nothing in what comes out, and saves what an edit does not concern."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from specgen.compile_project import Compiled
from specgen.memo import Memo, Memory
from specgen.program.verify import VERIFY
from specgen.project.store import Store
from specgen.settings import Config
from tests.project.small_project import PROJECT, Texts
from tests.sizes import each_time_or_thorough
from tests.support import LIBRARY, compile_sources, library_records

CONFIG = Config("schemas", "made", "made")


def compiled(texts: Texts, memo: Memo | None = None) -> Compiled:
    return compile_sources(texts, CONFIG, gymnasium=library_records(), library=LIBRARY, memo=memo)


def said(made: Compiled) -> list[tuple[object, ...]]:
    return [
        (item.code, item.span, item.message, item.label, item.notes, item.help) for item in made.diagnostics
    ]


def assert_same(some: Compiled, other: Compiled) -> None:
    assert said(some) == said(other)
    assert dict(some.files) == dict(other.files)


class Editor:
    """Random edits of a project; what they break, later ones may mend."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.texts = dict(PROJECT)

    def edit(self) -> str:
        edits: tuple[Callable[[], str], ...] = (
            self.comment, self.doc, self.number, self.name, self.remove, self.restore, self.move, self.damage,
            self.mend, self.mend, self.mend, self.copy, self.line, self.import_,
        )  # fmt: skip
        return self.random.choice(edits)()

    def _path(self) -> str:
        return self.random.choice(sorted(self.texts))

    def _replace(self, pattern: str, to: Callable[[re.Match[str]], str]) -> str:
        path = self._path()
        found = list(re.finditer(pattern, self.texts[path]))
        if found:
            one = self.random.choice(found)
            text = self.texts[path]
            self.texts[path] = text[: one.start()] + to(one) + text[one.end() :]
        return f"{pattern} in {path}"

    def comment(self) -> str:
        return self._replace(r"(?m)^(?=\s*\w)", lambda _: f"# note {self.random.random()}\n")

    def doc(self) -> str:
        return self._replace(r"doc: [\w ]+", lambda _: f"doc: Words {self.random.randrange(99)}")

    def number(self) -> str:
        return self._replace(r"\b\d(\.\d)?\b(?!\])", lambda _: self.random.choice(["1.0", "2.5", "3", "0"]))

    def name(self) -> str:
        return self._replace(
            r"\b(Walk|Reach|Less|More|push|arm)\b", lambda one: f"{one[1]}{self.random.randrange(3)}"
        )

    def remove(self) -> str:
        path = self._path()
        if len(self.texts) > 2:
            del self.texts[path]
        return f"remove {path}"

    def restore(self) -> str:
        path = self.random.choice(sorted(PROJECT))
        self.texts[path] = PROJECT[path]
        return f"restore {path}"

    def move(self) -> str:
        path = self._path()
        to = path.replace(".yaml", f"{self.random.randrange(3)}.yaml")
        self.texts[to] = self.texts.pop(path)
        return f"move {path} to {to}"

    def damage(self) -> str:
        return self._replace(r"\n(?= )", lambda _: self.random.choice(["\n\t", "\n   ", ":\n", "\n?? "]))

    def mend(self) -> str:
        self.texts = {path: PROJECT.get(path, text) for path, text in self.texts.items()}
        self.texts |= {path: text for path, text in PROJECT.items() if self.random.random() < 0.9}
        self.texts = {
            path: text for path, text in self.texts.items() if path in PROJECT or self.random.random() < 0.5
        }
        return "mend"

    def copy(self) -> str:
        path = self._path()
        self.texts[path.replace(".yaml", "_copy.yaml")] = self.texts[path]
        return f"copy {path}"

    def line(self) -> str:
        return self._replace(r"(?m)^    \w.*\n", lambda _: "")

    def import_(self) -> str:
        return self._replace(
            r"import: \[", lambda _: f"import: [{self.random.choice(['shapes', 'parts/more', '../gone'])}, "
        )


@pytest.mark.parametrize("seed", range(each_time_or_thorough(3, 12)))
def test_edits_end_where_a_fresh_compilation_does(seed: int, cache: Path) -> None:
    editor = Editor(seed)
    store = Store(cache)
    good = 0
    for step in range(25):
        what = editor.edit()
        known = compiled(editor.texts, store)
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv(VERIFY)  # the programs that an edit changes have just been verified
            fresh = compiled(editor.texts)
        try:
            assert_same(known, fresh)
        except AssertionError as error:
            raise AssertionError(f"after step {step}, {what}") from error
        good += bool(known.files)
        if step % 3 == 2:
            store.save()
            store = Store(cache)
    assert good


def after(memo: Memo, edit: dict[str, str], checked: list[str]) -> list[str]:
    """What is checked again when `edit` takes the place of what it names."""
    compiled(PROJECT, memo)
    checked.clear()
    compiled({**PROJECT, **edit}, memo)
    again = sorted(set(checked))
    checked.clear()
    assert_same(compiled({**PROJECT, **edit}, memo), compiled({**PROJECT, **edit}))
    return again


def edited(path: str, old: str, new: str) -> dict[str, str]:
    assert old in PROJECT[path]
    return {path: PROJECT[path].replace(old, new)}


LESS, WALK, TRAINED, BOTH = (
    f"schemas/{name}.yaml" for name in ("parts/less", "envs/walk", "trained", "both")
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("transforms:", "# a comment\n\ntransforms:"),
        ("Less of everything.", "Less of it all."),
        ("Take something off each reward.", "Take a little off."),
        ("what is taken off", "how much"),
        ("what there is", "all of it"),
        ("{default: 1.0, min: 0,", "{default:  1.0,  min: 0,"),
    ],
)
def test_comments_layout_and_documentation_of_a_transform_concern_its_own_file(
    old: str, new: str, checked: list[str]
) -> None:
    assert after(Memory(), edited(LESS, old, new), checked) == [LESS]


def test_what_others_show_or_use_concerns_them(checked: list[str]) -> None:
    assert after(Memory(), edited(LESS, "what is left", "the rest"), checked) == [BOTH, LESS, TRAINED]
    assert after(Memory(), edited(LESS, "reward - amount", "reward - 2 * amount"), checked) == [
        BOTH,
        LESS,
        TRAINED,
    ]
    assert after(Memory(), edited(WALK, "envs:", "# a comment\nenvs:"), checked) == [WALK]
    assert after(Memory(), edited(TRAINED, "9", "8"), checked) == [TRAINED]


def test_a_spec_concerns_those_who_use_it(checked: list[str]) -> None:
    shapes = edited("schemas/shapes.yaml", "in [-1, 1]", "in [-2, 2]")
    files = [f"schemas/{name}.yaml" for name in ("both", "envs/reach", "envs/walk", "shapes", "trained")]
    assert after(Memory(), shapes, checked) == files


def test_a_loss_concerns_those_that_extend_it(checked: list[str]) -> None:
    value, far, farther = (f"schemas/losses/{name}.yaml" for name in ("value", "far", "farther"))
    assert after(Memory(), edited(value, "l2", "smooth_l1"), checked) == [far, farther, value]
    assert after(Memory(), edited(far, "l1", "l2"), checked) == [far, farther]
    assert after(Memory(), edited(farther, "2.0", "3.0"), checked) == [farther]


def test_diagnostics_that_point_into_another_file_follow_it(checked: list[str]) -> None:
    memo = Memory()
    broken = {**PROJECT, **edited("schemas/envs/reach.yaml", "dims: {n: 2}", "dims: {m: 2}")}
    first = compiled(broken, memo)
    assert any(item.span.file == "schemas/shapes.yaml" for item in first.diagnostics)
    moved = {**broken, **edited("schemas/shapes.yaml", "specs:", "# more\n# lines\nspecs:")}
    assert_same(compiled(moved, memo), compiled(moved))


def test_diagnostics_of_what_a_loss_inherits_follow_it(checked: list[str]) -> None:
    memo, value = Memory(), "schemas/losses/value.yaml"
    broken = {**PROJECT, **edited(value, "critic.target(next)", "critic.targte(next)")}
    first = compiled(broken, memo)
    assert [item.span.file for item in first.diagnostics] == [value]
    moved = {**broken, value: broken[value].replace("losses:", "# more\n# lines\nlosses:")}
    assert_same(compiled(moved, memo), compiled(moved))


def test_a_model_concerns_those_that_are_like_it_through_others(checked: list[str]) -> None:
    base = "specgen: 1\nmodels:\n  base: {causal_lm: {path: base}, pad_output: true, pad_to: 64}\n"
    texts = {
        "schemas/base.yaml": base,
        "schemas/judge.yaml": "specgen: 1\nimport: [policy]\nmodels:\n  judge: {like: policy, frozen: true}\n",
        "schemas/policy.yaml": "specgen: 1\nimport: [base]\nmodels:\n  policy: {like: base, max_length: 32}\n",
    }
    memo = Memory()
    assert compiled(texts, memo).files
    for width in ("pad_to: 128", "pad_to: 16"):  # the second is too narrow for what another file says
        edited = {**texts, "schemas/base.yaml": base.replace("pad_to: 64", width)}
        checked.clear()
        made = compiled(edited, memo)
        assert sorted(set(checked)) == sorted(texts)
        assert_same(made, compiled(edited))
