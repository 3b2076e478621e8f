"""As `tests/contract/test_fence.py`, over HTTP."""

from tests.contract.test_fence import *  # noqa: F403
