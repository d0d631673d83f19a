"""Printing plans: Jinja templates that decide nothing, and a formatter."""
