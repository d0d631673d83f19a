"""The commands: read arguments, call, print.

Exit codes: 0 all is well; 1 the schemas have errors, or (check) generated files are out of date;
2 wrong usage or configuration; 3 refused to overwrite a file; 4 specgen itself is at fault (SG991).
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

import click

from specgen import __version__

if TYPE_CHECKING:
    from specgen.project import ConfigError, Project, RefusedError, Report
    from specgen.project.build import Outcome, Workspace

OK, FOUND, USAGE, REFUSED, FAULT = 0, 1, 2, 3, 4

_ROOT = click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder to work in (default: here); pyproject.toml is looked for from there upwards.",
)
_STRICT = click.option("--strict", is_flag=True, help="Fail on warnings, too.")
_WATCH = click.option("--watch", is_flag=True, help="Do it again at each change of a schema, until Ctrl+C.")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 all is well; 1 errors in schemas, or generated files out of date; "
    "2 wrong usage or configuration; 3 refused to overwrite a file; 4 specgen itself is at fault (SG991).",
)
@click.version_option(__version__)
@click.option("--traceback", is_flag=True, help="Show where specgen itself failed, for those who debug it.")
@_ROOT
@click.pass_context
def main(context: click.Context, root: Path | None, traceback: bool) -> None:
    """Declare RL environments, transforms and losses; check them; generate typed PyTorch code."""
    context.obj = root or Path()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a replacement, not a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if traceback:
        from specgen.diagnostics import TRACEBACK

        os.environ[TRACEBACK] = "1"


@main.command()
@click.option("--force", is_flag=True, help="Overwrite generated files that were edited by hand.")
@_STRICT
@_WATCH
@_ROOT
@click.pass_obj
def build(folder: Path, force: bool, strict: bool, watch: bool, root: Path | None) -> None:
    """Check the schemas and write the generated files that are missing or out of date."""

    def once(workspace: Workspace) -> None:
        from specgen.project import RefusedError

        try:
            with _progress() as say:
                outcome = workspace.build(force=force, strict=strict, say=say)
        except RefusedError as refused:
            _refused(refused)
        except OSError as error:
            _fail(f"cannot write: {error}")
        _diagnose(outcome)
        written = outcome.written
        if written is None:
            click.echo("nothing was written")
            sys.exit(FOUND)
        for key in outcome.recorded:
            click.echo(f"recorded {key}")
        for path in written.written:
            click.echo(f"wrote    {path}")
        for path in written.removed:
            click.echo(f"removed  {path}")
        count = _files(len(written.written))
        click.echo(f"{count} written, {len(written.removed)} removed, {written.unchanged} unchanged")

    _run(root or folder, watch, once)


@main.command()
@_STRICT
@_WATCH
@_ROOT
@click.pass_obj
def check(folder: Path, strict: bool, watch: bool, root: Path | None) -> None:
    """Check the schemas, and that the generated files are what they say; write nothing."""

    def once(workspace: Workspace) -> None:
        try:
            with _progress() as say:
                outcome = workspace.check(strict=strict, say=say)
        except OSError as error:
            _fail(f"cannot read: {error}")
        _diagnose(outcome)
        report = outcome.report
        if report is None:
            sys.exit(FOUND)
        if not report.clean:
            _stale(report)
            sys.exit(FOUND)
        click.echo(
            f"{_files(outcome.schemas, 'schema')} checked, {_files(len(report.unchanged), 'generated')} up to date"
        )

    _run(root or folder, watch, once)


def _run(root: Path, watch: bool, once: Callable[[Workspace], None]) -> None:
    """Do something with the project, once or at each change of its files."""
    from specgen.project.build import Workspace
    from specgen.project.watch import changes

    workspace = Workspace(_project(root))
    if not watch:
        gc.disable()
        try:
            once(workspace)
        finally:
            gc.freeze()  # it all goes with the process: nobody need look through it for cycles
            gc.enable()
        return
    try:
        while True:
            for _ in changes(workspace.project):
                # What would end the command otherwise has been said.
                with suppress(SystemExit):
                    project = _project(root)
                    if project != workspace.project:
                        break
                    once(workspace)
                click.echo("waiting for changes, Ctrl+C ends it")
                gc.collect()  # now nobody waits for it
            workspace = Workspace(project)
    except KeyboardInterrupt:
        click.echo()


@main.group()
def models() -> None:
    """Language models that the schemas declare."""


@models.command()
@_ROOT
@click.pass_obj
def lock(folder: Path, root: Path | None) -> None:
    """Record what the folders of language models say, for checks to know; nothing is loaded.

    It writes language_models.lock.json beside the schemas, which is committed.
    """
    from specgen.project.build import Outcome
    from specgen.project.model_lock import LOCK_NAME
    from specgen.project.record_models import lock_models

    try:
        locked = lock_models(_project(root or folder))
    except OSError as error:
        _fail(f"cannot write: {error}")
    if locked.diagnostics:
        _diagnose(Outcome(locked.diagnostics, locked.shown, 0))
        click.echo("nothing was written")
        sys.exit(FOUND)
    for path in locked.recorded:
        click.echo(f"recorded {path}")
    for path in locked.elsewhere:
        click.echo(f"no folder {path}: nothing is known of it before it is loaded")
    click.echo(f"{LOCK_NAME} is {'written' if locked.written else 'up to date'}")


@main.command()
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Explain a diagnostic, say SG321; without a code, list them all."""
    from specgen.diagnostics import suggestion
    from specgen.diagnostics.rules import ALL_RULES

    if code is None:
        for rule in ALL_RULES.values():
            click.echo(f"{rule.code}  {rule.severity:<7}  {rule.title}")
        return
    found = ALL_RULES.get(code.upper()) or ALL_RULES.get(f"SG{code}")
    if found is None:
        hint = suggestion(code.upper(), ALL_RULES)
        _fail(f"there is no diagnostic {code}" + (f"; {hint}" if hint else "; `specgen explain` lists them"))
    without = f"\n\nWithout this rule: {found.without}" if found.without else ""
    click.echo(
        f"{click.style(found.code, bold=True)} ({found.severity}): {found.title}\n\n{found.doc.strip()}{without}",
        color=_color(),
    )


@main.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=".")
@click.option("--template", metavar="NAME", help="Begin with a pipeline that trains; `list` shows which.")
@click.pass_obj
def init(folder: Path, directory: Path, template: str | None) -> None:
    """Make a project that builds and runs, in DIRECTORY (default: here).

    In a project that exists, add what it lacks: no file is overwritten.
    """
    from specgen.diagnostics import suggestion
    from specgen.project import ConfigError
    from specgen.project.scaffold import make_project
    from specgen.project.templates import templates

    known = templates() if template is not None else {}
    if template == "list":
        width = max(map(len, known), default=0)
        for name, one in known.items():
            click.echo(f"{name:<{width}}  {one.doc}")
        return
    if template is not None and template not in known:
        hint = suggestion(template, known)
        _fail(f"there is no template {template}; {hint or '`specgen init --template list` shows them'}")
    place = folder / directory
    try:
        made = make_project(place, None if template is None else known[template])
    except ConfigError as error:
        _misconfigured(error)
    except OSError as error:
        _fail(f"cannot write: {error}")
    for step in made.steps:
        click.echo(f"{step.done:<8} {place / step.path}{f' ({step.why})' if step.why else ''}")
    for advice in made.advice:
        click.echo(f"\n{advice}")
    here = "" if place == Path() else f"cd {shlex.quote(str(place))} && "
    click.echo(f"\nnext: {here}pip install -e . && specgen build && {made.command}")


def _project(root: Path) -> Project:
    from specgen.project import ConfigError, load_project

    try:
        return load_project(root)
    except ConfigError as error:
        _misconfigured(error)


def _misconfigured(error: ConfigError) -> NoReturn:
    from specgen.diagnostics import render_human

    if error.diagnostics:
        click.echo(render_human(error.diagnostics, error.sources, color=_color()), color=_color())
    _fail(str(error))


def _diagnose(outcome: Outcome) -> None:
    from specgen.diagnostics import render_human, summary
    from specgen.diagnostics.rules.internal import INTERNAL

    if outcome.diagnostics:
        click.echo(render_human(outcome.diagnostics, outcome.shown, color=_color()), color=_color())
        click.echo(summary(outcome.diagnostics))
    if any(item.rule is INTERNAL for item in outcome.diagnostics):
        sys.exit(FAULT)


def _stale(report: Report) -> None:
    from specgen.project import KINDS

    why = {
        "edited": ("edited", " (by hand)"),
        "foreign": ("foreign", " (not generated, in the way)"),
        "reformatted": ("changed", " (only the layout, as by a formatter: exclude the file from it)"),
    }
    for kind in KINDS:
        shown, reason = why.get(kind, (kind, ""))
        for path in getattr(report, kind):
            click.echo(f"{shown:<8} {path}{reason}")
    stale = len({path for kind in KINDS for path in getattr(report, kind)})
    click.echo(f"{_files(stale)} out of date; run `specgen build`")


def _refused(error: RefusedError) -> NoReturn:
    for path in error.edited:
        click.echo(f"edited   {path} (by hand)", err=True)
    for path in error.foreign:
        click.echo(f"foreign  {path} (not generated, in the way)", err=True)
    if error.edited:
        click.echo(
            "these files would lose what was changed by hand: change the schema or subclass instead, "
            "or overwrite them with `specgen build --force`",
            err=True,
        )
    if error.foreign:
        click.echo("specgen does not overwrite files that it has not generated: move them away", err=True)
    click.echo("nothing was written", err=True)
    sys.exit(REFUSED)


def _fail(message: str) -> NoReturn:
    click.echo(f"{click.style('error', fg='red', bold=True)}: {message}", err=True, color=_color(sys.stderr))
    sys.exit(USAGE)


def _files(count: int, kind: str = "") -> str:
    return f"{count} {kind + ' ' if kind else ''}file{'' if count == 1 else 's'}"


def _color(stream: IO[str] | None = None) -> bool:
    """Whether to colour: on a terminal, and where FORCE_COLOR asks for it; never where NO_COLOR asks for none.

    As Python itself does, and https://no-color.org and https://force-color.org say; empty variables say nothing.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or _is_terminal(stream or sys.stdout)


def _is_terminal(stream: IO[str]) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """On a terminal, a line that says what goes on; elsewhere, silence."""
    if not (_is_terminal(sys.stderr) and _color(sys.stderr)):
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update
