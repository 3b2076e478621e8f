"""As `tests/cli/test_steer.py`, over HTTP."""

from tests.cli.test_steer import *  # noqa: F403
