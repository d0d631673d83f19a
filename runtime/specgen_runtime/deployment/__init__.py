"""Policies that act outside of a training: on a robot, in a server, in a program of `torch.export`."""

from __future__ import annotations

from specgen_runtime.deployment.policy import DeployedPolicy

__all__ = ["DeployedPolicy"]
