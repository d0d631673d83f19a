"""Tells what a plain YAML scalar is (number, truth value, text): the core schema of YAML 1.2, with two deliberate exceptions.

YAML 1.2.2, section 10.3.2. The exceptions: a number with an exponent needs a dot, and a whole number has no
leading zeros, because YAML 1.1 readers (PyYAML, and so most of the Python world) take `1e-4` for a text and
`010` for 8. Here both are texts, and `number_hint` tells what to write instead.
"""

from __future__ import annotations

import math
import re

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?")
_INF = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = re.compile(r"\.(nan|NaN|NAN)")
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_STARTS = frozenset("+-.0123456789")

# Python reads integers of a few thousand digits only; no declaration has more than twenty.
_LONGEST_NUMBER = 400


NONE = "None"
"""Python's word for null, a text to YAML; as a plain value it is refused as null is."""


def is_null(text: str) -> bool:
    """Whether a plain scalar is YAML's null."""
    return text in _NULLS


def resolve(text: str) -> str | int | float | bool:
    """The value of a plain scalar; what is no number and no truth value is the text itself."""
    if text in _BOOLS:
        return _BOOLS[text]
    if not text or text[0] not in _STARTS or len(text) > _LONGEST_NUMBER:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _INF.fullmatch(text):
        return float("-inf") if text[0] == "-" else float("inf")
    if _NAN.fullmatch(text):
        return float("nan")
    return text


_NO_DOT = re.compile(r"([-+]?[0-9]+)([eE])([-+]?[0-9]+)")
_UNDERSCORES = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?")
_ZEROS = re.compile(r"([-+]?)0+([1-9][0-9]*)?")
_WORDS = re.compile(r"([-+]?)(inf|infinity|nan)", re.IGNORECASE)


def number_hint(text: str) -> str | None:
    """For a text that was surely meant as a number: what to write; None for other texts.

    >>> number_hint("1e-4")
    'YAML needs a dot: write 1.0e-4'
    """
    if len(text) > _LONGEST_NUMBER:
        return None
    if match := _NO_DOT.fullmatch(text):
        if math.isinf(float(text)):
            return "no float is as large as that"
        return f"YAML needs a dot: write {match[1]}.0{match[2]}{match[3]}"
    if "_" in text and _UNDERSCORES.fullmatch(text):
        bare = text.replace("_", "")
        again = _NO_DOT.fullmatch(bare)
        return f"write {bare if again is None else f'{again[1]}.0{again[2]}{again[3]}'}, without underscores"
    if match := _ZEROS.fullmatch(text):
        return f"YAML 1.1 reads a leading 0 as base 8: write {match[1].replace('+', '')}{match[2] or 0}"
    if match := _WORDS.fullmatch(text):
        return "write .nan" if match[2].lower() == "nan" else f"write {match[1].replace('+', '')}.inf"
    return None
