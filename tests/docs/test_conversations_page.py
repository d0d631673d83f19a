"""The manual's page on conversations: its functions do what its schema declares, and its statements give what they show."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from specgen_runtime.testing import check_env

from specgen.schema.chat import Chat, Reward
from tests.docs.pages import read_page, shows, statements
from tests.support import generate, imported

PAGE = read_page("language/conversations.md")
FUNCTIONS, USE = PAGE.code


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = next(code for language, code in PAGE.blocks if language == "yaml")
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage" / "__init__.py").touch()
    (tmp_path / "mypackage" / "sums.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.setitem(sys.modules, "mypackage", None)
    del sys.modules["mypackage"]
    with imported(generate({"sums.yaml": schema}, "my_rl"), "my_rl", tmp_path) as package:
        scope: dict[str, Any] = {}
        shown = 0
        for statement, comment in statements(USE):
            text = "\n".join(USE.splitlines()[statement.lineno - 1 : statement.end_lineno])
            if comment is None:
                exec(text, scope)
            else:
                assert shows(eval(text.partition("  #")[0], scope), comment), text
                shown += 1
        assert shown == 3
        for name in ("Sums", "SumsTrain"):
            check_env(lambda name=name: getattr(package, name)(batch_size=(8,)), steps=10)
        said = next(line.strip() for line in PAGE.text.splitlines() if line.startswith("    Sums:"))
        with pytest.raises(TypeError, match=re.escape(said)):
            package.Sums(source=[{"query": "What is 7 + 7?", "answer": 14}]).reset()
    for name in [name for name in sys.modules if name.split(".")[0] == "mypackage"]:
        del sys.modules[name]


@pytest.mark.parametrize(("title", "model"), [("`chat:`", Chat), ("`rewards:`", Reward)])
def test_the_tables_list_every_field(title: str, model: type[Chat] | type[Reward]) -> None:
    section = PAGE.text.split(f"## {title}\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert set(listed) == set(model.model_fields)
