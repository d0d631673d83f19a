"""What tests cost, as processor seconds with those of the processes that they start: wall times mislead on a busy machine.

    python -m pytest -p tests.cpu_times

prints the folders, files and tests that cost most. Half of the sum is about how long two idle cores take.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

SHOWN = 25
_TICK = os.sysconf("SC_CLK_TCK")
_spent: Counter[str] = Counter()


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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _spent[report.nodeid] += sum(float(str(value)) for name, value in report.user_properties if name == "cpu")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    files: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for test, spent in _spent.items():
        file = test.partition("::")[0]
        files[file] += spent
        folders["/".join(file.split("/")[:2])] += spent
    terminalreporter.write_line(f"{sum(folders.values()):.0f} processor seconds in tests")
    for costs in (folders, files, _spent):
        terminalreporter.write_line("")
        for name, spent in costs.most_common(SHOWN):
            terminalreporter.write_line(f"{spent:8.1f} {name}")
