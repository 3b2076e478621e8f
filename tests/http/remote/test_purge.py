"""As `tests/cli/test_purge.py`, over HTTP."""

from tests.cli.test_purge import *  # noqa: F403
