"""What `make oldest` installs: of all that the demo needs, the oldest versions that `pyproject.toml` allows.

    python -m tests.oldest

prints a requirement a line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_REQUIREMENT = re.compile(r"(?P<name>[\w-]+)(?:\[(?P<extra>\w+)\])?(?:>=(?P<oldest>[\d.]+))?")


def oldest(extra: str) -> Iterator[str]:
    """The requirements of the package and of one of its extras, each with the oldest version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in [*project["dependencies"], *project["optional-dependencies"][extra]]:
        found = _REQUIREMENT.match(requirement)
        assert found is not None
        if found["name"] == project["name"]:
            yield from oldest(found["extra"])
        else:
            assert found["oldest"] is not None, f"{requirement} says no oldest version"
            yield f"{found['name']}=={found['oldest']}"


if __name__ == "__main__":
    print(*sorted({*oldest("demo")}), sep="\n")
