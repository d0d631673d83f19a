"""`specgen models lock`: what it reads of folders that transformers has saved, and what follows of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from specgen_runtime.llm.models.loading import check_recorded

from specgen.cli import main
from specgen.project.chat_template import read_template
from specgen.project.model_lock import LOCK_NAME
from specgen.project.record_models import read_folder, tokenizer_digest
from specgen.source.model_folders import ModelFolder, Template, folders_from_json, folders_to_json
from tests.llm.models import CHATML, FAMILIES, tiny_model, tiny_tokenizer

SCHEMA = """specgen: 1
models:
  policy: {causal_lm: {path: checkpoints/sft}, pad_output: true}
  reference: {like: policy, causal_lm: {path: some/name}, tokenizer: checkpoints/sft}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.specgen]\nschemas = "schemas"\noutput = "my_rl"\npackage = "my_rl"\n', encoding="utf-8"
    )
    (tmp_path / "schemas" / "models.yaml").write_text(SCHEMA, encoding="utf-8")
    tiny_tokenizer().save_pretrained(tmp_path / "checkpoints" / "sft")
    return tmp_path


def run(project: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["--root", str(project), *words], catch_exceptions=False)
    return done.exit_code, done.output


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_and_its_tokenizer_are_read(family: str, tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer(padding_side="right")
    tokenizer.save_pretrained(tmp_path)
    model: Any = tiny_model(family, tokenizer)
    model.save_pretrained(tmp_path)
    found = read_folder(tmp_path)
    assert found.model_type == family
    assert found.vocab_size == len(tokenizer) + 3
    assert found.positions == 512
    assert found.tokens == len(tokenizer)
    assert (found.pad, found.bos, found.eos) == ("<pad>", "<s>", "<|im_end|>")
    assert found.padding_side == "right"
    assert found.template is not None
    assert found.template.generation
    assert not found.slow


def test_what_calls_leave_in_a_tokenizer_is_not_in_its_digest(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(tmp_path / "a")
    tokenizer(["a", "a b c"], padding="max_length", truncation=True, max_length=8)
    tokenizer.save_pretrained(tmp_path / "b")
    tokenizer.add_tokens(["<more>"])
    tokenizer.save_pretrained(tmp_path / "c")
    first, second, third = (read_folder(tmp_path / name).tokenizer for name in "abc")
    states = [json.loads((tmp_path / name / "tokenizer.json").read_text(encoding="utf-8")) for name in "ab"]
    assert states[0] != states[1]
    assert first == second != third


@pytest.mark.parametrize("place", ["file", "field", "list"])
def test_the_template_is_read_wherever_it_is_saved(place: str, tmp_path: Path) -> None:
    if place == "file":
        (tmp_path / "chat_template.jinja").write_text(CHATML, encoding="utf-8")
    else:
        named = [{"name": "tools", "template": "x"}, {"name": "default", "template": CHATML}]
        text = json.dumps({"chat_template": CHATML if place == "field" else named})
        (tmp_path / "tokenizer_config.json").write_text(text, encoding="utf-8")
    found = read_folder(tmp_path).template
    assert found == read_template(CHATML)
    assert found is not None
    check_recorded(str(tmp_path), template=found.digest)


def test_a_tokenizer_without_a_fast_one_is_slow(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("a\nb\n", encoding="utf-8")
    assert read_folder(tmp_path) == ModelFolder(slow=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", {}),
        ("{% for m in messages %}{{ m['content'] | trim }}{% endfor %}", {}),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}", {"generation": True}),
        ("{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}", {"rewrites": True}),
        ("{% set content = messages[0]['content'] %}{{ content.replace('a', '') }}", {"rewrites": True}),
        ("{{ messages[0]['content'] | replace('a', 'b') }}", {"rewrites": True}),
        ("{{ messages[0].role.split('_') }}", {}),
        (
            "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}",
            {"refuses": ("system",)},
        ),
        (
            "{% for m in messages %}{% if 'tool' == m.role %}{{ raise_exception('x') }}{% endif %}{% endfor %}",
            {"refuses": ("tool",)},
        ),
        ("{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('x') }}{% endif %}", {}),
        ("{% if m.role == 'user' %}{% if bad %}{{ raise_exception('x') }}{% endif %}{% endif %}", {}),
        ("{% for m in messages %}{% if m.x %}{% continue %}{% endif %}{{ m.content }}{% endfor %}", {}),
        ("{% if %}", {}),
    ],
)
def test_what_templates_say_of_themselves(text: str, expected: dict[str, Any]) -> None:
    found = read_template(text)
    assert found == Template(found.digest, **expected)


def test_records_keep_their_values() -> None:
    template = Template("b" * 64, generation=True, rewrites=True, refuses=("system",))
    whole = ModelFolder("llama", 9, 8, "a" * 64, True, 7, "p", "e", "b", "left", template)
    folders = {"x": whole, "y": ModelFolder()}
    assert folders_from_json(folders_to_json(folders)) == folders


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"folders": {"x": {"positions": "8"}}}', '{"folders": {"x": {"positions": true}}}',
     '{"folders": {"x": {"new": "y"}}}', '{"folders": {"x": {"template": {"refuses": [1], "digest": ""}}}}'],
)  # fmt: skip
def test_broken_records_are_no_records(text: str) -> None:
    with pytest.raises(ValueError):
        folders_from_json(text)


def test_the_command(project: Path) -> None:
    assert run(project, "build")[0] == 0
    code, said = run(project, "models", "lock")
    assert code == 0
    assert said.splitlines() == [
        "recorded checkpoints/sft",
        "no folder some/name: nothing is known of it before it is loaded",
        f"{LOCK_NAME} is written",
    ]
    assert run(project, "models", "lock")[1].endswith(f"{LOCK_NAME} is up to date\n")
    assert run(project, "check")[0] == 1  # what is generated compares the folder now
    assert run(project, "build")[0] == 0
    text = (project / "my_rl" / "models.py").read_text(encoding="utf-8")
    state = json.loads((project / "checkpoints" / "sft" / "tokenizer.json").read_text(encoding="utf-8"))
    assert text.count(tokenizer_digest(state)) == 2
    tiny_tokenizer(pad=None).save_pretrained(project / "checkpoints" / "sft")
    assert run(project, "check")[0] == 0  # a check reads no folder
    assert run(project, "models", "lock")[0] == 0
    code, said = run(project, "check")
    assert (code, said.count("error[SG534]")) == (1, 1)


def test_a_folder_that_is_another_one_now(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project / "checkpoints" / "sft"
    found = read_folder(folder)
    assert found.tokenizer is not None
    assert found.template is not None
    monkeypatch.chdir(project)
    check_recorded("checkpoints/sft", tokenizer=found.tokenizer, template=found.template.digest)
    check_recorded("some/name", tokenizer="x")
    tiny_tokenizer(template=CHATML + " ").save_pretrained(folder)
    check_recorded("checkpoints/sft", tokenizer=found.tokenizer)
    with pytest.raises(ValueError, match=r"chat template in 'checkpoints/sft' .*specgen models lock"):
        check_recorded("checkpoints/sft", tokenizer=found.tokenizer, template=found.template.digest)
    other = tiny_tokenizer()
    other.add_tokens(["<more>"])
    other.save_pretrained(folder)
    with pytest.raises(ValueError, match=r"tokenizer in 'checkpoints/sft' .*specgen models lock"):
        check_recorded("checkpoints/sft", tokenizer=found.tokenizer)


def test_damaged_folders_and_records(project: Path) -> None:
    (project / "checkpoints" / "sft" / "tokenizer.json").write_text("{", encoding="utf-8")
    code, said = run(project, "models", "lock")
    assert code == 1
    assert said.count("error[SG536]: `checkpoints/sft` cannot be read: tokenizer.json is no JSON") == 1
    assert not (project / "schemas" / LOCK_NAME).exists()
    (project / "schemas" / LOCK_NAME).write_text("<<<<<<< HEAD\n", encoding="utf-8")
    code, said = run(project, "check")
    assert (code, said.count("error[SG535]")) == (1, 1)


def test_nothing_is_loaded() -> None:
    code = (
        "import sys; from pathlib import Path; from specgen.project.record_models import read_folder;"
        "read_folder(Path('.')); assert not {'torch', 'transformers', 'tokenizers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
