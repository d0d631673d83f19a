"""The manual's page on language models: its schemas build, its statements give what they show, its tables are whole."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from specgen.check.language_models.transforms import MODEL_TRANSFORMS
from specgen.schema.language_model import CausalLM, Generate, LanguageModel
from tests.docs.pages import read_page, shows, statements
from tests.llm.models import tiny_model, tiny_tokenizer
from tests.support import generate, imported

PAGE = read_page("language/models.md")
MODELS, FACTORY, CHATS = (code for language, code in PAGE.blocks if language == "yaml")
DATA = 'def load():\n    return [{"query": str(number)} for number in range(8)]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page's checkpoints are, with the module that it imports."""
    for seed, name in enumerate(("sft", "base")):
        model: Any = tiny_model("llama", tiny_tokenizer(), seed=seed)
        model.save_pretrained(tmp_path / "checkpoints" / name)
    tiny_tokenizer().save_pretrained(tmp_path / "checkpoints" / "sft")
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage" / "__init__.py").touch()
    (tmp_path / "mypackage" / "data.py").write_text(DATA, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_runs(folder: Path) -> None:
    models = re.sub(r'"cuda:\d"', "cpu", MODELS)
    files = generate({"language.yaml": models, "chats.yaml": f"specgen: 1\n{CHATS}"}, "my_rl")
    scope: dict[str, Any] = {}
    shown = 0
    with imported(files, "my_rl", folder):
        for code in PAGE.code:
            for statement, comment in statements(code):
                text = "\n".join(code.splitlines()[statement.lineno - 1 : statement.end_lineno])
                if comment is not None and "torch." in comment:
                    assert shows(eval(text.partition("  #")[0], scope), comment), text
                    shown += 1
                else:
                    exec(text, scope)
    assert shown == 1
    assert scope["scorer"].model is scope["policy"].model
    for name in [name for name in sys.modules if name.split(".")[0] == "mypackage"]:
        del sys.modules[name]


def test_a_factory_is_not_imported_when_it_is_built() -> None:
    assert "from mypackage.models import make_policy as factory" in generate({"a.yaml": FACTORY}, "p")["a.py"]
    assert "mypackage" not in sys.modules


def test_the_table_lists_every_field() -> None:
    table = PAGE.text.split("| field | | default |\n")[1].split("\n\n")[0]
    first = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    assert {name for cell in first for name in re.findall(r"`(\w+)`", cell)} == set(
        LanguageModel.model_fields
    )
    for inner in (CausalLM, Generate):
        assert {name for name in inner.model_fields if f"`{name}`" not in table} == set()


def test_the_table_lists_every_transform() -> None:
    section = PAGE.text.split("## In chains\n")[1]
    assert re.findall(r"^\| `([A-Z]\w+)` \|", section, re.MULTILINE) == list(MODEL_TRANSFORMS)
    assert {
        name for one in MODEL_TRANSFORMS.values() for name in one.models if f"`{name}`" not in section
    } == set()
