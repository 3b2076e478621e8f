"""As `tests/cli/test_running_tasks.py`, over HTTP."""

from tests.cli.test_running_tasks import *  # noqa: F403
