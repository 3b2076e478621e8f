"""As `tests/cli/test_log.py`, over HTTP."""

from tests.cli.test_log import *  # noqa: F403
