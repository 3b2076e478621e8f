"""As `tests/contract/test_statistics.py`, over HTTP."""

from tests.contract.test_statistics import *  # noqa: F403
