"""What every test stands on."""

import asyncio
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that hangs is ended and named, see pyproject.toml: a long one later than others."""
    for item in items:
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
    """Say at the very end what could not be tested here."""
    reasons = {
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    }
    for reason in sorted(reason for reason in reasons if reason.startswith(NOT_TESTED)):
        terminalreporter.write_line(reason, red=True, bold=True)
