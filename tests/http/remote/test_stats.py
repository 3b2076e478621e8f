"""As `tests/cli/test_stats.py`, over HTTP."""

from tests.cli.test_stats import *  # noqa: F403
