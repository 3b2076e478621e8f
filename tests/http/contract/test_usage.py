"""As `tests/contract/test_usage.py`, over HTTP."""

from tests.contract.test_usage import *  # noqa: F403
