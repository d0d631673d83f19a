"""The commands as a user meets them: output, exit codes, colour; no traceback, no slow import."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specgen.cli import FOUND, OK, REFUSED, USAGE, main
from specgen.diagnostics.rules import ALL_RULES
from tests.python_processes import run_python

CONFIG = '[tool.specgen]\nschemas = "schemas"\noutput = "made"\npackage = "made"\n'
POINT = """\
specgen: 1
envs:
  Point:
    doc: A point on a line.
    state:
      x: float32 in [-9, 9]
    action:
      action: float32[1] in [-1, 1]
    observation:
      observation: float32[1]
    reset:
      x: uniform(-1, 1)
    step:
      next.x: clip(x + action[0], -9, 9)
      reward: -abs(next.x)
    observe:
      observation: stack(x)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "point.yaml").write_text(POINT)
    (tmp_path / "pyproject.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECGEN_CACHE_DIR", "")
    return tmp_path


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specgen", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )


def test_build_check_build(project: Path) -> None:
    first = run("build")
    assert first.exit_code == OK
    assert first.output.splitlines() == [
        "wrote    made/__init__.py",
        "wrote    made/point.py",
        "2 files written, 0 removed, 0 unchanged",
    ]
    assert run("check").output == "1 schema file checked, 2 generated files up to date\n"
    assert run("build").output == "0 files written, 0 removed, 2 unchanged\n"
    (project / "inner").mkdir()
    assert run("check", "--root", "inner").exit_code == OK


def test_a_package_inside_another(project: Path) -> None:
    (project / "schemas" / "more").mkdir()
    (project / "schemas" / "more" / "chain.yaml").write_text(
        "specgen: 1\nimport: [../point]\nchains:\n  Again: {env: Point, transforms: []}\n"
    )
    (project / "pyproject.toml").write_text(
        CONFIG.replace('"made"', '"src/a/made"', 1).replace('"made"', '"a.made"')
    )
    assert run("build").output.splitlines() == [
        "wrote    src/a/made/__init__.py",
        "wrote    src/a/made/more/__init__.py",
        "wrote    src/a/made/more/chain.py",
        "wrote    src/a/made/point.py",
        "4 files written, 0 removed, 0 unchanged",
    ]
    program = "from a.made.more.chain import Again; print(Again().rollout(3).shape)"
    done = run_python("-c", f"import sys; sys.path.insert(0, 'src'); {program}")
    assert done.stdout == "torch.Size([3])\n", done.stderr


def test_the_root_may_stand_before_the_command(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "other").mkdir()
    monkeypatch.chdir(project / "other")
    assert run("--root", "..", "build").exit_code == OK
    assert run("--root", "..", "check").exit_code == OK
    assert run("--root", "nowhere", "check").exit_code == USAGE
    assert run("--root", ".", "init", "inner").exit_code == OK
    assert run("--root", "inner", "check", "--root", "..").exit_code == OK, "the nearer one counts"
    assert run("--root", "inner", "check").exit_code == FOUND
    assert run("--root", "inner", "init", "deeper").exit_code == OK
    assert (project / "other" / "inner" / "deeper" / "pyproject.toml").is_file()


def test_stale_files(project: Path) -> None:
    assert run("build").exit_code == OK
    (project / "schemas" / "point.yaml").rename(project / "schemas" / "dot.yaml")
    found = run("check")
    assert found.exit_code == FOUND
    assert found.output.splitlines() == [
        "missing  made/dot.py",
        "changed  made/__init__.py",
        "extra    made/point.py",
        "3 files out of date; run `specgen build`",
    ]
    assert "removed  made/point.py" in run("build").output
    assert run("check").exit_code == OK


def test_mistakes(project: Path) -> None:
    (project / "schemas" / "point.yaml").write_text(POINT.replace("stack(x)", "stack(y)") + "more: *x\n")
    for command in ("check", "build"):
        found = run(command)
        assert found.exit_code == FOUND
        assert "error[SG005]: alias `*x` is not allowed\n  --> schemas/point.yaml:18:7\n" in found.output
        assert "\x1b" not in found.output
        assert re.search(r"^\d errors?$", found.output, re.MULTILINE)
    assert not list((project / "made").glob("*.py"))


def test_warnings_fail_where_that_is_asked_for(project: Path) -> None:
    schema = project / "schemas" / "point.yaml"
    schema.write_text(POINT.replace("    state:", "    params: {gravity: 9.8}\n    state:"))
    for command in ("build", "check"):
        found = run(command, "--strict")
        assert found.exit_code == FOUND
        assert "warning[SG141]: nothing reads the parameter `gravity`" in found.output
    assert not list((project / "made").glob("*.py"))
    assert run("build").exit_code == OK
    assert run("check").exit_code == OK
    assert run("check", "--strict").exit_code == FOUND
    schema.write_text(schema.read_text().replace("    params", "    allow: [SG141]\n    params"))
    for command in ("build", "check"):
        assert run(command, "--strict").exit_code == OK


def test_hand_edits(project: Path) -> None:
    assert run("build").exit_code == OK
    file = project / "made" / "point.py"
    file.write_text(file.read_text() + "# mine\n")
    found = run("check")
    assert found.exit_code == FOUND
    assert "edited   made/point.py (by hand)" in found.output
    found = run("build")
    assert found.exit_code == REFUSED
    assert "edited   made/point.py (by hand)" in found.output
    assert "--force" in found.output
    assert file.read_text().endswith("# mine\n")
    assert run("build", "--force").exit_code == OK
    assert run("check").exit_code == OK


def test_foreign_files(project: Path) -> None:
    (project / "made").mkdir()
    (project / "made" / "point.py").write_text("mine = 1\n")
    for arguments in (("build",), ("build", "--force")):
        found = run(*arguments)
        assert found.exit_code == REFUSED
        assert "move them away" in found.output
    assert os.listdir(project / "made") == ["point.py"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CONFIG.replace("schemas =", "schema ="), "error[SG051]: unknown key 'schema' in [tool.specgen]"),
        ("[project]\n", "has no [tool.specgen]"),
        ("[", "cannot be read"),
    ],
)
def test_configuration(project: Path, text: str, said: str) -> None:
    (project / "pyproject.toml").write_text(text)
    for command in ("build", "check"):
        found = run(command)
        assert found.exit_code == USAGE
        assert said in found.output


def test_no_schemas(project: Path) -> None:
    (project / "schemas" / "point.yaml").unlink()
    assert run("check").exit_code in (OK, FOUND)
    assert run("build").exit_code == OK
    assert run("check").exit_code == OK


def test_a_disk_that_refuses(project: Path) -> None:
    (project / "made").write_text("a file where a folder should be")
    found = run("build")
    assert found.exit_code == USAGE
    assert "cannot write" in found.output


@pytest.mark.parametrize(
    "arguments", [("bild",), ("build", "--froce"), ("check", "--root", "nowhere"), ("explain", "a", "b")]
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == USAGE


def test_help_documents_the_exit_codes() -> None:
    shown = " ".join(run("--help").output.split())
    assert "0 all is well" in shown
    assert "3 refused to overwrite" in shown
    for command in ("build", "check", "explain", "init"):
        assert command in shown
        assert run(command, "-h").exit_code == OK


def test_explain() -> None:
    found = run("explain", "sg001")
    assert found.exit_code == OK
    assert run("explain", "001").output == found.output
    assert found.output.startswith("SG001 (error): number that YAML reads as text\n\n")
    assert "1.0e-4" in found.output
    listed = run("explain").output.splitlines()
    assert [line.split()[0] for line in listed] == list(ALL_RULES)
    unknown = run("explain", "SG9999")
    assert unknown.exit_code == USAGE
    assert "there is no diagnostic SG9999" in unknown.output


def test_module_and_version() -> None:
    found = process("--version")
    assert found.returncode == OK
    assert re.fullmatch(r"specgen, version \d.*\n", found.stdout)


def terminal(*arguments: str, **environment: str) -> str:
    """What a command shows on a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "specgen", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    out = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        out += part
    os.close(ours)
    child.wait(60)
    return out.decode()


def test_colour_on_a_terminal_only(project: Path) -> None:
    (project / "schemas" / "point.yaml").write_text("a: *x\n")
    assert "\x1b[1;31merror[SG005]" in terminal("check", NO_COLOR="")
    assert "\x1b" not in terminal("check", NO_COLOR="1")
    assert "\x1b" not in terminal("check", NO_COLOR="", TERM="dumb")
    piped = process("check", FORCE_COLOR="")
    assert "\x1b" not in piped.stdout + piped.stderr
    assert "error[SG005]" in piped.stdout


def test_colour_where_it_is_asked_for(project: Path) -> None:
    (project / "schemas" / "point.yaml").write_text("a: *x\n")
    forced = process("check", FORCE_COLOR="1", NO_COLOR="", TERM="dumb")
    assert "\x1b[1;31merror[SG005]" in forced.stdout
    assert forced.stderr == "", "no animation where no terminal is"
    assert "\x1b" not in process("check", FORCE_COLOR="1", NO_COLOR="1").stdout
    (project / "pyproject.toml").unlink()
    assert "\x1b[31m" in process("check", FORCE_COLOR="1", NO_COLOR="").stderr


def test_terminals_that_cannot_show_a_character(project: Path) -> None:
    (project / "schemas" / "point.yaml").write_text("a: *x # 漢字 \U0001f600\n", encoding="utf-8")
    found = process("check", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert found.returncode == FOUND
    assert "SG005" in found.stdout
    assert "Traceback" not in found.stderr


def imported(*arguments: str) -> set[str]:
    code = (
        "import sys\n"
        f"sys.argv = ['specgen', *{arguments!r}]\n"
        "from specgen.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code\n"
        "print('MODULES', *{name.split('.')[0] for name in sys.modules})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split("MODULES", 1)[1].split())


def test_commands_import_only_what_they_need(project: Path) -> None:
    heavy = {"torch", "tensordict", "numpy", "gymnasium", "specgen_runtime"}
    assert not imported("build") & heavy
    assert not imported("check") & heavy
    assert not imported("explain", "SG001") & {*heavy, "pydantic", "jinja2", "yaml", "rich"}


def test_gymnasium_is_recorded_by_build_and_not_by_check(project: Path) -> None:
    pytest.importorskip("gymnasium")
    (project / "schemas" / "cart.yaml").write_text(
        "specgen: 1\nenvs:\n  Cart:\n    doc: A cart.\n    gymnasium: {id: CartPole-v1}\n"
    )
    found = run("check")
    assert found.exit_code == FOUND
    assert found.output.count("error[SG702]") == 1
    assert "numpy" not in imported("check")
    found = run("build")
    assert found.exit_code == OK
    assert "recorded CartPole-v1" in found.output
    assert (project / "schemas" / "gymnasium.lock.json").is_file()
    assert "recorded" not in run("build").output
    assert run("check").exit_code == OK
    assert "gymnasium" not in imported("check")


def test_an_environment_that_the_project_registers_can_be_made(project: Path) -> None:
    pytest.importorskip("gymnasium")
    (project / "pyproject.toml").write_text(CONFIG + 'gymnasium-modules = ["carts.register"]\n')
    (project / "carts").mkdir()
    (project / "carts" / "register.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('Carts/Slow-v0', entry_point=CartPoleEnv, max_episode_steps=7)\n"
    )
    (project / "schemas" / "cart.yaml").write_text(
        "specgen: 1\nenvs:\n  Cart:\n    doc: A cart.\n    gymnasium: {id: Carts/Slow-v0}\n"
    )
    built = process("build")  # which finds the module in the project's folder, wherever Python is started
    assert built.returncode == OK, built.stdout
    done = run_python("-c", "from made.cart import Cart; print(Cart().rollout(20).shape)", cwd=project)
    assert done.stdout == "torch.Size([7])\n", done.stderr


def test_unknown_gymnasium_ids_write_nothing(project: Path) -> None:
    pytest.importorskip("gymnasium")
    (project / "schemas" / "cart.yaml").write_text(
        "specgen: 1\nenvs:\n  Cart:\n    doc: A cart.\n    gymnasium: {id: CartPol-v1}\n"
    )
    checked = run("check")
    assert checked.exit_code == FOUND
    assert checked.output.count("error[SG702]") == 1
    assert "did you mean 'CartPole-v1'?" in checked.output
    found = run("build")
    assert found.exit_code == FOUND
    assert "error[SG701]: no Gymnasium environment 'CartPol-v1'" in found.output
    assert "SG702" not in found.output
    assert "did you mean 'CartPole-v1'?" in found.output
    assert not (project / "schemas" / "gymnasium.lock.json").exists()
    assert not list((project / "made").glob("*.py"))
