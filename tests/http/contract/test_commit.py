"""As `tests/contract/test_commit.py`, over HTTP."""

from tests.contract.test_commit import *  # noqa: F403
