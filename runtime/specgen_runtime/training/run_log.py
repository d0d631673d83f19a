"""`RunLog`: a CSV file that rows are added to, and cut from where a training resumes before them."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path

from specgen_runtime.durable import replace_file

__all__ = ["RunLog", "read_log"]


def read_log(file: str | Path) -> list[dict[str, float]]:
    """The rows of a log; a row has the columns that it has numbers in.

    Raises:
        FileNotFoundError: there is none.
    """
    return [{name: float(text) for name, text in row.items() if text} for row in _read_rows(file)]


def _read_rows(file: str | Path) -> list[dict[str, str]]:
    if not Path(file).is_file():
        raise FileNotFoundError(f"there is no {file}: is {Path(file).parent} the folder of a run?")
    with open(file, newline="", encoding="utf-8") as opened:
        return [
            {name: text for name, text in row.items() if name is not None and text}
            for row in csv.DictReader(opened)
        ]


class RunLog:
    """A CSV file of numbers with one row for each call of `add`.

    A column may come at any time: rows before it are empty there.

    Args:
        file: its path.
        rows: how many rows of a file that is there stay; None keeps all.
    """

    def __init__(self, file: Path, rows: int = 0) -> None:
        self.file = file
        self._columns: list[str] = []
        kept = _read_rows(file)[:rows] if rows and file.is_file() else []
        self.rows = len(kept)
        for row in kept:
            self._columns += [name for name in row if name not in self._columns]
        self.last = {name: float(text) for name, text in kept[-1].items()} if kept else {}
        """The numbers of the last row."""
        self._write_all(kept)

    def add(self, numbers: Mapping[str, float]) -> None:
        """Add a row.

        Raises:
            OSError: it can't be written.
        """
        row = {name: _text(value) for name, value in numbers.items()}
        new = [name for name in row if name not in self._columns]
        if new:
            kept = _read_rows(self.file)
            self._columns += new
            self._write_all([*kept, row])
        else:
            with open(self.file, "a", newline="", encoding="utf-8") as opened:
                csv.DictWriter(opened, self._columns, restval="", lineterminator="\n").writerow(row)
        self.rows += 1
        self.last = dict(numbers)

    def sync(self) -> None:
        """Write the file through to the disk."""
        with open(self.file, "rb+") as opened:
            os.fsync(opened.fileno())

    def _write_all(self, rows: list[dict[str, str]]) -> None:
        written = io.StringIO()
        if self._columns:
            writer = csv.DictWriter(written, self._columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        replace_file(self.file, written.getvalue().encode())


def _text(value: float) -> str:
    """A number as it is read again; whole ones without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
