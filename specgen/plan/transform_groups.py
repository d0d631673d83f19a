"""Fields of a transform's record of keys that the base class has to know, some under a condition on parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from specgen.check.conditions import Condition
from specgen.check.transform_model import CheckedTransform


@dataclass(frozen=True)
class FieldGroups:
    """The class attributes that name fields of a record.

    Attributes:
        transform: whose record it is.
        further: those of `around`.
    """

    transform: CheckedTransform
    further: Iterable[tuple[str, list[str]]]

    def _groups(self) -> Iterator[tuple[str, list[str]]]:
        """What the base class has to know of the fields of a record."""
        outputs = [output for output in self.transform.outputs if not output.inverse]
        folded = [role.name for role in self.transform.folded]
        yield "_writes", [*folded, *(output.name for output in outputs if not output.hidden)]
        recalls = self.transform.recalls
        roles = {role.name for role in self.transform.roles}
        yield "_recalls", [name for name in recalls if name not in roles]
        yield "_recalls_inputs", [name for name in recalls if name in roles]
        yield "_carries", [output.name for output in outputs if output.carry]
        yield "_flags", [output.name for output in outputs if output.flag]
        yield "_rewards", [output.name for output in outputs if output.reward]
        yield "_policy", [output.name for output in outputs if output.policy]
        yield "_drops", [drop.role for drop in self.transform.drops]
        yield from self.further

    def always(self) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
        """The groups with the fields that always exist, and whether the constructor adds some."""
        for attribute, names in self._groups():
            always = tuple(name for name in names if self._when(attribute, name) is None)
            if always:
                yield attribute, len(always) < len(names), always

    def grown(self) -> Iterator[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]]]:
        """The fields that exist under a condition, by it."""
        whens = dict.fromkeys(
            when
            for attribute, names in self._groups()
            for name in names
            if (when := self._when(attribute, name)) is not None
        )
        for when in whens:
            added = [
                (attribute, tuple(name for name in names if self._when(attribute, name) == when))
                for attribute, names in self._groups()
            ]
            yield when.python, tuple((attribute, names) for attribute, names in added if names)

    def _when(self, attribute: str, name: str) -> Condition | None:
        if attribute == "_drops":
            return next(drop.when for drop in self.transform.drops if drop.role == name)
        return next((output.when for output in self.transform.outputs if output.name == name), None)
