"""Printing plans: Jinja templates that decide nothing, and a formatter."""

from specgen.emit.project import render_project

__all__ = ["render_project"]
