"""What every test stands on."""

import asyncio
import re
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.servers.finding import NOT_TESTED

settings.register_profile("stayer", deadline=None, print_blob=True)
settings.load_profile("stayer")

# Who starts the tests under nohup, or in the background of a script, leaves them and all that they
# start deaf to Ctrl-C.
for deaf in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(deaf) is signal.SIG_IGN:
        signal.signal(deaf, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=1, help="run each test so many times")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make each round of a test a test of its own, `test_it[round-7]`. All rounds are one run, so
    that none waits for the slowest test of the one before.
    """
    rounds = metafunc.config.getoption("rounds")
    if rounds > 1:
        metafunc.fixturenames.append("round_number")
        metafunc.parametrize("round_number", range(1, rounds + 1), ids="round-{}".format)


SAID_ELSEWHERE = {
    "redis/test_faults.py": ("healthy_task", "chaos", "silent_worker_that_keeps", "draining"),
    "faults/test_cluster.py": ("healthy_task", "draining", "runs_again", "stopped_worker", "hup"),
    "faults/test_limits.py": ("redis", "killed[sqlite-key]"),
    "faults/test_app_of_task_user.py": ("from_starting[{", "from_starting[[", "from_starting[s"),
    "faults/test_thread_harm.py": ("failure[inf", "failure[soon", "failure[nan-retry"),
    "faults/test_cluster_deaf.py": ("threads_go_on",),
}
"""Tests that cost much, and have their like in the short run (on another store, or with another
value): left to the long tests.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that hangs is ended and named, see pyproject.toml: a long one later than others."""
    for item in items:
        place = "/".join(item.path.parts[-2:])
        if any(word in item.name for word in SAID_ELSEWHERE.get(place, ())):
            item.add_marker(pytest.mark.long)
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(3600))


@pytest.fixture(autouse=True)
def out_of_the_browsers_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """A browser that an earlier test has opened keeps its event loop running in this thread: a test
    that is not about it must be able to run one of its own.
    """
    loop = None if "browser" in request.fixturenames else asyncio._get_running_loop()
    if loop is None:
        yield
        return
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(loop)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the very end how many rounds passed, and what could not be tested here."""
    rounds = terminalreporter.config.getoption("rounds")
    if rounds > 1:
        bad = [*terminalreporter.stats.get("failed", []), *terminalreporter.stats.get("error", [])]
        broken = {found[0] for each in bad if (found := re.findall(r"round-\d+", each.nodeid))}
        terminalreporter.write_line(f"{rounds - len(broken)} of {rounds} rounds passed")
    reasons = {
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    }
    for reason in sorted(reason for reason in reasons if reason.startswith(NOT_TESTED)):
        terminalreporter.write_line(reason, red=True, bold=True)
