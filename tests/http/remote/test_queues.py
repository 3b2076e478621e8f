"""As `tests/cli/test_queues.py`, over HTTP."""

from tests.cli.test_queues import *  # noqa: F403
