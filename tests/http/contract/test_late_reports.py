"""As `tests/contract/test_late_reports.py`, over HTTP."""

from tests.contract.test_late_reports import *  # noqa: F403
