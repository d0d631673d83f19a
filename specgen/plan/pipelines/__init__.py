"""Pipelines as modules that train: their configuration, their parts, and the loop over them."""
