"""As `tests/cli/test_explain.py`, over HTTP."""

from tests.cli.test_explain import *  # noqa: F403
