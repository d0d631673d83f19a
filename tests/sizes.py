"""How much a test tries: each time enough to find the faults that it is there for, more with `SPECGEN_THOROUGH=1`."""

import os

THOROUGH = os.environ.get("SPECGEN_THOROUGH", "") not in ("", "0")


def each_time_or_thorough(each_time: int, thorough: int) -> int:
    """A number of steps, episodes or examples."""
    return thorough if THOROUGH else each_time
