"""An assistant that uses a server has the rights of its token."""

from __future__ import annotations

import pytest

from stayer import Client, StayerError
from stayer.http.token_records import Role
from stayer.mcp.tools import Toolbox
from stayer.store import Store
from stayer.stores.remote import open_server
from tests.contract.builders import new, submit
from tests.http.serving import Site


@pytest.mark.parametrize("role", ["read", "submit", "operate"])
def test_it_may_do_what_its_token_may(site: Site, store: Store, role: Role) -> None:
    submit(store, new("there"))
    remote = open_server(site.url, site.tokens[role])
    tools = Toolbox(Client._over(remote), read_only=False, allow_commands=False)
    assert tools.call("show_task", {"id": "there"})["state"] == "pending"
    assert tools.call("explain_task", {"id": "there"})["reasons"]
    assert tools.call("list_queues", {})["queues"]
    allowed = {"submit_task": role != "read", "cancel_task": role == "operate"}
    given = {"submit_task": {"name": "f", "queue": "q"}, "cancel_task": {"id": "there"}}
    for name, is_allowed in allowed.items():
        if is_allowed:
            assert tools.call(name, given[name])["id"]
        else:
            with pytest.raises(StayerError):
                tools.call(name, given[name])
    remote.close()
