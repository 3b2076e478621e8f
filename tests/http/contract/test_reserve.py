"""As `tests/contract/test_reserve.py`, over HTTP."""

from tests.contract.test_reserve import *  # noqa: F403
