"""`specgen init`: the project that it makes builds, passes its own checks and trains."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from specgen.cli import OK, USAGE, main
from specgen.project import load_project
from specgen.project.scaffold import package_name, project_files
from specgen.settings import Config
from tests.python_processes import run_python
from tests.typing.checkers import CHECKERS
from tests.typing.projects import errors_of

FILES = [
    ".github/workflows/specgen.yml",
    ".gitignore",
    ".pre-commit-config.yaml",
    "README.md",
    "my_robot_rl/py.typed",
    "pyproject.toml",
    "schemas/rail.yaml",
    "tests/test_generated.py",
    "train.py",
]


def run(folder: Path, *arguments: str) -> str:
    done = run_python(*arguments, cwd=folder)
    assert done.returncode == OK, done.stdout + done.stderr
    return done.stdout


def invoke(*arguments: str) -> Result:
    found = CliRunner().invoke(main, arguments)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new project, built."""
    folder = tmp_path_factory.mktemp("projects") / "My robot"
    out = run(folder.parent, "-m", "specgen", "init", "My robot")
    assert "next: cd 'My robot' && pip install -e . && specgen build && python train.py" in out
    assert list(tree(folder)) == FILES
    assert [line.split(None, 1) for line in out.splitlines()[: len(FILES)]] == [
        ["wrote", f"My robot/{path}"] for path in FILES
    ]
    assert "2 files written" in run(folder, "-m", "specgen", "build")
    return folder


def test_a_new_project_is_up_to_date_linted_and_formatted(new: Path) -> None:
    assert "up to date" in run(new, "-m", "specgen", "check")
    run(new, "-m", "ruff", "check", "--no-cache", ".")
    run(new, "-m", "ruff", "format", "--no-cache", "--check", ".")


def test_a_new_project_passes_its_own_tests(new: Path) -> None:
    assert re.search(r"\b2 passed\b", run(new, "-m", "pytest", "-p", "no:cacheprovider"))


def test_the_tests_of_a_new_project_find_mistakes(new: Path, tmp_path: Path) -> None:
    for path, content in tree(new).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    file = tmp_path / "my_robot_rl" / "rail.py"
    right = "torch.stack((position, speed), dim=-1)"
    assert right in file.read_text()
    file.write_text(file.read_text().replace(right, f"torch.full_like({right}, 99.0)"))
    done = run_python("-m", "pytest", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    assert "test_environment[Rail]" in done.stdout


def test_a_new_project_trains(new: Path) -> None:
    generations = [line for line in run(new, "train.py").splitlines() if line.startswith("generation")]
    first, last = (
        float(line.split("mean return")[1].split()[0]) for line in (generations[0], generations[-1])
    )
    assert last > first / 5
    assert last > -60


def projects() -> dict[str, Callable[[Path], None]]:
    """How to write what type checkers look at."""

    def write(folder: Path) -> None:
        assert invoke("init", str(folder)).exit_code == OK
        assert invoke("--root", str(folder), "build").exit_code == OK

    return {"new": write}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_new_project_is_typed(checker: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert errors_of("init", checker, tmp_path_factory) == {"new": {}}


@pytest.mark.parametrize("missing", ["torch", "my_robot_rl.rail"])
def test_training_without_what_it_needs_says_what_to_do(new: Path, missing: str) -> None:
    program = f"import runpy, sys; sys.modules[{missing!r}] = None; sys.path.insert(0, '.'); runpy.run_path('train.py')"
    done = run_python("-c", program, cwd=new)
    assert done.returncode == 1
    assert missing in done.stderr
    assert "`pip install -e .` installs what this project needs, torch included" in done.stderr
    assert "`specgen build` generates my_robot_rl" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_other_tools_read(new: Path) -> None:
    (hook,) = yaml.safe_load((new / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert hook["entry"] == "specgen check"
    triggers = ("schemas/rail.yaml", "my_robot_rl/rail.py", "my_robot_rl/__init__.py", "pyproject.toml")
    assert all(re.search(hook["files"], path) for path in triggers)
    assert not any(
        re.search(hook["files"], path)
        for path in ("train.py", "tests/test_generated.py", "my/pyproject.toml")
    )
    jobs = yaml.safe_load((new / ".github/workflows/specgen.yml").read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert {"specgen check", "mypy .", "pytest", "ruff check ."} <= {*commands}
    project = tomllib.loads((new / "pyproject.toml").read_text())
    assert project["build-system"]["build-backend"] == "hatchling.build"
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["my_robot_rl"]
    assert project["project"]["dependencies"] == ["specgen-rl[runtime]"]


def test_again(new: Path) -> None:
    before = tree(new)
    found = invoke("init", str(new))
    assert found.exit_code == OK
    assert "wrote" not in found.output
    assert "changed" not in found.output
    assert tree(new) == before


def test_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = invoke("init")
    assert found.exit_code == OK
    assert found.output.endswith("next: pip install -e . && specgen build && python train.py\n")


PROJECT = b"""# mine
[project]
name = "acme-arm"
version = "3"
dependencies = ["specgen-rl[runtime]"]

[tool.ruff]
line-length   =   77   # as we like it"""


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize("windows", [False, True], ids=["unix", "windows"])
def test_settings_are_added_to_an_existing_project(tmp_path: Path, end: bytes, windows: bool) -> None:
    text = PROJECT + end
    if windows:
        text = text.replace(b"\n", b"\r\n")
    (tmp_path / "pyproject.toml").write_bytes(text)
    (tmp_path / "src" / "acme_arm").mkdir(parents=True)
    (tmp_path / "src" / "acme_arm" / "__init__.py").write_text("mine = 1\n")
    (tmp_path / "README.rst").write_text("mine")
    (tmp_path / ".gitignore").write_text("mine")
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    before = tree(tmp_path)
    found = invoke("init", str(tmp_path))
    assert found.exit_code == OK, found.output
    after = tree(tmp_path)
    changed = after.pop("pyproject.toml")
    assert changed.startswith(before.pop("pyproject.toml"))
    assert (b"\r\n" in changed) is windows
    assert changed.count(b"\n") == changed.count(b"\r\n") or not windows
    assert tomllib.loads(changed.decode())["tool"]["ruff"] == {"line-length": 77}
    assert load_project(tmp_path).config == Config("schemas", "src/acme_arm/generated", "acme_arm.generated")
    assert {path: content for path, content in after.items() if path in before} == before
    assert {*after} - {*before} == {
        ".pre-commit-config.yaml",
        "schemas/rail.yaml",
        "tests/test_generated.py",
        "train.py",
    }
    said = found.output.replace(f"{tmp_path}/", "")
    assert "changed  pyproject.toml (added [tool.specgen])\n" in said
    assert "left     .gitignore (exists)\n" in said
    assert "left     README.md (there is another README)\n" in said
    assert "left     .github/workflows/specgen.yml (there are other workflows: " in said
    assert "dependencies" not in said
    assert invoke("--root", str(tmp_path), "build").exit_code == OK
    assert (tmp_path / "src/acme_arm/generated/rail.py").is_file()


@pytest.mark.parametrize("source", ["", "src/"])
def test_a_package_of_the_same_name_is_generated_into(tmp_path: Path, source: str) -> None:
    (tmp_path / "robot" / source / "robot_rl").mkdir(parents=True)
    (tmp_path / "robot" / source / "robot_rl" / "__init__.py").write_text("mine = 1\n")
    assert invoke("init", str(tmp_path / "robot")).exit_code == OK
    expected = Config("schemas", f"{source}robot_rl/generated", "robot_rl.generated")
    assert load_project(tmp_path / "robot").config == expected
    project = tomllib.loads((tmp_path / "robot" / "pyproject.toml").read_text())
    assert project["project"]["name"] == "robot_rl"
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [f"{source}robot_rl"]
    assert invoke("--root", str(tmp_path / "robot"), "build").exit_code == OK
    assert "2 passed" in run(tmp_path / "robot", "-m", "pytest", "-p", "no:cacheprovider")


def test_settings_that_are_there_are_followed(tmp_path: Path) -> None:
    text = '[tool.specgen]\nschemas = "decl"\noutput = "src/a/b"\npackage = "a.b"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    found = invoke("init", str(tmp_path))
    assert found.exit_code == OK, found.output
    assert "pyproject.toml (has [tool.specgen])" in found.output
    assert 'add "specgen-rl[runtime]" to the dependencies' in found.output
    assert (tmp_path / "pyproject.toml").read_text() == text
    assert (tmp_path / "decl" / "rail.yaml").is_file()
    assert "from a.b.rail import RailTrain" in (tmp_path / "train.py").read_text()
    assert not (tmp_path / "src").exists(), "the outer package says whether it has types"


def test_a_project_with_schemas_gets_no_example(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(PROJECT)
    (tmp_path / "schemas" / "deep").mkdir(parents=True)
    (tmp_path / "schemas" / "deep" / "mine.yml").write_text("specgen: 1\n")
    found = invoke("init", str(tmp_path))
    assert "schemas/rail.yaml (the project has schemas of its own)" in found.output
    assert "train.py (the project has schemas of its own)" in found.output
    assert found.output.endswith(" && pytest\n")
    assert not (tmp_path / "train.py").exists()
    assert (tmp_path / "tests" / "test_generated.py").is_file()


@pytest.mark.parametrize(
    ("text", "advised"),
    [
        ('[project]\nname = "a"\n', True),
        ('[build-system]\nrequires = []\nbuild-backend = "setuptools.build_meta"\n', True),
        ('[build-system]\nrequires = []\nbuild-backend = "hatchling.build"\n', False),
        ('[tool.setuptools]\npackages = ["a"]\n', False),
        ("project = 3\nbuild-system = 3\ntool.setuptools = 3\n", True),
    ],
)
def test_setuptools_has_to_be_told_of_the_package(tmp_path: Path, text: str, advised: bool) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    found = invoke("init", str(tmp_path))
    assert found.exit_code == OK, found.output
    assert ("[tool.setuptools.packages.find]" in found.output) is advised


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[project\n", "cannot be read"),
        ("[project]\r", "cannot be read"),
        ("tool = {ruff = {}}\n", "has a form that [tool.specgen] cannot be added to"),
        ("[tool.specgen]\nschema = 3\n", "error[SG051]: unknown key 'schema'"),
    ],
)
def test_settings_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text.encode())
    before = tree(tmp_path)
    found = invoke("init", str(tmp_path))
    assert found.exit_code == USAGE
    assert said in found.output
    assert tree(tmp_path) == before


@pytest.mark.parametrize("inside", ["schemas", "schemas/robots", "mine_rl"])
def test_a_folder_of_another_project(tmp_path: Path, inside: str) -> None:
    assert invoke("init", str(tmp_path / "mine")).exit_code == OK
    before = tree(tmp_path)
    found = invoke("init", str(tmp_path / "mine" / inside))
    assert found.exit_code == USAGE
    assert f"of the project in {(tmp_path / 'mine').resolve()}; run `specgen init` there" in found.output
    assert tree(tmp_path) == before
    assert invoke("init", str(tmp_path / "mine" / "examples" / "other")).exit_code == OK


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "tests").write_text("mine")
    found = invoke("init", str(tmp_path))
    assert found.exit_code == USAGE
    assert "cannot write" in found.output
    assert tree(tmp_path) == {"tests": b"mine"}


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("robot", "robot_rl"),
        ("My robot!", "my_robot_rl"),
        ("my-rl project", "my_rl_project_rl"),
        ("robot-rl", "robot_rl"),
        ("rl", "my_rl"),
        ("my-rl", "my_rl"),
        ("2d", "my_2d_rl"),
        ("2048", "my_2048_rl"),
        ("class", "my_class_rl"),
        ("test", "test_rl"),
        ("torch", "torch_rl"),
        ("Größe", "groe_rl"),
        ("ロボット", "my_rl"),
        ("…", "my_rl"),
        ("specgen", "my_specgen_rl"),
        ("specgen-rl", "my_specgen_rl"),
    ],
)
def test_package_names(folder: str, name: str) -> None:
    assert package_name(folder) == name
    assert re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", name), "also the name of a distribution"


def test_package_names_hide_nothing_that_is_installed() -> None:
    installed = {*packages_distributions(), *sys.stdlib_module_names}
    assert {package_name(name) for name in installed} & installed == set()


@pytest.mark.parametrize(
    "config", [Config("schemas", "robot_rl", "robot_rl"), Config("decl", "src/a/b", "a.b")]
)
def test_no_placeholder_is_left(config: Config) -> None:
    files = project_files(config)
    assert len(files) == len(FILES) - ("." in config.package)
    assert not any(re.search(r"@[a-z]+@", path + text) for path, text in files.items())
    assert not any(path.endswith(".in") for path in files)


def test_schemas_beside_the_folder_of_schemas_are_told_where_they_go(tmp_path: Path) -> None:
    (tmp_path / "cart.yaml").write_text("# mine\nspecgen: 1\nspecs: {joint: float32}\n")
    (tmp_path / "two words.yml").write_text("specgen: 1\nspecs: {arm: float32}\n")
    (tmp_path / "other.yaml").write_text("jobs: {specgen: 1}\n")
    found = invoke("init", str(tmp_path))
    assert found.exit_code == OK, found.output
    assert "schemas/rail.yaml (the project has schemas of its own)" in found.output
    told = "cart.yaml, two words.yml are schemas, and specgen reads those of schemas/: "
    assert told in found.output
    command = found.output.split(told)[1].splitlines()[0]
    assert command == "mkdir -p schemas && mv cart.yaml 'two words.yml' schemas/"
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    assert "are schemas" not in invoke("init", str(tmp_path)).output
