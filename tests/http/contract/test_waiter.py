"""As `tests/contract/test_waiter.py`, over HTTP."""

from tests.contract.test_waiter import *  # noqa: F403
