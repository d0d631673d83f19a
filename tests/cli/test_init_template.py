"""`specgen init --template`: a project that begins with a pipeline of the standard library, builds and trains."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from specgen.cli import OK, USAGE, main
from specgen.project.library import library_schemas
from specgen.project.templates import templates
from tests.python_processes import run_python
from tests.typing.checkers import CHECKERS
from tests.typing.projects import errors_of

TEMPLATES = templates()
TRANSFORMERS = ("transformers.models.auto.modeling_auto", "transformers.models.llama.modeling_llama")
"""Modules that programs with language models import for seconds."""


def invoke(*arguments: str) -> Result:
    found = CliRunner().invoke(main, arguments)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


def run(folder: Path, *arguments: str, imported: tuple[str, ...] = ()) -> str:
    done = run_python(*arguments, cwd=folder, imported=imported)
    assert done.returncode == OK, done.stdout + done.stderr
    return done.stdout


def test_the_templates_are_listed() -> None:
    found = invoke("init", "--template", "list")
    assert found.exit_code == OK
    listed = dict(line.split(None, 1) for line in found.output.splitlines())
    assert listed == {name: template.doc for name, template in TEMPLATES.items()}
    assert {"dqn_cartpole", "ppo_cartpole", "ppo_pendulum", "sac_mountain_car"} <= listed.keys()


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_project_of_each_template_builds_what_the_library_has(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "my-robot"
    found = invoke("init", str(folder), "--template", name)
    assert found.exit_code == OK, found.output
    model = "python tiny_model.py && " if TEMPLATES[name].folder == "conversations" else ""
    assert found.output.endswith(
        f" && pip install -e . && specgen build && {model}python -m my_robot_rl.{name}\n"
    )
    assert not (folder / "train.py").exists()
    assert f"specgen-rl[{TEMPLATES[name].extra}]" in (folder / "pyproject.toml").read_text()
    mine = yaml.safe_load((folder / "schemas" / f"{name}.yaml").read_text())
    if TEMPLATES[name].folder == "pipeline":
        library = yaml.safe_load(library_schemas()[f"pipelines/{name}.yaml"])
        assert mine["pipelines"] == library["pipelines"]
    assert all(place.startswith("specgen_std/") for place in mine["import"])
    built = invoke("--root", str(folder), "build", "--strict")
    assert built.exit_code == OK, built.output
    assert (
        f"class {TEMPLATES[name].pipeline}(PipelineParts):"
        in (folder / "my_robot_rl" / f"{name}.py").read_text()
    )
    text = "".join(file.read_text() for file in folder.rglob("*") if file.is_file())
    assert not [
        placeholder for placeholder in ("@doc@", "@module@", "@total@", "@extra@") if placeholder in text
    ]


def write(folder: Path) -> None:
    assert invoke("init", str(folder), "--template", "ppo_cartpole").exit_code == OK
    assert invoke("--root", str(folder), "build").exit_code == OK


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "my-robot"
    write(folder)
    return folder


def test_it_passes_its_tests_linted_and_formatted(built: Path) -> None:
    run(built, "-m", "ruff", "check", "--no-cache", ".")
    run(built, "-m", "ruff", "format", "--no-cache", "--check", ".")
    assert "1 passed" in run(built, "-m", "pytest", "-p", "no:cacheprovider")


def test_it_trains_with_the_command_that_was_said(built: Path) -> None:
    run(built, "-m", "my_robot_rl.ppo_cartpole", "--total-frames", "2000", "--folder", "runs/short")
    assert {"config.json", "log.csv", "curve.png"} <= {
        path.name for path in (built / "runs" / "short").iterdir()
    }


@pytest.mark.slow
def test_a_language_model_of_a_folder_trains_in_a_project(tmp_path: Path) -> None:
    folder = tmp_path / "my-chats"
    assert invoke("init", str(folder), "--template", "chat_grpo").exit_code == OK
    assert invoke("--root", str(folder), "build", "--strict").exit_code == OK
    run(folder, "-m", "ruff", "check", "--no-cache", ".")
    run(folder, "-m", "ruff", "format", "--no-cache", "--check", ".")
    assert "2 passed" in run(folder, "-m", "pytest", "-p", "no:cacheprovider", imported=TRANSFORMERS)
    done = run_python("-m", "my_chats_rl.chat_grpo", cwd=folder, imported=TRANSFORMERS)
    assert done.returncode != OK
    assert "there is no folder './checkpoints/model'" in done.stderr
    assert "wrote checkpoints/model" in run(folder, "tiny_model.py", imported=TRANSFORMERS).replace("\\", "/")
    recorded = invoke("--root", str(folder), "models", "lock")
    assert recorded.exit_code == OK, recorded.output
    assert invoke("--root", str(folder), "build", "--strict").exit_code == OK
    words = ["--total-frames", "128", "--evaluate-every", "64", "--evaluate-episodes", "4"]
    run(folder, "-m", "my_chats_rl.chat_grpo", *words, imported=TRANSFORMERS)
    assert "kl_penalty" in (folder / "runs" / "chat_grpo" / "log.csv").read_text()


def projects() -> dict[str, Callable[[Path], None]]:
    """How to write what type checkers look at."""
    return {"ppo_cartpole": write}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_it_is_typed(checker: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert errors_of("init_template", checker, tmp_path_factory) == {"ppo_cartpole": {}}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ppo_cartpol", "there is no template ppo_cartpol; did you mean 'ppo_cartpole'?"),
        ("walk", "there is no template walk; `specgen init --template list` shows them"),
    ],
)
def test_a_template_that_is_not_there(name: str, said: str, tmp_path: Path) -> None:
    found = invoke("init", str(tmp_path / "new"), "--template", name)
    assert found.exit_code == USAGE
    assert said in found.output
    assert not (tmp_path / "new").exists()


def test_an_existing_project_gets_the_pipeline_and_keeps_the_rest(tmp_path: Path) -> None:
    assert invoke("init", str(tmp_path)).exit_code == OK  # its dependencies are `specgen-rl[runtime]`
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    found = invoke("init", str(tmp_path), "--template", "dqn_cartpole")
    assert found.exit_code == OK, found.output
    assert 'add "specgen-rl[train]" to the dependencies' in found.output
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before
    added = {path.relative_to(tmp_path).as_posix() for path in after.keys() - before.keys()}
    assert added == {"schemas/dqn_cartpole.yaml", "tests/test_training.py"}
