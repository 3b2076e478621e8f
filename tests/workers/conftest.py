from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet
from tests.http.serving import Process, Site, make_access
from tests.ui.system import System


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A store and a server."""
    access, tokens = make_access(tmp_path)
    fleet = Fleet(tmp_path)
    server = Process(tmp_path, fleet.url)
    system = System(fleet, server, Site(server.url, access, tokens), tmp_path)
    yield system
    system.close()
