"""As `tests/cli/test_show.py`, over HTTP."""

from tests.cli.test_show import *  # noqa: F403
