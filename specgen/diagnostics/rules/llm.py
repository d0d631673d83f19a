"""SG5xx: language models and KL."""

from __future__ import annotations
