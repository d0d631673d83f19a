"""One finding about a source file, and the rule that it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from specgen.diagnostics.span import Span
from specgen.values import dataclass

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Note:
    """A further fact below a diagnostic; with a span it names the place it speaks of."""

    text: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Unseen:
    """A declaration that a file names and does not see: another file may declare it, which can be imported.

    Attributes:
        sections: the sections that it would be declared in.
        name: its name.
        near: whether the help of the diagnostic names one in sight that may be meant.
    """

    sections: tuple[str, ...]
    name: str
    near: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of mistake, with its documentation.

    `doc` is markdown: what the rule means, why breaking it is bad, an example that triggers it and
    the mended example. `without` is one sentence: what would happen if nobody checked, at build, at run
    time or in training. `specgen explain CODE` prints both, docs/diagnostics.md lists the sentences.
    """

    code: str
    title: str
    doc: str
    severity: Severity = "error"
    without: str = ""

    def at(
        self,
        span: Span,
        message: str,
        *,
        label: str = "",
        notes: Sequence[str | Note] = (),
        help: str | None = None,
        unseen: Unseen | None = None,
    ) -> Diagnostic:
        """A diagnostic of this rule at `span`; `label` stands next to the underline."""
        said = tuple(Note(note) if isinstance(note, str) else note for note in notes)
        return Diagnostic(self, span, message, label, said, help, unseen)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake (or warning) at one place: what is wrong, why, and what to write instead."""

    rule: Rule
    span: Span
    message: str
    label: str = ""
    notes: tuple[Note, ...] = ()
    help: str | None = None
    unseen: Unseen | None = None

    @property
    def code(self) -> str:
        """The code of the rule, `SG321`."""
        return self.rule.code

    @property
    def severity(self) -> Severity:
        """`error` stops the build, `warning` does not."""
        return self.rule.severity

    def __str__(self) -> str:
        return f"{self.span}: {self.severity}[{self.code}]: {self.message}"
