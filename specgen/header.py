"""The comment lines that mark a generated file, keep formatters off it, and tell whether it was edited by hand.

The digest stands in the file itself, so no second file has to be kept in step with it. It is of the code and its
comments and not of their layout: a formatter that runs over a file all the same has not edited it.
"""

from __future__ import annotations

import hashlib
import re

from specgen.normal_form import normal_form

# For black and ruff; for isort and ruff's sorting of imports; for the linters flake8 and ruff.
_KEEP_OFF = ("# fmt: off", "# isort: skip_file", "# flake8: noqa")
_LINE = re.compile(r"^# specgen: sha256=([0-9a-f]{64})$", re.MULTILINE)
# Where version control found two versions of the digest, its marks stand among the comments.
_COMMENTS = re.compile(r"(?:(?:#|<{7} |={7}$|>{7} )[^\n]*\n)*", re.MULTILINE)


def seal(text: str) -> str:
    """The text with formatters kept off, and the digest line, below the comment lines that it starts with.

    The digest covers everything else. Sealing a sealed text again changes nothing.
    """
    body = _without(text)
    head, rest = _split(body)
    lines = "\n".join((*_KEEP_OFF, f"# specgen: sha256={_digest(body)}"))
    return f"{head}{lines}\n{rest}"


def is_generated(text: str) -> bool:
    """Whether a file says that specgen generated it."""
    return digest_line(text) is not None


def is_edited(text: str) -> bool:
    """Whether a generated file is not what was generated; line ends and layout may differ."""
    found = digest_line(text)
    return found is not None and found != _digest(_without(text))


def same(a: str, b: str) -> bool:
    """Whether two texts are equal but for line ends, which version control may change."""
    return a == b or _unix(a) == _unix(b)


def digest_line(text: str) -> str | None:
    """The digest that a generated file carries; None for any other file."""
    # Only among the comments at the top: a string further down may look like the line.
    found = _LINE.search(_split(_unix(text))[0])
    return None if found is None else found[1]


def _split(text: str) -> tuple[str, str]:
    """The comment lines at the top, and the rest."""
    head = _COMMENTS.match(text)
    end = 0 if head is None else head.end()
    return text[:end], text[end:]


def _without(text: str) -> str:
    """The text without the lines that `seal` adds."""
    head, rest = _split(_unix(text))
    own = (line for line in head.split("\n") if line not in _KEEP_OFF and not _LINE.match(line))
    return "\n".join(own) + rest


def _digest(body: str) -> str:
    form = normal_form(body)
    text = body if form is None else form  # of what is no Python every character counts
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")
