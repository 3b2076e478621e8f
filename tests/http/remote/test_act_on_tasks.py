"""As `tests/cli/test_act_on_tasks.py`, over HTTP."""

from tests.cli.test_act_on_tasks import *  # noqa: F403
