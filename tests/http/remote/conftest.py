"""The tests of the command line, with a server between the command and the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import apart, fleet, folder, stayer
from tests.http.serving import Site

__all__ = ["apart", "environment", "fleet", "folder", "stayer"]


@pytest.fixture
def environment(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine that knows the server and a token, and no database."""
    for variable in ("STAYER_CONFIG", "STAYER_QUEUE", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
                     "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "LOGNAME"):  # fmt: skip
        monkeypatch.delenv(variable, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    return {
        "STAYER_STORE": site.url, "STAYER_TOKEN": site.tokens["operate"], "HOME": str(home),
        "USER": "ann", "TZ": "UTC",
    }  # fmt: skip
