"""As `tests/cli/test_cron.py`, over HTTP."""

from tests.cli.test_cron import *  # noqa: F403
