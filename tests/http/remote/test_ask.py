"""As `tests/cli/test_ask.py`, over HTTP."""

from tests.cli.test_ask import *  # noqa: F403
