"""`[tool.specgen]`: what it may say, and what is said about mistakes in it."""

from pathlib import Path

import pytest

from specgen.project import ConfigError, load_project
from specgen.settings import Config

GOOD = '[tool.specgen]\nschemas = "schemas"\noutput = "src/made"\npackage = "made"\n'


def project(folder: Path, text: str) -> Path:
    (folder / "schemas").mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def mistakes(folder: Path, text: str) -> list[tuple[str, int, int, str, str | None]]:
    with pytest.raises(ConfigError) as caught:
        load_project(project(folder, text))
    assert caught.value.sources == {"pyproject.toml": text}
    return [
        (item.code, item.span.line, item.span.column, item.message, item.help)
        for item in caught.value.diagnostics
    ]


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    text = GOOD + 'exclude = ["drafts/*"]\ngymnasium-modules = ["ale_py"]\n'
    found = load_project(project(tmp_path, text))
    assert found.root == tmp_path
    assert found.config == Config("schemas", "src/made", "made", ("drafts/*",), ("ale_py",))


def test_the_nearest_file_with_the_table_counts(tmp_path: Path) -> None:
    project(tmp_path, GOOD)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert load_project(inner).root == tmp_path


def test_paths_are_normalised(tmp_path: Path) -> None:
    config = load_project(project(tmp_path, GOOD.replace('"src/made"', '"./src//made/"'))).config
    assert config.output == "src/made"


def test_unknown_keys(tmp_path: Path) -> None:
    text = (
        '[project]\nname = "x"\n\n[tool.specgen]\nschema = "schemas"\noutput = "o"\npackage = "o"\nzzz = 3\n'
    )
    assert mistakes(tmp_path, text) == [
        ("SG051", 5, 1, "unknown key 'schema' in [tool.specgen]", "did you mean 'schemas'?"),
        (
            "SG051",
            8,
            1,
            "unknown key 'zzz' in [tool.specgen]",
            "the keys are schemas, output, package, exclude, gymnasium-modules",
        ),
    ]


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ('schemas = "schemas"', "schemas = 3", (2, 11), "`schemas` is a text"),
        ('schemas = "schemas"', 'schemas = "."', (2, 11), "`schemas` (.) must be a folder below"),
        ('schemas = "schemas"', 'schemas = "nowhere"', (2, 11), "there is no folder `nowhere`"),
        ('output = "src/made"', 'output = "../made"', (3, 10), "`output` (../made) must be a folder below"),
        ('output = "src/made"', 'output = "/made"', (3, 10), "`output` (/made) must be a folder below"),
        ('output = "src/made"', 'output = "C:/made"', (3, 10), "`output` (C:/made) must be a folder below"),
        ('output = "src/made"', 'output = "schemas/made"', (3, 10), "must not contain each other"),
        ('output = "src/made"\n', "", (1, 1), "`output` is missing in [tool.specgen]"),
        (
            'package = "made"',
            'package = "my-package"',
            (4, 11),
            "`my-package` is no name of a Python package",
        ),
        ('package = "made"', 'package = "class"', (4, 11), "`class` is no name of a Python package"),
        ('package = "made"', 'package = "made"\nexclude = "x"', (5, 11), "`exclude` is a list of texts"),
    ],
)
def test_values_that_cannot_be_used(
    tmp_path: Path, old: str, new: str, place: tuple[int, int], message: str
) -> None:
    ((code, line, column, said, _),) = mistakes(tmp_path, GOOD.replace(old, new))
    assert code == "SG052"
    assert (line, column) == place
    assert message in said


@pytest.mark.parametrize(
    ("output", "package", "help"),
    [
        ("src/my_rl/gen", "my_rl", 'write package = "my_rl.gen", or output = "src/my_rl"'),
        ("my_rl/gen", "my_rl", 'write package = "my_rl.gen", or output = "my_rl"'),
        ("src/gen", "my_rl.gen", 'write package = "gen", or output = "src/my_rl/gen"'),
        ("src/a/gen", "b.gen", 'write package = "a.gen", or output = "src/a/b/gen"'),
        ("generated", "my_rl", 'write package = "generated", or output = "my_rl"'),
        ("src", "my_rl", 'write output = "src/my_rl"'),
        ("build/made-here", "my_rl", 'write output = "build/my_rl"'),
        ("other_my_rl", "my_rl", 'write package = "other_my_rl", or output = "my_rl"'),
    ],
)
def test_packages_that_do_not_match_their_folder(
    tmp_path: Path, output: str, package: str, help: str
) -> None:
    text = GOOD.replace("src/made", output).replace('"made"', f'"{package}"')
    message = f"`{package}` is not what the folder `{output}` is imported by"
    assert mistakes(tmp_path, text) == [("SG065", 4, 11, message, help)]
    for remedy in help.removeprefix("write ").split(", or "):
        key = remedy.split()[0]
        mended = "".join(
            f"{remedy}\n" if line.startswith(f"{key} ") else line for line in text.splitlines(True)
        )
        assert load_project(project(tmp_path, mended)).config


@pytest.mark.parametrize(
    ("output", "package"), [("src/a/b", "a.b"), ("a/b", "a.b"), ("a/b", "b"), ("x-y/b", "b")]
)
def test_packages_that_match_their_folder(tmp_path: Path, output: str, package: str) -> None:
    text = GOOD.replace("src/made", output).replace('"made"', f'"{package}"')
    assert load_project(project(tmp_path, text)).config.package == package


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    assert len(mistakes(tmp_path, "[tool.specgen]\nschemas = 1\noutput = '..'\npackage = ''\nx = 1\n")) == 4


def test_no_table_to_point_into(tmp_path: Path) -> None:
    assert [item[0] for item in mistakes(tmp_path, "[tool]\nspecgen = 3\n")] == ["SG052"] * 4


@pytest.mark.parametrize("text", ["[project]\n", "[tool.specgen\n", "tool = 3\n"])
def test_files_without_configuration(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_project(project(tmp_path, text))
    assert str(tmp_path / "pyproject.toml") in str(caught.value)
    assert caught.value.diagnostics == ()


def test_undecodable_files(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_project(tmp_path)


def test_where_modules_go() -> None:
    config = Config("schemas", "src/made", "made")
    assert config.output_path("schemas/a/b.yaml") == "src/made/a/b.py"
    assert config.module_name("schemas/a/b.yaml") == "made.a.b"
    assert config.inner_parts("schemas/a/b.yaml") == ["a", "b"]
