"""As `tests/cli/test_add_lines.py`, over HTTP."""

from tests.cli.test_add_lines import *  # noqa: F403
