"""How tightly the operators of Python bind: a part of an expression that binds less than its place has parentheses."""

from __future__ import annotations

from typing import Final

LAMBDA: Final = 0
TERNARY: Final = 1
OR: Final = 2
AND: Final = 3
NOT: Final = 4
COMPARE: Final = 5
BIT_OR: Final = 6
BIT_AND: Final = 8
ADD: Final = 10
MUL: Final = 11
UNARY: Final = 12
POW: Final = 13
ATOM: Final = 14
