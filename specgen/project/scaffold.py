"""`specgen init`: a project that builds, passes its tests and trains; or what an existing one lacks for it."""

from __future__ import annotations

import keyword
import re
import shlex
import tomllib
import unicodedata
from pathlib import Path
from typing import Any, Literal

from specgen.project.config import NAME, ConfigError, Project, own_config
from specgen.project.discover import find_schemas
from specgen.project.templates import SCAFFOLD, Template
from specgen.project.write import replace_all
from specgen.settings import Config
from specgen.values import dataclass

DISTRIBUTION = "specgen-rl"
"""What specgen is installed by."""

# Templates end in `.in`, so that no tool takes them for files of specgen itself.
_SUFFIX = ".in"
_SCHEMA = re.compile(r"^specgen:\s*\d", re.MULTILINE)
_SECTION, _WORKFLOWS = "[tool.specgen]", ".github/workflows"


@dataclass(frozen=True)
class Step:
    """What was done about one file of a project, `path` relative to it, and why."""

    path: str
    done: Literal["wrote", "changed", "left"]
    why: str = ""


@dataclass(frozen=True)
class Made:
    """What `specgen init` did, and what only the owner of the project can do."""

    steps: tuple[Step, ...]
    command: str
    """What shows that the project works, once it is built."""
    advice: tuple[str, ...] = ()


def make_project(directory: Path, template: Template | None = None) -> Made:
    """Write what a folder lacks of a project; no file that exists is changed, but for the settings it lacks.

    Args:
        directory: the folder, which need not exist.
        template: a pipeline to begin with; None for an environment and a script that trains on it.

    Raises:
        ConfigError: When its `pyproject.toml` cannot be used, or it is a folder of another project's schemas or generated
            files; nothing was written.
        OSError: When the disk refuses.

    """
    config = own_config(directory)
    configured = config is not None
    pyproject = _read(directory / NAME)
    data = {} if pyproject is None else tomllib.loads(pyproject)
    if config is None:
        _check_outside(directory.resolve())
        config = _choose(directory, data)
    texts: dict[Path, str] = {}
    steps = []
    schemas = find_schemas(Project(directory, config))
    outside = _schemas_outside(directory, config)
    has_schemas = bool(schemas or outside)
    example = _Example(config, template)
    for path, text in project_files(config, template).items():
        if path == NAME and pyproject is not None:
            if configured:
                steps.append(Step(path, "left", f"has {_SECTION}"))
            else:
                texts[(directory / path).resolve()] = _with_section(pyproject, text)
                steps.append(Step(path, "changed", f"added {_SECTION}"))
        elif reason := _reason_to_leave(directory, path, example, has_schemas):
            steps.append(Step(path, "left", reason))
        else:
            texts[directory / path] = text
            steps.append(Step(path, "wrote"))
    replace_all(texts)
    wrote = {step.path for step in steps if step.done == "wrote"}
    command = example.command if example.shown_by in wrote else "pytest"
    advice = [] if pyproject is None else _advice(data, directory, config, example)
    if outside:
        what = "is a schema" if len(outside) == 1 else "are schemas"
        moved = f"mv {' '.join(map(shlex.quote, outside))} {config.schemas}/"
        where = f"and specgen reads those of {config.schemas}/: mkdir -p {config.schemas} && {moved}"
        advice.append(f"{', '.join(outside)} {what}, {where}")
    return Made(tuple(steps), command, tuple(advice))


def _schemas_outside(directory: Path, config: Config) -> list[str]:
    """The files of a folder itself that say that they are schemas, where those of the project are in one below it."""
    if (directory / config.schemas).resolve() == directory.resolve():
        return []
    files = [*directory.glob("*.yaml"), *directory.glob("*.yml")]
    return sorted(
        file.name for file in files if _SCHEMA.search(file.read_text(encoding="utf-8", errors="replace"))
    )


def _check_outside(directory: Path) -> None:
    """Refuse a folder in which a project above has its schemas or its generated files."""
    for root in directory.parents:
        try:
            config = own_config(root)
        except ConfigError:
            continue  # not of this folder
        if config is None:
            continue
        for folder, what in ((config.schemas, "schemas"), (config.output, "generated files")):
            if directory.is_relative_to(root / folder):
                raise ConfigError(
                    f"{directory} is for the {what} of the project in {root}; run `specgen init` there, or in a folder of its own"
                )


@dataclass(frozen=True)
class _Example:
    """What a new project begins with."""

    config: Config
    template: Template | None

    @property
    def folder(self) -> str:
        """The part of the scaffold that is about it."""
        return "environment" if self.template is None else self.template.folder

    @property
    def extra(self) -> str:
        """The extra of specgen that it needs."""
        return "runtime" if self.template is None else self.template.extra

    @property
    def schema(self) -> str:
        """The path of its schema file."""
        return f"{self.config.schemas}/{'rail' if self.template is None else self.template.name}.yaml"

    @property
    def shown_by(self) -> str:
        """The file without which there is nothing to run."""
        return "train.py" if self.template is None else self.schema

    @property
    def command(self) -> str:
        """What runs it."""
        if self.template is None:
            return "python train.py"
        model = (
            "python tiny_model.py && " if self.folder == "conversations" else ""
        )  # none of one's own is there yet
        return f"{model}python -m {self.config.package}.{self.template.name}"

    @property
    def values(self) -> dict[str, str]:
        """What stands for the placeholders of its files."""
        if self.template is None:
            return {
                "@extra@": self.extra,
                "@description@": "Environments that are declared, checked and generated.",
            }
        return {
            "@extra@": self.extra,
            "@description@": "A training that is declared, checked and generated.",
            "@doc@": self.template.doc,
            "@module@": f"{self.config.package}.{self.template.name}",
            "@name@": self.template.name,
            "@pipeline@": self.template.pipeline,
            "@total@": self.template.total,
        }


def project_files(config: Config, template: Template | None = None) -> dict[str, str]:
    """The text of each file of a new project, by its path."""
    example = _Example(config, template)
    inner = config.package.count(".")
    top = Path(*Path(config.output).parts[: -inner or None])
    values = example.values | {
        "@schemas@": config.schemas,
        "@output@": config.output,
        "@package@": config.package,
        "@project@": top.name,
        "@top@": top.as_posix(),
        "@source@": top.parent.as_posix(),
    }
    files = {} if template is None else {example.schema: template.text}
    for folder in (SCAFFOLD / "common", SCAFFOLD / example.folder):
        for file in folder.rglob(f"*{_SUFFIX}"):
            path = file.relative_to(folder).as_posix().removesuffix(_SUFFIX)
            text = file.read_text(encoding="utf-8")
            for placeholder, value in values.items():
                text = text.replace(placeholder, value)
            files[path.replace("schemas/", f"{config.schemas}/")] = text
    if not inner:
        # Of a package inside another only the outer one can say that all of it has types.
        files[f"{config.output}/py.typed"] = ""
    return dict(sorted(files.items()))


def package_name(folder: str) -> str:
    """A name for the package and the distribution like that of a folder: ASCII, no keyword, no digit in front.

    The ending `_rl` keeps it apart from the folder itself and from packages that are installed.
    """
    plain = unicodedata.normalize("NFKD", folder).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_").removesuffix("_rl")
    if name in ("", "rl", "my"):
        return "my_rl"
    if name[0].isdigit() or keyword.iskeyword(name) or f"{name}-rl" == DISTRIBUTION:
        name = f"my_{name}"
    return f"{name}_rl"


def _choose(directory: Path, data: dict[str, Any]) -> Config:
    """Where the generated package goes: into the package that the project has, or beside it."""
    project = str(_table(data, "project").get("name", ""))
    name = package_name(directory.resolve().name)
    for package in (re.sub(r"[-_.]+", "_", project).lower(), name):
        for folder in (f"src/{package}", package):
            if package.isidentifier() and (directory / folder / "__init__.py").is_file():
                return Config("schemas", f"{folder}/generated", f"{package}.generated")
    return Config("schemas", f"src/{name}" if (directory / "src").is_dir() else name, name)


def _reason_to_leave(directory: Path, path: str, example: _Example, has_schemas: bool) -> str:
    """Why a project needs no file of ours here; empty when it does."""
    if (directory / path).exists():
        return "exists"
    # What is about the schema that a new project begins with; a template is asked for by its name.
    about = ("README.md",) if example.template is not None else (example.schema, "README.md", "train.py")
    if has_schemas and path in about:
        return "the project has schemas of its own"
    if path == "README.md" and any(directory.glob("README*")):
        return "there is another README"
    if path.startswith(_WORKFLOWS) and (directory / _WORKFLOWS).is_dir():
        return "there are other workflows: run `specgen check` in one of them"
    return ""


def _with_section(text: str, template: str) -> str:
    """The text of a `pyproject.toml` with our settings behind it."""
    end = "\r\n" if "\r\n" in text else "\n"
    section = template[template.index(_SECTION) :].replace("\n", end)
    gap = "" if not text else end if text.endswith("\n") else end * 2
    changed = f"{text}{gap}{section}"
    try:
        tomllib.loads(changed)
    except tomllib.TOMLDecodeError as error:
        message = f"{NAME} has a form that {_SECTION} cannot be added to; add it yourself:\n\n{section}"
        raise ConfigError(message) from error
    return changed


def _advice(data: dict[str, Any], directory: Path, config: Config, example: _Example) -> list[str]:
    """What an existing project has to say about itself."""
    advice = []
    dependencies = _table(data, "project").get("dependencies", ())
    ours = [str(item) for item in dependencies if str(item).startswith(DISTRIBUTION)]
    # All extras bring the runtime.
    needed = () if example.template is None else example.extra.split(",")
    if not any(all(extra in item for extra in needed) for item in ours):
        advice.append(f'add "{DISTRIBUTION}[{example.extra}]" to the dependencies in {NAME}')
    backend = str(_table(data, "build-system").get("build-backend", "setuptools"))
    packages = {"packages", "py-modules"} & set(_table(_table(data, "tool"), "setuptools"))
    elsewhere = any((directory / name).exists() for name in ("setup.py", "setup.cfg", "src"))
    if backend.startswith("setuptools") and not packages and not elsewhere:
        top = config.package.split(".")[0]
        advice.append(
            f"setuptools takes {config.schemas}/ for a package too, and then refuses to choose: "
            f'add [tool.setuptools.packages.find] with include = ["{top}*"] to {NAME}'
        )
    return advice


def _table(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _read(file: Path) -> str | None:
    return file.read_bytes().decode("utf-8") if file.is_file() else None
