"""As `tests/cli/test_add.py`, over HTTP."""

from tests.cli.test_add import *  # noqa: F403
