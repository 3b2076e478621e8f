"""As `tests/cli/test_workers.py`, over HTTP."""

from tests.cli.test_workers import *  # noqa: F403
