"""The line that marks a generated file and tells whether it was edited by hand.

The digest stands in the file itself, so no second file has to be kept in step with it.
"""

from __future__ import annotations

import hashlib
import re

_LINE = re.compile(r"^# specgen: sha256=([0-9a-f]{64})$", re.MULTILINE)
_COMMENTS = re.compile(r"(?:#[^\n]*\n)*")


def seal(text: str) -> str:
    """The text with the digest line added below the comment lines that it starts with.

    The digest covers everything but its own line. Sealing a sealed text again changes nothing.
    """
    body = _without(text)
    head = _COMMENTS.match(body)
    at = 0 if head is None else head.end()
    return f"{body[:at]}# specgen: sha256={_digest(body)}\n{body[at:]}"


def is_generated(text: str) -> bool:
    """Whether a file says that specgen generated it."""
    return _find(text) is not None


def is_edited(text: str) -> bool:
    """Whether a generated file is not what was generated; line ends may differ."""
    found = _find(text)
    return found is not None and found[1] != _digest(_without(text))


def same(a: str, b: str) -> bool:
    """Whether two texts are equal but for line ends, which version control may change."""
    return a == b or _unix(a) == _unix(b)


def _find(text: str) -> re.Match[str] | None:
    # Only among the comments at the top: a string further down may look like the line.
    text = _unix(text)
    head = _COMMENTS.match(text)
    return _LINE.search(text, 0, 0 if head is None else head.end())


def _without(text: str) -> str:
    text = _unix(text)
    found = _find(text)
    return text if found is None else text[: found.start()] + text[found.end() + 1 :]


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")
