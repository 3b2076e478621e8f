"""As `tests/cli/test_wait.py`, over HTTP."""

from tests.cli.test_wait import *  # noqa: F403
