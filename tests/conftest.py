"""What every test stands on."""

import signal

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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the very end what could not be tested here."""
    reasons = {
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    }
    for reason in sorted(reason for reason in reasons if reason.startswith(NOT_TESTED)):
        terminalreporter.write_line(reason, red=True, bold=True)
