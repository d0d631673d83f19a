"""Pipelines: an environment, networks, a loss, data and an optimizer, checked as one."""
