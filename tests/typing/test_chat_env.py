"""Generated environments of conversations, a training in one, and the functions behind them, through both type checkers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import generate
from tests.typing.checkers import CHECKERS, Errors, marked
from tests.typing.projects import errors_of

PROJECT = Path(__file__).parent / "chat_env"

WRONG_FUNCTIONS = {
    "source_of_other_rows": ("-> list[SumsRow]:", "-> list[MarksRow]:"),
    "source_that_gives_nothing": ("def load() -> list[SumsRow]:\n    return", "def load() -> None:\n    _ ="),
    "reward_of_other_rows": ("Sequence[ExactRewardRow]", "Sequence[MarksRow]"),
    "reward_of_texts": (
        "rows: Sequence[ExactRewardRow]) -> Tensor:\n    return tensor(",
        "rows: Sequence[ExactRewardRow]) -> str:\n    return str(",
    ),
    "reward_without_its_metrics": (
        '-> Scores:\n    return Scores([sum(row["marks"]) for row in rows], length=[float(len(chat)) for chat in answers])',
        '-> list[float]:\n    return [sum(row["marks"]) for row in rows]',
    ),
    "tools_without_the_row": (
        '(chat: Sequence[Message], row: SumsRow) -> list[Message] | None:\n    return None if chat[-1]["content"] == row["answer"] else [{"role": "user", "content": row["answer"]}]',
        "(chat: Sequence[Message]) -> None:\n    return None",
    ),
}
"""What is replaced in the functions, by a name for it; the mistake is then where the generated module has one."""


def generated() -> dict[str, str]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(PROJECT.glob("*.yaml"))}
    return generate(texts, "chats_rl")


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return generated()


def write(folder: Path, files: dict[str, str], functions: tuple[str, str] | None = None) -> None:
    text = (PROJECT / "chats_user.py").read_text(encoding="utf-8")
    if functions is not None:
        assert functions[0] in text
        text = text.replace(*functions)
    (folder / "chats_rl").mkdir()
    (folder / "chats_user.py").write_text(text, encoding="utf-8")
    for path, module in files.items():
        (folder / "chats_rl" / path).write_text(module, encoding="utf-8")


def projects() -> dict[str, Callable[[Path], None]]:
    """How to write each project: one with a program full of mistakes, and those with a wrong function."""

    def write_program(folder: Path) -> None:
        write(folder, generated())
        shutil.copy(PROJECT / "wrong.py", folder)

    wrong = {
        name: lambda folder, change=change: write(folder, generated(), change)
        for name, change in WRONG_FUNCTIONS.items()
    }
    return {"wrong_program": write_program, **wrong}


@pytest.fixture(scope="module", params=CHECKERS)
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Errors]:
    """What a checker says of each project."""
    return errors_of("chat_env", request.param, tmp_path_factory)


@pytest.mark.slow
def test_errors_stand_where_they_are_marked(errors: dict[str, Errors]) -> None:
    found = {file: set(lines) for file, lines in errors["wrong_program"].items()}
    assert found == {"wrong.py": marked(PROJECT / "wrong.py")}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG_FUNCTIONS)
def test_wrong_functions_are_found_in_the_generated_module(
    errors: dict[str, Errors], files: dict[str, str], name: str
) -> None:
    text = files["chats.py"].splitlines()
    old = WRONG_FUNCTIONS[name][0]
    kind = {"s": "load", "r": "graded" if "Scores" in old else "exact", "t": "hint"}[name[0]]
    line = 1 + next(number for number, line in enumerate(text) if line.strip() == f"return {kind}")
    assert errors[name].get("chats_rl/chats.py", {}).keys() == {line}
