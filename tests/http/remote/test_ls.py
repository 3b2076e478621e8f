"""As `tests/cli/test_ls.py`, over HTTP."""

from tests.cli.test_ls import *  # noqa: F403

del globals()["test_an_empty_store_says_so_and_is_still_json"]  # it names the database
