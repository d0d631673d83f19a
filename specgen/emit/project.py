"""The files of a generated package as they are written to disk: formatted and sealed."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.emit.format import format_python
from specgen.emit.packages import PackagePlan
from specgen.emit.render import render_body, render_module, render_package
from specgen.header import seal
from specgen.plan.items import ModulePlan


def render_modules(plans: Mapping[str, ModulePlan]) -> dict[str, str]:
    """The text of each module; the bodies of all of them by one run of the formatter."""
    bodies = format_python({name: render_body(plan) for name, plan in plans.items()})
    return {name: seal(render_module(plan, bodies[name])) for name, plan in plans.items()}


def render_packages(plans: Mapping[str, PackagePlan]) -> dict[str, str]:
    """The text of each package's `__init__`, by its path."""
    return {path: seal(render_package(plan.doc, plan.modules)) for path, plan in plans.items()}
