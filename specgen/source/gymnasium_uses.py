"""Where schema files name Gymnasium environments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specgen.diagnostics import Sink, Span
from specgen.source import nodes
from specgen.source.spaces import record_key
from specgen.values import dataclass


@dataclass(frozen=True)
class Use:
    """A place where a schema names a Gymnasium environment."""

    id: str
    kwargs: Mapping[str, Any]
    span: Span

    @property
    def key(self) -> str:
        """Its key in the lock file."""
        return record_key(self.id, self.kwargs)


def find_uses(root: nodes.Mapping) -> Iterator[Use]:
    """Every `envs.*.gymnasium` of a file, in order; entries of a wrong form are left to the schema."""
    envs = root.get("envs")
    for _, env in envs.entries if isinstance(envs, nodes.Mapping) else ():
        entry = env.get("gymnasium") if isinstance(env, nodes.Mapping) else None
        if not isinstance(entry, nodes.Mapping):
            continue
        id, kwargs = entry.get("id"), entry.get("kwargs")
        if kwargs is not None and nodes.report_slips(kwargs, Sink()):
            continue  # said by the check; nothing is recorded for arguments that are not meant
        if isinstance(id, nodes.Scalar) and isinstance(id.value, str):
            data = _plain(kwargs) if isinstance(kwargs, nodes.Mapping) else {}
            yield Use(id.value, data, id.span)


def _plain(node: nodes.Node) -> Any:
    if isinstance(node, nodes.Mapping):
        return {key.text: _plain(value) for key, value in node.entries}
    if isinstance(node, nodes.Sequence):
        return [_plain(item) for item in node.items]
    return node.value
