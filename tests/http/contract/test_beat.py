"""As `tests/contract/test_beat.py`, over HTTP."""

from tests.contract.test_beat import *  # noqa: F403
