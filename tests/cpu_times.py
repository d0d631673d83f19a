"""What tests cost, as processor seconds with those of the processes that they start: wall times mislead on a busy machine.

    python -m pytest -p tests.cpu_times

prints the folders, files and tests that cost most, and for each half minute of a run with workers how busy the
processors of the machine were and which tests ended last. Half of the sum is about how long two idle cores take.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest

SHOWN = 25
_TICK = os.sysconf("SC_CLK_TCK")
_spent: Counter[str] = Counter()
_EACH = 30.0
"""Seconds between two looks at how busy the machine is."""
_course: list[str] = []


def seconds() -> float:
    """Of this process, its children that have ended, and those that live."""
    return sum(os.times()[:4]) + _of_children(str(os.getpid()))


def _of_children(process: str) -> float:
    try:
        tasks = os.listdir(f"/proc/{process}/task")
        children = [
            child for task in tasks for child in _read(f"/proc/{process}/task/{task}/children").split()
        ]
    except OSError:  # it has ended
        return 0.0
    return sum(_of_one(child) + _of_children(child) for child in children)


def _of_one(process: str) -> float:
    try:
        return sum(map(int, _read(f"/proc/{process}/stat").rpartition(")")[2].split()[11:15])) / _TICK
    except OSError:
        return 0.0


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[_BEGUN] = seconds()
    return (yield)  # type: ignore[no-any-return]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[pytest.TestReport]:
    report: pytest.TestReport = yield  # type: ignore[misc, assignment]
    if call.when == "teardown":
        report.user_properties.append(("cpu", seconds() - item.stash[_BEGUN]))
    return report  # type: ignore[return-value]


_BEGUN = pytest.StashKey[float]()


class Machine:
    """How busy the processors of the machine are, from one look to the next."""

    def __init__(self) -> None:
        self._before = self._jiffies()
        self.since = self.started = time.time()

    @staticmethod
    def _jiffies() -> list[int]:
        """Of all processors since the machine started: user, nice, system, idle, waiting for disks, and others."""
        return [int(spent) for spent in _read("/proc/stat").split("\n", 1)[0].split()[1:9]]

    def busy(self) -> float:
        """The share of time since the last look in which the processors did something."""
        now = self._jiffies()
        spent = [after - before for before, after in zip(self._before, now, strict=True)]
        self._before, self.since = now, time.time()
        return 1 - (spent[3] + spent[4]) / max(sum(spent), 1)


_machine = Machine()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown" and time.time() > _machine.since + _EACH:
        at = time.time() - _machine.started
        worker = getattr(report, "worker_id", "")
        _course.append(f"{at:6.0f} s {_machine.busy():5.0%} busy  {worker} {report.nodeid}")
    _spent[report.nodeid] += sum(float(str(value)) for name, value in report.user_properties if name == "cpu")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    files: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for test, spent in _spent.items():
        file = test.partition("::")[0]
        files[file] += spent
        folders["/".join(file.split("/")[:2])] += spent
    terminalreporter.write_line(f"{sum(folders.values()):.0f} processor seconds in tests")
    terminalreporter.write_line("\n".join(_course))
    for costs in (folders, files, _spent):
        terminalreporter.write_line("")
        for name, spent in costs.most_common(SHOWN):
            terminalreporter.write_line(f"{spent:8.1f} {name}")
